//! kill -9 while two branches of a run are at work: the branch that has answered keeps its effects, and the call in flight
//! is repeated with the same idempotency key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::harness::{accept, linear};
use crate::receiver::{Receiver, Reply};
use crate::test_database::TestDatabase;

const FLAGS: [&str; 1] = ["--outgoing-allow-loopback"];

/// A slow call, and beside it a fast call, a gate and another call.
fn two_branches(url: &str) -> Value {
    let call = |path: &str| json!({"method": "POST", "url": format!("{url}/{path}")});
    let mut flow = linear(
        "branches",
        &[
            ("slow", "core.http", call("slow")),
            ("fast", "core.http", call("fast")),
            ("gate", "core.approvalGate", json!({"title": "Go on?"})),
            ("act", "core.http", call("act")),
        ],
    );
    for call in [0, 1, 3] {
        flow["nodes"][call]["inputs"] = json!({"body": {"type": "static", "value": {"number": call}}});
    }
    // Without its first edge, the slow call is a branch of its own.
    flow["edges"].as_array_mut().unwrap().remove(0);
    flow
}

fn is_recorded(event: &Value, node: &str) -> bool {
    event["type"] == "holdpoint.step.recorded" && event["nodeId"] == node
}

#[test]
fn a_kill_beside_a_slow_call_repeats_only_the_call_in_flight() {
    let recovered = Arc::new(AtomicBool::new(false));
    let answers = recovered.clone();
    let receiver = Receiver::with_reply(move |request| match request.path.as_str() {
        "/slow" if !answers.load(Ordering::SeqCst) => Reply::Hang,
        _ => Reply::Status(200),
    });
    let database = TestDatabase::sqlite();
    let mut server = database.start(&FLAGS);
    assert_eq!(server.client.put("/v1/workflows/branches", &two_branches(&receiver.url)).status, 201);
    let run = server.client.start_run("branches");
    let log = server.client.wait_for_event(&run, |event| event["type"] == "interrupt.requested");
    assert_eq!(server.client.status(&run), "running", "{log:?}");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200, "the slow call still hangs");
    server.client.wait_for_event(&run, |event| is_recorded(event, "act"));
    receiver.wait_for(3);
    recovered.store(true, Ordering::SeqCst);
    server.kill();
    let server = database.start(&FLAGS);
    let log = server.client.wait_for_end(&run);
    assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:?}");
    let requests = receiver.requests();
    let count = |path: &str| requests.iter().filter(|request| request.path == path).count();
    assert_eq!([count("/slow"), count("/fast"), count("/act")], [2, 1, 1]);
    let mut keys = requests.iter().filter(|request| request.path == "/slow");
    let mut key = || keys.next().unwrap().header("idempotency-key").to_owned();
    assert_eq!(key(), key(), "the repeated call has the same key");
}
