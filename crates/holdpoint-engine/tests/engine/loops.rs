//! Loops through the engine: counted, over items, while something holds, and around a question.

use holdpoint_engine::core::RunRef;
use serde_json::{Value, json};

use crate::house::{House, accept, graph, node};
use crate::place::on_both;

on_both! {
    a_loop_leads_through_its_body_once_for_each_item,
    a_loop_counts,
    a_loop_goes_on_while_its_expression_holds,
    a_loop_that_does_not_come_to_its_end_is_stopped,
    a_rejected_gate_is_asked_again_under_a_new_key,
    a_loop_around_a_question_survives_a_restart,
}

fn edge(id: &str, source: &str, target: &str) -> Value {
    json!({"id": id, "sourceNodeId": source, "targetNodeId": target})
}

fn way(id: &str, source: &str, name: &str, target: &str) -> Value {
    let mut edge = edge(id, source, target);
    edge["sourceOutput"] = json!(name);
    edge
}

/// A loop whose body is one node, with a start before and an end behind it.
fn around(head: Value, body: Value) -> Value {
    let nodes = [node("start", "core.start", json!({})), head, body, node("end", "core.end", json!({}))];
    let edges = [
        edge("in", "start", "head"),
        way("body", "head", "body", "body"),
        edge("back", "body", "head"),
        way("out", "head", "done", "end"),
    ];
    graph("around", &nodes, &edges)
}

fn keeping(value: Value) -> Value {
    let mut body = node("body", "core.channelWrite", json!({"channelName": "seen", "reducer": "append"}));
    body["inputs"] = json!({"value": value});
    body
}

async fn seen(house: &House, of: &RunRef) -> Vec<Value> {
    let run = house.run(of).await;
    run.variables["seen"].as_array().unwrap().iter().map(|entry| entry["value"].clone()).collect()
}

async fn a_loop_leads_through_its_body_once_for_each_item(house: House) {
    let mut head = node("head", "core.loop", json!({}));
    head["inputs"] = json!({"items": {"type": "variable", "variableName": "list"}});
    let item = json!({"type": "connection", "nodeId": "head", "outputKey": "item"});
    house.register(around(head, keeping(item))).await;
    let of = house.start_with("around", json!({"list": ["a", {"b": 1}, null, 4, 5, 6, 7, 8]})).await;
    assert_eq!(house.status(&of).await, "completed");
    let expected =
        [json!("a"), json!({"b": 1}), json!(null), json!(4), json!(5), json!(6), json!(7), json!(8)];
    assert_eq!(seen(&house, &of).await, expected);
    let log = house.log(&of).await;
    let ends = log.iter().filter(|line| line.contains("\"end\"")).count();
    assert_eq!(ends, 2, "the end begins and completes, once: {log:?}");
    let none = house.start_with("around", json!({"list": []})).await;
    assert_eq!(house.status(&none).await, "completed");
    assert!(house.run(&none).await.variables.get("seen").is_none());
}

async fn a_loop_counts(house: House) {
    let index = json!({"type": "connection", "nodeId": "head", "outputKey": "index"});
    house.register(around(node("head", "core.loop", json!({"count": 7})), keeping(index))).await;
    let of = house.start("around").await;
    assert_eq!(seen(&house, &of).await, [0, 1, 2, 3, 4, 5, 6]);
    let run = house.run(&of).await;
    assert_eq!((&run.variables["done"], &run.variables["iteration"]), (&json!(true), &json!(8)));
}

async fn a_loop_goes_on_while_its_expression_holds(house: House) {
    let head = node("head", "core.loop", json!({"while": "balance > 0"}));
    let mut body = node("body", "core.setVariable", json!({"name": "balance"}));
    body["inputs"] = json!({"value": {"type": "expression", "expression": "balance - 30"}});
    house.register(around(head, body)).await;
    let of = house.start_with("around", json!({"balance": 100})).await;
    assert_eq!(house.run(&of).await.variables["balance"], -20);
}

async fn a_loop_that_does_not_come_to_its_end_is_stopped(house: House) {
    let head = |config: Value| node("head", "core.loop", config);
    let body = || node("body", "core.noop", json!({}));
    for (config, times) in
        [(json!({"while": "true", "maxIterations": 3}), 3), (json!({"while": "true"}), 100)]
    {
        house.register(around(head(config), body())).await;
        let of = house.start("around").await;
        assert_eq!(house.status(&of).await, "failed");
        let log = house.log(&of).await;
        assert!(log.last().unwrap().contains("loop_limit_exceeded"), "{log:?}");
        assert_eq!(log.iter().filter(|line| line.contains("loop.turned")).count(), times);
    }
}

/// A gate that is asked again after every rejection.
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
    run.interrupts.iter().map(|asked| asked.key.replace(run.id.as_str(), "RUN")).collect()
}

async fn a_rejected_gate_is_asked_again_under_a_new_key(house: House) {
    house.register(reviewed()).await;
    let of = house.start("reviewed").await;
    for _ in 0..2 {
        house.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
        assert_eq!(house.status(&of).await, "waiting-approval");
        assert_eq!(house.pending().await, ["gate"]);
    }
    house.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(keys(&*house.run(&of).await), ["RUN:gate:0", "RUN:gate:1", "RUN:gate:2"]);
}

async fn a_loop_around_a_question_survives_a_restart(house: House) {
    house.register(reviewed()).await;
    let of = house.start("reviewed").await;
    house.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
    let before = house.run(&of).await;
    let house = house.reopen(|options| options).await;
    assert_eq!(house.run(&of).await, before);
    house.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(house.status(&of).await, "completed");
}
