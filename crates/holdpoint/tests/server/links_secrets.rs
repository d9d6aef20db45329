//! Secrets of signed links: rotation, restarts, settings, rate limits, and no stored tokens.

use holdpoint_core::Timestamp;
use holdpoint_engine::{Engine, LinkSecret, Location, Options, SealKey};
use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, gated};
use crate::idempotency::{is_replay, send};
use crate::links::Link;

fn started(client: &Client) -> String {
    client.put("/v1/workflows/gated", &gated("gated"));
    client.start_run("gated")
}

fn secret_ids(client: &Client) -> Vec<(String, bool)> {
    let secrets = client.get("/v1/secrets").body;
    let of = |one: &Value| (one["kid"].as_str().unwrap().to_owned(), one["retiredAt"].is_null());
    secrets["secrets"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_rotation_keeps_older_links_valid_and_revoking_ends_them() {
    let server = Server::start();
    let client = &server.client;
    let (one, two) = (started(client), started(client));
    assert_eq!(secret_ids(client), [], "the first link creates the first secret");
    let before = Link::mint(client, &one, "gate", &json!({}));
    let rotated = client.post("/v1/secrets:rotate", &json!({}));
    assert_eq!(rotated.status, 200, "{rotated:?}");
    let known = secret_ids(client);
    assert_eq!((known.len(), known[0].1), (2, false), "the old secret is retired");
    assert_eq!(known[1], (rotated.body["kid"].as_str().unwrap().to_owned(), true));
    let after = Link::mint(client, &two, "gate", &json!({}));
    assert_eq!(before.open().status, 200);
    assert_eq!(before.answer(&accept()).status, 200, "an older link still answers");
    let server = server.kill_and_restart();
    let client = &server.client;
    assert_eq!(client.with_key(None).get(&format!("/v1/interrupts/{}", after.token)).status, 200);
    assert_eq!(client.post("/v1/secrets:rotate", &json!({"revokeOld": true})).status, 200);
    let revoked = client.with_key(None).get(&format!("/v1/interrupts/{}", after.token));
    revoked.assert_envelope(404, "interrupt_not_found");
    assert_eq!(secret_ids(client).len(), 1);
    let link = Link::mint(client, &two, "gate", &json!({}));
    assert_eq!(link.answer(&accept()).status, 200);
}

#[test]
fn an_answer_over_a_link_is_executed_once_per_idempotency_key() {
    let server = Server::start();
    let client = &server.client;
    let run = started(client);
    let link = Link::mint(client, &run, "gate", &json!({}));
    let path = format!("/v1/interrupts/{}", link.token);
    let body = json!({"resumeValue": accept()});
    let anonymous = client.with_key(None);
    let first = send(&anonymous, "POST", &path, Some(&body), "k");
    let again = send(&anonymous, "POST", &path, Some(&body), "k");
    assert_eq!((first.status().as_u16(), again.body()), (200, first.body()));
    assert!(!is_replay(&first) && is_replay(&again));
    for _ in 0..2 {
        let other = send(&anonymous, "POST", &path, Some(&body), "another");
        assert_eq!(other.status(), 409);
        assert!(!is_replay(&other), "a refused request without a key stores no receipt");
    }
    let resolved = client.events(&run).iter().filter(|event| event["type"] == "interrupt.resolved").count();
    assert_eq!(resolved, 1);
}

#[test]
fn links_use_the_configured_url_and_lifetime() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["--public-url", "https://hold.example/base/", "--link-seconds-max", "60"];
    let server = Server::start_in(&folder.path().join("data"), &settings);
    let run = started(&server.client);
    let link = Link::mint(&server.client, &run, "gate", &json!({}));
    let url = format!("https://hold.example/base/v1/interrupts/{}", link.token);
    assert_eq!(link.minted["url"], url);
    let snapshot = server.client.get(&format!("/v1/runs/{run}")).body;
    let shown = snapshot["interrupt"]["callbackUrl"].as_str().unwrap();
    assert!(shown.starts_with("https://hold.example/base/v1/interrupts/"), "{shown}");
    let path = format!("/v1/runs/{run}/interrupts/gate/tokens");
    server.client.post(&path, &json!({"expiresInSeconds": 61})).assert_envelope(400, "validation_error");
    let instant = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let life =
        instant(&link.minted["expiresAt"]).duration_since(instant(&snapshot["interrupt"]["requestedAt"]));
    assert!((60..70).contains(&life.as_secs()), "the default of half an hour is capped: {life}");
}

/// Repeats a request until the status changes. Returns that response.
fn repeat_until_status_changes(
    open: impl Fn() -> ureq::http::Response<String>,
    status: u16,
) -> ureq::http::Response<String> {
    (0..20).map(|_| open()).find(|answer| answer.status() != status).expect("the status changes")
}

#[test]
fn invalid_links_are_rate_limited_and_valid_links_pass() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(&folder.path().join("data"), &["--link-rate-limit", "1"]);
    let run = started(&server.client);
    let link = Link::mint(&server.client, &run, "gate", &json!({}));
    let anonymous = server.client.with_key(None);
    let refused =
        repeat_until_status_changes(|| anonymous.exchange("GET", "/v1/interrupts/garbage", None, &[]), 404);
    let shown: Value = serde_json::from_str(refused.body()).unwrap();
    assert_eq!((refused.status().as_u16(), &shown["error"]), (429, &json!("rate_limited")));
    assert_eq!(shown["details"]["scope"], "route");
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(link.open().status, 200, "behind a proxy all callers have one address");
    assert_eq!(link.answer(&accept()).status, 200);
}

#[test]
fn a_valid_link_is_rate_limited_per_interrupt_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(&folder.path().join("data"), &["--link-rate-limit", "1"]);
    let client = &server.client;
    let run = started(client);
    let link = |run: &str, name: &str| Link::mint(client, run, "gate", &json!({"for": name}));
    let (ann, again, bob) = (link(&run, "ann"), link(&run, "ann"), link(&run, "bob"));
    let elsewhere = link(&started(client), "ann");
    let anonymous = client.with_key(None);
    let path = format!("/v1/interrupts/{}", ann.token);
    let refused = repeat_until_status_changes(|| anonymous.exchange("GET", &path, None, &[]), 200);
    let shown: Value = serde_json::from_str(refused.body()).unwrap();
    assert_eq!((refused.status().as_u16(), &shown["details"]["scope"]), (429, &json!("route")));
    assert_eq!(again.open().status, 429, "another link to the same interrupt for the same name");
    assert_eq!((bob.open().status, elsewhere.open().status), (200, 200));
    assert_eq!(client.answer(&run, "gate", &accept()).status, 200, "keys have their own limit");
}

#[test]
fn no_token_and_no_secret_is_in_logs_responses_or_the_database() {
    let (mut server, log) = Server::start_logging(&[], "trace");
    let client = &server.client.clone();
    let run = started(client);
    let body = json!({});
    let path = format!("/v1/runs/{run}/interrupts/gate/tokens");
    let minted = send(client, "POST", &path, Some(&body), "canary");
    let minted: Value = serde_json::from_str(minted.body()).unwrap();
    let token = minted["token"].as_str().unwrap().to_owned();
    let offered = client.get(&format!("/v1/runs/{run}")).body["interrupt"]["interruptToken"].clone();
    let signatures: Vec<String> = [token.as_str(), offered.as_str().unwrap()]
        .map(|token| token.split_once('.').unwrap().1.to_owned())
        .into();
    let check = |what: &str, text: &str| {
        assert!(text.len() > 20, "{what} is there: {text}");
        for signature in &signatures {
            assert!(!text.contains(signature), "a token in {what}: {text}");
        }
    };
    let again = send(client, "POST", &path, Some(&body), "canary");
    assert!(is_replay(&again));
    check("a receipt", again.body());
    check("the pending view", &client.get("/v1/interrupts").body.to_string());
    let anonymous = client.with_key(None);
    let one = format!("/v1/interrupts/{token}");
    for body in [json!({}), json!({"resumeValue": {"action": "explode"}}), json!({"resumeValue": accept()})] {
        check("a response", send(&anonymous, "POST", &one, Some(&body), "canary").body());
    }
    check("a response", anonymous.exchange("GET", &one, None, &[]).body());
    check("a response", anonymous.exchange("GET", &format!("{one}x"), None, &[]).body());
    check("the events", &Value::Array(client.events(&run)).to_string());
    for mode in ["values", "updates", "debug"] {
        let frames = client.stream(&format!("/v1/runs/{run}/events?streamMode={mode}"), None);
        check(mode, &format!("{frames:?}"));
    }
    check("the debug bundle", &client.get(&format!("/v1/runs/{run}/debug-bundle")).body.to_string());
    check("the metrics", &anonymous.get("/metrics").body.to_string());
    let listed = client.get("/v1/secrets").body;
    let rotated = send(client, "POST", "/v1/secrets:rotate", Some(&json!({})), "canary");
    let again = send(client, "POST", "/v1/secrets:rotate", Some(&json!({})), "canary");
    assert!(is_replay(&again));
    let stored = database(server.data());
    server.kill();
    check("the database", &stored);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("links are now signed with a new secret"), "this is the log: {log}");
    check("the log", &log);
    let secrets = secrets_of(server.data());
    assert_eq!(secrets.len(), 2, "the retired secret and the one that signs");
    let listed = listed.to_string();
    for text in [&log, &stored, &listed, again.body(), rotated.body()] {
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "a secret: {text}");
    }
}

#[test]
fn a_waiting_run_is_shown_without_a_link_if_the_secret_is_unreadable() {
    let mut server = Server::start();
    let run = started(&server.client);
    server.kill();
    let unreadable = LinkSecret {
        kid: "bad".to_owned(),
        secret: "not a secret".to_owned(),
        created_at: Timestamp(1),
        retired_at: None,
    };
    let options = options(server.data());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let engine = Engine::open(options).await.unwrap();
        assert!(engine.secrets().add(&unreadable).await.unwrap());
        engine.close().await;
    });
    let server = server.kill_and_restart();
    let shown = server.client.get(&format!("/v1/runs/{run}"));
    assert_eq!((shown.status, &shown.body["interrupt"]["nodeId"]), (200, &json!("gate")), "{shown:?}");
    assert!(shown.body["interrupt"]["callbackUrl"].is_null(), "{shown:?}");
    let path = format!("/v1/runs/{run}/interrupts/gate/tokens");
    server.client.post(&path, &json!({})).assert_envelope(500, "internal_error");
}

fn options(folder: &std::path::Path) -> Options {
    let key = SealKey::load_or_create(&folder.join("seal.key")).unwrap();
    Options::new(Location::Sqlite(folder.join("holdpoint.db"))).manual_worker().seal_key(key)
}

/// Reads the secrets of links with the seal key.
fn secrets_of(folder: &std::path::Path) -> Vec<String> {
    let options = options(folder);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let secrets =
        runtime.block_on(async { Engine::open(options).await.unwrap().secrets().list().await.unwrap() });
    secrets.into_iter().map(|one| one.secret).collect()
}

/// Returns all files of the server as text.
fn database(folder: &std::path::Path) -> String {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files
        .filter_map(|path| std::fs::read(path).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}
