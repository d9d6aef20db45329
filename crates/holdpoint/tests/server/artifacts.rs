//! Artifacts of runs, and the debug bundle.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, gated};

/// Starts a server and a run of a workflow with a node that creates an artifact from its inputs, and a gate.
fn server() -> (Server, String) {
    let server = Server::start();
    let mut flow = gated("gated");
    let variable = |name: &str| json!({"type": "variable", "variableName": name});
    flow["variables"] = json!([{"name": "code", "type": "string", "sensitive": true}]);
    flow["nodes"][0]["typeId"] = json!("core.identity");
    flow["nodes"][0]["inputs"] = json!({"text": variable("text"), "code": variable("code")});
    flow["nodes"][0]["artifactType"] = json!("note");
    let registered = server.client.put("/v1/workflows/gated", &flow);
    assert_eq!(registered.status, 201, "{registered:?}");
    let body = json!({"workflowId": "gated", "inputs": {"text": "hello world", "code": "hunter2", "n": 3}});
    let run = server.client.post("/v1/runs", &body).body["runId"].as_str().unwrap().to_owned();
    (server, run)
}

fn artifact(client: &Client, run: &str, node: &str) -> crate::harness::Response {
    client.get(&format!("/v1/runs/{run}/artifacts/{run}:{node}"))
}

#[test]
fn an_artifact_contains_the_outputs_of_its_node() {
    let (server, run) = server();
    let client = &server.client;
    let found = artifact(client, &run, "before");
    assert_eq!(found.status, 200, "{found:?}");
    assert_eq!((&found.body["artifactType"], &found.body["nodeId"]), (&json!("note"), &json!("before")));
    assert_eq!((&found.body["version"], &found.body["runId"]), (&json!("1"), &json!(run)));
    assert_eq!(found.body["data"], json!({"text": "hello world", "code": "[redacted]"}));
    let log = client.events(&run);
    let created = log.iter().find(|event| event["type"] == "artifact.created").unwrap();
    assert_eq!(created["payload"]["artifactId"], found.body["artifactId"]);
    artifact(client, &run, "after").assert_envelope(404, "not_found");
    client.get(&format!("/v1/runs/{run}/artifacts/unknown")).assert_envelope(404, "not_found");
    client.get("/v1/runs/unknown/artifacts/unknown").assert_envelope(404, "not_found");
    client.answer(&run, "gate", &accept());
    assert_eq!(artifact(client, &run, "before"), found, "the artifact stays after the end of the run");
}

#[test]
fn a_debug_bundle_contains_all_events_and_no_texts() {
    let (server, run) = server();
    let client = &server.client;
    client.answer(&run, "gate", &json!({"action": "accept", "feedback": "well done"}));
    let answer = client.exchange("GET", &format!("/v1/runs/{run}/debug-bundle"), None, &[]);
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["cache-control"]),
        (200, &"no-store".parse().unwrap())
    );
    for text in ["hello world", "hunter2", "well done"] {
        assert!(!answer.body().contains(text), "{text}");
    }
    let bundle: Value = serde_json::from_str(answer.body()).unwrap();
    let log = client.events(&run);
    let kinds = |events: &[Value]| events.iter().map(|one| one["type"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds(bundle["events"].as_array().unwrap()), kinds(&log));
    assert_eq!((&bundle["run"]["runId"], &bundle["run"]["status"]), (&json!(run), &json!("completed")));
    assert_eq!(bundle["run"]["inputs"]["n"], 3, "numbers are not redacted");
    assert_eq!(bundle["metrics"]["eventCount"], log.len());
    assert_eq!((&bundle["redactionApplied"], &bundle["truncated"]), (&json!(true), &json!(false)));
    assert!(!bundle["spans"].as_array().unwrap().is_empty());
    client.get("/v1/runs/unknown/debug-bundle").assert_envelope(404, "not_found");
}
