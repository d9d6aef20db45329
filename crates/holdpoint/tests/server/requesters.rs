//! Requesters cannot approve: not through a callback, a link, a fork, an agent or a hold of their own.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, gated, linear};
use crate::holds::hold;
use crate::links::Link;
use crate::receiver::{ReceivedRequest, Receiver, server_at};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_key_that_may_only_start_runs_gets_a_callback_that_cannot_answer,
    a_revoked_key_gets_a_callback_without_a_link,
    a_fork_gets_an_answering_link_only_if_both_keys_may_answer,
    a_link_ends_with_the_last_key_of_its_lineage,
    a_callback_is_signed_with_the_secret_of_its_run,
);

const STARTER: [&str; 2] = ["runs:create", "runs:read"];

/// Creates a key with these scopes. Returns a client with it, and its id.
fn key(admin: &Client, principal: &str, scopes: &[&str]) -> (Client, String) {
    let made = admin.post("/v1/keys", &json!({"principal": principal, "scopes": scopes}));
    assert_eq!(made.status, 201, "{made:?}");
    (admin.with_key(made.body["key"].as_str()), made.body["keyId"].as_str().unwrap().to_owned())
}

fn revoke(admin: &Client, key_id: &str) {
    assert_eq!(admin.send("DELETE", &format!("/v1/keys/{key_id}"), None).status, 204);
}

fn start(client: &Client, workflow: &str, receiver: &Receiver) -> String {
    let made = client.post("/v1/runs", &json!({"workflowId": workflow, "callbackUrl": receiver.url}));
    assert_eq!(made.status, 201, "{made:?}");
    made.body["runId"].as_str().unwrap().to_owned()
}

fn two_gates() -> Value {
    let gate = |title: &str| json!({"title": title, "actions": ["accept", "reject"]});
    linear("twice", &[("one", "core.approvalGate", gate("1?")), ("two", "core.approvalGate", gate("2?"))])
}

/// Sends an answer with the token of a callback and returns the response.
fn answer_with_token(admin: &Client, callback: &ReceivedRequest) -> crate::harness::Response {
    let body = callback.json();
    let path = format!("/v1/interrupts/{}", body["interruptToken"].as_str().unwrap());
    admin.with_key(None).post(&path, &json!({"resumeValue": accept()}))
}

fn a_key_that_may_only_start_runs_gets_a_callback_that_cannot_answer(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let (bot, _) = key(admin, "ci-bot", &["runs:create"]);
    let receiver = Receiver::start();
    let run = start(&bot, "gated", &receiver);
    let callback = receiver.wait_for(1).remove(0);
    assert_eq!(callback.json()["intent"], "inspect");
    answer_with_token(admin, &callback).assert_envelope(403, "forbidden");
    assert_eq!(admin.status(&run), "waiting-approval");
}

fn a_revoked_key_gets_a_callback_without_a_link(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let admin = &server.client;
    assert_eq!(admin.put("/v1/workflows/twice", &two_gates()).status, 201);
    let (bot, key_id) = key(admin, "ci-bot", &["runs:create", "approvals:respond"]);
    let receiver = Receiver::start();
    let run = start(&bot, "twice", &receiver);
    let first = receiver.wait_for(1).remove(0);
    assert_eq!(first.json()["intent"], "resolve");
    revoke(admin, &key_id);
    answer_with_token(admin, &first).assert_envelope(410, "link_revoked");
    assert_eq!(admin.answer(&run, "one", &accept()).status, 200);
    let second = receiver.wait_for(2).remove(1).json();
    assert_eq!((&second["runId"], &second["nodeId"]), (&json!(run), &json!("two")));
    for member in ["interruptToken", "callbackUrl", "intent", "expiresAt"] {
        assert_eq!(second.get(member), None, "{second}");
    }
}

fn a_fork_gets_an_answering_link_only_if_both_keys_may_answer(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let answering = ["runs:create", "runs:read", "approvals:respond"];
    let (ann, ann_id) = key(admin, "ann", &answering);
    let (bob, _) = key(admin, "bob", &answering);
    let (bot, _) = key(admin, "ci-bot", &STARTER);
    for (starter, forker, intent) in
        [(&ann, &bob, "resolve"), (&ann, &bot, "inspect"), (&bot, &ann, "inspect"), (&bot, &bot, "inspect")]
    {
        let receiver = Receiver::start();
        let run = start(starter, "gated", &receiver);
        receiver.wait_for(1);
        let made = forker.post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "branch", "fromSeq": 0}));
        assert_eq!(made.status, 201, "{made:?}");
        let callback = receiver.wait_for(2).remove(1).json();
        assert_eq!(
            (&callback["runId"], &callback["intent"]),
            (&made.body["runId"], &json!(intent)),
            "{callback}"
        );
    }
    // The link of a fork ends with either key.
    let receiver = Receiver::start();
    let run = start(&ann, "gated", &receiver);
    receiver.wait_for(1);
    bob.post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "branch", "fromSeq": 0}));
    let callback = receiver.wait_for(2).remove(1);
    revoke(admin, &ann_id);
    answer_with_token(admin, &callback).assert_envelope(410, "link_revoked");
}

fn a_link_ends_with_the_last_key_of_its_lineage(database: &TestDatabase) {
    let server = database.start(&[]);
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let run = admin.start_run("gated");
    let (ann, old_id) = key(admin, "ann", &["approvals:respond", "runs:read"]);
    let link = Link::mint(&ann, &run, "gate", &json!({}));
    let shown = ann.get(&format!("/v1/runs/{run}")).body["interrupt"]["interruptToken"].clone();
    let offered = format!("/v1/interrupts/{}", shown.as_str().unwrap());
    let rotated = admin.post(&format!("/v1/keys/{old_id}:rotate"), &json!({"overlapSeconds": 0}));
    assert_eq!(rotated.status, 201, "{rotated:?}");
    assert_eq!(rotated.body["lineage"], json!(old_id));
    for (member, expected) in
        [("principal", json!("ann")), ("scopes", json!(["approvals:respond", "runs:read"]))]
    {
        assert_eq!(rotated.body[member], expected);
    }
    ann.get("/v1/runs").assert_envelope(401, "key_expired");
    let successor = admin.with_key(rotated.body["key"].as_str());
    assert_eq!(successor.get("/v1/runs").status, 200);
    revoke(admin, &old_id);
    assert_eq!(link.open().status, 200, "a successor is active");
    assert_eq!(admin.with_key(None).get(&offered).status, 200);
    revoke(admin, rotated.body["keyId"].as_str().unwrap());
    link.assert_refused(410, "link_revoked");
    admin.with_key(None).get(&offered).assert_envelope(410, "link_revoked");
    assert_eq!(admin.status(&run), "waiting-approval");
}

fn a_callback_is_signed_with_the_secret_of_its_run(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    let body = json!({"workflowId": "gated", "callbackUrl": receiver.url});
    let made = admin.post("/v1/runs", &body).body;
    let secret = made["callbackSecret"].as_str().expect("a secret that was made here is returned once");
    let callback = receiver.wait_for(1).remove(0);
    assert!(callback.is_signed_with(secret));
    assert_eq!(callback.header("x-openwop-signature-algorithm"), "v1");
    // A fork uses the same secret for its callback.
    let run = made["runId"].as_str().unwrap();
    admin.post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "branch", "fromSeq": 0}));
    assert!(receiver.wait_for(2).remove(1).is_signed_with(secret));
    let own = "a-secret-of-the-receiver";
    let mut body = body;
    body["callbackSecret"] = json!(own);
    let made = admin.post("/v1/runs", &body).body;
    assert_eq!(made.get("callbackSecret"), None, "the caller knows it: {made}");
    assert!(receiver.wait_for(3).remove(2).is_signed_with(own));
    let run = made["runId"].as_str().unwrap();
    for path in [format!("/v1/runs/{run}"), format!("/v1/runs/{run}/events/poll?timeout=1")] {
        assert!(!admin.get(&path).body.to_string().contains(own));
    }
    for wrong in [json!({"workflowId": "gated", "callbackSecret": own}), {
        body["callbackSecret"] = json!("short");
        body
    }] {
        let refused = admin.post("/v1/runs", &wrong);
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], "callbackSecret");
    }
}

#[test]
fn a_key_is_rotated_only_by_a_caller_that_holds_its_scopes() {
    let server = Server::start();
    let admin = &server.client;
    let (clerk, _) = key(admin, "clerk", &["keys:manage", "runs:read"]);
    let (_, strong) = key(admin, "boss", &["runs:read", "approvals:respond"]);
    let refused = clerk.post(&format!("/v1/keys/{strong}:rotate"), &json!({}));
    refused.assert_envelope(403, "forbidden");
    assert_eq!(refused.body["details"]["scopeRequired"], "approvals:respond");
    let (old, weak) = key(admin, "reader", &["runs:read"]);
    let made = clerk.post(&format!("/v1/keys/{weak}:rotate"), &json!({"overlapSeconds": 60}));
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(old.get("/v1/runs").status, 200, "both keys are valid during the overlap");
    revoke(admin, &weak);
    let again = clerk.post(&format!("/v1/keys/{weak}:rotate"), &json!({}));
    again.assert_envelope(409, "key_ended");
    clerk.post("/v1/keys/key_none:rotate", &json!({})).assert_envelope(404, "not_found");
}

#[test]
fn a_principal_that_instructed_an_agent_cannot_approve_the_workflow_that_it_starts() {
    let server = Server::start();
    let admin = &server.client;
    let mut refund = gated("refund");
    refund["nodes"][1]["config"]["requesterMayNotApprove"] = json!(true);
    assert_eq!(admin.put("/v1/workflows/refund", &refund).status, 201);
    let call = |id: &str| json!({"calls": [{"id": id, "name": "refund", "arguments": {}}]});
    let agent = json!({
        "model": {"provider": "scripted", "steps": [call("c1"), call("c2"), {"text": "Done."}]},
        "tools": [{"type": "workflow", "name": "refund", "workflowId": "refund", "description": "pays"}],
        "permissions": {"default": "allow", "rules": []},
    });
    let put = admin.put("/v1/agents/clerk", &agent);
    assert_eq!(put.status, 201, "{put:?}");
    let scopes = ["runs:create", "runs:read", "approvals:respond"];
    let [ann, bob, carol] = ["ann", "bob", "carol"].map(|name| key(admin, name, &scopes).0);
    let started = ann.post("/v1/agents/clerk/runs", &json!({"threadId": "t1", "message": "Hello"}));
    assert_eq!(started.status, 202, "{started:?}");
    let run = started.body["runId"].as_str().unwrap();
    let asked_in = |child: &str| {
        admin.wait_for_event(run, |event| event["payload"].to_string().contains(child));
        admin.wait_for_event(child, |event| event["type"] == "interrupt.requested");
    };
    asked_in(&format!("{run}.1"));
    let message = json!({"agentId": "clerk", "message": "Refund 900 to bob"});
    assert_eq!(bob.post("/v1/threads/t1/messages", &message).status, 202);
    let child = format!("{run}.2");
    asked_in(&child);
    for requester in [&ann, &bob] {
        requester.answer(&child, "gate", &accept()).assert_envelope(403, "forbidden");
    }
    assert_eq!(carol.answer(&child, "gate", &accept()).status, 200);
}

#[test]
fn the_maker_of_a_hold_cannot_answer_it() {
    let server = Server::start();
    let admin = &server.client;
    let scopes = ["runs:create", "runs:read", "approvals:respond"];
    let [asker, other] = ["ci-bot", "ann"].map(|name| key(admin, name, &scopes).0);
    for body in [
        json!({"title": "Deploy?"}),
        json!({"title": "Deploy?", "approvers": ["ci-bot", "ann"]}),
        json!({"title": "Where?", "choices": ["eu", "us"]}),
    ] {
        let id = hold(&asker, &body);
        let answer = if body["choices"].is_null() { accept() } else { json!({"answers": {"answer": "eu"}}) };
        let refused = asker.answer(&id, "hold", &answer);
        refused.assert_envelope(403, "forbidden");
        let message = refused.body["message"].as_str().unwrap();
        assert!(
            message.contains("another principal") && message.contains("requesterMayNotApprove"),
            "{message}"
        );
        let link = Link::mint(&asker, &id, "hold", &json!({}));
        assert_eq!(link.answer(&answer).status, 403);
        assert_eq!(other.answer(&id, "hold", &answer).status, 200);
    }
    // With the opt-out, which the hold shows.
    let made = asker.post("/v1/holds", &json!({"title": "Deploy?", "requesterMayNotApprove": false}));
    assert_eq!((made.status, &made.body["requesterMayNotApprove"]), (201, &json!(false)), "{made:?}");
    assert_eq!(asker.answer(made.body["holdId"].as_str().unwrap(), "hold", &accept()).status, 200);
}

#[test]
fn a_hold_takes_several_approvals_and_a_profile() {
    let server = Server::start();
    let admin = &server.client;
    let scopes = ["approvals:respond", "runs:read"];
    let [ann, bob] = ["ann", "bob"].map(|name| key(admin, name, &scopes).0);
    let made = admin.post("/v1/holds", &json!({"title": "Deploy?", "requiredApprovals": 2}));
    assert_eq!((made.status, &made.body["requiredApprovals"]), (201, &json!(2)), "{made:?}");
    let id = made.body["holdId"].as_str().unwrap();
    assert_eq!(ann.answer(id, "hold", &accept()).body["outcome"], "voted");
    assert_eq!(admin.get(&format!("/v1/holds/{id}")).body["status"], "waiting");
    assert_eq!(bob.answer(id, "hold", &accept()).status, 200);
    assert_eq!(admin.get(&format!("/v1/holds/{id}")).body["status"], "approved");
    let profile = "openwop-interrupt-auth-required";
    let made = admin.post("/v1/holds", &json!({"title": "Deploy?", "profile": profile}));
    assert_eq!((made.status, &made.body["profile"]), (201, &json!(profile)), "{made:?}");
    let run = made.body["holdId"].as_str().unwrap();
    let refused = crate::links::mint(&ann, run, "hold", &json!({}));
    refused.assert_envelope(403, "forbidden");
    for (body, field) in [
        (json!({"title": "a", "requiredApprovals": 0}), "requiredApprovals"),
        (json!({"title": "a", "requiredApprovals": 2, "choices": ["b"]}), "requiredApprovals"),
        (json!({"title": "a", "profile": "other"}), "profile"),
    ] {
        let refused = admin.post("/v1/holds", &body);
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], field, "{refused:?}");
    }
}

#[test]
fn a_new_key_may_answer_only_with_an_added_scope() {
    let server = Server::start();
    let admin = &server.client;
    let scopes = |body: Value| {
        let made = admin.post("/v1/keys", &body).body;
        made["scopes"].as_array().unwrap_or_else(|| panic!("{made}")).clone()
    };
    assert!(!scopes(json!({})).contains(&json!("approvals:respond")));
    let added = scopes(json!({"addScopes": ["approvals:respond"]}));
    assert!(added.contains(&json!("approvals:respond")) && added.contains(&json!("runs:create")));
    let both = admin.post("/v1/keys", &json!({"scopes": [], "addScopes": ["runs:read"]}));
    both.assert_envelope(400, "validation_error");
}
