//! Keys, scopes and tenants.

use serde_json::json;

use crate::harness::{Server, accept, client_with_key as key, gated};

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
    assert!(!listed.to_string().contains(made.body["key"].as_str().unwrap()), "only hashes are stored");
}

#[test]
fn an_expired_key_is_rejected() {
    let server = Server::start();
    let made = server.client.post("/v1/keys", &json!({"expiresInSeconds": 1}));
    assert_eq!(made.status, 201, "{made:?}");
    assert!(made.body["expiresAt"].as_str() > made.body["createdAt"].as_str(), "{made:?}");
    let short = server.client.with_key(made.body["key"].as_str());
    // No event arrives, so this poll takes one second. The key has expired when it returns.
    let run = server.client.start_run("sample-approval");
    server.client.get(&format!("/v1/runs/{run}/events/poll?lastSequence=999&timeout=1"));
    short.get("/v1/runs").assert_envelope(401, "key_expired");
    let listed = server.client.get("/v1/keys").body;
    let listed = listed["keys"].as_array().unwrap().iter().find(|key| key["keyId"] == made.body["keyId"]);
    assert_eq!(listed.unwrap()["expiresAt"], made.body["expiresAt"]);
}

#[test]
fn a_key_cannot_create_a_key_that_expires_later() {
    let server = Server::start();
    let all = json!({"scopes": ["keys:manage", "runs:read"], "expiresAt": "2090-01-01T00:00:00Z"});
    let clerk = key(&server.client, &all);
    let late = json!({"expiresAt": "2090-01-01T00:00:00.001Z"});
    clerk.post("/v1/keys", &late).assert_envelope(403, "forbidden");
    let made = clerk.post("/v1/keys", &json!({"expiresAt": "2089-01-01T01:00:00+01:00"}));
    assert_eq!(made.body["expiresAt"], "2089-01-01T00:00:00.000Z");
    let made = clerk.post("/v1/keys", &json!({}));
    assert_eq!(
        made.body["expiresAt"], "2090-01-01T00:00:00.000Z",
        "without expiresAt, it expires with the key that created it"
    );
}

#[test]
fn test_keys_and_live_keys_share_no_tenant() {
    let server = Server::start();
    let live = &server.client;
    live.post("/v1/keys", &json!({"test": true})).assert_envelope(409, "key_kind_mismatch");
    let all = ["keys:manage", "tenants:manage", "runs:read"];
    let made = live.post("/v1/keys", &json!({"tenant": "lab", "test": true, "scopes": all}));
    assert!(made.body["key"].as_str().unwrap().starts_with("hp_test_"), "{made:?}");
    let test = live.with_key(made.body["key"].as_str());
    assert_eq!(test.get("/v1/runs").status, 200);
    live.post("/v1/keys", &json!({"tenant": "lab"})).assert_envelope(409, "key_kind_mismatch");
    test.post("/v1/keys", &json!({"test": false})).assert_envelope(403, "forbidden");
    test.post("/v1/keys", &json!({"tenant": "default"})).assert_envelope(409, "key_kind_mismatch");
    let made = test.post("/v1/keys", &json!({}));
    assert!(made.body["key"].as_str().unwrap().starts_with("hp_test_"), "{made:?}");
    let found = live.with_key(None).get("/.well-known/openwop").body;
    assert_eq!(found["testing"]["testKeyPrefix"], "hp_test_");
}

#[test]
fn a_key_cannot_create_a_key_with_more_scopes() {
    let server = Server::start();
    let clerk = key(&server.client, &json!({"scopes": ["keys:manage", "runs:read"]}));
    clerk.post("/v1/keys", &json!({"scopes": ["runs:cancel"]})).assert_envelope(403, "forbidden");
    clerk.post("/v1/keys", &json!({"tenant": "new"})).assert_envelope(403, "forbidden");
    let made = clerk.post("/v1/keys", &json!({}));
    assert_eq!(made.body["scopes"], json!(["runs:read"]));
}

#[test]
fn a_gate_with_approvers_rejects_answers_of_other_principals() {
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
