//! `core.http` in a run: validation of definitions, and outputs and errors from responses.

use holdpoint_engine::core::{RunEnd, RunError, RunRef};
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy};
use holdpoint_engine::{Error, Options};
use serde_json::{Value, json};

use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, graph, line, node, tenant};

on_both! {
    a_response_becomes_the_outputs_of_the_node,
    an_unexpected_status_fails_the_node,
    an_unusable_response_fails_the_node,
    a_rejected_address_fails_the_node_without_retry,
    invalid_configs_are_rejected_at_registration,
    secrets_of_requests_and_cookies_of_responses_are_not_recorded,
}

/// Options of an engine that may call loopback.
pub(crate) fn open(options: Options) -> Options {
    options.outgoing(Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() }))
}

/// Registers a workflow with one call and executes a run of it.
pub(crate) async fn run_call(env: &TestEnv, config: Value) -> RunRef {
    env.register(line("call", &[("call", "core.http", config)])).await;
    let of = env.start("call").await;
    env.drain().await;
    of
}

/// Returns the error of a failed run.
pub(crate) async fn failure(env: &TestEnv, of: &RunRef) -> RunError {
    match env.run(of).await.end.clone() {
        Some(RunEnd::Failed { error, .. }) => error,
        other => panic!("the run did not fail: {other:?}"),
    }
}

async fn a_response_becomes_the_outputs_of_the_node(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let text = |content: &str, body: &str| {
        let length = body.len();
        PeerReply::Say(format!("HTTP/1.1 200 OK\r\n{content}\r\ncontent-length: {length}\r\n\r\n{body}"))
    };
    for (reply, config, body) in [
        (PeerReply::json(200, r#"{"n":[1,2]}"#), json!({}), json!({"n": [1, 2]})),
        (text("content-type: application/problem+json; charset=utf-8", "7"), json!({}), json!(7)),
        (text("content-type: text/plain", "7"), json!({}), json!("7")),
        (text("content-type: text/plain", "7"), json!({"responseType": "json"}), json!(7)),
        (PeerReply::json(200, "7"), json!({"responseType": "text"}), json!("7")),
        (PeerReply::json(204, ""), json!({}), json!(null)),
        (text("x: y", ""), json!({}), json!("")),
        (PeerReply::json(404, "{}"), json!({"expectStatus": 404}), json!({})),
        (PeerReply::json(302, "{}"), json!({"expectStatus": [302, 404]}), json!({})),
    ] {
        let peer = Peer::with_replies([reply.clone()]).await;
        let mut config = config;
        config["url"] = json!(peer.url("/"));
        let of = run_call(&env, config).await;
        let run = env.run(&of).await;
        assert_eq!(run.status().as_str(), "completed", "{reply:?}: {:?}", run.end);
        assert_eq!(run.variables["body"], body, "{reply:?}");
        assert!(run.variables["status"].is_u64() && run.variables["headers"].is_object());
        assert_eq!(peer.requests().len(), 1);
    }
}

async fn an_unexpected_status_fails_the_node(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    for (status, config, retryable) in [
        (302, json!({}), false),
        (400, json!({}), false),
        (404, json!({}), false),
        (408, json!({}), true),
        (429, json!({}), true),
        (500, json!({}), true),
        (503, json!({}), true),
        (200, json!({"expectStatus": [201, 202]}), false),
    ] {
        let peer = Peer::with_replies([PeerReply::json(status, r#"{"why":"body-of-the-answer"}"#)]).await;
        let mut config = config;
        config["url"] = json!(peer.url("/path?token=secret"));
        let of = run_call(&env, config).await;
        let error = failure(&env, &of).await;
        assert_eq!((error.code.as_str(), error.retryable), ("http_status", retryable), "{status}");
        let message = format!("http://{} answered GET with the status {status}", peer.address);
        assert_eq!(error.message, message);
    }
}

async fn an_unusable_response_fails_the_node(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let large = format!("\"{}\"", "x".repeat(300));
    let hang = PeerReply::Hang("HTTP/1.1 200 OK\r\n".to_owned());
    for (reply, config, retryable, text) in [
        (PeerReply::json(200, "{"), json!({}), false, "JSON that cannot be read"),
        (PeerReply::json(200, &large), json!({"maxResponseBytes": 300}), false, "exceeds 300 bytes"),
        (hang, json!({"timeoutMs": 100}), true, "after 100 ms"),
        (PeerReply::Say(String::new()), json!({}), true, "broke"),
    ] {
        let peer = Peer::with_replies([reply]).await;
        let mut config = config;
        config["url"] = json!(peer.url("/?token=secret"));
        let of = run_call(&env, config).await;
        let error = failure(&env, &of).await;
        assert_eq!((error.code.as_str(), error.retryable), ("http_failed", retryable), "{error:?}");
        assert!(error.message.contains(text) && !error.message.contains("secret"), "{}", error.message);
    }
}

async fn a_rejected_address_fails_the_node_without_retry(database: TestDatabase) {
    let outgoing = Outgoing::new(OutgoingPolicy::default());
    let env = TestEnv::with(database, |options| options.outgoing(outgoing.clone())).await;
    let mut call = node("call", "core.http", json!({}));
    call["inputs"] = json!({"url": {"type": "variable", "variableName": "url"}});
    env.register(graph("call", &[call], &[])).await;
    for url in ["https://169.254.169.254/latest?t=secret", "http://127.0.0.1:1/", "https://localhost/", "x"] {
        let of = env.start_with("call", json!({"url": url})).await;
        env.drain().await;
        let error = failure(&env, &of).await;
        assert_eq!((error.code.as_str(), error.retryable), ("http_refused", false), "{url}: {error:?}");
        assert!(!error.message.contains("secret"), "{}", error.message);
    }
    assert_eq!(outgoing.connects(), 0);
}

async fn invalid_configs_are_rejected_at_registration(env: TestEnv) {
    let fine = || json!({"url": "https://example.com/", "method": "POST", "headers": {"x-a": "b"}});
    assert!(
        env.engine.workflows().register(&tenant(), line("w", &[("c", "core.http", fine())])).await.is_ok()
    );
    for (field, value) in [
        ("url", json!("http://example.com/")),
        ("url", json!("https://10.0.0.1/")),
        ("url", json!("https://user:secret@example.com/")),
        ("url", json!(7)),
        ("url", json!(null)),
        ("method", json!("get")),
        ("method", json!("CONNECT")),
        ("headers", json!([])),
        ("headers.host", json!({"host": "x"})),
        ("headers.Idempotency-Key", json!({"Idempotency-Key": "x"})),
        ("headers.traceparent", json!({"traceparent": "x"})),
        ("headers.tracestate", json!({"tracestate": "x"})),
        ("headers.x-a", json!({"x-a": 1})),
        ("headers.x-a", json!({"x-a": "a\r\nb: secret"})),
        ("timeoutMs", json!(0)),
        ("timeoutMs", json!(300_001)),
        ("expectStatus", json!([])),
        ("expectStatus", json!([200, "x"])),
        ("expectStatus", json!(100)),
        ("responseType", json!("xml")),
        ("maxResponseBytes", json!(1_000_000)),
        ("retries", json!(1)),
    ] {
        let mut config = fine();
        config[field.split('.').next().unwrap()] = value.clone();
        let registered =
            env.engine.workflows().register(&tenant(), line("w", &[("c", "core.http", config)])).await;
        let Err(Error::InvalidWorkflow(flaws)) = registered else { panic!("{field} = {value} was accepted") };
        let texts: Vec<String> = flaws.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.contains(&format!("config.{field}"))), "{texts:?}");
        assert!(!texts.concat().contains("secret"), "{texts:?}");
    }
}

async fn secrets_of_requests_and_cookies_of_responses_are_not_recorded(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let answer = "HTTP/1.1 200 OK\r\nset-cookie: id=s3cret\r\nwww-authenticate: s3cret\r\nx-api-key: s3cret\r\n\
                  etag: \"7\"\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
    let peer = Peer::with_replies([PeerReply::Say(answer.to_owned())]).await;
    let headers = json!({"authorization": "Bearer s3cret", "x-api-key": "s3cret"});
    let of = run_call(&env, json!({"url": peer.url("/?token=s3cret"), "headers": headers})).await;
    assert_eq!(peer.header("authorization"), [Some("Bearer s3cret".to_owned())], "the header is sent");
    let run = env.run(&of).await;
    assert_eq!(run.variables["headers"], json!({"etag": "\"7\"", "content-type": "text/plain"}));
    let log = env.log(&of).await.concat();
    assert!(!log.contains("s3cret") && log.contains("text/plain"), "{log}");
}
