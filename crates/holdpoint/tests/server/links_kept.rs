//! Secrets and limits of links: rotation, restarts, settings, and that no token is left lying about.

use holdpoint_engine::{Engine, Location, Options, SealKey};
use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, gated};
use crate::links::Link;
use crate::once::{is_replay, send};

fn started(client: &Client) -> String {
    client.put("/v1/workflows/gated", &gated("gated"));
    client.start_run("gated")
}

fn kids(client: &Client) -> Vec<(String, bool)> {
    let secrets = client.get("/v1/secrets").body;
    let of = |one: &Value| (one["kid"].as_str().unwrap().to_owned(), one["retiredAt"].is_null());
    secrets["secrets"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_rotation_leaves_older_links_good_and_revoking_ends_them() {
    let server = Server::start();
    let client = &server.client;
    let (one, two) = (started(client), started(client));
    assert_eq!(kids(client), [], "the first link makes the first secret");
    let before = Link::mint(client, &one, "gate", &json!({}));
    let rotated = client.post("/v1/secrets:rotate", &json!({}));
    assert_eq!(rotated.status, 200, "{rotated:?}");
    let known = kids(client);
    assert_eq!((known.len(), known[0].1), (2, false), "the old one is retired");
    assert_eq!(known[1], (rotated.body["kid"].as_str().unwrap().to_owned(), true));
    let after = Link::mint(client, &two, "gate", &json!({}));
    assert_eq!(before.open().status, 200);
    assert_eq!(before.answer(&accept()).status, 200, "nothing is orphaned");
    let server = server.kill_and_restart();
    let client = &server.client;
    assert_eq!(client.with_key(None).get(&format!("/v1/interrupts/{}", after.token)).status, 200);
    assert_eq!(client.post("/v1/secrets:rotate", &json!({"revokeOld": true})).status, 200);
    let gone = client.with_key(None).get(&format!("/v1/interrupts/{}", after.token));
    gone.assert_envelope(404, "interrupt_not_found");
    assert_eq!(kids(client).len(), 1);
    let link = Link::mint(client, &two, "gate", &json!({}));
    assert_eq!(link.answer(&accept()).status, 200);
}

#[test]
fn an_answer_over_a_link_is_carried_out_once_under_its_key() {
    let server = Server::start();
    let client = &server.client;
    let run = started(client);
    let link = Link::mint(client, &run, "gate", &json!({}));
    let path = format!("/v1/interrupts/{}", link.token);
    let body = json!({"resumeValue": accept()});
    let anybody = client.with_key(None);
    let first = send(&anybody, "POST", &path, Some(&body), "k");
    let again = send(&anybody, "POST", &path, Some(&body), "k");
    assert_eq!((first.status().as_u16(), again.body()), (200, first.body()));
    assert!(!is_replay(&first) && is_replay(&again));
    let other = send(&anybody, "POST", &path, Some(&body), "another");
    assert_eq!(other.status(), 409);
    let resolved = client.events(&run).iter().filter(|event| event["type"] == "interrupt.resolved").count();
    assert_eq!(resolved, 1);
}

#[test]
fn links_lead_where_the_operator_says_and_live_no_longer() {
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
    assert!((60..70).contains(&life.as_secs()), "half an hour is more than is allowed: {life}");
}

#[test]
fn links_may_not_be_tried_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(&folder.path().join("data"), &["--link-rate-limit", "1"]);
    let run = started(&server.client);
    let link = Link::mint(&server.client, &run, "gate", &json!({}));
    let anybody = server.client.with_key(None);
    let refused = (0..20)
        .map(|_| anybody.exchange("GET", "/v1/interrupts/garbage", None, &[]))
        .find(|answer| answer.status() != 404)
        .expect("an end");
    let shown: Value = serde_json::from_str(refused.body()).unwrap();
    assert_eq!((refused.status().as_u16(), &shown["error"]), (429, &json!("rate_limited")));
    assert_eq!(shown["details"]["scope"], "route");
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(link.open().status, 429, "good or not: it is the address that is counted");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200, "keys are counted elsewhere");
}

#[test]
fn no_token_and_no_secret_is_left_anywhere() {
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
    let anybody = client.with_key(None);
    let one = format!("/v1/interrupts/{token}");
    for body in [json!({}), json!({"resumeValue": {"action": "explode"}}), json!({"resumeValue": accept()})] {
        check("an answer", send(&anybody, "POST", &one, Some(&body), "canary").body());
    }
    check("an answer", anybody.exchange("GET", &one, None, &[]).body());
    check("an answer", anybody.exchange("GET", &format!("{one}x"), None, &[]).body());
    check("the events", &Value::Array(client.events(&run)).to_string());
    for mode in ["values", "updates", "debug"] {
        let frames = client.stream(&format!("/v1/runs/{run}/events?streamMode={mode}"), None);
        check(mode, &format!("{frames:?}"));
    }
    check("the debug bundle", &client.get(&format!("/v1/runs/{run}/debug-bundle")).body.to_string());
    check("the metrics", &anybody.get("/metrics").body.to_string());
    let listed = client.get("/v1/secrets").body;
    let rotated = send(client, "POST", "/v1/secrets:rotate", Some(&json!({})), "canary");
    let again = send(client, "POST", "/v1/secrets:rotate", Some(&json!({})), "canary");
    assert!(is_replay(&again));
    let kept = database(server.data());
    server.kill();
    check("the database", &kept);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("links are signed with another secret"), "this is the log: {log}");
    check("the log", &log);
    let secrets = secrets_of(server.data());
    assert_eq!(secrets.len(), 2, "the one that was replaced and the one that signs");
    let listed = listed.to_string();
    for text in [&log, &kept, &listed, again.body(), rotated.body()] {
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "a secret: {text}");
    }
}

/// The secrets of links, which only who has the seal key can read.
fn secrets_of(folder: &std::path::Path) -> Vec<String> {
    let key = SealKey::kept_in(&folder.join("seal.key")).unwrap();
    let options = Options::new(Location::Sqlite(folder.join("holdpoint.db"))).seal_key(key);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let secrets = runtime.block_on(async { Engine::open(options).await.unwrap().secrets().await.unwrap() });
    secrets.into_iter().map(|one| one.secret).collect()
}

/// Everything that the server has written, as text.
fn database(folder: &std::path::Path) -> String {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files
        .filter_map(|path| std::fs::read(path).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}
