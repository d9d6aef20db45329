//! External events over HTTP and on the command line, with every possible response.

use serde_json::{Value, json};

use crate::harness::{Client, Server, linear};

/// Returns a workflow with one node that waits for the event `paid`.
pub(crate) fn waiting(id: &str, correlation: &Value) -> Value {
    let config = json!({"kind": "external-event", "data": {"eventType": "paid", "correlation": correlation}});
    linear(id, &[("wait", "core.interrupt", config)])
}

fn event(id: &str, correlation: &Value) -> Value {
    json!({"eventType": "paid", "eventId": id, "correlation": correlation, "payload": {"amount": 3}})
}

/// Registers a workflow with this correlation and starts a run of it.
fn start_waiting_run(client: &Client, id: &str, correlation: &Value) -> String {
    client.put(&format!("/v1/workflows/{id}"), &waiting(id, correlation));
    client.start_run(id)
}

#[test]
fn the_response_to_an_event_names_the_runs_that_got_it() {
    let server = Server::start();
    let client = &server.client;
    let run = start_waiting_run(client, "flow", &json!({"order": "o-7", "shop": "north"}));
    let pending = client.get("/v1/interrupts").body["interrupts"][0].clone();
    let sent = event("e1", &json!({"order": "o-7"}));
    let answer = client.post("/v1/events", &sent);
    let taker = json!({"runId": run, "nodeId": "wait", "interruptId": pending["interruptId"]});
    let told = json!({"eventId": "e1", "status": "matched", "matched": [taker], "refused": []});
    assert_eq!((answer.status, &answer.body), (200, &told));
    let log = client.wait_for_end(&run);
    let resolved = &log.iter().find(|event| event["type"] == "interrupt.resolved").unwrap()["payload"];
    assert_eq!(resolved["resumeValue"], json!({"eventPayload": {"amount": 3}, "eventId": "e1"}));
    assert!(resolved["resolvedBy"].is_string(), "the sender of the event: {resolved}");
    let again = client.post("/v1/events", &sent);
    assert_eq!((again.status, &again.body), (200, &told));
    let other = event("e1", &json!({"order": "o-8"}));
    client.post("/v1/events", &other).assert_envelope(409, "event_id_conflict");
}

#[test]
fn an_event_that_arrives_before_its_run_is_kept() {
    let server = Server::start();
    let client = &server.client;
    let sent = event("e1", &json!({"order": 7}));
    let kept = client.post("/v1/events", &sent);
    assert_eq!((kept.status, &kept.body["status"], &kept.body["matched"]), (202, &json!("kept"), &json!([])));
    assert!(kept.body["keptUntil"].as_str().is_some_and(|at| at.ends_with('Z')), "{kept:?}");
    let run = start_waiting_run(client, "flow", &json!({"order": 7.0}));
    client.wait_for_end(&run);
    assert_eq!(client.status(&run), "completed");
    let again = client.post("/v1/events", &sent);
    assert_eq!((again.status, &again.body), (200, &kept.body), "the same response again");
    let second = client.start_run("flow");
    assert_eq!(client.status(&second), "waiting-external", "the event was used");
}

#[test]
fn events_are_not_kept_without_a_retention_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(folder.path(), &["--event-retention", "0"]);
    let answer = server.client.post("/v1/events", &event("e1", &json!({})));
    let told = json!({"eventId": "e1", "status": "ignored", "matched": [], "refused": []});
    assert_eq!((answer.status, answer.body), (200, told));
}

#[test]
fn a_run_that_rejects_an_event_is_named_without_the_payload() {
    let server = Server::start();
    let client = &server.client;
    let mut flow = waiting("flow", &json!({"order": 7}));
    let asked = json!({"properties": {"eventPayload": {"type": "object", "required": ["receipt"]}}});
    flow["nodes"][0]["config"]["resumeSchema"] = asked;
    client.put("/v1/workflows/flow", &flow);
    let run = client.start_run("flow");
    let mut sent = event("e1", &json!({"order": 7}));
    sent["payload"] = json!("hunter2");
    let answer = client.post("/v1/events", &sent);
    let refused = &answer.body["refused"][0];
    assert_eq!((answer.status, &answer.body["status"]), (202, &json!("kept")));
    assert_eq!((&refused["runId"], &refused["error"]), (&json!(run), &json!("validation_error")));
    assert!(!answer.body.to_string().contains("hunter2"), "{answer:?}");
    assert_eq!(client.status(&run), "waiting-external");
}

#[test]
fn an_invalid_event_is_rejected_with_the_field_name() {
    let server = Server::start();
    let client = &server.client;
    let run = start_waiting_run(client, "flow", &json!({}));
    let many: serde_json::Map<String, Value> = (0..33).map(|n| (format!("k{n}"), json!(n))).collect();
    let with = |name: &str, value: Value| {
        let mut event = event("e1", &json!({}));
        event[name] = value;
        event
    };
    for (bad, field) in [
        (json!({"eventId": "e1"}), "eventType"),
        (json!({"eventType": "paid"}), "eventId"),
        (with("eventType", json!("")), "eventType"),
        (with("eventType", json!(7)), "eventType"),
        (with("eventId", json!("")), "eventId"),
        (with("eventId", json!("x".repeat(257))), "eventId"),
        (with("eventId", json!("a\u{7}b")), "eventId"),
        (with("correlation", json!([])), "correlation"),
        (with("correlation", json!(many)), "correlation"),
        (with("correlation", json!({"k": "x".repeat(9000)})), "correlation"),
        (with("payload", json!("x".repeat(62_000))), "payload"),
    ] {
        let answer = client.post("/v1/events", &bad);
        answer.assert_envelope(400, "validation_error");
        assert_eq!(answer.body["details"]["field"], *field, "{answer:?}");
    }
    let twice = br#"{"eventType":"paid","eventId":"e1","payload":{"a":1,"a":2}}"#;
    client.send("POST", "/v1/events", Some(twice)).assert_envelope(400, "validation_error");
    assert_eq!(client.status(&run), "waiting-external");
    assert_eq!(client.post("/v1/events", &event("e1", &json!({}))).body["status"], "matched");
}

#[test]
fn an_event_does_not_reach_another_tenant() {
    let server = Server::start();
    let client = &server.client;
    let run = start_waiting_run(client, "flow", &json!({"order": 7}));
    let made = client.post("/v1/keys", &json!({"tenant": "elsewhere", "scopes": ["events:send"]})).body;
    let elsewhere = client.with_key(made["key"].as_str());
    let answer = elsewhere.post("/v1/events", &event("e1", &json!({"order": 7})));
    assert_eq!((answer.status, &answer.body["status"]), (202, &json!("kept")));
    assert_eq!(client.status(&run), "waiting-external");
    let reader = client.post("/v1/keys", &json!({"scopes": ["runs:read", "approvals:respond"]})).body;
    let reader = client.with_key(reader["key"].as_str());
    reader.post("/v1/events", &event("e2", &json!({}))).assert_envelope(403, "forbidden");
}

#[test]
fn an_event_can_be_sent_from_the_command_line() {
    let server = Server::start();
    let run = start_waiting_run(&server.client, "flow", &json!({"order": 7, "shop": "north"}));
    let correlated = ["--correlation", "order=7", "--correlation", "shop=north"];
    let words = |words: &[&'static str]| [words, &correlated[..]].concat();
    let sent = server.run(&words(&["events", "send", "paid", "--id", "e1", "--payload", "{\"amount\": 3}"]));
    let text = String::from_utf8(sent.stdout).unwrap();
    assert!(sent.status.success() && text.contains(&format!("wait of run {run} continues")), "{text}");
    let kept = server.run(&words(&["events", "send", "paid", "--id", "e2"]));
    assert!(String::from_utf8(kept.stdout).unwrap().contains("it is kept until"));
    let refused = server.run(&["events", "send", "paid", "--id", "e2", "--json"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("event_id_conflict"));
}
