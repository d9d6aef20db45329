//! Quotas over HTTP: the error names the quota, nothing is written, and the usage can be read.

use serde_json::json;

use crate::harness::{Server, gated};

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
    // Holds are runs, and a rejected request may be sent again under its key.
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
