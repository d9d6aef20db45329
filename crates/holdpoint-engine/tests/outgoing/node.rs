//! `core.http` in a run: what a definition may say, and what becomes of answers.

use holdpoint_engine::core::{End, RunError, RunRef};
use holdpoint_engine::outgoing::{Outgoing, Policy};
use holdpoint_engine::{Error, Options};
use serde_json::{Value, json};

use crate::house::{House, graph, line, node, tenant};
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

on_both! {
    an_answer_becomes_the_outputs_of_the_node,
    a_status_that_nobody_expects_fails_the_node,
    an_answer_that_cannot_be_used_fails_the_node,
    what_the_guard_refuses_fails_the_node_for_good,
    flaws_are_found_when_the_definition_is_registered,
    secrets_of_requests_and_cookies_of_answers_are_not_recorded,
}

/// An engine that may call loopback.
pub(crate) fn open(options: Options) -> Options {
    options.outgoing(Outgoing::new(Policy { allow_loopback: true, ..Policy::default() }))
}

/// A definition of one call, started and carried out.
pub(crate) async fn called(house: &House, config: Value) -> RunRef {
    house.register(line("call", &[("call", "core.http", config)])).await;
    let of = house.start("call").await;
    house.drain().await;
    of
}

/// How a run failed.
pub(crate) async fn failure(house: &House, of: &RunRef) -> RunError {
    match house.run(of).await.end.clone() {
        Some(End::Failed { error, .. }) => error,
        other => panic!("the run did not fail: {other:?}"),
    }
}

async fn an_answer_becomes_the_outputs_of_the_node(place: Place) {
    let house = House::with(place, open).await;
    let text = |content: &str, body: &str| {
        let length = body.len();
        Reply::Say(format!("HTTP/1.1 200 OK\r\n{content}\r\ncontent-length: {length}\r\n\r\n{body}"))
    };
    for (reply, config, body) in [
        (Reply::json(200, r#"{"n":[1,2]}"#), json!({}), json!({"n": [1, 2]})),
        (text("content-type: application/problem+json; charset=utf-8", "7"), json!({}), json!(7)),
        (text("content-type: text/plain", "7"), json!({}), json!("7")),
        (text("content-type: text/plain", "7"), json!({"responseType": "json"}), json!(7)),
        (Reply::json(200, "7"), json!({"responseType": "text"}), json!("7")),
        (Reply::json(204, ""), json!({}), json!(null)),
        (text("x: y", ""), json!({}), json!("")),
        (Reply::json(404, "{}"), json!({"expectStatus": 404}), json!({})),
        (Reply::json(302, "{}"), json!({"expectStatus": [302, 404]}), json!({})),
    ] {
        let peer = Peer::saying([reply.clone()]).await;
        let mut config = config;
        config["url"] = json!(peer.url("/"));
        let of = called(&house, config).await;
        let run = house.run(&of).await;
        assert_eq!(run.status().as_str(), "completed", "{reply:?}: {:?}", run.end);
        assert_eq!(run.variables["body"], body, "{reply:?}");
        assert!(run.variables["status"].is_u64() && run.variables["headers"].is_object());
        assert_eq!(peer.heard().len(), 1);
    }
}

async fn a_status_that_nobody_expects_fails_the_node(place: Place) {
    let house = House::with(place, open).await;
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
        let peer = Peer::saying([Reply::json(status, r#"{"why":"body-of-the-answer"}"#)]).await;
        let mut config = config;
        config["url"] = json!(peer.url("/path?token=secret"));
        let of = called(&house, config).await;
        let error = failure(&house, &of).await;
        assert_eq!((error.code.as_str(), error.retryable), ("http_status", retryable), "{status}");
        let message = format!("http://{} answered GET with the status {status}", peer.address);
        assert_eq!(error.message, message);
    }
}

async fn an_answer_that_cannot_be_used_fails_the_node(place: Place) {
    let house = House::with(place, open).await;
    let large = format!("\"{}\"", "x".repeat(300));
    let hang = Reply::Hang("HTTP/1.1 200 OK\r\n".to_owned());
    for (reply, config, retryable, words) in [
        (Reply::json(200, "{"), json!({}), false, "JSON that cannot be read"),
        (Reply::json(200, &large), json!({"maxResponseBytes": 300}), false, "more than 300 bytes"),
        (hang, json!({"timeoutMs": 100}), true, "within 100 ms"),
        (Reply::Say(String::new()), json!({}), true, "broke"),
    ] {
        let peer = Peer::saying([reply]).await;
        let mut config = config;
        config["url"] = json!(peer.url("/?token=secret"));
        let of = called(&house, config).await;
        let error = failure(&house, &of).await;
        assert_eq!((error.code.as_str(), error.retryable), ("http_failed", retryable), "{error:?}");
        assert!(error.message.contains(words) && !error.message.contains("secret"), "{}", error.message);
    }
}

async fn what_the_guard_refuses_fails_the_node_for_good(place: Place) {
    let outgoing = Outgoing::new(Policy::default());
    let house = House::with(place, |options| options.outgoing(outgoing.clone())).await;
    let mut call = node("call", "core.http", json!({}));
    call["inputs"] = json!({"url": {"type": "variable", "variableName": "url"}});
    house.register(graph("call", &[call], &[])).await;
    for url in ["https://169.254.169.254/latest?t=secret", "http://127.0.0.1:1/", "https://localhost/", "x"] {
        let of = house.start_with("call", json!({"url": url})).await;
        house.drain().await;
        let error = failure(&house, &of).await;
        assert_eq!((error.code.as_str(), error.retryable), ("http_refused", false), "{url}: {error:?}");
        assert!(!error.message.contains("secret"), "{}", error.message);
    }
    assert_eq!(outgoing.connects(), 0);
}

async fn flaws_are_found_when_the_definition_is_registered(house: House) {
    let fine = || json!({"url": "https://example.com/", "method": "POST", "headers": {"x-a": "b"}});
    assert!(house.engine.register(&tenant(), line("w", &[("c", "core.http", fine())])).await.is_ok());
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
        let registered = house.engine.register(&tenant(), line("w", &[("c", "core.http", config)])).await;
        let Err(Error::InvalidWorkflow(flaws)) = registered else { panic!("{field} = {value} was taken") };
        let texts: Vec<String> = flaws.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.contains(&format!("config.{field}"))), "{texts:?}");
        assert!(!texts.concat().contains("secret"), "{texts:?}");
    }
}

async fn secrets_of_requests_and_cookies_of_answers_are_not_recorded(place: Place) {
    let house = House::with(place, open).await;
    let answer = "HTTP/1.1 200 OK\r\nset-cookie: id=s3cret\r\nwww-authenticate: s3cret\r\nx-api-key: s3cret\r\n\
                  etag: \"7\"\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
    let peer = Peer::saying([Reply::Say(answer.to_owned())]).await;
    let headers = json!({"authorization": "Bearer s3cret", "x-api-key": "s3cret"});
    let of = called(&house, json!({"url": peer.url("/?token=s3cret"), "headers": headers})).await;
    assert_eq!(peer.header("authorization"), [Some("Bearer s3cret".to_owned())], "it was sent");
    let run = house.run(&of).await;
    assert_eq!(run.variables["headers"], json!({"etag": "\"7\"", "content-type": "text/plain"}));
    let log = house.log(&of).await.concat();
    assert!(!log.contains("s3cret") && log.contains("text/plain"), "{log}");
}
