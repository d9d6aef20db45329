//! Registration of webhooks: responses, refusals, tenants, pause and resume.

use serde_json::{Value, json};

use crate::harness::{Client, Server, gated};
use crate::receiver::{Hook, Receiver, server_at};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_webhook_secret_is_shown_once_and_then_its_fingerprint,
    an_invalid_webhook_is_refused_with_the_name_of_the_member,
    a_webhook_cannot_have_a_private_address,
    the_flag_for_private_webhooks_allows_loopback_only,
    a_webhook_belongs_to_one_tenant,
    webhooks_are_listed_in_pages,
    a_webhook_is_paused_and_resumed_and_both_are_logged,
);

fn assert_refused(client: &Client, body: &Value, field: &str) -> Value {
    assert_refused_with("validation_error", client, body, field)
}

fn assert_refused_with(code: &str, client: &Client, body: &Value, field: &str) -> Value {
    let answer = client.post("/v1/webhooks", body);
    answer.assert_envelope(400, code);
    assert_eq!(answer.body["details"]["field"], field, "{answer:?}");
    answer.body
}

fn body(more: Value) -> Value {
    let mut body = json!({"url": "https://8.8.8.8/hook", "events": ["cap.breached"]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn a_webhook_secret_is_shown_once_and_then_its_fingerprint(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let answer = client.exchange("POST", "/v1/webhooks", Some(body(json!({})).to_string().as_bytes()), &[]);
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["cache-control"]),
        (201, &"no-store".parse().unwrap())
    );
    let made: Value = serde_json::from_str(answer.body()).unwrap();
    let secret = made["secret"].as_str().unwrap();
    assert!(
        secret.len() == 64 && secret.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        "{made}"
    );
    use sha2::Digest;
    let digest: String = sha2::Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(made["secretFingerprint"], digest[..8]);
    assert!(made["webhookId"].as_str().unwrap().starts_with("wh_"));
    assert_eq!((&made["signatureAlgorithm"], &made["state"]), (&json!("v1"), &json!("active")));
    assert_eq!((&made["mode"], &made["ordered"]), (&json!("durable"), &json!(true)));
    assert_eq!(made["tenantId"], "default");
    let mut known = made.clone();
    known
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !["secret", "subscriptionId", "eventTypes"].contains(&name.as_str()));
    let path = format!("/v1/webhooks/{}", made["webhookId"].as_str().unwrap());
    assert_eq!(client.get(&path).body, known);
    assert_eq!(client.get("/v1/webhooks").body, json!({"webhooks": [known]}));
    let again = client.post("/v1/webhooks", &body(json!({})));
    assert_eq!(again.status, 201, "the same URL creates another webhook");
    assert_ne!(again.body["webhookId"], made["webhookId"]);
    assert_ne!(again.body["secret"], made["secret"]);
}

fn an_invalid_webhook_is_refused_with_the_name_of_the_member(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    assert_refused(client, &json!({"events": ["run.completed"]}), "url");
    assert_refused(client, &json!({"url": "https://8.8.8.8/"}), "events");
    assert_refused(client, &body(json!({"events": []})), "events");
    let unknown =
        assert_refused(client, &body(json!({"events": ["run.completed", "run.exploded"]})), "events");
    let known = unknown["details"]["known"].as_array().unwrap();
    assert!(known.contains(&json!("run.completed")) && known.contains(&json!("approval.requested")));
    assert_refused(client, &body(json!({"secret": "mine"})), "secret");
    let other = assert_refused(
        client,
        &body(json!({"supportedSignatureAlgorithms": ["v9"]})),
        "supportedSignatureAlgorithms",
    );
    assert_eq!(other["details"]["supported"], json!(["v1"]));
    let both = client.post("/v1/webhooks", &body(json!({"supportedSignatureAlgorithms": ["v9", "v1"]})));
    assert_eq!((both.status, &both.body["signatureAlgorithm"]), (201, &json!("v1")));
    assert_refused(client, &body(json!({"tags": [""]})), "tags");
    assert_refused(client, &body(json!({"tags": vec!["t"; 101]})), "tags");
    assert_refused(client, &body(json!({"url": format!("https://8.8.8.8/{}", "x".repeat(2048))})), "url");
    for (policy, field) in [
        (json!({"maxAttempts": 0}), "retryPolicy.maxAttempts"),
        (json!({"maxAttempts": 101}), "retryPolicy.maxAttempts"),
        (json!({"backoff": "sometimes"}), "retryPolicy.backoff"),
        (json!({"baseMs": 2000, "maxMs": 1000}), "retryPolicy.baseMs"),
        (json!({"maxMs": 86_400_001}), "retryPolicy.maxMs"),
    ] {
        assert_refused(client, &body(json!({"durable": true, "retryPolicy": policy})), field);
    }
    for odd in [
        json!({"url": 7}),
        json!({"events": "run.completed"}),
        json!({"durable": "yes"}),
        json!({"tags": [1]}),
    ] {
        client.post("/v1/webhooks", &body(odd)).assert_envelope(400, "validation_error");
    }
    assert_eq!(client.get("/v1/webhooks").body["webhooks"].as_array().unwrap().len(), 1);
}

/// Addresses that are refused. Their secrets and paths must not be in the error.
const REFUSED_URLS: [&str; 22] = [
    "http://8.8.8.8/",
    "ftp://8.8.8.8/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://127.0.0.1/",
    "https://127.255.255.254/",
    "https://[::1]/",
    "https://169.254.169.254/computeMetadata/v1/",
    "https://[fe80::1]/",
    "https://[fc00::1]/",
    "https://[fd12:3456::1]/",
    "https://metadata.google.internal/",
    "https://metadata/",
    "https://localhost/",
    "https://a.localhost/",
    "https://[::ffff:10.0.0.1]/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://user:hunter2@8.8.8.8/",
    "not a url",
];

fn a_webhook_cannot_have_a_private_address(database: &TestDatabase) {
    let server = database.start(&[]);
    for url in REFUSED_URLS {
        let refused =
            assert_refused_with("webhook_url_rejected", &server.client, &body(json!({"url": url})), "url");
        let message = refused["message"].as_str().unwrap();
        assert!(!message.contains("hunter2") && !message.contains("computeMetadata"), "{message}");
    }
    assert_eq!(server.client.get("/v1/webhooks").body, json!({"webhooks": []}));
}

fn the_flag_for_private_webhooks_allows_loopback_only(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    for url in REFUSED_URLS {
        let loopback =
            ["127.", "[::1]", "localhost", "2130706433", "0x7f.1"].iter().any(|part| url.contains(part));
        let answer = client.post("/v1/webhooks", &body(json!({"url": url})));
        assert_eq!(answer.status == 201, loopback, "{url}: {answer:?}");
    }
    let plain = client.post("/v1/webhooks", &body(json!({"url": "http://127.0.0.1:9/hook"})));
    assert_eq!(plain.status, 201, "plain http is allowed too");
}

#[test]
fn a_server_with_the_flag_for_private_webhooks_logs_a_warning() {
    let (server, log) = Server::start_logging(&["--allow-private-webhooks"], "warn");
    assert!(std::fs::read_to_string(log).unwrap().contains("WEBHOOKS MAY REACH THIS MACHINE"));
    drop(server);
    let (_server, log) = Server::start_logging(&[], "warn");
    assert!(!std::fs::read_to_string(log).unwrap().contains("MAY REACH THIS MACHINE"));
}

fn a_webhook_belongs_to_one_tenant(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let key = client.post("/v1/keys", &json!({"tenant": "elsewhere"})).body;
    let other_tenant = client.with_key(key["key"].as_str());
    let ours =
        Hook::create(client, "https://8.8.8.8/", json!({"events": ["cap.breached"], "tenantId": "default"}));
    client.post("/v1/webhooks", &body(json!({"tenantId": "elsewhere"}))).assert_envelope(403, "forbidden");
    for (method, path) in [
        ("GET", ours.path()),
        ("DELETE", ours.path()),
        ("POST", format!("{}:pause", ours.path())),
        ("GET", format!("{}/deliveries", ours.path())),
        ("GET", format!("{}/events", ours.path())),
    ] {
        other_tenant.send(method, &path, None).assert_envelope(404, "subscription_not_found");
    }
    let foreign = other_tenant.send("DELETE", &format!("{}?tenantId=default", ours.path()), None);
    foreign.assert_envelope(403, "forbidden");
    assert_eq!(other_tenant.get("/v1/webhooks").body, json!({"webhooks": []}));
    assert_eq!(ours.fetch(client)["state"], "active");
    client
        .send("DELETE", &format!("{}?tenantId=elsewhere", ours.path()), None)
        .assert_envelope(403, "forbidden");
    assert_eq!(client.send("DELETE", &format!("{}?tenantId=default", ours.path()), None).status, 204);
    for _ in 0..2 {
        client.send("DELETE", &ours.path(), None).assert_envelope(404, "subscription_not_found");
    }
}

fn webhooks_are_listed_in_pages(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let made: Vec<Hook> = (0..5)
        .map(|_| Hook::create(client, "https://8.8.8.8/", json!({"events": ["cap.breached"]})))
        .collect();
    let mut seen = Vec::new();
    let mut next = String::new();
    loop {
        let page = client.get(&format!("/v1/webhooks?limit=2{next}")).body;
        seen.extend(page["webhooks"].as_array().unwrap().iter().map(|one| one["webhookId"].clone()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    assert_eq!(seen, made.iter().map(|hook| json!(hook.id)).collect::<Vec<_>>());
}

fn a_webhook_is_paused_and_resumed_and_both_are_logged(database: &TestDatabase) {
    let server = server_at(database, &[]);
    let client = &server.client;
    let receiver = Receiver::start();
    client.put("/v1/workflows/gated", &gated("gated"));
    let hook = Hook::create(client, &receiver.url, json!({"events": ["run.started"]}));
    let other = Hook::create(client, &receiver.url, json!({"events": ["run.started"]}));
    let paused = client.send("POST", &format!("{}:pause", hook.path()), None);
    assert_eq!((paused.status, &paused.body["state"]), (200, &json!("paused")));
    let while_paused = client.start_run("gated");
    receiver.wait_for(1);
    let resumed = client.send("POST", &format!("{}:resume", hook.path()), None);
    assert_eq!((resumed.status, &resumed.body["state"]), (200, &json!("active")));
    let after_resume = client.start_run("gated");
    let all = receiver.wait_for(3);
    let runs_of = |hook: &Hook| -> Vec<String> {
        let own = all.iter().filter(|one| one.header("x-openwop-webhook-id") == hook.id);
        own.map(|one| one.json()["runId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(runs_of(&hook), [after_resume.as_str()], "events during the pause are not sent later");
    assert_eq!(runs_of(&other).len(), 2);
    assert!(runs_of(&other).contains(&while_paused));
    let log = client.get(&format!("{}/events", hook.path())).body;
    let reasons: Vec<&Value> =
        log["events"].as_array().unwrap().iter().map(|event| &event["payload"]["reason"]).collect();
    assert_eq!(reasons, ["operator-paused", "operator-resumed"]);
    let first = &log["events"][0];
    assert_eq!(first["type"], "trigger.subscription.state.changed");
    assert_eq!(
        (&first["payload"]["fromState"], &first["payload"]["toState"]),
        (&json!("active"), &json!("paused"))
    );
    client.get(&format!("{}/events?type=x", hook.path())).assert_envelope(400, "validation_error");
    client.get(&format!("{}/events?cursor=x", hook.path())).assert_envelope(400, "validation_error");
}
