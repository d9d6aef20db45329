//! Requests that cancel a run as a side effect require the scope for cancelling runs.

use serde_json::{Value, json};

use crate::harness::{Client, Server, client_with_key};
use crate::test_database::{TestDatabase, on_both};

on_both!(a_message_that_interrupts_the_open_run_requires_runs_cancel);

/// Declares an agent whose first call waits for a decision, and starts a run of it in the thread `t`.
fn start_waiting_run(client: &Client) -> String {
    let steps = json!([{"calls": [{"id": "c1", "name": "send", "arguments": {}}]}, {"text": "Sent."}]);
    let tool = json!({"type": "http", "name": "send", "description": "sends", "method": "POST",
        "url": "https://mail.example.test/", "parameters": {"type": "object"}});
    let agent = json!({"model": {"provider": "scripted", "steps": steps}, "tools": [tool],
        "permissions": {"rules": [], "default": "ask"}});
    assert_eq!(client.put("/v1/agents/mailer", &agent).status, 201);
    let told = client.post("/v1/agents/mailer/runs", &json!({"threadId": "t", "message": "Go"}));
    let run = told.body["runId"].as_str().unwrap().to_owned();
    client.wait_for_event(&run, |event| event["type"] == "node.suspended");
    run
}

fn interrupt(client: &Client, thread: &str) -> crate::harness::Response {
    let words = json!({"agentId": "mailer", "message": "Stop", "mode": "interrupt_then_queue"});
    client.post(&format!("/v1/threads/{thread}/messages"), &words)
}

fn a_message_that_interrupts_the_open_run_requires_runs_cancel(database: &TestDatabase) {
    let server: Server = database.start(&[]);
    let run = start_waiting_run(&server.client);
    let scopes = |scopes: &[&str]| json!({"principal": "bot", "scopes": scopes});
    let starter = client_with_key(&server.client, &scopes(&["runs:create", "runs:read"]));
    for thread in ["t", "a-thread-without-runs"] {
        let refused = interrupt(&starter, thread);
        refused.assert_envelope(403, "forbidden");
        assert_eq!(refused.body["details"]["scopeRequired"], "runs:cancel");
    }
    assert_ne!(server.client.status(&run), "cancelled");
    let canceller = client_with_key(&server.client, &scopes(&["runs:create", "runs:cancel"]));
    let started = interrupt(&canceller, "t");
    assert_eq!(started.status, 202, "{started:?}");
    assert_ne!(started.body["runId"], Value::from(run.as_str()));
    assert_eq!(server.client.status(&run), "cancelled");
}
