//! Clients put secrets into every part of a request. None may appear in a log, an event or an error.

use serde_json::{Value, json};

use crate::harness::{Client, KEY, Server, gated};

const CANARY: &str = "canary-7f3a91c2";

fn with(template: &str) -> String {
    template.replace("CANARY", CANARY)
}

/// Returns requests that are rejected, each with a secret in it.
fn rejected_requests(run: &str) -> Vec<(&'static str, String, Option<String>)> {
    let post = |path: &str, body: &str| ("POST", with(path), Some(with(body)));
    let get = |path: &str| ("GET", with(path), None);
    let answer = format!("/v1/runs/{run}/interrupts/gate");
    vec![
        get("/CANARY"),
        get("/v2/CANARY"),
        get("/v1/packs/CANARY"),
        get("/v1/runs/CANARY"),
        get("/v1/runs/CANARY/events"),
        get("/v1/runs/%ffCANARY"),
        get("/v1/runs?limit=CANARY"),
        get("/v1/runs?status=CANARY"),
        get("/v1/interrupts?cursor=CANARY"),
        get("/v1/workflows/CANARY"),
        get(&format!("/v1/runs/{run}/events?streamMode=CANARY")),
        get(&format!("/v1/runs/{run}/events/poll?lastSequence=CANARY")),
        post("/v1/runs/CANARY:fork", "{}"),
        post("/v1/runs", "CANARY"),
        post("/v1/runs", r#""CANARY""#),
        post("/v1/runs", r#"["CANARY"]"#),
        post("/v1/runs", r#"{"workflowId":"CANARY"}"#),
        post("/v1/runs", r#"{"workflowId":"gated","tags":"CANARY"}"#),
        post("/v1/runs", r#"{"workflowId":"gated","inputs":"CANARY"}"#),
        post("/v1/runs", r#"{"workflowId":"gated","tenantId":"CANARY"}"#),
        post("/v1/runs", r#"{"workflowId":"gated","inputs":{"CANARY":1,"CANARY":2}}"#),
        post("/v1/runs", r#"{"workflowId":"gated","inputs":{"secret":"CANARY"},"tags":[""],"metadata":7}"#),
        post("/v1/runs", r#"{"workflowId":"gated","callbackUrl":"CANARY"}"#),
        post("/v1/runs", r#"{"workflowId":"gated","callbackUrl":"https://CANARY.localhost/"}"#),
        post("/v1/runs", r#"{"workflowId":"gated","callbackUrl":"https://CANARY@127.0.0.1/CANARY"}"#),
        post("/v1/runs", r#"{"workflowId":"gated","configurable":{"temperature":"CANARY"}}"#),
        post("/v1/runs:bulk-cancel", r#"{"runIds":"CANARY"}"#),
        post(&format!("/v1/runs/{run}:pause"), r#"{"drainPolicy":"CANARY"}"#),
        post(&format!("/v1/runs/{run}:fork"), r#"{"mode":"CANARY"}"#),
        post(
            &format!("/v1/runs/{run}:fork"),
            r#"{"mode":"branch","fromSeq":0,"runOptionsOverlay":{"CANARY":1}}"#,
        ),
        get("/v1/runs?createdAfter=CANARY"),
        get(&format!("/v1/runs/{run}/artifacts/CANARY")),
        post(&answer, r#"{"resumeValue":"CANARY"}"#),
        post(&answer, r#"{"resumeValue":{"action":"CANARY"}}"#),
        post(&answer, r#"{"CANARY":1}"#),
        post(&format!("/v1/runs/{run}/interrupts/CANARY"), r#"{"resumeValue":{"action":"accept"}}"#),
        get("/v1/interrupts/CANARY"),
        get("/v1/interrupts/CANARY.CANARY"),
        post("/v1/interrupts/CANARY", r#"{"resumeValue":"CANARY"}"#),
        post(&format!("{answer}/tokens"), r#"{"for":"CANARY CANARY"}"#),
        post(&format!("{answer}/tokens"), r#"{"intent":"CANARY"}"#),
        post(&format!("{answer}/tokens"), r#"{"expiresInSeconds":"CANARY"}"#),
        post("/v1/secrets:rotate", r#"{"CANARY":1}"#),
        post("/v1/keys", r#"{"CANARY":1}"#),
        post("/v1/keys", r#"{"scopes":["CANARY"]}"#),
        post("/v1/keys", r#"{"principal":"CANARY CANARY"}"#),
        post("/v1/keys", r#"{"expiresAt":"CANARY"}"#),
        post("/v1/dispatches/CANARY/cancel", "{}"),
        post("/v1/webhooks", r#"{"url":"CANARY","events":["run.started"]}"#),
        post("/v1/webhooks", r#"{"url":"https://CANARY.localhost/","events":["run.started"]}"#),
        post("/v1/webhooks", r#"{"url":"https://CANARY:CANARY@8.8.8.8/","events":["run.started"]}"#),
        post("/v1/webhooks", r#"{"url":"https://8.8.8.8/","events":["CANARY"]}"#),
        post("/v1/webhooks", r#"{"url":"https://8.8.8.8/","events":["run.started"],"secret":"CANARY"}"#),
        post("/v1/webhooks", r#"{"url":"https://8.8.8.8/","events":["run.started"],"tenantId":"CANARY"}"#),
        post("/v1/webhooks/CANARY:pause", "{}"),
        get("/v1/webhooks/CANARY/deliveries"),
        ("DELETE", with("/v1/webhooks/CANARY?tenantId=CANARY"), None),
        ("DELETE", with("/v1/keys/CANARY"), None),
    ]
}

fn check(what: &str, text: &str) {
    for secret in [CANARY, KEY] {
        assert!(!text.contains(secret), "{secret} in {what}: {text}");
    }
}

fn send(client: &Client, method: &str, path: &str, body: Option<&str>) -> ureq::http::Response<String> {
    let headers = [("idempotency-key", CANARY), ("x-secret", CANARY), ("last-event-id", CANARY)];
    client.exchange(method, path, body.map(str::as_bytes), &headers)
}

#[test]
fn no_secret_appears_in_a_log_an_event_or_an_error() {
    let log = log_after_misuse(&[]);
    assert!(!log.contains("holdpoint::request"), "the text log has no line for each request");
}

#[test]
fn no_secret_appears_in_the_request_log() {
    let log = log_after_misuse(&["--log-format", "json"]);
    let lines = || log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let requests = lines().filter(|line| line["message"] == "request").count();
    assert!(requests > 150, "{requests} requests are logged");
    assert!(lines().any(|line| line["event"] == "refused" && line["code"] == "unauthenticated"));
    assert!(lines().any(|line| line["event"] == "administration" && line["operation"] == "createKey"));
    assert!(lines().any(|line| line["message"] == "decision" && line["principal"] == "bootstrap"));
}

/// Sends requests with secrets and checks responses, events and the log for them. Returns the log.
fn log_after_misuse(more: &[&str]) -> String {
    let flows = tempfile::tempdir().unwrap();
    std::fs::write(flows.path().join("seeded.json"), gated("seeded").to_string()).unwrap();
    let flags = [&["--workflows", flows.path().to_str().unwrap()], more].concat();
    let (mut server, log) = Server::start_logging(&flags, "trace");
    let client = &server.client.clone();
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    for (method, path, body) in rejected_requests(&run) {
        for caller in [client, &client.with_key(Some(CANARY)), &client.with_key(None)] {
            let answer = send(caller, method, &path, body.as_deref());
            let what = format!("the answer to {method} {path} {body:?}");
            assert!(answer.status().as_u16() >= 400, "{what}: {}", answer.status());
            check(&what, answer.body());
        }
    }
    // Accepted inputs are visible to readers of the run but not in its events. Events do contain tags and metadata.
    let inputs = json!({
        "workflowId": "gated", "inputs": {"secret": CANARY}, "configurable": {"credential": CANARY},
    });
    let created = client.post("/v1/runs", &inputs);
    assert_eq!(created.status, 201, "{created:?}");
    let taken = created.body["runId"].as_str().unwrap();
    assert_eq!(client.answer(taken, "gate", &json!({"action": "accept"})).status, 200);
    assert_eq!(client.status(taken), "completed");
    check("the events", &Value::Array(client.events(taken)).to_string());
    let made = client.post("/v1/keys", &json!({"principal": "new"})).body["key"].as_str().unwrap().to_owned();
    assert_eq!(client.with_key(Some(&made)).get("/v1/runs").status, 200);
    let sign_in = json!({"key": made}).to_string();
    let signed_in = client.with_key(None).exchange("POST", "/v1/session", Some(sign_in.as_bytes()), &[]);
    let token =
        signed_in.headers()["set-cookie"].to_str().unwrap().split(['=', ';']).nth(1).unwrap().to_owned();
    let cookie = format!("holdpoint_session={token}");
    let read = client.with_key(None).exchange("GET", "/v1/runs", None, &[("cookie", &cookie)]);
    assert_eq!((signed_in.status().as_u16(), read.status().as_u16()), (201, 200));
    server.kill();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("workflow registered"), "this is the log: {log}");
    check("the log", &log);
    assert!(!log.contains(&made), "a new key is in the log");
    assert!(!log.contains(&token), "a session is in the log");
    log
}
