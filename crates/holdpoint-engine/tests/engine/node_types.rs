//! The OpenWOP node types through the engine.

use holdpoint_engine::Error;
use holdpoint_engine::core::{RunRef, StartRequest, WorkflowId};
use serde_json::{Value, json};

use crate::test_database::on_both;
use crate::test_env::{TestEnv, accept, graph, line, node, start, tenant};

on_both! {
    structural_nodes_pass_their_inputs_on,
    a_condition_selects_the_branch,
    the_first_matching_case_selects_the_branch,
    a_variable_is_set_and_read_by_name,
    reading_an_unset_variable_fails_the_node,
    channel_writes_are_combined_and_expire,
    a_declared_channel_determines_its_reducer,
    a_node_with_a_missing_capability_fails,
    a_mock_provider_streams_chunks,
    a_prompt_without_a_provider_fails,
    a_retryable_failure_is_retried_after_its_delay,
    a_run_fails_at_its_time_limit,
    a_run_fails_at_its_execution_limit,
    invalid_node_configs_are_rejected,
}

async fn start_configured(env: &TestEnv, workflow: &str, options: Value) -> RunRef {
    let id = WorkflowId::parse(workflow).unwrap();
    let configurable = options.as_object().cloned().unwrap();
    let run = env.engine.runs().create(&id, StartRequest { configurable, ..start(json!({})) }).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

async fn variables(env: &TestEnv, of: &RunRef) -> Value {
    env.run(of).await.variables.as_ref().clone()
}

/// The error that the run ended with.
async fn error(env: &TestEnv, of: &RunRef) -> (String, String) {
    match &env.run(of).await.end {
        Some(holdpoint_engine::core::RunEnd::Failed { error, .. }) => {
            (error.code.clone(), error.message.clone())
        }
        other => panic!("not failed: {other:?}"),
    }
}

fn edge(source: &str, target: &str) -> Value {
    json!({"id": format!("{source}-{target}"), "sourceNodeId": source, "targetNodeId": target})
}

fn branch_edge(source: &str, name: &str, target: &str) -> Value {
    let mut edge = edge(source, target);
    edge["sourceOutput"] = json!(name);
    edge
}

fn with_inputs(mut node: Value, inputs: Value) -> Value {
    node["inputs"] = inputs;
    node
}

async fn structural_nodes_pass_their_inputs_on(env: TestEnv) {
    let port = |name: &str| json!({"type": "variable", "variableName": name});
    let nodes = [
        with_inputs(node("start", "core.start", json!({})), json!({"a": port("x")})),
        node("fork", "core.parallel", json!({})),
        node("left", "core.noop", json!({})),
        node("right", "core.noop", json!({})),
        with_inputs(node("merge", "core.merge", json!({"mode": "all"})), json!({"b": port("a")})),
        with_inputs(node("end", "core.end", json!({})), json!({"c": port("b")})),
    ];
    let edges = [
        edge("start", "fork"),
        edge("fork", "left"),
        edge("fork", "right"),
        edge("left", "merge"),
        edge("right", "merge"),
        edge("merge", "end"),
    ];
    env.register(graph("places", &nodes, &edges)).await;
    let of = env.start_with("places", json!({"x": 7})).await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(variables(&env, &of).await, json!({"x": 7, "a": 7, "b": 7, "c": 7}));
}

/// Runs a conditional node with these branches. Returns the nodes that were executed after it.
async fn taken_branches(env: &TestEnv, config: Value, branches: &[&str], inputs: Value) -> Vec<String> {
    let mut nodes = vec![node("choice", "core.conditional", config)];
    nodes.extend(branches.iter().map(|name| node(name, "core.noop", json!({}))));
    let edges: Vec<Value> = branches.iter().map(|name| branch_edge("choice", name, name)).collect();
    env.register(graph("choice", &nodes, &edges)).await;
    let of = env.start_with("choice", inputs).await;
    assert_eq!(env.status(&of).await, "completed");
    let log = env.log(&of).await;
    let was_started = |name: &&&str| {
        log.iter().any(|line| line.contains("node.started") && line.contains(&format!("\"{name}\"")))
    };
    branches.iter().filter(was_started).map(|name| (*name).to_owned()).collect()
}

async fn a_condition_selects_the_branch(env: TestEnv) {
    let branches = ["true", "false"];
    let expression = json!({"expression": "amount > 100"});
    assert_eq!(taken_branches(&env, expression.clone(), &branches, json!({"amount": 250})).await, ["true"]);
    assert_eq!(taken_branches(&env, expression, &branches, json!({"amount": 25})).await, ["false"]);
    let condition = json!({"condition": {"type": "regex", "left": "variables.name", "right": "^A"}});
    assert_eq!(taken_branches(&env, condition.clone(), &branches, json!({"name": "Ada"})).await, ["true"]);
    assert_eq!(taken_branches(&env, condition, &branches, json!({"name": "Bob"})).await, ["false"]);
}

async fn the_first_matching_case_selects_the_branch(env: TestEnv) {
    let cases = json!({"default": "small", "cases": [
        {"name": "huge", "expression": "amount > 1000"},
        {"name": "large", "condition": {"type": "expression", "expression": "amount > 100"}},
    ]});
    let branches = ["huge", "large", "small"];
    for (amount, expected) in [(5000, "huge"), (500, "large"), (5, "small")] {
        assert_eq!(
            taken_branches(&env, cases.clone(), &branches, json!({"amount": amount})).await,
            [expected]
        );
    }
}

async fn a_variable_is_set_and_read_by_name(env: TestEnv) {
    let nodes = [
        node("set", "core.setVariable", json!({"name": "x", "value": {"a": 1}})),
        with_inputs(
            node("more", "core.setVariable", json!({"variableName": "y"})),
            json!({"value": {"type": "expression", "expression": "x.a + 1"}}),
        ),
        node("get", "core.getVariable", json!({"name": "y", "as": "z"})),
        node("else", "core.getVariable", json!({"name": "nowhere", "default": 9})),
    ];
    let edges = [edge("set", "more"), edge("more", "get"), edge("get", "else")];
    env.register(graph("variables", &nodes, &edges)).await;
    let of = env.start_with("variables", json!({"x": 0})).await;
    assert_eq!(variables(&env, &of).await, json!({"x": {"a": 1}, "y": 2, "z": 2, "value": 9}));
    let log = env.log(&of).await;
    let changed = r#"{"type":"variable.changed","node":"set","name":"x","previous":0,"next":{"a":1}}"#;
    assert!(log.contains(&changed.to_owned()), "{log:?}");
}

async fn reading_an_unset_variable_fails_the_node(env: TestEnv) {
    env.register(line("missing", &[("get", "core.getVariable", json!({"name": "x"}))])).await;
    let of = env.start("missing").await;
    assert_eq!(error(&env, &of).await.0, "variable_not_set");
}

async fn channel_writes_are_combined_and_expire(env: TestEnv) {
    let write =
        |value: &str| json!({"channelName": "events", "reducer": "append", "ttlMs": 200, "value": value});
    let nodes = [
        ("a", "core.channelWrite", write("a")),
        ("b", "core.channelWrite", write("b")),
        ("wait", "core.delay", json!({"ms": 300})),
        ("d", "core.channelWrite", write("d")),
    ];
    env.register(line("ttl", &nodes)).await;
    let of = env.start("ttl").await;
    assert_eq!(variables(&env, &of).await["events"].as_array().map(Vec::len), Some(2));
    env.clock.advance(300);
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    let written = env.clock.now().0;
    assert_eq!(variables(&env, &of).await, json!({"events": [{"value": "d", "_ts": written}]}));
}

async fn a_declared_channel_determines_its_reducer(env: TestEnv) {
    let nodes = [
        ("a", "core.channelWrite", json!({"channelName": "sum", "value": 2})),
        ("b", "core.channelWrite", json!({"channelName": "sum", "value": 3})),
        ("c", "core.channelWrite", json!({"channelName": "sum", "value": "much"})),
    ];
    let mut definition = line("declared", &nodes);
    definition["channels"] = json!({"sum": {"reducer": "counter", "default": 1}});
    env.register(definition).await;
    let of = env.start("declared").await;
    assert_eq!(variables(&env, &of).await, json!({"sum": 6}));
    assert_eq!(error(&env, &of).await.0, "invalid_channel_write");
}

async fn a_node_with_a_missing_capability_fails(env: TestEnv) {
    env.register(line("requires", &[("n", "conformance.requiresMissing", json!({}))])).await;
    let of = env.start("requires").await;
    let (code, message) = error(&env, &of).await;
    assert_eq!(code, "capability_not_provided");
    assert!(message.contains("conformance.never-provided"), "{message}");
}

async fn a_mock_provider_streams_chunks(env: TestEnv) {
    env.register(line("ai", &[("ai", "core.ai.callPrompt", json!({"promptId": "p"}))])).await;
    let usage = json!({"promptTokens": 5, "completionTokens": 2, "totalTokens": 7});
    let config = json!({"tokens": ["Hel", "lo"], "finishReason": "stop", "usage": usage});
    let of =
        start_configured(&env, "ai", json!({"mockProvider": {"id": "stream-text", "config": config}})).await;
    assert_eq!(env.status(&of).await, "completed");
    let log = env.log(&of).await;
    let first = r#"{"type":"ai.message.chunk","node":"ai","chunk":"Hel","last":false,"meta":{"model":"mock-stream-text-v1"}}"#;
    assert_eq!(log[2], first);
    let last: Value = serde_json::from_str(&log[3]).unwrap();
    assert_eq!((&last["chunk"], &last["last"]), (&json!("lo"), &json!(true)));
    assert_eq!((&last["meta"]["finishReason"], &last["meta"]["usage"]), (&json!("stop"), &usage));
    assert_eq!(variables(&env, &of).await["text"], "Hello");
}

async fn a_prompt_without_a_provider_fails(env: TestEnv) {
    env.register(line("ai", &[("ai", "core.ai.callPrompt", json!({}))])).await;
    let of = env.start("ai").await;
    let (code, message) = error(&env, &of).await;
    assert_eq!(code, "provider_not_configured");
    assert!(message.contains("mockProvider"), "{message}");
    let of = start_configured(&env, "ai", json!({"mockProvider": {"id": "other"}})).await;
    assert_eq!(error(&env, &of).await.0, "unsupported_mock_provider");
}

async fn a_retryable_failure_is_retried_after_its_delay(env: TestEnv) {
    let mut definition = line("busy", &[("n", "core.fail", json!({"code": "busy", "retryable": true}))]);
    definition["settings"] = json!({"maxRetries": 2});
    env.register(definition).await;
    let of = env.start("busy").await;
    for wait in [1000, 2000] {
        assert_eq!(env.status(&of).await, "running");
        env.clock.advance(wait - 1);
        assert_eq!(env.drain().await, 0, "the delay has not passed");
        env.clock.advance(1);
        assert_eq!(env.drain().await, 1);
    }
    assert_eq!(error(&env, &of).await.0, "busy");
    let log = env.log(&of).await;
    assert_eq!(log.iter().filter(|line| line.contains("node.retried")).count(), 2);
    assert_eq!(log.iter().filter(|line| line.contains("node.started")).count(), 1);
}

async fn a_run_fails_at_its_time_limit(env: TestEnv) {
    let mut definition =
        line("slow", &[("gate", "core.approvalGate", json!({})), ("z", "core.noop", json!({}))]);
    definition["settings"] = json!({"timeout": 500});
    env.register(definition).await;
    let (late, in_time) = (env.start("slow").await, env.start("slow").await);
    env.clock.advance(499);
    env.drain().await;
    env.answer(&in_time, "gate", accept()).await.unwrap();
    env.clock.advance(1);
    assert_eq!(env.drain().await, 1, "only the open run times out");
    assert_eq!(error(&env, &late).await.0, "run_timeout");
    assert_eq!(env.status(&in_time).await, "completed");
    assert!(env.pending().await.is_empty());
}

async fn a_run_fails_at_its_execution_limit(env: TestEnv) {
    let names: Vec<String> = (1..=6).map(|count| format!("n{count}")).collect();
    let nodes: Vec<(&str, &str, Value)> =
        names.iter().map(|name| (name.as_str(), "core.noop", json!({}))).collect();
    env.register(line("long", &nodes)).await;
    let of = start_configured(&env, "long", json!({"recursionLimit": 3})).await;
    assert_eq!(error(&env, &of).await.0, "recursion_limit_exceeded");
    let log = env.log(&of).await;
    assert_eq!(log.iter().filter(|line| line.contains("node.started")).count(), 3);
    let cap = r#"{"type":"cap.breached","cap":"node-executions","limit":3,"observed":4,"node":"n4"}"#;
    assert_eq!(log[log.len() - 2], cap);
}

async fn invalid_node_configs_are_rejected(env: TestEnv) {
    for (type_id, config, field) in [
        ("core.start", json!({"x": 1}), "config.x"),
        ("core.merge", json!({"mode": "some"}), "config.mode"),
        ("core.conditional", json!({}), "config.condition"),
        ("core.conditional", json!({"expression": "1 +"}), "config.expression"),
        ("core.conditional", json!({"condition": {"type": "equals"}}), "config.condition.left"),
        ("core.conditional", json!({"cases": [{"expression": "x"}]}), "config.cases[0].name"),
        ("core.loop", json!({}), "config.count"),
        ("core.loop", json!({"count": 1, "while": "x"}), "config.count"),
        ("core.loop", json!({"while": "x ="}), "config.while"),
        ("core.loop", json!({"count": 1, "maxIterations": 0}), "config.maxIterations"),
        ("core.setVariable", json!({"value": 1}), "config.name"),
        ("core.setVariable", json!({"name": "x"}), "config.value"),
        ("core.getVariable", json!({"name": "x", "as": 5}), "config.as"),
        ("core.channelWrite", json!({"value": 1}), "config.channelName"),
        ("core.channelWrite", json!({"channelName": "c", "value": 1, "reducer": "sum"}), "config.reducer"),
        ("core.channelWrite", json!({"channelName": "c", "value": 1, "ttlMs": -1}), "config.ttlMs"),
        ("core.subWorkflow", json!({}), "config.workflowId"),
        ("core.subWorkflow", json!({"workflowId": "w", "onChildFailure": "shrug"}), "config.onChildFailure"),
        ("core.subWorkflow", json!({"workflowId": "w", "outputMapping": {"a": 1}}), "config.outputMapping"),
        ("core.fail", json!({"retryable": "yes"}), "config.retryable"),
    ] {
        let flaws = env
            .engine
            .workflows()
            .register(&tenant(), line("flawed", &[("n", type_id, config.clone())]))
            .await;
        let Err(Error::InvalidWorkflow(flaws)) = flaws else { panic!("{type_id} {config} was accepted") };
        let fields: Vec<&str> = flaws.iter().map(|flaw| flaw.field.as_str()).collect();
        assert_eq!(fields, [field], "{type_id} {config}");
    }
}
