//! kill -9 while a tool call waits for an approval and while it is in flight: an approved call is made once, and a call
//! with an unknown outcome is escalated to an approver.

use serde_json::{Value, json};

use crate::harness::Client;
use crate::receiver::{Receiver, Reply};
use crate::test_database::{TestDatabase, on_both};

const FLAGS: [&str; 1] = ["--outgoing-allow-loopback"];

on_both!(a_call_that_is_approved_after_kill_9_is_made_once);

/// Returns an agent that calls `sendEmail` once and then ends with a text.
fn mailer(url: &str, behavior: &str) -> Value {
    let call = json!({"id": "c1", "name": "sendEmail", "arguments": {"to": "bob@example.test"}});
    json!({
        "agentId": "mailer",
        "model": {"provider": "scripted", "steps": [
            {"text": "I will send it.", "calls": [call]}, {"text": "Done: {{lastResult}}"},
        ]},
        "tools": [{
            "type": "http", "name": "sendEmail", "description": "sends a mail", "method": "POST", "url": url,
            "parameters": {"type": "object", "required": ["to"]},
        }],
        "permissions": {"rules": [{"tool": "sendEmail", "behavior": behavior}]},
    })
}

fn start_run(client: &Client) -> String {
    let started =
        client.post("/v1/agents/mailer/runs", &json!({"threadId": "bob", "message": "Write to Bob"}));
    assert_eq!(started.status, 202, "{started:?}");
    started.body["runId"].as_str().unwrap().to_owned()
}

/// Waits until the run is suspended.
fn wait_until_suspended(client: &Client, run: &str) {
    client.wait_for_event(run, |event| event["type"] == "node.suspended");
}

fn wait_for_completion(client: &Client, run: &str) {
    let log = client.wait_for_end(run);
    assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:?}");
}

fn a_call_that_is_approved_after_kill_9_is_made_once(database: &TestDatabase) {
    let post_office = Receiver::start();
    let mut server = database.start(&FLAGS);
    let declared = server.client.put("/v1/agents/mailer", &mailer(&post_office.url, "ask"));
    assert_eq!(declared.status, 201, "{declared:?}");
    let run = start_run(&server.client);
    wait_until_suspended(&server.client, &run);
    server.kill();
    assert!(post_office.requests().is_empty());
    let mut server = database.start(&FLAGS);
    let waiting = server.client.get(&format!("/v1/runs/{run}/waiting")).body;
    assert_eq!(waiting["tickets"][0]["arguments"], json!({"to": "bob@example.test"}), "{waiting}");
    let decision = json!({"toolCallId": "c1", "action": "resume", "decisionId": "d1"});
    let decided = server.client.post(&format!("/v1/runs/{run}/decision"), &decision);
    assert_eq!(decided.status, 202, "{decided:?}");
    wait_for_completion(&server.client, &run);
    assert_eq!(post_office.wait_for(1).len(), 1);
    server.kill();
    let server = database.start(&FLAGS);
    let again = server.client.post(&format!("/v1/runs/{run}/decision"), &decision);
    assert_eq!(again.status, 202, "the same decision again: {again:?}");
    wait_for_completion(&server.client, &run);
    assert_eq!(post_office.requests().len(), 1);
}

/// On SQLite the next start knows that the previous process has ended.
#[test]
fn a_call_in_flight_at_kill_9_is_escalated_to_an_approver() {
    let (database, post_office) = (TestDatabase::sqlite(), Receiver::start());
    post_office.queue_replies(&[Reply::Hang]);
    let mut server = database.start(&FLAGS);
    let declared = server.client.put("/v1/agents/mailer", &mailer(&post_office.url, "allow"));
    assert_eq!(declared.status, 201, "{declared:?}");
    let run = start_run(&server.client);
    post_office.wait_for(1);
    server.kill();
    let server = database.start(&FLAGS);
    wait_until_suspended(&server.client, &run);
    assert_eq!(post_office.requests().len(), 1, "the outcome is unknown, so the mail is not sent again");
    let waiting = server.client.get(&format!("/v1/runs/{run}/waiting")).body;
    assert_eq!(waiting["tickets"][0]["reason"], "tool:OutcomeUnknown", "{waiting}");
    let decision = json!({"toolCallId": "c1", "action": "resume", "result": {"result": "it was sent"}});
    assert_eq!(server.client.post(&format!("/v1/runs/{run}/decision"), &decision).status, 202);
    wait_for_completion(&server.client, &run);
    assert_eq!(post_office.requests().len(), 1);
}
