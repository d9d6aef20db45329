//! Keys, scopes and tenants.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, gated};

/// A key made by `maker`, as a client.
fn key(maker: &Client, body: &Value) -> Client {
    let made = maker.post("/v1/keys", body);
    assert_eq!(made.status, 201, "{made:?}");
    maker.with_key(made.body["key"].as_str())
}

#[test]
fn every_route_asks_who_calls_and_for_one_scope() {
    let server = Server::start();
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let run = admin.start_run("gated");
    let routes = [
        ("GET", "/v1/workflows".to_owned(), "manifest:read"),
        ("GET", "/v1/workflows/gated".to_owned(), "manifest:read"),
        ("PUT", "/v1/workflows/gated".to_owned(), "manifest:write"),
        ("POST", "/v1/runs".to_owned(), "runs:create"),
        ("GET", "/v1/runs".to_owned(), "runs:read"),
        ("GET", format!("/v1/runs/{run}"), "runs:read"),
        ("GET", format!("/v1/runs/{run}/events"), "runs:read"),
        ("GET", format!("/v1/runs/{run}/events/poll"), "runs:read"),
        ("POST", format!("/v1/runs/{run}/cancel"), "runs:cancel"),
        ("POST", format!("/v1/runs/{run}/interrupts/gate"), "approvals:respond"),
        ("GET", "/v1/interrupts".to_owned(), "approvals:respond"),
        ("GET", format!("/v1/threads/{run}/dispatches"), "runs:read"),
        ("GET", "/v1/dispatches/some".to_owned(), "runs:read"),
        ("POST", "/v1/dispatches/some/cancel".to_owned(), "runs:cancel"),
        ("POST", "/v1/dispatches/some/requeue".to_owned(), "runs:create"),
        ("GET", "/v1/mailbox/stats".to_owned(), "runs:read"),
        ("POST", "/v1/keys".to_owned(), "keys:manage"),
        ("GET", "/v1/keys".to_owned(), "keys:manage"),
        ("DELETE", "/v1/keys/some".to_owned(), "keys:manage"),
    ];
    let scopes = [
        "manifest:read",
        "manifest:write",
        "runs:create",
        "runs:read",
        "runs:cancel",
        "approvals:respond",
        "keys:manage",
    ];
    for (method, path, scope) in &routes {
        // Broken bodies on purpose: who may not call does not learn whether the body was good.
        let body = (*method != "GET" && *method != "DELETE").then_some(&b"{"[..]);
        admin.with_key(None).send(method, path, body).assert_envelope(401, "unauthenticated");
        let stranger = admin.with_key(Some("hp_0000")).send(method, path, body);
        stranger.assert_envelope(401, "unauthenticated");
        assert!(!stranger.body.to_string().contains("hp_0000"), "a key is never repeated");
        let others: Vec<&str> = scopes
            .iter()
            .filter(|other| *other != scope && !(path == "/v1/interrupts" && **other == "runs:read"))
            .copied()
            .collect();
        let refused = key(admin, &json!({"scopes": others})).send(method, path, body);
        refused.assert_envelope(403, "forbidden");
        assert_eq!(refused.body["details"]["scopeRequired"], *scope);
    }
    assert_eq!(admin.status(&run), "waiting-approval");
}

#[test]
fn one_tenant_never_sees_another() {
    let server = Server::start();
    let ours = &server.client;
    ours.put("/v1/workflows/gated", &gated("gated"));
    let run = ours.start_run("gated");
    let theirs = key(ours, &json!({"tenant": "theirs"}));
    for path in
        [format!("/v1/runs/{run}"), format!("/v1/runs/{run}/events"), "/v1/workflows/gated".to_owned()]
    {
        theirs.get(&path).assert_envelope(404, "not_found");
    }
    theirs.post(&format!("/v1/runs/{run}/cancel"), &json!({})).assert_envelope(404, "not_found");
    theirs.answer(&run, "gate", &accept()).assert_envelope(404, "not_found");
    theirs.post("/v1/runs", &json!({"workflowId": "gated"})).assert_envelope(400, "validation_error");
    assert_eq!(theirs.get("/v1/runs").body["runs"], json!([]));
    assert_eq!(theirs.get("/v1/interrupts").body["interrupts"], json!([]));
    assert_eq!(ours.status(&run), "waiting-approval");
}

#[test]
fn a_revoked_key_is_refused_at_once() {
    let server = Server::start();
    let made = server.client.post("/v1/keys", &json!({"principal": "eve"}));
    let eve = server.client.with_key(made.body["key"].as_str());
    assert_eq!(eve.get("/v1/runs").status, 200);
    let path = format!("/v1/keys/{}", made.body["keyId"].as_str().unwrap());
    assert_eq!(server.client.send("DELETE", &path, None).status, 204);
    eve.get("/v1/runs").assert_envelope(401, "key_revoked");
    let listed = server.client.get("/v1/keys").body;
    assert!(!listed.to_string().contains(made.body["key"].as_str().unwrap()), "only hashes are kept");
}

#[test]
fn nobody_hands_out_more_than_they_hold() {
    let server = Server::start();
    let clerk = key(&server.client, &json!({"scopes": ["keys:manage", "runs:read"]}));
    clerk.post("/v1/keys", &json!({"scopes": ["runs:cancel"]})).assert_envelope(403, "forbidden");
    clerk.post("/v1/keys", &json!({"tenant": "new"})).assert_envelope(403, "forbidden");
    let made = clerk.post("/v1/keys", &json!({}));
    assert_eq!(made.body["scopes"], json!(["runs:read"]));
}

#[test]
fn a_gate_that_names_its_approvers_takes_no_other_answer() {
    let server = Server::start();
    let mut flow = gated("named");
    flow["nodes"][1]["config"]["approversList"] = json!(["alice", "finance"]);
    assert_eq!(server.client.put("/v1/workflows/named", &flow).status, 201);
    let bob = key(&server.client, &json!({"principal": "bob"}));
    let carol = key(&server.client, &json!({"principal": "carol", "roles": ["finance"]}));
    let run = server.client.start_run("named");
    bob.answer(&run, "gate", &accept()).assert_envelope(403, "forbidden");
    assert_eq!(carol.answer(&run, "gate", &accept()).status, 200);
    let log = server.client.events(&run);
    let received = log.iter().find(|event| event["type"] == "approval.received").unwrap();
    assert_eq!(received["payload"]["decidedBy"], "carol");
}
