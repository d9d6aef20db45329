//! What is refused before the engine is asked, and what is told of where a graph stands.

use holdpoint_api::chat::Chat;
use holdpoint_core::RunError;
use holdpoint_engine::Standing;
use serde_json::{Value, json};

use super::translate::{self, Wanted};

fn wanted(body: Value) -> Result<Wanted, String> {
    let chat: Chat = serde_json::from_value(body).map_err(|error| error.to_string())?;
    translate::wanted(chat).map_err(|error| error.body()["message"].as_str().unwrap().to_owned())
}

#[test]
fn a_request_is_a_start_or_a_resume_and_what_is_missing_is_named() {
    let flaws = [
        (json!({}), "graph"),
        (json!({"stateKey": "k"}), "graph"),
        (json!({"stateKey": "k", "resumeValue": 1}), "resumeId"),
        (json!({"stateKey": "k", "resumeId": "r"}), "resumeValue"),
        (json!({"resumeValue": 1, "resumeId": "r"}), "stateKey"),
        (json!({"stateKey": "k", "resumeValue": 1, "resumeId": "r", "input": {}}), "input"),
        (json!({"stateKey": "k", "resumeValue": 1, "resumeId": "r", "messages": []}), "messages"),
        (json!({"graph": "native:x", "input": {}, "messages": []}), "messages"),
        (json!({"graph": "native:x", "input": "text"}), "input"),
        (json!({"graph": "native:x", "stateKey": ""}), "stateKey"),
        (json!({"graph": "native:x", "stateKey": "k".repeat(257)}), "256"),
        (json!({"stateKey": "k", "resumeValue": 1, "resumeId": "a\nb"}), "resumeId"),
    ];
    for (body, named) in flaws {
        let message = wanted(body.clone()).expect_err(&body.to_string());
        assert!(message.contains(named), "{body}: {message}");
    }
    assert!(matches!(wanted(json!({"graph": "claude:x", "input": "say it"})), Ok(Wanted::Start { .. })));
    let null = wanted(json!({"stateKey": "k", "resumeId": "r", "resumeValue": null}));
    assert!(matches!(null, Ok(Wanted::Resume { value: Value::Null, .. })), "null is an answer");
}

#[test]
fn a_resume_value_may_have_64_kib_and_the_refusal_names_the_limit() {
    let of = |bytes: usize| json!({"stateKey": "k", "resumeId": "r", "resumeValue": "x".repeat(bytes - 2)});
    assert!(wanted(of(65_536)).is_ok());
    assert!(wanted(of(65_537)).unwrap_err().contains("65536"));
}

#[test]
fn needs_input_says_the_key_and_the_envelope_and_nothing_else() {
    let waiting = Standing::Waiting { kind: "review".into(), data: json!({"draft": 1}), trouble: None };
    let told = serde_json::to_value(translate::outcome("k".into(), waiting)).unwrap();
    let interrupt = json!({"kind": "review", "data": {"draft": 1}});
    assert_eq!(told, json!({"outcome": "needs_input", "stateKey": "k", "interrupt": interrupt}));
}

#[test]
fn an_answer_that_did_not_get_through_is_an_error_that_can_be_repeated() {
    let trouble = json!({"code": "provider_unreachable", "message": "away", "retryable": true});
    let waiting = Standing::Waiting { kind: "review".into(), data: json!(1), trouble: Some(trouble.clone()) };
    let told = serde_json::to_value(translate::outcome("k".into(), waiting)).unwrap();
    assert_eq!(told, json!({"outcome": "error", "stateKey": "k", "error": trouble}));
}

#[test]
fn what_a_graph_shows_beyond_the_limit_is_a_bad_request_and_other_failures_are_outcomes() {
    let answered = |standing| translate::answered(translate::outcome("k".into(), standing));
    let failed = |code: &str| Standing::Failed(RunError::new(code, "at most 262144"));
    let refused = answered(failed("interrupt_too_large")).unwrap_err();
    assert_eq!(refused.status().as_u16(), 400);
    assert!(refused.body()["message"].as_str().unwrap().contains("262144"), "the limit is named");
    assert_eq!(answered(failed("graph_error")).unwrap().0.as_u16(), 200);
    assert_eq!(answered(Standing::Running).unwrap().0.as_u16(), 202);
}
