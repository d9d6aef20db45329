//! Versions of a workflow: a new version applies to new runs, and waiting runs keep theirs.

use serde_json::{Value, json};

use crate::harness::{Server, accept, gated, linear};

/// Another version of the workflow, without a gate and with other nodes.
fn next_version() -> Value {
    let mut flow = linear("gated", &[("fresh", "core.noop", json!({}))]);
    flow["version"] = json!("2");
    flow
}

#[test]
fn a_waiting_run_keeps_its_version_and_can_complete() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let (old, forked) = (server.client.start_run("gated"), server.client.start_run("gated"));
    let before = server.client.snapshot(&old);
    let log = server.client.events(&old);
    let registered = server.client.put("/v1/workflows/gated", &next_version());
    assert_eq!((registered.status, &registered.body["revision"]), (200, &json!(2)));
    assert_eq!(server.client.snapshot(&old), before);
    assert_eq!(server.client.get("/v1/interrupts").body["interrupts"].as_array().unwrap().len(), 2);
    // The same after a restart, without caches.
    let server = server.kill_and_restart();
    let client = &server.client;
    assert_eq!(client.snapshot(&old), before);
    assert_eq!(client.events(&old), log);
    let answered = client.answer(&old, "gate", &accept());
    assert_eq!((answered.status, &answered.body["status"]), (200, &json!("completed")), "{answered:?}");
    let shown = client.get(&format!("/v1/runs/{old}")).body;
    assert_eq!(
        (&shown["workflowVersion"], &shown["nodeStates"]["after"]["status"]),
        (&json!("1"), &json!("completed"))
    );
    let fork = client.post(&format!("/v1/runs/{forked}:fork"), &json!({"mode": "branch", "fromSeq": 1}));
    let copy = client.get(fork.body["statusUrl"].as_str().unwrap()).body;
    assert_eq!((&copy["workflowVersion"], &copy["status"]), (&json!("1"), &json!("waiting-approval")));
    let new = client.post("/v1/runs", &json!({"workflowId": "gated"})).body;
    let shown = client.get(new["statusUrl"].as_str().unwrap()).body;
    assert_eq!((&shown["workflowVersion"], &shown["status"]), (&json!("2"), &json!("completed")));
}
