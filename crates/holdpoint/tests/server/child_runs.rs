//! Child runs: the view of the parent, results of children, and cancellation.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, client_with_key, gated, linear};

/// Returns a workflow with a node that starts another workflow.
fn calling(id: &str, config: Value) -> Value {
    linear(id, &[("begin", "core.noop", json!({})), ("call", "core.subWorkflow", config)])
}

/// Starts a run and waits until it shows that its child waits. Returns parent and child.
fn start_parent_and_child(client: &Client, workflow: &str) -> (String, String) {
    let parent = client.start_run(workflow);
    client.wait_for_event(&parent, |event| {
        event["type"] == "holdpoint.child.changed" && event["payload"]["status"] == "waiting-approval"
    });
    let shown = client.get(&format!("/v1/runs/{parent}")).body;
    (parent, shown["childRuns"][0]["runId"].as_str().unwrap().to_owned())
}

fn last(log: &[Value]) -> (&str, &Value) {
    let event = log.last().unwrap();
    (event["type"].as_str().unwrap(), &event["payload"])
}

#[test]
fn a_parent_shows_that_its_child_waits_and_continues_with_its_result() {
    let server = Server::start();
    let client = &server.client;
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    let child = linear("child", &[("gate", "core.approvalGate", gate), ("say", "core.identity", json!({}))]);
    let mut child = child;
    child["nodes"][1]["inputs"] = json!({"word": {"type": "variable", "variableName": "given"}});
    assert_eq!(client.put("/v1/workflows/child", &child).status, 201);
    let config = json!({
        "workflowId": "child", "inputMapping": {"given": "word"}, "outputMapping": {"heard": "word"},
    });
    assert_eq!(client.put("/v1/workflows/parent", &calling("parent", config)).status, 201);
    let made = client.post("/v1/runs", &json!({"workflowId": "parent", "inputs": {"word": "hello"}}));
    let parent = made.body["runId"].as_str().unwrap();
    client.wait_for_event(parent, |event| event["payload"]["status"] == "waiting-approval");
    let above = client.get(&format!("/v1/runs/{parent}")).body;
    assert_eq!((&above["status"], &above["currentNodeId"]), (&json!("waiting-approval"), &json!("call")));
    let below = &above["childRuns"][0];
    assert_eq!((&below["status"], &below["workflowId"]), (&json!("waiting-approval"), &json!("child")));
    let child = below["runId"].as_str().unwrap();
    let shown = client.get(&format!("/v1/runs/{child}")).body;
    assert_eq!((&shown["parentRunId"], &shown["parentNodeId"]), (&json!(parent), &json!("call")));
    assert_eq!(shown["inputs"], json!({"given": "hello"}));
    client.answer(parent, "begin", &accept()).assert_envelope(404, "interrupt_not_found");
    assert_eq!(client.answer(child, "gate", &accept()).status, 200);
    assert_eq!(last(&client.wait_for_end(parent)).0, "run.completed");
    let above = client.get(&format!("/v1/runs/{parent}")).body;
    assert_eq!(
        (&above["variables"]["heard"], &above["childRuns"][0]["status"]),
        (&json!("hello"), &json!("completed"))
    );
}

#[test]
fn cancelling_a_run_cancels_all_descendants_in_one_commit() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    client.put("/v1/workflows/middle", &calling("middle", json!({"workflowId": "gated"})));
    client.put("/v1/workflows/top", &calling("top", json!({"workflowId": "middle"})));
    let (top, middle) = start_parent_and_child(client, "top");
    let shown = client.get(&format!("/v1/runs/{middle}")).body;
    let bottom = shown["childRuns"][0]["runId"].as_str().unwrap().to_owned();
    let cancelled = client.post(&format!("/v1/runs/{top}/cancel"), &json!({"reason": "enough"}));
    assert_eq!(cancelled.body, json!({"runId": top, "status": "cancelled"}));
    // No wait is needed: the cancellation is one commit.
    for (run, parent) in [(&middle, &top), (&bottom, &middle)] {
        assert_eq!(client.status(run), "cancelled");
        let log = client.events(run);
        let (kind, payload) = last(&log);
        assert_eq!((kind, &payload["reason"]), ("run.cancelled", &json!("parent-cancelled")));
        assert_eq!(payload["parentRunId"], **parent, "{payload}");
    }
    let log = client.events(&top);
    let (_, payload) = last(&log);
    assert_eq!((&payload["reason"], payload.get("parentRunId")), (&json!("enough"), None));
    client.answer(&bottom, "gate", &accept()).assert_envelope(410, "interrupt_gone");
    assert_eq!(client.get("/v1/interrupts").body["interrupts"], json!([]));
    let alone = client.start_run("gated");
    client.post(&format!("/v1/runs/{alone}/cancel"), &json!({}));
    client.answer(&alone, "gate", &accept()).assert_envelope(422, "interrupt_cancelled");
}

#[test]
fn a_child_without_cancellation_propagation_survives_its_parent() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let config = json!({"workflowId": "gated", "propagateCancellation": false});
    client.put("/v1/workflows/top", &calling("top", config));
    let (top, child) = start_parent_and_child(client, "top");
    client.post(&format!("/v1/runs/{top}/cancel"), &json!({}));
    assert_eq!(client.status(&child), "waiting-approval");
    assert_eq!(client.answer(&child, "gate", &accept()).body["status"], "completed");
    assert_eq!(client.status(&top), "cancelled");
}

#[test]
fn a_failed_child_fails_its_parent_unless_configured_otherwise() {
    let server = Server::start();
    let client = &server.client;
    client
        .put("/v1/workflows/broken", &linear("broken", &[("only", "core.fail", json!({"code": "no_luck"}))]));
    client.put("/v1/workflows/strict", &calling("strict", json!({"workflowId": "broken"})));
    let calm = json!({"workflowId": "broken", "onChildFailure": "continue"});
    client.put("/v1/workflows/calm", &calling("calm", calm));
    client.put("/v1/workflows/lost", &calling("lost", json!({"workflowId": "nowhere"})));
    for (workflow, status, words) in
        [("strict", "failed", "no_luck"), ("calm", "completed", ""), ("lost", "failed", "workflow_not_found")]
    {
        let run = client.start_run(workflow);
        client.wait_for_end(&run);
        let shown = client.get(&format!("/v1/runs/{run}")).body;
        assert_eq!(shown["status"], status, "{workflow}");
        if status == "failed" {
            assert_eq!(shown["error"]["code"], "child_failed", "{workflow}");
            assert!(shown["error"]["message"].as_str().unwrap().contains(words), "{shown}");
        }
        assert_eq!(shown["childRuns"][0]["status"], "failed", "{workflow}");
    }
}

#[test]
fn a_cancelled_child_fails_its_parent() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    client.put("/v1/workflows/top", &calling("top", json!({"workflowId": "gated"})));
    let (top, child) = start_parent_and_child(client, "top");
    assert_eq!(client.post(&format!("/v1/runs/{child}/cancel"), &json!({})).status, 200);
    assert_eq!(last(&client.wait_for_end(&top)).1["error"]["code"], "child_failed");
    client.answer(&child, "gate", &accept()).assert_envelope(422, "interrupt_cancelled");
}

/// Registers `inner`, which waits for an approval of `approvers`, and `outer`, whose nodes `left` and `right` call
/// `middle`, which calls `inner`.
fn register_nested(client: &Client, approvers: &Value) {
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"], "approversList": approvers});
    client.put("/v1/workflows/inner", &linear("inner", &[("gate", "core.approvalGate", gate)]));
    client.put("/v1/workflows/middle", &calling("middle", json!({"workflowId": "inner"})));
    let mut outer = linear(
        "outer",
        &[
            ("left", "core.subWorkflow", json!({"workflowId": "middle"})),
            ("right", "core.subWorkflow", json!({"workflowId": "middle"})),
        ],
    );
    outer["edges"] = json!([]);
    assert_eq!(client.put("/v1/workflows/outer", &outer).status, 201);
}

/// Starts `outer` and returns the run and its snapshot with the interrupts of both branches.
fn start_nested(client: &Client) -> (String, Value) {
    let run = client.start_run("outer");
    let count = |shown: &Value| shown["childInterrupts"].as_array().map_or(0, Vec::len);
    client.wait_for_event(&run, |_| count(&client.get(&format!("/v1/runs/{run}")).body) == 2);
    let shown = client.get(&format!("/v1/runs/{run}")).body;
    (run, shown)
}

#[test]
fn interrupts_two_levels_below_are_shown_and_answered_at_the_root() {
    let server = Server::start();
    let client = &server.client;
    register_nested(client, &json!([]));
    let (run, shown) = start_nested(client);
    let below = shown["childInterrupts"].as_array().unwrap();
    for (one, side) in below.iter().zip(["left", "right"]) {
        let inner = one["runId"].as_str().unwrap();
        assert_eq!((&one["nodeId"], &one["kind"]), (&json!("gate"), &json!("approval")));
        assert_eq!(one["interruptId"], format!("{inner}:i1"));
        let path: Vec<_> =
            one["path"].as_array().unwrap().iter().map(|step| step["nodeId"].clone()).collect();
        assert_eq!((&one["path"][0]["runId"], path), (&json!(run), vec![json!(side), json!("call")]));
    }
    let pending = client.get("/v1/interrupts").body;
    let rows = pending["interrupts"].as_array().unwrap();
    for one in below {
        let row = rows.iter().find(|row| row["interruptId"] == one["interruptId"]).unwrap();
        assert_eq!(row["path"], one["path"], "a pending row has the path from the root");
    }
    let opened = client.events(&run);
    let opened = opened.iter().filter(|event| event["payload"]["openedInterrupts"].is_array()).count();
    assert_eq!(opened, 2, "the events of the root name each interrupt once");
    // `right` is answered first, with the id of the interrupt; `left` without an id.
    let named = json!({"resumeValue": accept(), "interruptId": below[1]["interruptId"]});
    client
        .post(&format!("/v1/runs/{run}/interrupts/left"), &named)
        .assert_envelope(404, "interrupt_not_found");
    assert_eq!(client.post(&format!("/v1/runs/{run}/interrupts/right"), &named).status, 200);
    let again = client.post(&format!("/v1/runs/{run}/interrupts/right"), &named);
    again.assert_envelope(409, "interrupt_already_resolved");
    let left = client.get(&format!("/v1/runs/{run}")).body;
    assert_eq!(left["childInterrupts"], json!([below[0]]));
    assert_eq!(client.answer(&run, "left", &accept()).status, 200);
    assert_eq!(last(&client.wait_for_end(&run)).0, "run.completed");
    let closed: Vec<Value> = client.events(&run);
    let ids = closed.iter().filter_map(|event| event["payload"]["closedInterruptIds"][0].as_str());
    assert_eq!(
        ids.collect::<Vec<_>>(),
        [&below[1], &below[0]].map(|one| one["interruptId"].as_str().unwrap())
    );
}

#[test]
fn an_answer_at_the_root_needs_the_rights_of_an_approver_of_the_child() {
    let server = Server::start();
    let client = &server.client;
    register_nested(client, &json!(["another-person"]));
    let (run, shown) = start_nested(client);
    let refused = client.answer(&run, "left", &accept());
    refused.assert_envelope(403, "forbidden");
    assert_eq!(client.get(&format!("/v1/runs/{run}")).body["childInterrupts"], shown["childInterrupts"]);
    let reader = client_with_key(client, &json!({"principal": "user:reader", "scopes": ["runs:read"]}));
    assert_eq!(reader.answer(&run, "left", &accept()).status, 403, "the scope approvals:respond is required");
}

#[test]
fn a_chat_outcome_shows_nested_interrupts_and_takes_their_answers() {
    let server = Server::start_with(&["--demo"]);
    let chat = |body: &Value| server.client.post("/api/v1/ai/chat", body);
    let start = json!({"graph": "native:agent:nested", "stateKey": "s1", "input": {"message": "Release"}});
    let shown = chat(&start);
    let items = shown.body["interrupt"]["data"]["items"].as_array().unwrap_or_else(|| panic!("{shown:?}"));
    let keys: Vec<_> = items.iter().map(|item| item["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["1.i0", "2.1.i0"]);
    let answer =
        |value: Value, id: &str| chat(&json!({"stateKey": "s1", "resumeValue": value, "resumeId": id}));
    answer(json!({"9.i0": {"action": "accept"}}), "r0").assert_envelope(409, "interrupt_ambiguous");
    let one = answer(json!({"2.1.i0": {"action": "accept"}}), "r1");
    assert_eq!(one.body["outcome"], "needs_input", "{one:?}");
    let end = answer(json!({"action": "accept"}), "r2");
    assert_eq!(end.body["outcome"], "completed", "{end:?}");
    let again = answer(json!({"action": "accept"}), "r2");
    assert_eq!(again.body, end.body, "the same resume has no second effect");
}

#[test]
fn the_default_event_stream_shows_interrupts_of_child_runs() {
    let server = Server::start();
    let client = &server.client;
    register_nested(client, &json!([]));
    let (run, _) = start_nested(client);
    for side in ["left", "right"] {
        assert_eq!(client.answer(&run, side, &accept()).status, 200);
    }
    client.wait_for_end(&run);
    for (mode, part, count) in [
        ("updates", "openedInterrupts", 2),
        ("updates", "closedInterruptIds", 2),
        ("debug", "openedInterrupts", 2),
        ("messages", "openedInterrupts", 0),
    ] {
        let path = format!("/v1/runs/{run}/events?streamMode={mode}");
        let stream = client.exchange("GET", &path, None, &[]);
        assert_eq!(stream.body().matches(part).count(), count, "{mode} {part}");
    }
    let values = client.exchange("GET", &format!("/v1/runs/{run}/events/poll?streamMode=values"), None, &[]);
    assert_eq!(values.body().matches("openedInterrupts").count(), 2, "each has a snapshot");
}

#[test]
fn another_tenant_sees_and_answers_no_interrupts_of_child_runs() {
    let server = Server::start();
    let client = &server.client;
    register_nested(client, &json!([]));
    let (run, shown) = start_nested(client);
    let name = &shown["childInterrupts"][0]["interruptId"];
    let scopes = ["manifest:write", "runs:create", "runs:read", "approvals:respond"];
    let rival = client_with_key(client, &json!({"tenant": "rival", "scopes": scopes}));
    assert_eq!(rival.get("/v1/interrupts").body["interrupts"], json!([]));
    assert_eq!(rival.get(&format!("/v1/runs/{run}")).status, 404);
    let named = json!({"resumeValue": accept(), "interruptId": name});
    for at in [run.as_str(), shown["childInterrupts"][0]["runId"].as_str().unwrap()] {
        assert_eq!(rival.answer(at, "left", &accept()).status, 404);
        assert_eq!(rival.post(&format!("/v1/runs/{at}/interrupts/left"), &named).status, 404);
    }
    register_nested(&rival, &json!([]));
    let (own, _) = start_nested(&rival);
    rival
        .post(&format!("/v1/runs/{own}/interrupts/left"), &named)
        .assert_envelope(404, "interrupt_not_found");
    assert_eq!(client.get(&format!("/v1/runs/{run}")).body["childInterrupts"], shown["childInterrupts"]);
}

#[test]
fn a_repeated_answer_with_an_idempotency_key_gets_its_response_after_the_child_run_has_continued() {
    let server = Server::start();
    let client = &server.client;
    let gate = |id| (id, "core.approvalGate", json!({"title": "Go on?", "actions": ["accept"]}));
    let mut inner = linear("inner", &[gate("first"), gate("second"), gate("third")]);
    inner["edges"] = json!([
        {"id": "a", "sourceNodeId": "first", "targetNodeId": "second"},
        {"id": "b", "sourceNodeId": "first", "targetNodeId": "third"},
    ]);
    assert_eq!(client.put("/v1/workflows/inner", &inner).status, 201);
    client.put("/v1/workflows/outer", &calling("outer", json!({"workflowId": "inner"})));
    let (run, _) = start_parent_and_child(client, "outer");
    let body = json!({"resumeValue": accept()}).to_string();
    let answer = || {
        let path = format!("/v1/runs/{run}/interrupts/call");
        let key = [("idempotency-key", "k1"), ("content-type", "application/json")];
        let response = client.exchange("POST", &path, Some(body.as_bytes()), &key);
        (response.status().as_u16(), response.body().clone())
    };
    let first = answer();
    assert_eq!(first.0, 200, "{first:?}");
    let count =
        || client.get(&format!("/v1/runs/{run}")).body["childInterrupts"].as_array().map_or(0, Vec::len);
    client.wait_for_event(&run, |_| count() == 2);
    assert_eq!(answer(), first);
    client.answer(&run, "call", &accept()).assert_envelope(409, "interrupt_ambiguous");
}

#[test]
fn a_chat_outcome_has_the_interrupts_of_child_runs_of_different_speed() {
    let server = Server::start();
    let client = &server.client;
    let gate = || ("gate", "core.approvalGate", json!({"title": "Go on?", "actions": ["accept"]}));
    client.put("/v1/workflows/fast", &linear("fast", &[gate()]));
    client.put("/v1/workflows/slow", &linear("slow", &[("pause", "core.delay", json!({"ms": 400})), gate()]));
    let call = |id, workflow: &str| (id, "core.subWorkflow", json!({"workflowId": workflow}));
    let mut outer = linear("outer", &[call("left", "fast"), call("right", "slow")]);
    outer["edges"] = json!([]);
    assert_eq!(client.put("/v1/workflows/outer", &outer).status, 201);
    let start = |key: &str| json!({"graph": "native:outer", "stateKey": key, "input": {}}).to_string();
    for (key, accepted) in [("s1", "application/json"), ("s2", "text/event-stream")] {
        let headers = [("accept", accepted), ("content-type", "application/json")];
        let shown = client.exchange("POST", "/api/v1/ai/chat", Some(start(key).as_bytes()), &headers);
        let found = shown.body().matches(r#""key":"#).count();
        assert_eq!(found, 2, "{accepted}: {}", shown.body());
    }
}
