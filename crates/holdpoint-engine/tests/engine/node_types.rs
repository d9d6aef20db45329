//! The node types of OpenWOP, each through the engine.

use holdpoint_engine::Error;
use holdpoint_engine::core::{RunRef, Start, WorkflowId};
use serde_json::{Value, json};

use crate::house::{House, accept, graph, line, node, start, tenant};
use crate::place::on_both;

on_both! {
    places_in_the_graph_hand_their_inputs_on,
    a_condition_chooses_the_way,
    the_first_case_that_holds_chooses_the_way,
    a_variable_is_set_and_got_by_name,
    a_variable_that_is_not_set_fails_who_wants_it,
    writes_to_a_channel_come_together_and_grow_old,
    a_declared_channel_says_how,
    a_node_fails_that_requires_what_nobody_provides,
    a_mock_provider_speaks_in_chunks,
    without_a_provider_no_model_is_asked,
    a_failure_that_may_pass_is_tried_again_when_its_time_has_come,
    a_run_ends_when_its_time_is_up,
    a_run_ends_at_the_execution_that_is_one_too_many,
    what_a_node_type_does_not_know_is_a_flaw,
}

async fn start_configured(house: &House, workflow: &str, options: Value) -> RunRef {
    let id = WorkflowId::parse(workflow).unwrap();
    let configurable = options.as_object().cloned().unwrap();
    let run = house.engine.start(&id, Start { configurable, ..start(json!({})) }).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

async fn variables(house: &House, of: &RunRef) -> Value {
    house.run(of).await.variables.as_ref().clone()
}

/// The error that the run ended with.
async fn error(house: &House, of: &RunRef) -> (String, String) {
    match &house.run(of).await.end {
        Some(holdpoint_engine::core::End::Failed { error, .. }) => {
            (error.code.clone(), error.message.clone())
        }
        other => panic!("not failed: {other:?}"),
    }
}

fn edge(source: &str, target: &str) -> Value {
    json!({"id": format!("{source}-{target}"), "sourceNodeId": source, "targetNodeId": target})
}

fn way(source: &str, name: &str, target: &str) -> Value {
    let mut edge = edge(source, target);
    edge["sourceOutput"] = json!(name);
    edge
}

fn with_inputs(mut node: Value, inputs: Value) -> Value {
    node["inputs"] = inputs;
    node
}

async fn places_in_the_graph_hand_their_inputs_on(house: House) {
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
    house.register(graph("places", &nodes, &edges)).await;
    let of = house.start_with("places", json!({"x": 7})).await;
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(variables(&house, &of).await, json!({"x": 7, "a": 7, "b": 7, "c": 7}));
}

/// A choice with a way for each name, and the nodes that were run behind it.
async fn taken(house: &House, config: Value, ways: &[&str], inputs: Value) -> Vec<String> {
    let mut nodes = vec![node("choice", "core.conditional", config)];
    nodes.extend(ways.iter().map(|name| node(name, "core.noop", json!({}))));
    let edges: Vec<Value> = ways.iter().map(|name| way("choice", name, name)).collect();
    house.register(graph("choice", &nodes, &edges)).await;
    let of = house.start_with("choice", inputs).await;
    assert_eq!(house.status(&of).await, "completed");
    let log = house.log(&of).await;
    let begun = |name: &&&str| {
        log.iter().any(|line| line.contains("node.started") && line.contains(&format!("\"{name}\"")))
    };
    ways.iter().filter(begun).map(|name| (*name).to_owned()).collect()
}

async fn a_condition_chooses_the_way(house: House) {
    let ways = ["true", "false"];
    let expression = json!({"expression": "amount > 100"});
    assert_eq!(taken(&house, expression.clone(), &ways, json!({"amount": 250})).await, ["true"]);
    assert_eq!(taken(&house, expression, &ways, json!({"amount": 25})).await, ["false"]);
    let condition = json!({"condition": {"type": "regex", "left": "variables.name", "right": "^A"}});
    assert_eq!(taken(&house, condition.clone(), &ways, json!({"name": "Ada"})).await, ["true"]);
    assert_eq!(taken(&house, condition, &ways, json!({"name": "Bob"})).await, ["false"]);
}

async fn the_first_case_that_holds_chooses_the_way(house: House) {
    let cases = json!({"default": "small", "cases": [
        {"name": "huge", "expression": "amount > 1000"},
        {"name": "large", "condition": {"type": "expression", "expression": "amount > 100"}},
    ]});
    let ways = ["huge", "large", "small"];
    for (amount, expected) in [(5000, "huge"), (500, "large"), (5, "small")] {
        assert_eq!(taken(&house, cases.clone(), &ways, json!({"amount": amount})).await, [expected]);
    }
}

async fn a_variable_is_set_and_got_by_name(house: House) {
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
    house.register(graph("variables", &nodes, &edges)).await;
    let of = house.start_with("variables", json!({"x": 0})).await;
    assert_eq!(variables(&house, &of).await, json!({"x": {"a": 1}, "y": 2, "z": 2, "value": 9}));
    let log = house.log(&of).await;
    let changed = r#"{"type":"variable.changed","node":"set","name":"x","previous":0,"next":{"a":1}}"#;
    assert!(log.contains(&changed.to_owned()), "{log:?}");
}

async fn a_variable_that_is_not_set_fails_who_wants_it(house: House) {
    house.register(line("missing", &[("get", "core.getVariable", json!({"name": "x"}))])).await;
    let of = house.start("missing").await;
    assert_eq!(error(&house, &of).await.0, "variable_not_set");
}

async fn writes_to_a_channel_come_together_and_grow_old(house: House) {
    let write =
        |value: &str| json!({"channelName": "events", "reducer": "append", "ttlMs": 200, "value": value});
    let nodes = [
        ("a", "core.channelWrite", write("a")),
        ("b", "core.channelWrite", write("b")),
        ("wait", "core.delay", json!({"ms": 300})),
        ("d", "core.channelWrite", write("d")),
    ];
    house.register(line("ttl", &nodes)).await;
    let of = house.start("ttl").await;
    assert_eq!(variables(&house, &of).await["events"].as_array().map(Vec::len), Some(2));
    house.clock.advance(300);
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    let written = house.clock.now().0;
    assert_eq!(variables(&house, &of).await, json!({"events": [{"value": "d", "_ts": written}]}));
}

async fn a_declared_channel_says_how(house: House) {
    let nodes = [
        ("a", "core.channelWrite", json!({"channelName": "sum", "value": 2})),
        ("b", "core.channelWrite", json!({"channelName": "sum", "value": 3})),
        ("c", "core.channelWrite", json!({"channelName": "sum", "value": "much"})),
    ];
    let mut definition = line("declared", &nodes);
    definition["channels"] = json!({"sum": {"reducer": "counter", "default": 1}});
    house.register(definition).await;
    let of = house.start("declared").await;
    assert_eq!(variables(&house, &of).await, json!({"sum": 6}));
    assert_eq!(error(&house, &of).await.0, "invalid_channel_write");
}

async fn a_node_fails_that_requires_what_nobody_provides(house: House) {
    house.register(line("requires", &[("n", "conformance.requiresMissing", json!({}))])).await;
    let of = house.start("requires").await;
    let (code, message) = error(&house, &of).await;
    assert_eq!(code, "capability_not_provided");
    assert!(message.contains("conformance.never-provided"), "{message}");
}

async fn a_mock_provider_speaks_in_chunks(house: House) {
    house.register(line("ai", &[("ai", "core.ai.callPrompt", json!({"promptId": "p"}))])).await;
    let usage = json!({"promptTokens": 5, "completionTokens": 2, "totalTokens": 7});
    let config = json!({"tokens": ["Hel", "lo"], "finishReason": "stop", "usage": usage});
    let of = start_configured(&house, "ai", json!({"mockProvider": {"id": "stream-text", "config": config}}))
        .await;
    assert_eq!(house.status(&of).await, "completed");
    let log = house.log(&of).await;
    let first = r#"{"type":"ai.message.chunk","node":"ai","chunk":"Hel","last":false,"meta":{"model":"mock-stream-text-v1"}}"#;
    assert_eq!(log[2], first);
    let last: Value = serde_json::from_str(&log[3]).unwrap();
    assert_eq!((&last["chunk"], &last["last"]), (&json!("lo"), &json!(true)));
    assert_eq!((&last["meta"]["finishReason"], &last["meta"]["usage"]), (&json!("stop"), &usage));
    assert_eq!(variables(&house, &of).await["text"], "Hello");
}

async fn without_a_provider_no_model_is_asked(house: House) {
    house.register(line("ai", &[("ai", "core.ai.callPrompt", json!({}))])).await;
    let of = house.start("ai").await;
    let (code, message) = error(&house, &of).await;
    assert_eq!(code, "provider_not_configured");
    assert!(message.contains("mockProvider"), "{message}");
    let of = start_configured(&house, "ai", json!({"mockProvider": {"id": "other"}})).await;
    assert_eq!(error(&house, &of).await.0, "unsupported_mock_provider");
}

async fn a_failure_that_may_pass_is_tried_again_when_its_time_has_come(house: House) {
    let mut definition = line("busy", &[("n", "core.fail", json!({"code": "busy", "retryable": true}))]);
    definition["settings"] = json!({"maxRetries": 2});
    house.register(definition).await;
    let of = house.start("busy").await;
    for wait in [1000, 2000] {
        assert_eq!(house.status(&of).await, "running");
        house.clock.advance(wait - 1);
        assert_eq!(house.drain().await, 0, "not yet");
        house.clock.advance(1);
        assert_eq!(house.drain().await, 1);
    }
    assert_eq!(error(&house, &of).await.0, "busy");
    let log = house.log(&of).await;
    assert_eq!(log.iter().filter(|line| line.contains("node.retried")).count(), 2);
    assert_eq!(log.iter().filter(|line| line.contains("node.started")).count(), 1);
}

async fn a_run_ends_when_its_time_is_up(house: House) {
    let mut definition =
        line("slow", &[("gate", "core.approvalGate", json!({})), ("z", "core.noop", json!({}))]);
    definition["settings"] = json!({"timeout": 500});
    house.register(definition).await;
    let (late, in_time) = (house.start("slow").await, house.start("slow").await);
    house.clock.advance(499);
    house.drain().await;
    house.answer(&in_time, "gate", accept()).await.unwrap();
    house.clock.advance(1);
    assert_eq!(house.drain().await, 1, "the one that has ended is left alone");
    assert_eq!(error(&house, &late).await.0, "run_timeout");
    assert_eq!(house.status(&in_time).await, "completed");
    assert!(house.pending().await.is_empty());
}

async fn a_run_ends_at_the_execution_that_is_one_too_many(house: House) {
    let names: Vec<String> = (1..=6).map(|count| format!("n{count}")).collect();
    let nodes: Vec<(&str, &str, Value)> =
        names.iter().map(|name| (name.as_str(), "core.noop", json!({}))).collect();
    house.register(line("long", &nodes)).await;
    let of = start_configured(&house, "long", json!({"recursionLimit": 3})).await;
    assert_eq!(error(&house, &of).await.0, "recursion_limit_exceeded");
    let log = house.log(&of).await;
    assert_eq!(log.iter().filter(|line| line.contains("node.started")).count(), 3);
    let cap = r#"{"type":"cap.breached","cap":"node-executions","limit":3,"observed":4,"node":"n4"}"#;
    assert_eq!(log[log.len() - 2], cap);
}

async fn what_a_node_type_does_not_know_is_a_flaw(house: House) {
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
        let flaws = house.engine.register(&tenant(), line("flawed", &[("n", type_id, config.clone())])).await;
        let Err(Error::InvalidWorkflow(flaws)) = flaws else { panic!("{type_id} {config} was accepted") };
        let fields: Vec<&str> = flaws.iter().map(|flaw| flaw.field.as_str()).collect();
        assert_eq!(fields, [field], "{type_id} {config}");
    }
}
