//! Loops through the engine: with a count, over items, with a condition, and around a gate.

use holdpoint_engine::core::RunRef;
use serde_json::{Value, json};

use crate::test_database::on_both;
use crate::test_env::{TestEnv, accept, graph, node};

on_both! {
    a_loop_executes_its_body_once_for_each_item,
    a_loop_with_a_count_executes_its_body_that_often,
    a_loop_repeats_while_its_expression_is_true,
    an_endless_loop_fails_at_its_limit,
    a_rejected_gate_asks_again_under_a_new_key,
    a_loop_with_a_gate_survives_a_restart,
}

fn edge(id: &str, source: &str, target: &str) -> Value {
    json!({"id": id, "sourceNodeId": source, "targetNodeId": target})
}

fn branch_edge(id: &str, source: &str, name: &str, target: &str) -> Value {
    let mut edge = edge(id, source, target);
    edge["sourceOutput"] = json!(name);
    edge
}

/// A loop whose body is one node, between a start node and an end node.
fn loop_around(head: Value, body: Value) -> Value {
    let nodes = [node("start", "core.start", json!({})), head, body, node("end", "core.end", json!({}))];
    let edges = [
        edge("in", "start", "head"),
        branch_edge("body", "head", "body", "body"),
        edge("back", "body", "head"),
        branch_edge("out", "head", "done", "end"),
    ];
    graph("around", &nodes, &edges)
}

fn append_to_seen(value: Value) -> Value {
    let mut body = node("body", "core.channelWrite", json!({"channelName": "seen", "reducer": "append"}));
    body["inputs"] = json!({"value": value});
    body
}

async fn seen(env: &TestEnv, of: &RunRef) -> Vec<Value> {
    let run = env.run(of).await;
    run.variables["seen"].as_array().unwrap().iter().map(|entry| entry["value"].clone()).collect()
}

async fn a_loop_executes_its_body_once_for_each_item(env: TestEnv) {
    let mut head = node("head", "core.loop", json!({}));
    head["inputs"] = json!({"items": {"type": "variable", "variableName": "list"}});
    let item = json!({"type": "connection", "nodeId": "head", "outputKey": "item"});
    env.register(loop_around(head, append_to_seen(item))).await;
    let of = env.start_with("around", json!({"list": ["a", {"b": 1}, null, 4, 5, 6, 7, 8]})).await;
    assert_eq!(env.status(&of).await, "completed");
    let expected =
        [json!("a"), json!({"b": 1}), json!(null), json!(4), json!(5), json!(6), json!(7), json!(8)];
    assert_eq!(seen(&env, &of).await, expected);
    let log = env.log(&of).await;
    let ends = log.iter().filter(|line| line.contains("\"end\"")).count();
    assert_eq!(ends, 2, "the end node starts and completes once: {log:?}");
    let none = env.start_with("around", json!({"list": []})).await;
    assert_eq!(env.status(&none).await, "completed");
    assert!(env.run(&none).await.variables.get("seen").is_none());
}

async fn a_loop_with_a_count_executes_its_body_that_often(env: TestEnv) {
    let index = json!({"type": "connection", "nodeId": "head", "outputKey": "index"});
    env.register(loop_around(node("head", "core.loop", json!({"count": 7})), append_to_seen(index))).await;
    let of = env.start("around").await;
    assert_eq!(seen(&env, &of).await, [0, 1, 2, 3, 4, 5, 6]);
    let run = env.run(&of).await;
    assert_eq!((&run.variables["done"], &run.variables["iteration"]), (&json!(true), &json!(8)));
}

async fn a_loop_repeats_while_its_expression_is_true(env: TestEnv) {
    let head = node("head", "core.loop", json!({"while": "balance > 0"}));
    let mut body = node("body", "core.setVariable", json!({"name": "balance"}));
    body["inputs"] = json!({"value": {"type": "expression", "expression": "balance - 30"}});
    env.register(loop_around(head, body)).await;
    let of = env.start_with("around", json!({"balance": 100})).await;
    assert_eq!(env.run(&of).await.variables["balance"], -20);
}

async fn an_endless_loop_fails_at_its_limit(env: TestEnv) {
    let head = |config: Value| node("head", "core.loop", config);
    let body = || node("body", "core.noop", json!({}));
    for (config, times) in
        [(json!({"while": "true", "maxIterations": 3}), 3), (json!({"while": "true"}), 100)]
    {
        env.register(loop_around(head(config), body())).await;
        let of = env.start("around").await;
        assert_eq!(env.status(&of).await, "failed");
        let log = env.log(&of).await;
        assert!(log.last().unwrap().contains("loop_limit_exceeded"), "{log:?}");
        assert_eq!(log.iter().filter(|line| line.contains("loop.turned")).count(), times);
    }
}

/// A gate that asks again after every rejection.
pub(crate) fn reviewed() -> Value {
    let mut rejected = edge("no", "gate", "fix");
    rejected["triggerRule"] = json!("any_failed");
    let gate = json!({"title": "Good?", "actions": ["accept", "reject"]});
    let nodes = [
        node("start", "core.start", json!({})),
        node("gate", "core.approvalGate", gate),
        node("publish", "core.noop", json!({})),
        node("fix", "core.noop", json!({})),
    ];
    let edges =
        [edge("in", "start", "gate"), edge("yes", "gate", "publish"), rejected, edge("back", "fix", "gate")];
    graph("reviewed", &nodes, &edges)
}

fn keys(run: &holdpoint_engine::core::Run) -> Vec<String> {
    run.interrupts.iter().map(|interrupt| interrupt.key.replace(run.id.as_str(), "RUN")).collect()
}

async fn a_rejected_gate_asks_again_under_a_new_key(env: TestEnv) {
    env.register(reviewed()).await;
    let of = env.start("reviewed").await;
    for _ in 0..2 {
        env.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
        assert_eq!(env.status(&of).await, "waiting-approval");
        assert_eq!(env.pending().await, ["gate"]);
    }
    env.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(keys(&*env.run(&of).await), ["RUN:gate:0", "RUN:gate:1", "RUN:gate:2"]);
}

async fn a_loop_with_a_gate_survives_a_restart(env: TestEnv) {
    env.register(reviewed()).await;
    let of = env.start("reviewed").await;
    env.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
    let before = env.run(&of).await;
    let env = env.reopen(|options| options).await;
    assert_eq!(env.run(&of).await, before);
    env.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(env.status(&of).await, "completed");
}
