//! Permission to answer: groups, acting for others, digests, the deprecated path, gates that require a key.

use std::io::{Read, Write};
use std::net::TcpListener;

use holdpoint_core::digest;
use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, accept, client_with_key as key, create_key, gated, linear};

/// Starts a server with a workflow whose gate has these additional members.
fn server(gate: Value) -> Server {
    let server = Server::start();
    let mut flow = gated("gated");
    for (name, value) in gate.as_object().unwrap() {
        flow["nodes"][1]["config"][name] = value.clone();
    }
    let registered = server.client.put("/v1/workflows/gated", &flow);
    assert_eq!(registered.status, 201, "{registered:?}");
    server
}

fn event(client: &Client, run: &str, kind: &str) -> Value {
    let log = client.events(run);
    log.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("no {kind}: {log:?}"))["payload"]
        .clone()
}

fn answer_on_deprecated_path(client: &Client, run: &str, body: &Value) -> Response {
    client.post(&format!("/v1/runs/{run}/approvals/gate"), body)
}

#[test]
fn a_gate_for_a_group_is_answered_by_keys_of_that_group() {
    let server = server(json!({"approversList": ["group:board"]}));
    let admin = &server.client;
    let made = create_key(admin, &json!({"principal": "ann", "groups": ["board", "staff"]}));
    assert_eq!(made["groups"], json!(["board", "staff"]), "{made}");
    let ann = admin.with_key(made["key"].as_str());
    let listed = admin.get("/v1/keys").body;
    let listed = listed["keys"].as_array().unwrap().iter().find(|key| key["principal"] == "ann").unwrap();
    assert_eq!(listed["groups"], json!(["board", "staff"]));
    let run = admin.start_run("gated");
    // A role or a principal with the same name is not the group.
    for other in [json!({"roles": ["board"]}), json!({"principal": "board"}), json!({"groups": ["staff"]})] {
        key(admin, &other).answer(&run, "gate", &accept()).assert_envelope(403, "forbidden");
    }
    assert_eq!(ann.answer(&run, "gate", &accept()).status, 200);
    assert_eq!(event(admin, &run, "approval.received")["decidedBy"], "ann");
    admin.post("/v1/keys", &json!({"groups": ["a b"]})).assert_envelope(400, "validation_error");
    admin.post("/v1/keys", &json!({"groups": "board"})).assert_envelope(400, "validation_error");
}

#[test]
fn the_command_line_makes_keys_with_groups() {
    let server = server(json!({"approverGroupRefs": ["board"]}));
    let made = server.run(&[
        "keys",
        "create",
        "--principal",
        "ann",
        "--group",
        "staff",
        "--group",
        "board",
        "--add-scopes",
        "approvals:respond",
        "--json",
    ]);
    assert!(made.status.success(), "{made:?}");
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let ann = server.client.with_key(made["key"].as_str());
    let run = server.client.start_run("gated");
    assert_eq!(ann.answer(&run, "gate", &accept()).status, 200);
    let listed = String::from_utf8(server.run(&["keys", "list"]).stdout).unwrap();
    assert!(listed.contains("GROUPS") && listed.contains("staff,board"), "{listed}");
}

#[test]
fn acting_for_another_principal_needs_a_scope_and_is_recorded() {
    let server = server(json!({"approversList": ["dana"]}));
    let admin = &server.client;
    let plain = key(admin, &json!({"principal": "dana"}));
    let desk = json!({"principal": "desk", "scopes": ["approvals:respond", "approvals:act-as"]});
    let desk = key(admin, &desk);
    let run = admin.start_run("gated");
    let in_name_of = |member: &str, name: &str| json!({"action": "accept", member: name});
    for member in ["decidedBy", "voter"] {
        plain.answer(&run, "gate", &in_name_of(member, "erin")).assert_envelope(403, "forbidden");
        // The gate must list the principal that the caller acts for.
        desk.answer(&run, "gate", &in_name_of(member, "erin")).assert_envelope(403, "forbidden");
    }
    desk.answer(&run, "gate", &accept()).assert_envelope(403, "forbidden");
    desk.answer(&run, "gate", &in_name_of("voter", "system:timeout")).assert_envelope(403, "forbidden");
    assert_eq!(admin.status(&run), "waiting-approval");
    assert_eq!(desk.answer(&run, "gate", &in_name_of("voter", "dana")).status, 200);
    let received = event(admin, &run, "approval.received");
    assert_eq!((&received["decidedBy"], &received["actedBy"]), (&json!("dana"), &json!("desk")));
    let resolved = event(admin, &run, "interrupt.resolved");
    assert_eq!(
        (&resolved["resolvedBy"], &resolved["resumeValue"]["actedBy"]),
        (&json!("dana"), &json!("desk"))
    );
    // An answer in the caller's own name has no actedBy, even if the body contains one.
    let run = admin.start_run("gated");
    let own = json!({"action": "accept", "decidedBy": "dana", "actedBy": "erin"});
    assert_eq!(plain.answer(&run, "gate", &own).status, 200);
    assert_eq!(event(admin, &run, "approval.received").get("actedBy"), None);
}

#[test]
fn a_role_name_is_not_accepted_as_a_principal_in_answers_and_links() {
    let server = server(json!({"approversList": ["finance"]}));
    let admin = &server.client;
    let scopes = ["runs:create", "runs:read", "approvals:respond", "approvals:act-as"];
    let desk = key(admin, &json!({"principal": "desk", "scopes": scopes}));
    let fay = key(admin, &json!({"principal": "fay", "roles": ["finance"]}));
    let run = admin.start_run("gated");
    let in_its_name = json!({"action": "accept", "decidedBy": "finance"});
    let tokens = format!("/v1/runs/{run}/interrupts/gate/tokens");
    let link = |name: &str| desk.post(&tokens, &json!({"for": name}));
    for refused in [
        desk.answer(&run, "gate", &in_its_name),
        answer_on_deprecated_path(&desk, &run, &in_its_name),
        link("finance"),
    ] {
        refused.assert_envelope(403, "forbidden");
        assert!(
            refused.body["message"].as_str().unwrap().contains("create a key for finance"),
            "{refused:?}"
        );
    }
    // A link whose principal had a key when it was minted and has none now.
    let made = admin.post("/v1/keys", &json!({"principal": "finance"})).body;
    let minted = link("finance");
    assert_eq!(minted.status, 201, "{minted:?}");
    let revoke = format!("/v1/keys/{}", made["keyId"].as_str().unwrap());
    assert_eq!(admin.send("DELETE", &revoke, None).status, 204);
    let path = format!("/v1/interrupts/{}", minted.body["token"].as_str().unwrap());
    let answered = desk.with_key(None).post(&path, &json!({"resumeValue": accept()}));
    answered.assert_envelope(403, "forbidden");
    // A principal with the role may answer, and so may a principal with that name.
    assert_eq!(fay.answer(&run, "gate", &accept()).status, 200);
    key(admin, &json!({"principal": "finance"}));
    let run = admin.start_run("gated");
    assert_eq!(desk.answer(&run, "gate", &in_its_name).status, 200);
}

#[test]
fn keys_and_links_cannot_have_reserved_names() {
    let server = server(json!({}));
    let admin = &server.client;
    let run = admin.start_run("gated");
    let tokens = format!("/v1/runs/{run}/interrupts/gate/tokens");
    for name in ["system:timeout", "system:answer-service", "system:", "quorum:2"] {
        let refused = admin.post("/v1/keys", &json!({"principal": name}));
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], "principal");
        let refused = admin.post(&tokens, &json!({"for": name}));
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], "for");
    }
    for name in ["systems", "quorum"] {
        assert_eq!(admin.post("/v1/keys", &json!({"principal": name})).status, 201);
        assert_eq!(admin.post(&tokens, &json!({"for": name})).status, 201);
    }
}

#[test]
fn the_act_as_scope_is_not_a_default_scope() {
    let server = Server::start();
    let usual = server.client.post("/v1/keys", &json!({})).body;
    assert!(!usual["scopes"].to_string().contains("act-as"), "{usual}");
    let clerk = key(&server.client, &json!({"scopes": ["keys:manage", "approvals:respond"]}));
    clerk.post("/v1/keys", &json!({"scopes": ["approvals:act-as"]})).assert_envelope(403, "forbidden");
    // A caller with keys:manage may give any name, role and group of the tenant, not only its own.
    let made = clerk.post("/v1/keys", &json!({"principal": "x", "roles": ["boss"], "groups": ["board"]}));
    assert_eq!((made.status, &made.body["groups"]), (201, &json!(["board"])), "{made:?}");
}

#[test]
fn a_requester_cannot_approve_for_another_principal() {
    let server = server(json!({"requesterMayNotApprove": true}));
    let scopes = json!(["runs:create", "approvals:respond", "approvals:act-as"]);
    let eve = key(&server.client, &json!({"principal": "eve", "scopes": scopes}));
    let run = eve.start_run("gated");
    for value in [accept(), json!({"action": "accept", "decidedBy": "ann"})] {
        eve.answer(&run, "gate", &value).assert_envelope(403, "forbidden");
        answer_on_deprecated_path(&eve, &run, &value).assert_envelope(403, "forbidden");
    }
    let for_eve = json!({"action": "accept", "decidedBy": "eve"});
    server.client.answer(&run, "gate", &for_eve).assert_envelope(403, "forbidden");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
}

#[test]
fn an_answer_with_a_wrong_digest_is_rejected() {
    let server = server(json!({"description": "as it is"}));
    let client = &server.client;
    let run = client.start_run("gated");
    let shown = digest(&event(client, &run, "interrupt.requested")["data"]);
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let answer = |digest: &Value| client.post(&path, &json!({"resumeValue": accept(), "digest": digest}));
    let other = digest(&json!({"description": "as it was"}));
    for wrong in [json!(other), json!(""), json!(shown.to_uppercase())] {
        answer(&wrong).assert_envelope(409, "payload_mismatch");
        let old = json!({"action": "accept", "digest": wrong});
        answer_on_deprecated_path(client, &run, &old).assert_envelope(409, "payload_mismatch");
    }
    answer(&json!(7)).assert_envelope(400, "validation_error");
    answer_on_deprecated_path(client, &run, &json!({"action": "accept", "digest": 7}))
        .assert_envelope(400, "validation_error");
    assert_eq!(client.status(&run), "waiting-approval");
    // A digest inside the value is part of the value and is not compared.
    let inside = json!({"resumeValue": {"action": "accept", "digest": other}, "digest": null});
    assert_eq!(client.post(&path, &inside).status, 200);
    let run = client.start_run("gated");
    let shown = digest(&event(client, &run, "interrupt.requested")["data"]);
    assert_eq!(
        answer_on_deprecated_path(client, &run, &json!({"decision": "approved", "digest": shown})).status,
        200
    );
    assert_eq!(event(client, &run, "approval.received").get("digest"), None);
}

#[test]
fn the_deprecated_path_takes_the_old_words_under_the_same_rules() {
    let server = server(json!({"approversList": ["ann", "bootstrap"]}));
    let client = &server.client;
    for (body, status) in [
        (json!({"action": "accept"}), "completed"),
        (json!({"decision": "approved"}), "completed"),
        (json!({"decision": "rejected", "feedback": "no"}), "failed"),
        (json!({"action": "reject"}), "failed"),
    ] {
        let run = client.start_run("gated");
        let answered = answer_on_deprecated_path(client, &run, &body);
        assert_eq!((answered.status, &answered.body["status"]), (200, &json!(status)), "{answered:?}");
        assert_eq!(
            (&answered.body["nodeId"], &answered.body["outcome"]),
            (&json!("gate"), &json!("resolved"))
        );
        answer_on_deprecated_path(client, &run, &body).assert_envelope(409, "interrupt_already_resolved");
    }
    let run = client.start_run("gated");
    answer_on_deprecated_path(&client.with_key(None), &run, &accept())
        .assert_envelope(401, "unauthenticated");
    let reader = key(client, &json!({"principal": "ann", "scopes": ["runs:read"]}));
    answer_on_deprecated_path(&reader, &run, &accept()).assert_envelope(403, "forbidden");
    let other = key(client, &json!({"principal": "eve"}));
    answer_on_deprecated_path(&other, &run, &accept()).assert_envelope(403, "forbidden");
    answer_on_deprecated_path(client, &run, &json!({"action": "ask", "question": "?"}))
        .assert_envelope(400, "validation_error");
    answer_on_deprecated_path(client, &run, &json!(["accept"])).assert_envelope(400, "validation_error");
    answer_on_deprecated_path(client, "unknown", &accept()).assert_envelope(404, "not_found");
    let other_node = client.post(&format!("/v1/runs/{run}/approvals/after"), &accept());
    other_node.assert_envelope(404, "interrupt_not_found");
    let path = format!("/v1/runs/{run}/approvals/gate");
    let once =
        |body: &str| client.exchange("POST", &path, Some(body.as_bytes()), &[("idempotency-key", "k")]);
    let (first, again) = (once(r#"{"action":"accept"}"#), once(r#"{"action":"accept"}"#));
    assert_eq!((first.status().as_u16(), again.status().as_u16()), (200, 200));
    assert_eq!(first.body(), again.body());
}

#[test]
fn a_cancelled_run_is_a_conflict_on_the_deprecated_path() {
    let server = server(json!({}));
    let client = &server.client;
    let run = client.start_run("gated");
    client.post(&format!("/v1/runs/{run}/cancel"), &json!({}));
    client.answer(&run, "gate", &accept()).assert_envelope(422, "interrupt_cancelled");
    answer_on_deprecated_path(client, &run, &accept()).assert_envelope(409, "interrupt_cancelled");
    let document = client.get("/v1/openapi.json").body;
    let path = &document["paths"]["/v1/runs/{runId}/approvals/{nodeId}"]["post"];
    assert_eq!(path["deprecated"], true);
}

#[test]
fn a_gate_that_requires_a_key_accepts_only_keys_with_the_scope() {
    let profile = "openwop-interrupt-auth-required";
    let server = server(json!({"profile": profile}));
    let client = &server.client;
    let run = client.start_run("gated");
    client.with_key(None).answer(&run, "gate", &accept()).assert_envelope(401, "unauthenticated");
    client.with_key(Some("hp_no")).answer(&run, "gate", &accept()).assert_envelope(401, "unauthenticated");
    let reader = key(client, &json!({"scopes": ["runs:read", "runs:create", "runs:cancel"]}));
    let refused = reader.answer(&run, "gate", &accept());
    refused.assert_envelope(403, "forbidden");
    assert_eq!(refused.body["details"]["scopeRequired"], "approvals:respond");
    assert_eq!(client.status(&run), "waiting-approval");
    assert_eq!(event(client, &run, "interrupt.requested")["data"]["profile"], profile);
    let clerk = key(client, &json!({"scopes": ["approvals:respond"]}));
    assert_eq!(clerk.answer(&run, "gate", &accept()).status, 200);
    assert_eq!(client.status(&run), "completed");
}

/// A gate that shows the input `shown`, and a call that sends the input `sent`.
fn paying(url: &str) -> Value {
    let mut flow = linear(
        "pay",
        &[
            ("gate", "core.approvalGate", json!({"title": "Pay?"})),
            ("pay", "core.http", json!({"method": "POST", "url": url, "approvedBy": "gate"})),
        ],
    );
    let variable = |name: &str| json!({"type": "variable", "variableName": name});
    flow["nodes"][0]["inputs"] = json!({"artifact": variable("shown")});
    flow["nodes"][1]["inputs"] = json!({"body": variable("sent")});
    flow
}

#[test]
fn an_unapproved_call_opens_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(&folder.path().join("data"), &["--outgoing-allow-loopback"]);
    let client = &server.client;
    let bank = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", bank.local_addr().unwrap());
    assert_eq!(client.put("/v1/workflows/pay", &paying(&url)).status, 201);
    let decided = |sent: Value| {
        let inputs = json!({"shown": {"amount": 100, "to": "ann"}, "sent": sent});
        let made = client.post("/v1/runs", &json!({"workflowId": "pay", "inputs": inputs}));
        let run = made.body["runId"].as_str().unwrap().to_owned();
        assert_eq!(client.answer(&run, "gate", &accept()).status, 200);
        run
    };
    let run = decided(json!({"amount": 100, "to": "eve"}));
    let log = client.wait_for_end(&run);
    assert_eq!(log.last().unwrap()["payload"]["error"]["code"], "approval_mismatch", "{log:?}");
    bank.set_nonblocking(true).unwrap();
    assert_eq!(
        bank.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "the server opened a connection"
    );
    bank.set_nonblocking(false).unwrap();
    let request = std::thread::spawn(move || {
        let (mut peer, _) = bank.accept().unwrap();
        let mut request = vec![0; 4096];
        let length = peer.read(&mut request).unwrap();
        peer.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let run = decided(json!({"to": "ann", "amount": 100}));
    assert_eq!(client.wait_for_end(&run).last().unwrap()["type"], "run.completed");
    assert!(request.join().unwrap().starts_with("POST / HTTP/1.1"));
}

#[test]
fn roles_and_groups_of_a_key_are_limited() {
    let server = Server::start();
    let names = |count: usize| (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>();
    for member in ["roles", "groups"] {
        let made = server.client.post("/v1/keys", &json!({"principal": "ann", member: names(64)}));
        assert_eq!(made.status, 201, "{made:?}");
        let refused = server.client.post("/v1/keys", &json!({"principal": "ann", member: names(65)}));
        refused.assert_envelope(400, "validation_error");
    }
}
