//! Tests of runs as clients see them.

use std::sync::Arc;

use holdpoint_core::{Event, Workflow};
use serde_json::json;

use super::*;

fn run(events: &[Value]) -> Value {
    let node = |id: &str| json!({"id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
    let flow = json!({
        "id": "f", "name": "f", "version": "1", "nodes": [node("a"), node("b")], "edges": [], "triggers": [],
        "variables": [{"name": "pin", "type": "string", "sensitive": true}], "metadata": {}, "settings": {},
    });
    let events: Vec<Event> =
        events.iter().map(|event| serde_json::from_value(event.clone()).unwrap()).collect();
    let workflow = Arc::new(Workflow::parse(&flow, 1).unwrap());
    let run = Run::replay(RunId::parse("r").unwrap(), workflow, (0..).map(Timestamp).zip(&events));
    serde_json::to_value(Snapshot::of(&run)).unwrap()
}

fn started(more: Value) -> Value {
    let mut started = json!({
        "type": "run.started", "workflow": "f", "revision": 1, "owner": {"tenant": "t", "principal": "ann"},
    });
    started.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    started
}

#[test]
fn a_parent_shows_its_children_and_the_node_that_waits_for_one() {
    let seen = run(&[
        started(json!({})),
        json!({"type": "node.started", "node": "a"}),
        json!({"type": "node.dispatched", "node": "a", "child": "r.1", "workflow": "g", "wait": true, "cascade": true}),
        json!({"type": "holdpoint.child.changed", "child": "r.1", "status": "waiting-approval"}),
    ]);
    let child = json!({"runId": "r.1", "workflowId": "g", "nodeId": "a", "status": "waiting-approval"});
    assert_eq!((&seen["childRuns"], &seen["currentNodeId"]), (&json!([child]), &json!("a")));
    assert_eq!(seen["nodeStates"]["a"]["status"], "awaiting");
}

#[test]
fn a_run_shows_where_it_comes_from() {
    let parent = json!({"run": "up", "workflow": "g", "node": "call", "depth": 1});
    let fork = json!({"source": "s", "origin": "o", "from_seq": 3, "mode": "branch"});
    let seen = run(&[started(json!({"parent": parent, "fork": fork}))]);
    assert_eq!((&seen["parentRunId"], &seen["parentNodeId"]), (&json!("up"), &json!("call")));
    assert_eq!((&seen["sourceRunId"], &seen["fromSeq"]), (&json!("s"), &json!(3)));
    assert_eq!(seen["forkMode"], "branch");
    let plain = run(&[started(json!({}))]);
    for absent in ["parentRunId", "sourceRunId", "forkMode", "childRuns", "pausedAt", "error", "interrupt"] {
        assert!(plain.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn a_paused_run_says_since_when_and_why_until_it_goes_on() {
    let pause = json!({"type": "run.paused", "reason": "lunch", "drain": "immediate", "by": "ann"});
    let paused = run(&[started(json!({})), pause.clone()]);
    assert_eq!(
        (&paused["status"], &paused["pausedAt"]),
        (&json!("paused"), &json!("1970-01-01T00:00:00.001Z"))
    );
    assert_eq!((&paused["pauseReason"], &paused["drainPolicy"]), (&json!("lunch"), &json!("immediate")));
    let resumed = run(&[started(json!({})), pause, json!({"type": "run.resumed", "by": "ann"})]);
    assert!(resumed.get("pausedAt").is_none());
    let asked = json!({"type": "holdpoint.pause.requested", "reason": "lunch", "by": "ann"});
    let draining = run(&[started(json!({})), json!({"type": "node.started", "node": "a"}), asked]);
    assert_eq!((&draining["status"], draining.get("pausedAt")), (&json!("running"), None));
    assert_eq!(draining["pauseRequestedAt"], "1970-01-01T00:00:00.002Z");
    assert_eq!((&draining["pauseRequestedBy"], &draining["pauseReason"]), (&json!("ann"), &json!("lunch")));
    assert_eq!(draining["drainPolicy"], "drain-current-node");
}

#[test]
fn a_failure_has_the_protocols_members_and_secrets_stay_secret() {
    let error = json!({"code": "boom", "message": "it broke", "retryable": true});
    let seen = run(&[
        started(json!({"inputs": {"pin": "1234", "other": 1}})),
        json!({"type": "run.failed", "error": error, "node": "a"}),
    ]);
    let details = json!({"retryable": true, "failedNodeId": "a"});
    assert_eq!(seen["error"], json!({"code": "boom", "message": "it broke", "details": details}));
    let shown = json!({"pin": "[redacted]", "other": 1});
    assert_eq!((&seen["inputs"], &seen["variables"]), (&shown, &shown));
}

#[test]
fn a_run_shows_the_version_of_the_engine_that_started_it() {
    assert_eq!(run(&[started(json!({"engine_version": 20}))])["engineVersion"], 20);
    assert!(run(&[started(json!({}))]).get("engineVersion").is_none(), "not recorded by earlier versions");
}
