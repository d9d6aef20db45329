//! A link goes around no rule: it answers in one name, with nothing but that name.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, gated, keyed as key};
use crate::links::{Link, mint};

fn start(client: &Client, config: &Value) -> String {
    let mut flow = gated("gated");
    flow["nodes"][1]["config"].as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let registered = client.put("/v1/workflows/gated", &flow);
    assert!([200, 201].contains(&registered.status), "{registered:?}");
    client.start_run("gated")
}

#[test]
fn a_link_in_another_name_needs_a_scope_of_its_own() {
    let server = Server::start();
    let run = start(&server.client, &json!({}));
    let alice = key(&server.client, &json!({"principal": "alice"}));
    let refused = mint(&alice, &run, "gate", &json!({"for": "bob"}));
    refused.assert_envelope(403, "forbidden");
    assert_eq!(refused.body["details"]["scopeRequired"], "approvals:act-as");
    assert_eq!(Link::mint(&alice, &run, "gate", &json!({"for": "alice"})).minted["for"], "alice");
    assert_eq!(Link::mint(&alice, &run, "gate", &json!({})).minted["for"], "alice");
    let scopes = ["approvals:respond", "approvals:act-as"];
    let clerk = key(&server.client, &json!({"principal": "clerk", "scopes": scopes}));
    let link = Link::mint(&clerk, &run, "gate", &json!({"for": "bob"}));
    assert_eq!(link.answer(&accept()).status, 200);
    let log = server.client.ended(&run);
    let received = log.iter().find(|event| event["type"] == "approval.received").unwrap();
    let named = (&received["payload"]["decidedBy"], &received["payload"]["actedBy"]);
    assert_eq!(named, (&json!("bob"), &json!("clerk")));
}

#[test]
fn whoever_started_a_run_does_not_grant_it_by_a_link_for_another_either() {
    let server = Server::start();
    start(&server.client, &json!({"requesterMayNotApprove": true}));
    let scopes = ["runs:create", "approvals:respond", "approvals:act-as"];
    let eve = key(&server.client, &json!({"principal": "eve", "scopes": scopes}));
    key(&server.client, &json!({"principal": "ann"}));
    let run = eve.start_run("gated");
    for name in ["ann", "eve"] {
        let link = Link::mint(&eve, &run, "gate", &json!({"for": name}));
        link.answer(&accept()).assert_envelope(403, "forbidden");
    }
    assert_eq!(server.client.status(&run), "waiting-approval");
    // Somebody else may hand one out, and then both are named.
    let link = Link::mint(&server.client, &run, "gate", &json!({"for": "ann"}));
    assert_eq!(link.answer(&accept()).status, 200);
}

#[test]
fn a_link_brings_no_role_and_cannot_speak_for_others() {
    let server = Server::start();
    let run = start(&server.client, &json!({"approversList": ["alice", "finance"]}));
    let all = json!(["approvals:respond", "approvals:act-as"]);
    let carol = key(&server.client, &json!({"principal": "carol", "roles": ["finance"], "scopes": all}));
    let link = Link::mint(&carol, &run, "gate", &json!({}));
    link.answer(&accept()).assert_envelope(403, "forbidden");
    // Not even when it was made by somebody who may.
    link.answer(&json!({"action": "accept", "decidedBy": "alice"})).assert_envelope(403, "forbidden");
    key(&server.client, &json!({"principal": "alice"}));
    let link = Link::mint(&carol, &run, "gate", &json!({"for": "alice"}));
    assert_eq!(link.answer(&accept()).status, 200);
}

#[test]
fn votes_over_links_count_once_for_each_name_and_are_shown() {
    let server = Server::start();
    let client = &server.client;
    let run = start(client, &json!({"requiredApprovals": 2}));
    let link = |name: &str| Link::mint(client, &run, "gate", &json!({"for": name}));
    let (alice, again, bob) = (link("alice"), link("alice"), link("bob"));
    assert_eq!(alice.open().body["votes"], json!([]));
    assert_eq!(alice.answer(&accept()).body["status"], "waiting-approval");
    assert_eq!(again.answer(&accept()).body["status"], "waiting-approval", "the same voice");
    let shown = bob.open().body;
    assert_eq!((&shown["requiredApprovals"], shown["votes"].as_array().unwrap().len()), (&json!(2), 1));
    assert_eq!(
        (&shown["votes"][0]["decidedBy"], &shown["votes"][0]["action"]),
        (&json!("alice"), &json!("accept"))
    );
    assert_eq!(bob.answer(&accept()).status, 200);
    client.ended(&run);
    alice.assert_over(409, "interrupt_already_resolved");
}

#[test]
fn a_question_over_a_link_leaves_the_decision_open() {
    let server = Server::start();
    let client = &server.client;
    let run = start(client, &json!({"actions": ["accept", "reject", "ask"]}));
    let link = Link::mint(client, &run, "gate", &json!({"for": "alice"}));
    let asked = link.answer(&json!({"action": "ask", "question": "Why now?"}));
    assert_eq!((asked.status, &asked.body["status"]), (200, &json!("waiting-approval")), "{asked:?}");
    let shown = link.open().body;
    assert_eq!(
        (&shown["asks"][0]["question"], &shown["asks"][0]["askedBy"]),
        (&json!("Why now?"), &json!("alice"))
    );
    assert_eq!(link.answer(&accept()).status, 200);
}

#[test]
fn a_gate_that_wants_a_key_takes_no_link() {
    let server = Server::start();
    let client = &server.client;
    let run = start(client, &json!({"profile": "openwop-interrupt-auth-required"}));
    mint(client, &run, "gate", &json!({})).assert_envelope(403, "forbidden");
    let snapshot = client.get(&format!("/v1/runs/{run}")).body;
    assert!(snapshot["interrupt"].get("interruptToken").is_none(), "{snapshot}");
    let link = Link::mint(client, &run, "gate", &json!({"intent": "inspect"}));
    assert_eq!(link.open().status, 200);
    link.answer(&accept()).assert_envelope(403, "forbidden");
    assert_eq!(client.status(&run), "waiting-approval");
    assert_eq!(client.answer(&run, "gate", &accept()).status, 200);
}

#[test]
fn a_link_for_looking_never_answers_whatever_else_the_gate_wants() {
    let server = Server::start();
    let client = &server.client;
    let profile = json!({"profile": "openwop-interrupt-auth-required"});
    for config in [json!({}), profile, json!({"approversList": ["nobody"]})] {
        let run = start(client, &config);
        let link = Link::mint(client, &run, "gate", &json!({"intent": "inspect"}));
        link.answer(&accept()).assert_envelope(403, "forbidden");
        client.post(&format!("/v1/runs/{run}/cancel"), &json!({}));
        link.answer(&accept()).assert_envelope(403, "forbidden");
    }
}

#[test]
fn a_run_shows_a_link_to_those_who_may_answer_and_to_nobody_else() {
    let server = Server::start();
    let client = &server.client;
    let run = start(client, &json!({}));
    let path = format!("/v1/runs/{run}");
    let alice = key(client, &json!({"principal": "alice"}));
    let reader = key(client, &json!({"scopes": ["runs:read"]}));
    let shown = alice.exchange("GET", &path, None, &[]);
    assert_eq!(shown.headers()["cache-control"], "no-store");
    let shown: Value = serde_json::from_str(shown.body()).unwrap();
    let token = shown["interrupt"]["interruptToken"].as_str().unwrap();
    assert_eq!(shown["interrupt"]["callbackUrl"], format!("{}/v1/interrupts/{token}", server.url));
    let hidden = reader.get(&path).body;
    assert!(hidden["interrupt"].is_object() && !hidden.to_string().contains("Token"), "{hidden}");
    let anybody = client.with_key(None);
    assert_eq!(anybody.get(&format!("/v1/interrupts/{token}")).body["for"], "alice");
    let body = json!({"resumeValue": accept()});
    assert_eq!(anybody.post(&format!("/v1/interrupts/{token}"), &body).status, 200);
    assert!(client.get(&path).body.get("interrupt").is_none());
}
