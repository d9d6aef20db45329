//! kill -9 while a call waits for somebody, and in the middle of a call: what was approved is done once, and what nobody
//! knows about is asked.

use serde_json::{Value, json};

use crate::harness::Client;
use crate::place::{Place, on_both};
use crate::receiver::{Receiver, Reply};

const FLAGS: [&str; 1] = ["--outgoing-allow-loopback"];

on_both!(a_call_that_is_approved_after_kill_9_is_made_once);

/// An agent that wants to send a mail, and has a last word.
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

fn told(client: &Client) -> String {
    let begun = client.post("/v1/agents/mailer/runs", &json!({"threadId": "bob", "message": "Write to Bob"}));
    assert_eq!(begun.status, 202, "{begun:?}");
    begun.body["runId"].as_str().unwrap().to_owned()
}

/// Its log tells when it has come so far.
fn until_waiting(client: &Client, run: &str) {
    client.until(run, |event| event["type"] == "node.suspended");
}

fn completed(client: &Client, run: &str) {
    let log = client.ended(run);
    assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:?}");
}

fn a_call_that_is_approved_after_kill_9_is_made_once(place: &Place) {
    let post_office = Receiver::start();
    let mut server = place.start(&FLAGS);
    let declared = server.client.put("/v1/agents/mailer", &mailer(&post_office.url, "ask"));
    assert_eq!(declared.status, 201, "{declared:?}");
    let run = told(&server.client);
    until_waiting(&server.client, &run);
    server.kill();
    assert!(post_office.so_far().is_empty());
    let mut server = place.start(&FLAGS);
    let waiting = server.client.get(&format!("/v1/runs/{run}/waiting")).body;
    assert_eq!(waiting["tickets"][0]["arguments"], json!({"to": "bob@example.test"}), "{waiting}");
    let decision = json!({"toolCallId": "c1", "action": "resume", "decisionId": "d1"});
    let decided = server.client.post(&format!("/v1/runs/{run}/decision"), &decision);
    assert_eq!(decided.status, 202, "{decided:?}");
    completed(&server.client, &run);
    assert_eq!(post_office.wait_for(1).len(), 1);
    server.kill();
    let server = place.start(&FLAGS);
    let again = server.client.post(&format!("/v1/runs/{run}/decision"), &decision);
    assert_eq!(again.status, 202, "the same decision, told again: {again:?}");
    completed(&server.client, &run);
    assert_eq!(post_office.so_far().len(), 1);
}

/// On SQLite the next start knows that whoever was at it is gone.
#[test]
fn a_call_that_was_under_way_when_the_server_died_becomes_a_question() {
    let (place, post_office) = (Place::sqlite(), Receiver::start());
    post_office.answers(&[Reply::Hang]);
    let mut server = place.start(&FLAGS);
    let declared = server.client.put("/v1/agents/mailer", &mailer(&post_office.url, "allow"));
    assert_eq!(declared.status, 201, "{declared:?}");
    let run = told(&server.client);
    post_office.wait_for(1);
    server.kill();
    let server = place.start(&FLAGS);
    until_waiting(&server.client, &run);
    assert_eq!(post_office.so_far().len(), 1, "nobody knows whether it was sent, so it is not sent again");
    let waiting = server.client.get(&format!("/v1/runs/{run}/waiting")).body;
    assert_eq!(waiting["tickets"][0]["reason"], "tool:OutcomeUnknown", "{waiting}");
    let decision = json!({"toolCallId": "c1", "action": "resume", "result": {"result": "it was sent"}});
    assert_eq!(server.client.post(&format!("/v1/runs/{run}/decision"), &decision).status, 202);
    completed(&server.client, &run);
    assert_eq!(post_office.so_far().len(), 1);
}
