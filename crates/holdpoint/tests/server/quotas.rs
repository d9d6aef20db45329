//! Quotas over HTTP: the error names the quota, no data is written, and the usage can be read.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::harness::{KEY, Server, gated};

fn server(flags: &[&str]) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(&folder.path().join("data"), flags);
    (folder, server)
}

#[test]
fn a_start_over_the_quota_is_rejected_and_the_usage_shows_why() {
    let (_folder, server) = server(&["--quota-open-runs", "1", "--quota-streams", "0"]);
    let client = &server.client;
    let usage = client.get("/v1/usage").body;
    assert_eq!(usage["openRuns"], json!({"used": 0, "limit": 1}));
    assert_eq!(usage["streams"], json!({"used": 0, "limit": null}));
    assert_eq!(usage["forkBytes"], json!({"limit": 64 << 20}));
    assert_eq!(usage["tokensPerDay"], json!({"used": 0, "limit": null}));
    let start = json!({"workflowId": "sample-approval"});
    let first = client.post("/v1/runs", &start);
    assert_eq!(first.status, 201, "{:?}", first.body);
    let second = client.post("/v1/runs", &start);
    second.assert_envelope(429, "quota_exceeded");
    assert_eq!(second.body["details"], json!({"quota": "openRuns", "limit": 1}));
    let message = second.body["message"].as_str().unwrap();
    assert!(message.contains("--quota-open-runs"), "{message}");
    assert_eq!(client.get("/v1/runs").body["runs"].as_array().unwrap().len(), 1);
    assert_eq!(client.get("/v1/usage").body["openRuns"]["used"], 1);
    // A hold is a run, so it counts toward the quota.
    let hold = client.post("/v1/holds", &json!({"title": "Go?"}));
    hold.assert_envelope(429, "quota_exceeded");
    let run = first.body["runId"].as_str().unwrap();
    assert_eq!(client.post(&format!("/v1/runs/{run}/cancel"), &json!({})).status, 200);
    assert_eq!(client.post("/v1/runs", &start).status, 201);
}

#[test]
fn lists_of_large_definitions_are_small() {
    let (_folder, server) = server(&["--quota-definitions", "4"]);
    let client = &server.client;
    let mut large = gated("large");
    large["metadata"] = json!({"text": "x".repeat(900_000)});
    let mut put = |name: &str| {
        large["name"] = json!(name);
        client.put("/v1/workflows/large", &large)
    };
    assert_eq!(put("one").status, 201);
    let revisions: Vec<u16> = ["two", "three", "four"].into_iter().map(|name| put(name).status).collect();
    assert_eq!(revisions, [200, 200, 422], "the sample is a definition as well");
    let listed = client.get("/v1/workflows").body;
    let one = listed["workflows"].as_array().unwrap().iter().find(|one| one["name"] == "three").unwrap();
    assert_eq!(one["revision"], 3);
}

/// Opens a stream of pending interrupts and reads its status line.
fn open_stream(server: &Server) -> TcpStream {
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET /v1/interrupts/stream HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {KEY}\r\n\
         accept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

#[test]
fn a_stream_over_the_quota_is_rejected_before_a_run_starts() {
    let (_folder, server) = server(&["--quota-streams", "1", "--demo"]);
    let client = &server.client;
    let stream = open_stream(&server);
    assert_eq!(client.get("/v1/usage").body["streams"], json!({"used": 1, "limit": 1}));
    let second = client.get("/v1/interrupts/stream");
    second.assert_envelope(429, "quota_exceeded");
    assert_eq!(second.body["details"], json!({"quota": "streams", "limit": 1}));
    let agent = client.get("/v1/agents").body["agents"][0]["agentId"].as_str().unwrap().to_owned();
    let input = json!({
        "threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hello"}],
        "tools": [], "context": [], "state": {}, "forwardedProps": {},
    });
    client.post(&format!("/ag-ui/{agent}"), &input).assert_envelope(429, "quota_exceeded");
    assert_eq!(client.get("/v1/runs").body["runs"], json!([]), "no run was started");
    drop(stream);
    // The server notices the closed connection when it writes to it or reads its end.
    while client.get("/v1/usage").body["streams"]["used"] != 0 {
        std::thread::yield_now();
    }
    open_stream(&server);
}

#[test]
fn a_message_that_would_exceed_a_quota_does_not_cancel_the_open_run() {
    let (_folder, server) = server(&["--quota-stored-bytes", "2000", "--demo"]);
    let client = &server.client;
    let send_message = |mode: &str| {
        client
            .post("/v1/threads/t1/messages", &json!({"agentId": "approve", "message": "Hello", "mode": mode}))
    };
    let started = send_message("queue");
    assert_eq!(started.status, 202, "{started:?}");
    let run = started.body["runId"].as_str().unwrap();
    while client.status(run) != "waiting-approval" {
        std::thread::yield_now();
    }
    send_message("interrupt_then_queue").assert_envelope(422, "quota_exceeded");
    assert_eq!(client.status(run), "waiting-approval");
}
