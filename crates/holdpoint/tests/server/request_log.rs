//! The request log: a line for each request, sign-in, decision, refusal and administrative act, in JSON format only.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, create_key, gated};

fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// Sends a request with an id and returns its lines: that of the request, and those of the audit.
fn logged(
    client: &Client,
    log: &Path,
    (method, path, body): (&str, &str, Option<&Value>),
) -> (Value, Vec<Value>) {
    let id = format!("test-{}", lines(log).len());
    let body = body.map(Value::to_string);
    let headers = [("x-request-id", id.as_str())];
    let answer = client.exchange(method, path, body.as_deref().map(str::as_bytes), &headers);
    assert_eq!(answer.headers()["x-request-id"], id.as_str());
    let mut found: Vec<Value> =
        lines(log).into_iter().filter(|line| line["request_id"] == id.as_str()).collect();
    assert_eq!(found[0]["message"], "request", "{found:?}");
    assert_eq!(found[0]["status"], answer.status().as_u16());
    assert!(found[0]["ms"].is_u64());
    (found.remove(0), found)
}

fn members(line: &Value, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| line[*name].as_str().unwrap_or("-").to_owned()).collect()
}

#[test]
fn each_request_has_a_line_with_its_route_and_principal() {
    let (server, log) = Server::start_logging(&["--log-format", "json"], "info");
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    for (path, expected) in [
        (format!("/v1/runs/{run}"), ["GET", "/v1/runs/{runId}", "bootstrap", "default"]),
        (format!("/v1/runs/{run}?secret=1"), ["GET", "/v1/runs/{runId}", "bootstrap", "default"]),
        ("/healthz".to_owned(), ["GET", "/healthz", "-", "-"]),
        ("/inbox/some/where".to_owned(), ["GET", "/inbox/{*path}", "-", "-"]),
        ("/unknown/path".to_owned(), ["GET", "unmatched", "-", "-"]),
    ] {
        let (request, audit) = logged(client, &log, ("GET", &path, None));
        assert_eq!(members(&request, &["method", "route", "principal", "tenant"]), expected, "{path}");
        assert_eq!(audit, [Value::Null; 0], "{path}");
    }
    let (request, _) = logged(client, &log, ("POST", &format!("/v1/runs/{run}:pause"), Some(&json!({}))));
    assert_eq!(request["route"], "/v1/runs/{runId}:pause");
    let made = client.exchange("GET", "/healthz", None, &[("x-request-id", "not \"plain\"")]);
    assert_eq!(made.headers()["x-request-id"].len(), 24, "the server generates an id");
}

#[test]
fn sign_ins_refusals_and_administrative_acts_have_audit_lines() {
    let (server, log) = Server::start_logging(&["--log-format", "json"], "info");
    let client = &server.client;
    let names = ["event", "operation", "principal", "subject", "code"];
    let audit = |client: &Client, request: (&str, &str, Option<&Value>)| {
        let (_, audit) = logged(client, &log, request);
        assert_eq!(audit.len(), 1, "{audit:?}");
        members(&audit[0], &names)
    };
    let workflow = ("PUT", "/v1/workflows/gated", Some(&gated("gated")));
    assert_eq!(audit(client, workflow), ["administration", "putWorkflow", "bootstrap", "gated", "-"]);
    let key = create_key(client, &json!({"principal": "ann", "scopes": ["runs:read"]}));
    let created = lines(&log).into_iter().find(|line| line["event"] == "key-created").unwrap();
    let key_line = members(&created, &["principal", "subject", "holder", "key_tenant"]);
    assert_eq!(key_line, ["bootstrap", key["keyId"].as_str().unwrap(), "ann", "default"]);
    let ann = client.with_key(key["key"].as_str());
    assert_eq!(
        audit(&ann, ("POST", "/v1/runs", Some(&json!({})))),
        ["refused", "createRun", "ann", "-", "forbidden"]
    );
    let anonymous = client.with_key(None);
    let no_key = audit(&anonymous, ("GET", "/v1/runs", None));
    assert_eq!(no_key, ["refused", "listRuns", "-", "-", "unauthenticated"]);
    let sign_in = json!({"key": key["key"]});
    let signed_in = audit(&anonymous, ("POST", "/v1/session", Some(&sign_in)));
    assert_eq!(signed_in, ["sign-in", "createSession", "ann", "-", "-"]);
    let refused = audit(&anonymous, ("POST", "/v1/session", Some(&json!({"key": "hp_none"}))));
    assert_eq!(refused, ["refused", "createSession", "-", "-", "unauthenticated"]);
    let id = key["keyId"].as_str().unwrap();
    let revoked = audit(client, ("DELETE", &format!("/v1/keys/{id}"), None));
    assert_eq!(revoked, ["administration", "revokeKey", "bootstrap", id, "-"]);
}

#[test]
fn a_decision_is_logged_with_its_principal_run_and_credential() {
    let (server, log) = Server::start_logging(&["--log-format", "json"], "info");
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    let key = create_key(&server.client, &json!({"principal": "ann"}));
    let ann = server.client.with_key(key["key"].as_str());
    assert_eq!(ann.answer(&run, "gate", &accept()).status, 200);
    let decisions: Vec<Value> =
        lines(&log).into_iter().filter(|line| line["message"] == "decision").collect();
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    let expected = ["ann", "default", run.as_str(), key["keyId"].as_str().unwrap()];
    assert_eq!(members(&decisions[0], &["principal", "tenant", "run", "via"]), expected);
}

#[test]
fn the_text_log_has_no_line_for_each_request() {
    let (server, log) = Server::start_logging(&[], "info");
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    let answer = server.client.exchange("GET", "/healthz", None, &[("x-request-id", "a")]);
    assert!(!answer.headers().contains_key("x-request-id"));
    let text = std::fs::read_to_string(log).unwrap();
    assert!(!text.contains("request") && !text.contains("audit") && !text.contains("decision"), "{text}");
}
