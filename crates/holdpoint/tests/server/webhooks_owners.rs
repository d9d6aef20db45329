//! Webhooks over HTTP have an owner and stop with its key. Their secrets are rotated with an overlap.

use serde_json::{Value, json};

use crate::harness::{Client, accept, create_key, gated};
use crate::receiver::{Hook, Receiver, server_at};
use crate::sessions::Browser;
use crate::test_database::{TestDatabase, on_both};

on_both! {
    creating_and_resuming_a_webhook_needs_the_scope_to_read_runs,
    a_webhook_shows_its_owner_and_is_paused_when_its_key_is_revoked,
    a_webhook_of_a_session_belongs_to_the_key_of_the_session,
    both_secrets_are_valid_during_the_overlap_of_a_rotation,
}

const SCOPES: [&str; 2] = ["webhooks:manage", "runs:read"];
const PRIVATE: [&str; 1] = ["--allow-private-webhooks"];

fn key(admin: &Client, principal: &str, scopes: &[&str]) -> Value {
    create_key(admin, &json!({"principal": principal, "scopes": scopes}))
}

fn client(admin: &Client, key: &Value) -> Client {
    admin.with_key(key["key"].as_str())
}

fn revoke(admin: &Client, key: &Value) {
    let path = format!("/v1/keys/{}", key["keyId"].as_str().unwrap());
    assert_eq!(admin.send("DELETE", &path, None).status, 204);
}

fn owner(key: &Value) -> Value {
    json!({"principal": key["principal"], "keyId": key["keyId"], "lineage": key["lineage"]})
}

fn durable(client: &Client, url: &str) -> Hook {
    Hook::create(client, url, json!({"events": ["run.started"], "durable": true}))
}

/// Starts a run and completes it, so that its events were committed.
fn run(admin: &Client) {
    let run = admin.start_run("gated");
    assert_eq!(admin.answer(&run, "gate", &accept()).status, 200);
}

fn creating_and_resuming_a_webhook_needs_the_scope_to_read_runs(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let admin = &server.client;
    let manager = client(admin, &key(admin, "mallory", &["webhooks:manage"]));
    let body = json!({"url": "https://8.8.8.8/", "events": ["node.completed"]});
    let hook = Hook::create(admin, "https://8.8.8.8/", json!({}));
    let resume = format!("{}:resume", hook.path());
    for refused in [manager.post("/v1/webhooks", &body), manager.send("POST", &resume, None)] {
        refused.assert_envelope(403, "forbidden");
        assert_eq!(refused.body["details"], json!({"scopeRequired": "runs:read"}));
    }
    let reader = client(admin, &key(admin, "rita", &["runs:read"]));
    let refused = reader.post("/v1/webhooks", &body);
    assert_eq!(refused.body["details"], json!({"scopeRequired": "webhooks:manage"}));
    assert_eq!(manager.send("POST", &format!("{}:pause", hook.path()), None).status, 200);
}

fn a_webhook_shows_its_owner_and_is_paused_when_its_key_is_revoked(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    let (ann, bob) = (key(admin, "ann", &SCOPES), key(admin, "bob", &SCOPES));
    let hook = durable(&client(admin, &ann), &receiver.url);
    assert_eq!(hook.shown["owner"], owner(&ann));
    run(admin);
    receiver.wait_for(1);
    revoke(admin, &ann);
    let listed = admin.get("/v1/webhooks").body["webhooks"][0].clone();
    assert_eq!((&listed["state"], &listed["reason"]), (&json!("paused"), &json!("key-revoked")));
    assert_eq!(listed["owner"], owner(&ann));
    let table = String::from_utf8(server.run(&["webhooks", "list"]).stdout).unwrap();
    assert!(table.contains("key-revoked") && table.contains("ann"), "{table}");
    let changes = admin.get(&format!("{}/events", hook.path())).body;
    assert_eq!(changes["events"][0]["payload"]["reason"], "key-revoked", "{changes}");
    run(admin);
    hook.wait_until(admin, "/deliveries", |page| page["deliveries"][0]["state"] == "queued");
    let resumed = client(admin, &bob).send("POST", &format!("{}:resume", hook.path()), None);
    assert_eq!((resumed.status, &resumed.body["owner"]), (200, &owner(&bob)));
    assert_eq!(resumed.body.get("reason"), None);
    let all = receiver.wait_for(2);
    assert_eq!(all.len(), 2, "the queued delivery is sent once, after the resume");
    hook.wait_until(admin, "/deliveries", |page| page["deliveries"][0]["state"] == "delivered");
}

fn a_webhook_of_a_session_belongs_to_the_key_of_the_session(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let admin = &server.client;
    let ann = key(admin, "ann", &SCOPES);
    let browser = Browser::sign_in(admin, &json!({"key": ann["key"]})).unwrap();
    let body = json!({"url": "https://8.8.8.8/", "events": ["run.completed"]});
    let (status, made) = browser.send("POST", "/v1/webhooks", Some(&body), &[("x-holdpoint-page", "1")]);
    assert_eq!((status, &made["owner"]), (201, &owner(&ann)));
    // The key stays valid after the end of the session.
    assert_eq!(browser.send("DELETE", "/v1/session", None, &[("x-holdpoint-page", "1")]).0, 204);
    let path = format!("/v1/webhooks/{}", made["webhookId"].as_str().unwrap());
    assert_eq!(admin.get(&path).body["state"], "active");
    revoke(admin, &ann);
    assert_eq!(admin.get(&path).body["state"], "paused");
}

fn both_secrets_are_valid_during_the_overlap_of_a_rotation(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    let hook = durable(admin, &receiver.url);
    let rotate = format!("{}:rotate", hook.path());
    admin.post(&rotate, &json!({"overlapSeconds": 2_592_001})).assert_envelope(400, "validation_error");
    admin.post(&rotate, &json!({"overlap": 1})).assert_envelope(400, "validation_error");
    let body = json!({"overlapSeconds": 3600}).to_string();
    let once = || admin.exchange("POST", &rotate, Some(body.as_bytes()), &[("idempotency-key", "r1")]);
    let rotated: Value = serde_json::from_str(once().body()).unwrap();
    let again: Value = serde_json::from_str(once().body()).unwrap();
    assert_eq!(again.get("secret"), None, "a secret is shown once");
    assert_eq!(again["secretFingerprint"], rotated["secretFingerprint"], "a secret is created once");
    assert_eq!(rotated["oldSecret"]["fingerprint"], hook.shown["secretFingerprint"]);
    let second = rotated["secret"].as_str().unwrap();
    run(admin);
    let one = receiver.wait_for(1).pop().unwrap();
    assert!(one.is_signed_with(&hook.secret));
    let mut next = one.clone();
    next.headers.insert("x-openwop-signature".to_owned(), one.header("openwop-signature-next").to_owned());
    assert!(next.is_signed_with(second));
    let third = admin.post(&rotate, &json!({"overlapSeconds": 0})).body;
    assert_eq!(third.get("oldSecret"), None);
    run(admin);
    let one = receiver.wait_for(2).pop().unwrap();
    assert!(one.is_signed_with(third["secret"].as_str().unwrap()));
    assert!(!one.headers.contains_key("x-openwop-signature-next"));
}

#[test]
fn a_key_revoked_at_one_node_stops_its_webhooks_at_another() {
    let database = TestDatabase::postgres();
    let (one, two) = (database.start_node("one", &PRIVATE), database.start_node("two", &PRIVATE));
    one.client.put("/v1/workflows/gated", &gated("gated"));
    let receiver = Receiver::start();
    let ann = key(&one.client, "ann", &SCOPES);
    let hook = durable(&client(&one.client, &ann), &receiver.url);
    run(&two.client);
    receiver.wait_for(1);
    revoke(&one.client, &ann);
    run(&two.client);
    let shown = hook.wait_until(&two.client, "", |hook| hook["state"] == "paused");
    assert_eq!(shown["reason"], "key-revoked");
    hook.wait_until(&two.client, "/deliveries", |page| page["deliveries"][0]["state"] == "queued");
    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(two.client.send("POST", &format!("{}:resume", hook.path()), None).status, 200);
    assert_eq!(receiver.wait_for(2).len(), 2);
}
