//! The interrupt profiles of the protocol: quorums, timeouts, routed rejections, refinements, edits, external events.

use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, accept, client_with_key, gated, linear};

/// Returns a workflow whose gate has this config.
fn flow(config: &Value) -> Value {
    let mut flow = gated("flow");
    flow["nodes"][1]["config"] = config.clone();
    flow
}

fn server(flow: &Value) -> Server {
    let server = Server::start();
    let registered = server.client.put("/v1/workflows/flow", flow);
    assert_eq!(registered.status, 201, "{registered:?}");
    server
}

fn person(admin: &Client, name: &str) -> Client {
    client_with_key(admin, &json!({"principal": name}))
}

fn action(name: &str) -> Value {
    json!({"action": name})
}

fn count(log: &[Value], kind: &str) -> usize {
    log.iter().filter(|event| event["type"] == kind).count()
}

fn only<'a>(log: &'a [Value], kind: &str) -> &'a Value {
    let mut found = log.iter().filter(|event| event["type"] == kind);
    let event = found.next().unwrap_or_else(|| panic!("no {kind}: {log:?}"));
    assert!(found.next().is_none(), "{kind} occurs twice: {log:?}");
    &event["payload"]
}

/// Returns the outcome, the status of the run and the number of votes.
fn outcome(answer: &Response) -> (&str, &str, usize) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = |name: &str| answer.body[name].as_str().unwrap_or_default();
    (text("outcome"), text("status"), answer.body["votes"].as_array().map_or(0, Vec::len))
}

fn majority_of_three() -> Value {
    let actions = ["accept", "reject", "ask"];
    json!({"title": "Go on?", "actions": actions, "requiredApprovals": 3, "rejectionPolicy": "majority"})
}

#[test]
fn three_approvals_decide_and_each_answer_returns_the_votes() {
    let server = server(&flow(&majority_of_three()));
    let admin = &server.client;
    let [ann, bob, carol, dave] = ["ann", "bob", "carol", "dave"].map(|name| person(admin, name));
    let run = admin.start_run("flow");
    assert_eq!(outcome(&ann.answer(&run, "gate", &accept())), ("voted", "waiting-approval", 1));
    assert_eq!(outcome(&ann.answer(&run, "gate", &accept())), ("repeated", "waiting-approval", 1));
    ann.answer(&run, "gate", &action("reject")).assert_envelope(409, "already_voted");
    let voted = bob.answer(&run, "gate", &json!({"action": "reject", "feedback": "too early"}));
    assert_eq!(outcome(&voted), ("voted", "waiting-approval", 2));
    assert_eq!(voted.body["requiredApprovals"], 3);
    let vote = &voted.body["votes"][1];
    assert_eq!((&vote["decidedBy"], &vote["action"]), (&json!("bob"), &json!("reject")));
    let asked = carol.answer(&run, "gate", &json!({"action": "ask", "question": "Why now?"}));
    assert_eq!((outcome(&asked), &asked.body["askId"]), (("asked", "waiting-approval", 2), &json!(1)));
    assert_eq!(outcome(&carol.answer(&run, "gate", &accept())), ("voted", "waiting-approval", 3));
    assert_eq!(count(&admin.events(&run), "interrupt.resolved"), 0, "the interrupt is not decided yet");
    let last = dave.answer(&run, "gate", &accept());
    assert_eq!(outcome(&last), ("resolved", "completed", 4));
    let log = admin.events(&run);
    assert_eq!((count(&log, "holdpoint.vote.cast"), count(&log, "holdpoint.vote.repeated")), (3, 1));
    let resolved = only(&log, "interrupt.resolved");
    assert_eq!(
        (&resolved["decision"], &resolved["interruptId"]),
        (&json!("granted"), &last.body["interruptId"])
    );
    let received = only(&log, "approval.received");
    assert_eq!((&received["decidedBy"], &received["quorum"]["approvals"]), (&json!("dave"), &json!(3)));
}

#[test]
fn a_majority_rejects_and_with_single_veto_one_vote_rejects() {
    let server = server(&flow(&majority_of_three()));
    let admin = &server.client;
    let [ann, bob] = ["ann", "bob"].map(|name| person(admin, name));
    let run = admin.start_run("flow");
    assert_eq!(outcome(&ann.answer(&run, "gate", &action("reject"))), ("voted", "waiting-approval", 1));
    assert_eq!(outcome(&bob.answer(&run, "gate", &action("reject"))), ("resolved", "failed", 2));
    assert_eq!(only(&admin.events(&run), "run.failed")["error"]["code"], "approval_rejected");
    let mut veto = majority_of_three();
    veto["rejectionPolicy"] = json!("single-veto");
    admin.put("/v1/workflows/flow", &flow(&veto));
    let run = admin.start_run("flow");
    assert_eq!(outcome(&bob.answer(&run, "gate", &action("reject"))), ("resolved", "failed", 1));
}

#[test]
fn a_key_that_may_act_for_others_casts_several_votes() {
    let server = server(&flow(&majority_of_three()));
    let run = server.client.start_run("flow");
    let vote_as =
        |name: &str| server.client.answer(&run, "gate", &json!({"action": "accept", "voter": name}));
    assert_eq!(outcome(&vote_as("ann")), ("voted", "waiting-approval", 1));
    assert_eq!(outcome(&vote_as("ann")), ("repeated", "waiting-approval", 1));
    assert_eq!(outcome(&vote_as("bob")), ("voted", "waiting-approval", 2));
    let last = vote_as("carol");
    assert_eq!(outcome(&last), ("resolved", "completed", 3));
    assert!(
        last.body["votes"].as_array().unwrap().iter().all(|vote| vote["actedBy"] == "bootstrap"),
        "{last:?}"
    );
    let log = server.client.events(&run);
    let cast = log.iter().filter(|event| event["type"].as_str().unwrap().starts_with("holdpoint.vote."));
    assert!(cast.into_iter().all(|event| event["payload"]["actedBy"] == "bootstrap"), "{log:?}");
}

/// Asserts that the interrupt expired without an answer and that no event claims an answer.
fn assert_expired(client: &Client, run: &str, log: &[Value]) {
    let resolved = only(log, "interrupt.resolved");
    let told = ["action", "decision", "outcome", "reason", "resolvedBy"].map(|name| resolved[name].clone());
    assert_eq!(told, ["timeout", "rejected", "rejected", "timeout", "system:timeout"]);
    let received = only(log, "approval.received");
    assert_eq!((&received["action"], &received["decidedBy"]), (&json!("timeout"), &json!("system:timeout")));
    let failed = &only(log, "node.failed")["error"];
    assert_eq!((&failed["code"], &failed["retryable"]), (&json!("approval_rejected"), &json!(false)));
    assert!(log.iter().all(|event| event["payload"]["decision"] != "granted"), "{log:?}");
    assert!(log.iter().all(|event| event["type"] != "node.started" || event["nodeId"] != "after"), "{log:?}");
    assert_eq!(only(log, "run.failed")["error"]["code"], "approval_rejected");
    client.answer(run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
}

#[test]
fn a_timeout_is_a_rejection_even_with_on_timeout_approve() {
    let config = json!({"title": "Go on?", "timeoutMs": 300, "onTimeout": "approve"});
    let server = server(&flow(&config));
    let run = server.client.start_run("flow");
    // This request starts before the deadline and returns after it.
    assert_expired(&server.client, &run, &server.client.wait_for_end(&run));
}

#[test]
fn a_deadline_passes_while_the_server_is_down() {
    let server = server(&flow(&json!({"title": "Go on?", "timeoutMs": 2000, "requiredApprovals": 2})));
    let run = server.client.start_run("flow");
    assert_eq!(server.client.answer(&run, "gate", &accept()).body["outcome"], "voted");
    let server = server.kill_and_restart();
    assert_expired(&server.client, &run, &server.client.wait_for_end(&run));
}

fn edge(from: &str, to: &str, rule: Option<&str>) -> Value {
    let mut edge = json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to});
    if let Some(rule) = rule {
        edge["triggerRule"] = json!(rule);
    }
    edge
}

#[test]
fn a_rejection_follows_the_any_failed_edge() {
    let gate = json!({"title": "Go on?"});
    let nodes = [
        ("gate", "core.approvalGate", gate),
        ("after", "core.noop", json!({})),
        ("sorry", "core.noop", json!({})),
    ];
    let mut routed = linear("flow", &nodes);
    routed["edges"] = json!([edge("gate", "after", None), edge("gate", "sorry", Some("any_failed"))]);
    let server = server(&routed);
    let run = server.client.start_run("flow");
    let told = server.client.answer(&run, "gate", &json!({"action": "reject", "feedback": "no"}));
    assert_eq!(outcome(&told), ("resolved", "completed", 0));
    let log = server.client.events(&run);
    let began =
        |node: &str| log.iter().any(|event| event["type"] == "node.started" && event["nodeId"] == node);
    assert!(began("sorry") && !began("after"), "{log:?}");
    let failed = only(&log, "node.failed");
    assert_eq!((&failed["nodeId"], &failed["error"]["code"]), (&json!("gate"), &json!("approval_rejected")));
    assert_eq!(only(&log, "interrupt.resolved")["decision"], "rejected");
}

#[test]
fn a_rejection_with_an_edge_back_opens_a_new_interrupt() {
    let mut again = flow(&json!({"title": "Go on?"}));
    again["edges"].as_array_mut().unwrap().push(edge("gate", "gate", Some("any_failed")));
    let server = server(&again);
    let client = &server.client;
    let run = client.start_run("flow");
    let first = client.answer(&run, "gate", &action("reject"));
    assert_eq!(
        outcome(&first),
        ("resolved", "waiting-approval", 0),
        "the first interrupt is decided, the second one is open"
    );
    let second = client.answer(&run, "gate", &accept());
    assert_eq!(outcome(&second), ("resolved", "completed", 0));
    assert_ne!(first.body["interruptId"], second.body["interruptId"]);
    let log = client.events(&run);
    let asked: Vec<&Value> = log.iter().filter(|event| event["type"] == "interrupt.requested").collect();
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0]["payload"]["key"], asked[1]["payload"]["key"]);
    assert_eq!(asked[0]["payload"]["interruptId"], first.body["interruptId"]);
}

#[test]
fn a_refinement_requires_valid_feedback() {
    let server = server(&flow(&json!({"title": "Go on?", "actions": ["accept", "refine"]})));
    let client = &server.client;
    let run = client.start_run("flow");
    let refine = |feedback: Value| json!({"action": "refine", "refineFeedback": feedback});
    for bad in [
        action("refine"),
        refine(json!({})),
        refine(json!({"scope": "section"})),
        refine(json!({"scope": "items", "itemIds": "a"})),
        refine(json!({"scope": "whole", "tags": [1]})),
        action("reject"),
        json!({"action": "edit-accept", "editedArtifactData": {}}),
    ] {
        client.answer(&run, "gate", &bad).assert_envelope(400, "validation_error");
    }
    assert_eq!(client.status(&run), "waiting-approval");
    let feedback = json!({"scope": "items", "itemIds": ["a"], "tags": ["tone"], "text": "kinder"});
    assert_eq!(
        outcome(&client.answer(&run, "gate", &refine(feedback.clone()))),
        ("resolved", "completed", 0)
    );
    let log = client.events(&run);
    let resolved = only(&log, "interrupt.resolved");
    assert_eq!((&resolved["action"], &resolved["refineFeedback"]), (&json!("refine"), &feedback));
    assert_eq!(resolved.get("decision"), None, "neither granted nor rejected");
    // The older form of a refinement.
    let run = client.start_run("flow");
    client.answer(&run, "gate", &json!({"decision": "rejected", "feedback": "kinder"}));
    let log = client.events(&run);
    assert_eq!(
        only(&log, "interrupt.resolved")["refineFeedback"],
        json!({"scope": "whole", "text": "kinder"})
    );
}

#[test]
fn an_edited_artifact_is_granted_with_its_edits() {
    for offer in ["edit", "edit-accept"] {
        let server = server(&flow(&json!({"title": "Go on?", "actions": ["accept", offer]})));
        let client = &server.client;
        let run = client.start_run("flow");
        client.answer(&run, "gate", &action("edit-accept")).assert_envelope(400, "validation_error");
        client.answer(&run, "gate", &action("edit")).assert_envelope(400, "validation_error");
        let edit = json!({"action": "edit-accept", "editedArtifactData": {"text": "better"}});
        assert_eq!(outcome(&client.answer(&run, "gate", &edit)), ("resolved", "completed", 0));
        let log = client.events(&run);
        let resolved = only(&log, "interrupt.resolved");
        assert_eq!((&resolved["action"], &resolved["decision"]), (&json!("edit-accept"), &json!("granted")));
        assert_eq!(resolved["editedArtifactData"], json!({"text": "better"}));
    }
}

#[test]
fn an_external_event_must_match_the_correlation() {
    let waits = json!({
        "kind": "external-event",
        "data": {"eventType": "order", "correlation": {"orderId": "o-1", "status": "paid"}},
    });
    let server = server(&linear("flow", &[("gate", "core.interrupt", waits)]));
    let client = &server.client;
    for right in [
        json!({"orderId": "o-1", "status": "paid", "sum": 3}),
        json!({"eventPayload": {"orderId": "o-1", "status": "paid"}}),
    ] {
        let run = client.start_run("flow");
        assert_eq!(client.status(&run), "waiting-external");
        for wrong in [
            json!({"orderId": "o-2", "status": "paid"}),
            json!({"eventPayload": {"orderId": "o-1", "status": "sent"}}),
        ] {
            client.answer(&run, "gate", &wrong).assert_envelope(422, "correlation_mismatch");
        }
        assert_eq!(client.status(&run), "waiting-external");
        assert_eq!(outcome(&client.answer(&run, "gate", &right)), ("resolved", "completed", 0));
    }
}

#[test]
fn every_refusal_has_its_status_and_its_code() {
    let schema = json!({"type": "object", "required": ["size"]});
    let custom = json!({"kind": "custom", "data": {"customKind": "size"}, "resumeSchema": schema});
    let server = server(&linear("flow", &[("gate", "core.interrupt", custom)]));
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let (run, approval) = (client.start_run("flow"), client.start_run("gated"));
    let path = format!("/v1/runs/{run}/interrupts/gate");
    client.post(&path, &json!({})).assert_envelope(400, "validation_error");
    client.answer(&run, "gate", &json!({"colour": "red"})).assert_envelope(400, "validation_error");
    client.answer(&approval, "gate", &action("refine")).assert_envelope(400, "validation_error");
    client.answer(&approval, "gate", &action("timeout")).assert_envelope(400, "validation_error");
    client.with_key(None).answer(&run, "gate", &json!({"size": 1})).assert_envelope(401, "unauthenticated");
    let made = client.post("/v1/keys", &json!({"scopes": ["runs:read"]})).body;
    client
        .with_key(made["key"].as_str())
        .answer(&run, "gate", &json!({"size": 1}))
        .assert_envelope(403, "forbidden");
    client.answer("unknown", "gate", &accept()).assert_envelope(404, "not_found");
    client.answer(&approval, "after", &accept()).assert_envelope(404, "interrupt_not_found");
    assert_eq!(
        (client.status(&run), client.status(&approval)),
        ("waiting-input".into(), "waiting-approval".into())
    );
    assert_eq!(client.answer(&run, "gate", &json!({"size": 1})).status, 200);
    client.answer(&run, "gate", &json!({"size": 1})).assert_envelope(409, "interrupt_already_resolved");
    client.post(&format!("/v1/runs/{approval}/cancel"), &json!({}));
    client.answer(&approval, "gate", &accept()).assert_envelope(422, "interrupt_cancelled");
    // An interrupt of a run that was cancelled with its parent is gone.
    let calling = linear("calling", &[("call", "core.subWorkflow", json!({"workflowId": "gated"}))]);
    client.put("/v1/workflows/calling", &calling);
    let parent = client.start_run("calling");
    client.wait_for_event(&parent, |event| event["payload"]["status"] == "waiting-approval");
    let shown = client.get(&format!("/v1/runs/{parent}")).body;
    let child = shown["childRuns"][0]["runId"].as_str().unwrap();
    client.post(&format!("/v1/runs/{parent}/cancel"), &json!({}));
    client.answer(child, "gate", &accept()).assert_envelope(410, "interrupt_gone");
}

#[test]
fn discovery_names_the_supported_profiles() {
    let server = Server::start();
    let found = server.client.with_key(None).get("/.well-known/openwop").body;
    let profiles = found["extensions"]["interrupts"]["profiles"].as_array().unwrap();
    for name in ["quorum", "auth-required", "cascade-cancel"] {
        assert!(profiles.contains(&json!(format!("openwop-interrupt-{name}"))), "{name}: {profiles:?}");
    }
}
