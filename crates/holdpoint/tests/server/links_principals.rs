//! The principal of a link: it answers for one principal, without roles, under the rules of the gate.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, client_with_key as key, gated};
use crate::links::{Link, mint};

fn start(client: &Client, config: &Value) -> String {
    let mut flow = gated("gated");
    flow["nodes"][1]["config"].as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let registered = client.put("/v1/workflows/gated", &flow);
    assert!([200, 201].contains(&registered.status), "{registered:?}");
    client.start_run("gated")
}

#[test]
fn a_link_for_another_principal_needs_the_act_as_scope() {
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
    let log = server.client.wait_for_end(&run);
    let received = log.iter().find(|event| event["type"] == "approval.received").unwrap();
    let named = (&received["payload"]["decidedBy"], &received["payload"]["actedBy"]);
    assert_eq!(named, (&json!("bob"), &json!("clerk")));
}

#[test]
fn a_requester_cannot_approve_with_a_link_for_another_principal() {
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
    // A principal that is no requester may mint the link.
    let link = Link::mint(&server.client, &run, "gate", &json!({"for": "ann"}));
    assert_eq!(link.answer(&accept()).status, 200);
}

#[test]
fn a_link_has_no_roles_and_cannot_act_for_others() {
    let server = Server::start();
    let run = start(&server.client, &json!({"approversList": ["alice", "finance"]}));
    let all = json!(["approvals:respond", "approvals:act-as"]);
    let carol = key(&server.client, &json!({"principal": "carol", "roles": ["finance"], "scopes": all}));
    let link = Link::mint(&carol, &run, "gate", &json!({}));
    link.answer(&accept()).assert_envelope(403, "forbidden");
    // The act-as scope of the key that minted the link does not count.
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
    assert_eq!(again.answer(&accept()).body["status"], "waiting-approval", "the same principal");
    let shown = bob.open().body;
    assert_eq!((&shown["requiredApprovals"], shown["votes"].as_array().unwrap().len()), (&json!(2), 1));
    assert_eq!(
        (&shown["votes"][0]["decidedBy"], &shown["votes"][0]["action"]),
        (&json!("alice"), &json!("accept"))
    );
    assert_eq!(bob.answer(&accept()).status, 200);
    client.wait_for_end(&run);
    alice.assert_refused(409, "interrupt_already_resolved");
}

#[test]
fn a_side_question_over_a_link_leaves_the_interrupt_open() {
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
fn a_gate_that_requires_a_key_rejects_links() {
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
fn an_inspect_link_cannot_answer_any_gate_or_cancelled_run() {
    let server = Server::start();
    let client = &server.client;
    let profile = json!({"profile": "openwop-interrupt-auth-required"});
    for config in [json!({}), profile, json!({"approversList": ["zoe"]})] {
        let run = start(client, &config);
        let link = Link::mint(client, &run, "gate", &json!({"intent": "inspect"}));
        link.answer(&accept()).assert_envelope(403, "forbidden");
        client.post(&format!("/v1/runs/{run}/cancel"), &json!({}));
        link.answer(&accept()).assert_envelope(403, "forbidden");
    }
}

#[test]
fn a_run_shows_a_link_only_to_callers_that_may_answer() {
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
    let anonymous = client.with_key(None);
    assert_eq!(anonymous.get(&format!("/v1/interrupts/{token}")).body["for"], "alice");
    let body = json!({"resumeValue": accept()});
    assert_eq!(anonymous.post(&format!("/v1/interrupts/{token}"), &body).status, 200);
    assert!(client.get(&path).body.get("interrupt").is_none());
}
