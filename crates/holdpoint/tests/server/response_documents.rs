//! The members of discovery, snapshots and events that clients rely on.

use serde_json::{Value, json};

use crate::harness::{Server, accept, gated};

#[test]
fn discovery_needs_no_key() {
    let server = Server::start();
    let found = server.client.with_key(None).get("/.well-known/openwop");
    assert_eq!(found.status, 200);
    assert!(found.body["protocolVersion"].as_str().unwrap().starts_with("1."));
    assert_eq!(found.body["supportedEnvelopes"], json!(["clarification.request"]));
    for limit in ["clarificationRounds", "schemaRounds", "envelopesPerTurn"] {
        assert!(found.body["limits"][limit].is_u64(), "{limit}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.client.with_key(None).get(path).status, 200, "{path}");
    }
}

#[test]
fn a_snapshot_shows_the_status_and_the_open_interrupt_of_a_run() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let body =
        json!({"workflowId": "gated", "inputs": {"a": [1, null]}, "tags": ["x"], "metadata": {"m": 1}});
    let created = server.client.post("/v1/runs", &body).body;
    let run = created["runId"].as_str().unwrap();
    assert_eq!(created["statusUrl"], format!("/v1/runs/{run}"));
    assert_eq!(created["eventsUrl"], format!("/v1/runs/{run}/events"));
    let seen = server.client.get(&format!("/v1/runs/{run}")).body;
    assert_eq!(seen["status"], "waiting-approval");
    assert_eq!(seen["currentNodeId"], "gate");
    assert_eq!(seen["owner"], json!({"tenant": "default", "principal": "bootstrap"}));
    assert_eq!(
        (&seen["tags"], &seen["metadata"], &seen["variables"]),
        (&json!(["x"]), &json!({"m": 1}), &json!({"a": [1, null]}))
    );
    assert_eq!(seen["nodeStates"]["before"]["status"], "completed");
    assert_eq!(seen["interrupt"]["kind"], "approval");
    assert_eq!(seen["interrupt"]["data"]["title"], "Go on?");
    assert_eq!(seen["interrupt"]["key"], format!("{run}:gate:0"));
    let answered = server.client.answer(run, "gate", &accept()).body;
    let interrupt = &seen["interrupt"]["interruptId"];
    assert_eq!(
        answered,
        json!({
            "runId": run, "nodeId": "gate", "interruptId": interrupt, "status": "completed", "outcome": "resolved",
            "grantId": format!("{run}:i1"),
        })
    );
    let done = server.client.get(&format!("/v1/runs/{run}")).body;
    assert!(done.get("interrupt").is_none() && done["completedAt"].is_string());
}

#[test]
fn every_event_has_the_required_members_and_payload_members() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    server.client.answer(&run, "gate", &json!({"action": "reject", "feedback": "no"}));
    let log = server.client.events(&run);
    let required = |kind: &str| -> &[&str] {
        match kind {
            "run.started" => &["workflowId", "owner"],
            "run.failed" => &["error", "failedNodeId"],
            "node.started" => &["nodeId", "typeId"],
            "node.failed" => &["nodeId", "error"],
            "node.completed" | "node.resumed" => &["nodeId"],
            "node.suspended" => &["nodeId", "interruptId", "kind", "key"],
            "interrupt.requested" => {
                &["runId", "nodeId", "interruptId", "kind", "key", "data", "requestedAt"]
            }
            "interrupt.resolved" => &[
                "runId",
                "nodeId",
                "interruptId",
                "kind",
                "resumeValue",
                "resolvedAt",
                "resolvedBy",
                "action",
                "decision",
            ],
            "approval.requested" => &["nodeId", "artifactId", "artifactType", "actions"],
            "approval.received" => &["nodeId", "action", "decidedBy", "decidedAt"],
            other => panic!("unexpected {other}"),
        }
    };
    for (at, event) in log.iter().enumerate() {
        for member in ["eventId", "runId", "type", "payload", "timestamp", "sequence"] {
            assert!(!event[member].is_null(), "{member} of {event}");
        }
        assert_eq!(event["sequence"], at);
        for member in required(event["type"].as_str().unwrap()) {
            assert!(event["payload"].get(member).is_some(), "{member} of {event}");
        }
    }
    let failed = server.client.get(&format!("/v1/runs/{run}")).body;
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("failed"), &json!("approval_rejected"))
    );
}

#[test]
fn cancelling_is_idempotent_and_cancels_the_interrupt() {
    let server = Server::start();
    let run = server.client.start_run("sample-approval");
    let path = format!("/v1/runs/{run}/cancel");
    for _ in 0..2 {
        let answer = server.client.send("POST", &path, None);
        assert_eq!(answer.body, json!({"runId": run, "status": "cancelled"}));
    }
    server.client.answer(&run, "review", &accept()).assert_envelope(422, "interrupt_cancelled");
    assert_eq!(server.client.get("/v1/interrupts").body["interrupts"], Value::Array(Vec::new()));
    server.client.post("/v1/runs/unknown/cancel", &json!({})).assert_envelope(404, "not_found");
}
