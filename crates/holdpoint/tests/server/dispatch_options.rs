//! Dispatch options of requests: priority, delay, deduplication key and attempts, over HTTP and on the command line.

use serde_json::{Value, json};

use crate::harness::{Client, Server, client_with_key, create_key, gated};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_delayed_run_starts_after_kill_9_and_not_before_its_instant,
    a_message_with_the_key_of_a_live_dispatch_is_refused_in_its_thread_only,
);

/// Starts an agent whose run waits for the decision on a tool call in a thread.
fn waiting_agent(client: &Client, thread: &str) -> String {
    let steps = json!([{"calls": [{"id": "c1", "name": "send", "arguments": {}}]}, {"text": "Yes."}]);
    let tool = json!({"type": "http", "name": "send", "description": "sends", "method": "POST",
        "url": "https://mail.example.test/", "parameters": {"type": "object"}});
    let definition = json!({"model": {"provider": "scripted", "steps": steps}, "tools": [tool],
        "permissions": {"rules": [], "default": "ask"}});
    client.put("/v1/agents/mailer", &definition);
    let body = json!({"message": "Go", "threadId": thread});
    let run = client.post("/v1/agents/mailer/runs", &body).body["runId"].as_str().unwrap().to_owned();
    client.wait_for_event(&run, |event| event["type"] == "node.suspended");
    run
}

fn queued(client: &Client, thread: &str) -> Vec<Value> {
    let page = client.get(&format!("/v1/threads/{thread}/dispatches?status=queued")).body;
    page["dispatches"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
}

/// Returns the path and the body of every request that accepts dispatch options.
fn requests(run: &str, dispatch: &Value) -> [(String, Value); 4] {
    let message = json!({"message": "Go on", "dispatch": dispatch});
    [
        ("/v1/runs".to_owned(), json!({"workflowId": "gated", "dispatch": dispatch})),
        ("/v1/agents/mailer/runs".to_owned(), message.clone()),
        ("/v1/threads/bob/messages".to_owned(), message.clone()),
        (format!("/v1/runs/{run}/inputs"), message),
    ]
}

#[test]
fn a_priority_above_the_normal_one_requires_its_scope() {
    let server = Server::start();
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let run = waiting_agent(admin, "bob");
    let by_default = create_key(admin, &json!({}));
    assert!(!by_default["scopes"].as_array().unwrap().contains(&json!("runs:prioritize")), "{by_default}");
    let scopes = json!(["runs:create", "runs:read", "runs:cancel", "keys:manage"]);
    let caller = client_with_key(admin, &json!({"scopes": scopes}));
    for priority in [0, 127] {
        for (path, body) in requests(&run, &json!({"priority": priority})) {
            let refused = caller.post(&path, &body);
            refused.assert_envelope(403, "forbidden");
            assert_eq!(refused.body["details"]["scopeRequired"], "runs:prioritize", "{path}");
        }
    }
    let minted = caller.post("/v1/keys", &json!({"scopes": ["runs:create", "runs:prioritize"]}));
    minted.assert_envelope(403, "forbidden");
    let urgent = client_with_key(admin, &json!({"scopes": ["runs:create", "runs:read", "runs:prioritize"]}));
    for (client, thread, priority) in [(&caller, "ann", 128), (&urgent, "eve", 0)] {
        for (path, body) in requests(&waiting_agent(admin, thread), &json!({"priority": priority})) {
            let accepted = client.post(&path, &body);
            assert_eq!(accepted.status, if path == "/v1/runs" { 201 } else { 202 }, "{path}: {accepted:?}");
        }
        let rows = admin.get(&format!("/v1/threads/{thread}/dispatches")).body;
        let mut rows = rows["dispatches"].as_array().unwrap().iter();
        assert!(rows.any(|row| row["priority"] == priority), "{thread}: {rows:?}");
    }
}

#[test]
fn options_outside_of_their_bounds_are_refused() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = waiting_agent(client, "bob");
    let year = 365_u64 * 24 * 3600 * 1000;
    for (options, field) in [
        (json!({"priority": 256}), "dispatch.priority"),
        (json!({"maxAttempts": 0}), "dispatch.maxAttempts"),
        (json!({"maxAttempts": 101}), "dispatch.maxAttempts"),
        (json!({"maxAttempts": u64::MAX}), "dispatch.maxAttempts"),
        (json!({"delayMs": year + 1}), "dispatch.delayMs"),
        (json!({"delayMs": u64::MAX}), "dispatch.delayMs"),
        (json!({"availableAt": "2999-01-01T00:00:00Z"}), "dispatch.availableAt"),
        (json!({"availableAt": "2026-01-01T00:00:00Z", "delayMs": 1}), "dispatch.availableAt"),
        (json!({"dedupeKey": ""}), "dispatch.dedupeKey"),
        (json!({"dedupeKey": "requeue:1"}), "dispatch.dedupeKey"),
    ] {
        for (path, body) in requests(&run, &options) {
            let refused = client.post(&path, &body);
            refused.assert_envelope(400, "validation_error");
            assert_eq!(refused.body["details"]["field"], field, "{path}: {refused:?}");
        }
    }
    for (path, body) in requests(&run, &json!({"delayMs": 1000})).into_iter().skip(2) {
        let refused = client.post(&path, &body);
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], "dispatch", "{path}: the run has started");
    }
    for options in [json!({"priority": -1}), json!({"delayMs": "1s"}), json!({"unknown": 1}), json!(7)] {
        for (path, body) in requests(&run, &options) {
            client.post(&path, &body).assert_envelope(400, "validation_error");
        }
    }
    let alone = json!({"workflowId": "gated", "dispatch": {"dedupeKey": "daily"}});
    let refused = client.post("/v1/runs", &alone);
    assert_eq!(refused.body["details"]["field"], "dispatch.dedupeKey", "the run is alone in its thread");
}

fn a_delayed_run_starts_after_kill_9_and_not_before_its_instant(database: &TestDatabase) {
    let mut server = database.start(&[]);
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let start = |dispatch: Value| {
        let started = client.post("/v1/runs", &json!({"workflowId": "gated", "dispatch": dispatch}));
        assert_eq!((started.status, &started.body["status"]), (201, &json!("running")), "{started:?}");
        started.body["runId"].as_str().unwrap().to_owned()
    };
    let soon = start(json!({"delayMs": 2000, "priority": 200, "maxAttempts": 9}));
    let late = start(json!({"delayMs": 3_600_000}));
    let row = &queued(client, &soon)[0];
    assert_eq!((&row["priority"], &row["maxAttempts"]), (&json!(200), &json!(9)));
    server.kill();
    let server = database.start(&[]);
    server.client.wait_for_event(&soon, |event| event["type"] == "interrupt.requested");
    assert_eq!(server.client.status(&late), "running");
    assert_eq!(server.client.events(&late).len(), 1);
}

fn a_message_with_the_key_of_a_live_dispatch_is_refused_in_its_thread_only(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    waiting_agent(client, "jim");
    let delayed = json!({"delayMs": 3_600_000, "dedupeKey": "reminder"});
    let say = |client: &Client, thread: &str, dispatch: &Value| {
        let body = json!({"message": "Remind me", "agentId": "mailer", "dispatch": dispatch});
        client.post(&format!("/v1/threads/{thread}/messages"), &body)
    };
    assert_eq!(say(client, "bob", &delayed).status, 202);
    let held = queued(client, "bob");
    assert_eq!((held.len(), &held[0]["dedupeKey"]), (1, &json!("reminder")));
    let refused = say(client, "bob", &json!({"dedupeKey": "reminder"}));
    refused.assert_envelope(409, "dispatch_key_in_use");
    assert_eq!(refused.body["details"]["dispatchId"], held[0]["dispatchId"]);
    let messages = client.get("/v1/threads/bob/messages").body["messages"].to_string();
    assert_eq!(messages.matches("Remind me").count(), 1, "a refused message is not stored");
    assert_eq!(say(client, "ann", &delayed).status, 202, "another thread");
    let scopes = json!(["runs:create", "manifest:write"]);
    let other = client_with_key(client, &json!({"tenant": "other", "scopes": scopes}));
    other.put("/v1/agents/mailer", &json!({"model": {"provider": "scripted", "steps": [{"text": "Yes."}]}}));
    assert_eq!(say(&other, "bob", &delayed).status, 202, "another tenant");
}

#[test]
fn the_command_line_sets_the_options() {
    let server = Server::start();
    let run = |words: &[&str]| {
        let output = server.run(words);
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (_, started, _) = run(&[
        "runs",
        "start",
        "sample-approval",
        "--delay",
        "1h",
        "--priority",
        "7",
        "--max-attempts",
        "2",
        "--json",
    ]);
    let started: Value = serde_json::from_str(&started).unwrap();
    let row = &queued(&server.client, started["runId"].as_str().unwrap())[0];
    assert_eq!((&row["priority"], &row["maxAttempts"]), (&json!(7), &json!(2)));
    waiting_agent(&server.client, "bob");
    let say = ["threads", "say", "eve", "And then?", "--agent", "mailer", "--dedupe-key", "k"];
    assert!(run(&[&say[..], &["--delay", "1h"]].concat()).0);
    let (succeeded, _, error) = run(&say);
    assert!(!succeeded && error.contains("dispatch_key_in_use"), "{error}");
    for wrong in [["--at", "tomorrow"], ["--priority", "256"], ["--delay", "soon"]] {
        assert!(!run(&[&["runs", "start", "sample-approval"], &wrong[..]].concat()).0, "{wrong:?}");
    }
    assert!(run(&["runs", "start", "sample-approval", "--at", "2020-01-01T00:00:00Z"]).0);
}
