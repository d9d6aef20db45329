//! Members of interrupt events, statuses and pending rows, as the protocol requires them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, gated, linear};
use crate::links::Link;

/// Starts a server and a run of a workflow with these nodes.
fn start_with_nodes(nodes: &[(&str, &str, Value)]) -> (Server, String) {
    let server = Server::start();
    let registered = server.client.put("/v1/workflows/flow", &linear("flow", nodes));
    assert_eq!(registered.status, 201, "{registered:?}");
    let run = server.client.start_run("flow");
    (server, run)
}

fn only<'a>(log: &'a [Value], kind: &str) -> &'a Value {
    let mut found = log.iter().filter(|event| event["type"] == kind);
    let event = found.next().unwrap_or_else(|| panic!("no {kind}: {log:?}"));
    assert!(found.next().is_none(), "{kind} occurs twice: {log:?}");
    event
}

fn members(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Returns each kind with its data and an answer. Kinds that resolve at once have no answer.
fn kinds() -> [(&'static str, Value, Option<Value>); 8] {
    let approval = json!({"artifactId": "a", "artifactType": "t", "title": "Ship?", "actions": ["accept"]});
    let questions = json!({"questions": [{"id": "q", "question": "Which?"}]});
    let event = json!({"eventType": "paid", "correlation": {"order": 7}});
    let low = json!({"agentId": "planner", "threshold": 0.7, "observed": 0.2, "decision": {"go": true}});
    let talk = json!({"conversationId": "c"});
    let turn = json!({"conversationId": "c", "prompt": "And?"});
    [
        ("approval", approval, Some(accept())),
        ("clarification", questions, Some(json!({"answers": [{"id": "q", "answer": "blue"}]}))),
        ("external-event", event, Some(json!({"eventPayload": {"order": 7}}))),
        ("custom", json!({"customKind": "x", "payload": [1, {"any": "thing"}]}), Some(json!([{"deep": 1}]))),
        ("low-confidence", low, Some(json!({"go": false}))),
        ("conversation.start", talk.clone(), None),
        ("conversation.exchange", turn, Some(json!("yes"))),
        ("conversation.close", talk, None),
    ]
}

#[test]
fn every_kind_is_requested_and_resolved_with_all_members_in_updates_and_in_debug() {
    let nodes: Vec<(String, Value)> = kinds()
        .into_iter()
        .map(|(kind, data, _)| {
            (kind.replace('.', "-"), json!({"kind": kind, "data": data, "timeoutMs": 600_000}))
        })
        .collect();
    let nodes: Vec<(&str, &str, Value)> =
        nodes.iter().map(|(id, config)| (id.as_str(), "core.interrupt", config.clone())).collect();
    let (server, run) = start_with_nodes(&nodes);
    let client = &server.client;
    for (kind, _, answer) in kinds() {
        if let Some(answer) = answer {
            let answered = client.answer(&run, &kind.replace('.', "-"), &answer);
            assert_eq!(answered.status, 200, "{kind}: {answered:?}");
        }
    }
    let log = client.wait_for_end(&run);
    for mode in ["updates", "debug"] {
        let frames = client.stream(&format!("/v1/runs/{run}/events?streamMode={mode}"), None);
        for (kind, data, answer) in kinds() {
            let told = |event: &str| {
                let mut found = frames.iter().filter(|frame| frame.1 == event);
                let frame = found.find(|frame| frame.2["payload"]["kind"] == kind);
                frame.unwrap_or_else(|| panic!("no {event} of {kind} in {mode}")).2["payload"].clone()
            };
            check(
                &run,
                kind,
                &data,
                answer.as_ref(),
                &told("interrupt.requested"),
                &told("interrupt.resolved"),
            );
        }
    }
    assert_eq!(log.last().unwrap()["type"], "run.completed");
}

fn check(run: &str, kind: &str, data: &Value, answer: Option<&Value>, requested: &Value, resolved: &Value) {
    let node = kind.replace('.', "-");
    let mut asked = vec!["data", "interruptId", "key", "kind", "nodeId", "requestedAt", "runId"];
    if answer.is_some() {
        // A kind that resolves at once has no timeout.
        asked.push("timeoutMs");
        assert_eq!(requested["timeoutMs"], 600_000);
    }
    assert_eq!(members(requested), asked, "{kind}");
    let told = ["interruptId", "kind", "nodeId", "resolvedAt", "resolvedBy", "resumeValue", "runId"];
    assert!(told.iter().all(|name| resolved.get(name).is_some()), "{kind}: {resolved}");
    for event in [requested, resolved] {
        assert_eq!((&event["runId"], &event["nodeId"]), (&json!(run), &json!(node)));
        assert_eq!(event["interruptId"], requested["interruptId"]);
    }
    for instant in [&requested["requestedAt"], &resolved["resolvedAt"]] {
        assert!(instant.as_str().unwrap().parse::<Timestamp>().is_ok(), "{instant}");
    }
    // The server changes conversation ids and adds turn numbers.
    let kept = data.as_object().unwrap().iter().filter(|(name, _)| *name != "conversationId");
    for (name, value) in kept {
        assert_eq!(requested["data"][name], *value, "{kind}: {name}");
    }
    assert!(!resolved["resolvedBy"].as_str().unwrap().is_empty(), "{resolved}");
    match (kind, answer) {
        (_, None) => assert_eq!(resolved["resumeValue"], Value::Null, "{kind} resolves at once"),
        ("approval", _) => assert_eq!(resolved["resumeValue"]["action"], "accept"),
        ("clarification", _) => assert_eq!(resolved["resumeValue"]["answers"], json!({"q": "blue"})),
        (_, Some(answer)) => assert_eq!(resolved["resumeValue"], *answer, "{kind}"),
    }
}

#[test]
fn a_conversation_turn_waits_like_an_approval_and_names_the_reason() {
    let config = json!({"prompt": "Score?", "turnCount": 1, "outcomeSchema": {"type": "integer"}});
    let (server, run) = start_with_nodes(&[("talk", "core.conversationGate", config)]);
    let client = &server.client;
    assert_eq!(client.status(&run), "waiting-approval");
    let log = client.events(&run);
    let (opened, waits) = (only(&log, "conversation.opened"), only(&log, "node.suspended"));
    let id = &opened["payload"]["conversationId"];
    assert_eq!(
        (&waits["payload"]["reason"], &waits["payload"]["conversationId"]),
        (&json!("conversation-input"), id)
    );
    client.answer(&run, "talk", &json!("many")).assert_envelope(400, "validation_error");
    assert_eq!(client.status(&run), "waiting-approval", "an invalid answer leaves it waiting");
    assert_eq!(client.answer(&run, "talk", &json!(3)).status, 200);
    let log = client.wait_for_end(&run);
    let exchanged = only(&log, "conversation.exchanged");
    assert_eq!(
        (&exchanged["payload"]["outcome"], &exchanged["payload"]["turnIndex"]),
        (&json!(3), &json!(0))
    );
    let closed = only(&log, "conversation.closed");
    assert!(closed["sequence"].as_i64() > exchanged["sequence"].as_i64(), "{log:?}");
    assert!(log.iter().all(|event| !event["type"].as_str().unwrap().starts_with("clarification.")));
}

#[test]
fn a_decision_with_low_confidence_opens_an_interrupt_with_that_reason() {
    let agent = json!({"agentId": "planner", "mockDecision": {"decision": "go", "confidence": 0.25}});
    let (server, run) = start_with_nodes(&[("agent", "core.conformance.mock-agent", agent)]);
    let client = &server.client;
    assert_eq!(client.status(&run), "waiting-approval");
    let log = client.events(&run);
    let (decided, waits) = (only(&log, "agent.decided"), only(&log, "node.suspended"));
    assert_eq!(decided["payload"]["confidence"], 0.25);
    assert!(decided["sequence"].as_i64() < waits["sequence"].as_i64(), "{log:?}");
    let told = ["reason", "agentId", "threshold", "observed"].map(|name| waits["payload"][name].clone());
    assert_eq!(told, [json!("low-confidence"), json!("planner"), json!(0.7), json!(0.25)]);
    assert_eq!(client.answer(&run, "agent", &json!("stay")).status, 200);
    assert_eq!(client.wait_for_end(&run).last().unwrap()["type"], "run.completed");
}

#[test]
fn a_node_whose_interrupt_expires_or_is_cancelled_does_not_continue() {
    let custom = json!({"kind": "custom", "data": {"customKind": "x"}, "timeoutMs": 50});
    let nodes = [("ask", "core.interrupt", custom), ("after", "core.noop", json!({}))];
    let (server, run) = start_with_nodes(&nodes);
    let client = &server.client;
    let log = client.wait_for_end(&run);
    assert_eq!(only(&log, "node.failed")["payload"]["error"]["code"], "interrupt_timeout", "{log:?}");
    assert_eq!(only(&log, "run.failed")["payload"]["error"]["code"], "interrupt_timeout");
    assert!(log.iter().all(|event| event["nodeId"] != "after"), "{log:?}");
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    client.post(&format!("/v1/runs/{run}/cancel"), &json!({}));
    let log = client.wait_for_end(&run);
    assert_eq!(log.last().unwrap()["type"], "run.cancelled");
    assert!(log.iter().all(|event| event["type"] != "node.resumed" && event["nodeId"] != "after"), "{log:?}");
}

#[test]
fn a_link_is_valid_for_30_minutes_by_default() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    let before = Timestamp::now();
    let link = Link::mint(client, &run, "gate", &json!({}));
    let expires: Timestamp = link.minted["expiresAt"].as_str().unwrap().parse().unwrap();
    // Times in responses have milliseconds; the clock is more precise.
    let least = before.as_millisecond() + 30 * 60_000;
    let most = Timestamp::now().as_millisecond() + 30 * 60_000;
    assert!((least..=most).contains(&expires.as_millisecond()), "{expires}");
}

#[test]
fn a_pending_row_has_run_node_kind_time_age_and_link_for_every_kind() {
    let server = Server::start();
    let client = &server.client;
    let kinds = kinds().into_iter().filter(|(kind, ..)| !kind.starts_with("conversation"));
    for (kind, data, _) in kinds.clone() {
        let asking = linear("flow", &[("ask", "core.interrupt", json!({"kind": kind, "data": data}))]);
        assert!(client.put("/v1/workflows/flow", &asking).status < 300);
        let before = Timestamp::now().as_millisecond();
        let run = client.start_run("flow");
        let rows = client.get(&format!("/v1/interrupts?kind={kind}")).body;
        let row = &rows["interrupts"][0];
        let told = ["runId", "nodeId", "kind"].map(|name| row[name].as_str().unwrap());
        assert_eq!(told, [run.as_str(), "ask", kind]);
        let asked: Timestamp = row["requestedAt"].as_str().unwrap().parse().unwrap();
        assert!(asked.as_millisecond() >= before, "{row}");
        let age = row["ageMs"].as_i64().unwrap();
        assert!((0..=Timestamp::now().as_millisecond() - before).contains(&age), "{row}");
        answer_row(client, row, kind);
    }
    assert_eq!(client.get("/v1/interrupts").body["interrupts"], json!([]));
}

/// Answers the interrupt of a pending row over its link.
fn answer_row(client: &Client, row: &Value, kind: &str) {
    let (_, _, answer) = kinds().into_iter().find(|(name, ..)| *name == kind).unwrap();
    let path = row["links"]["resolve"].as_str().unwrap();
    let answered = client.post(path, &json!({"resumeValue": answer}));
    assert_eq!(answered.status, 200, "{kind}: {answered:?}");
}

#[test]
fn a_server_without_conversations_points_to_clarifications() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(&folder.path().join("data"), &["--no-conversations"]);
    let talk = linear("talk", &[("talk", "core.conversationGate", json!({"prompt": "?", "turnCount": 1}))]);
    let refused = server.client.put("/v1/workflows/talk", &talk);
    refused.assert_envelope(400, "capability_required");
    assert!(refused.body["message"].as_str().unwrap().contains("use a clarification instead"), "{refused:?}");
}
