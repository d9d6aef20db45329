//! Tests of the validation of requests and of the description of outcomes.

use holdpoint_api::chat::Chat;
use holdpoint_core::RunError;
use holdpoint_providers::GraphStatus;
use serde_json::{Value, json};

use super::events;
use super::translate::{self, ChatCommand};

fn parse(body: Value) -> Result<ChatCommand, String> {
    let chat: Chat = serde_json::from_value(body).map_err(|error| error.to_string())?;
    translate::parse_command(chat).map_err(|error| error.body()["message"].as_str().unwrap().to_owned())
}

#[test]
fn a_request_is_a_start_or_a_resume_and_the_error_names_the_field() {
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
        (json!({"stateKey": "k", "resumeValue": 1, "resumeId": "r", "turnId": "t"}), "turnId"),
        (json!({"stateKey": "k", "turnId": "t"}), "input"),
        (json!({"stateKey": "k", "input": {}}), "graph"),
        (json!({"turnId": "t", "graph": "native:x", "input": {}}), "stateKey"),
        (json!({"stateKey": "k", "turnId": "", "input": {}}), "turnId"),
        (json!({"stateKey": "k", "turnId": "t".repeat(257), "input": {}}), "turnId"),
        (json!({"stateKey": "k", "turnId": "a\nb", "input": {}}), "turnId"),
    ];
    for (body, named) in flaws {
        let message = parse(body.clone()).expect_err(&body.to_string());
        assert!(message.contains(named), "{body}: {message}");
    }
    assert!(matches!(parse(json!({"graph": "claude:x", "input": "say it"})), Ok(ChatCommand::Start { .. })));
    let turn = parse(json!({"stateKey": "k", "turnId": "t", "messages": []}));
    assert!(matches!(turn, Ok(ChatCommand::NextTurn { .. })), "{turn:?}");
    let null = parse(json!({"stateKey": "k", "resumeId": "r", "resumeValue": null}));
    assert!(matches!(null, Ok(ChatCommand::Resume { value: Value::Null, .. })), "null is an answer");
}

#[test]
fn a_resume_value_may_have_64_kib_and_the_error_names_the_limit() {
    let of = |bytes: usize| json!({"stateKey": "k", "resumeId": "r", "resumeValue": "x".repeat(bytes - 2)});
    assert!(parse(of(65_536)).is_ok());
    assert!(parse(of(65_537)).unwrap_err().contains("65536"));
}

#[test]
fn needs_input_has_only_the_state_key_and_the_interrupt() {
    let waiting =
        GraphStatus::Waiting { kind: "review".into(), data: json!({"draft": 1}), previous_error: None };
    let shown = serde_json::to_value(translate::outcome("k".into(), waiting)).unwrap();
    let interrupt = json!({"kind": "review", "data": {"draft": 1}});
    assert_eq!(shown, json!({"outcome": "needs_input", "stateKey": "k", "interrupt": interrupt}));
}

#[test]
fn an_answer_that_did_not_reach_the_provider_is_a_retryable_error() {
    let trouble = json!({"code": "provider_unreachable", "message": "away", "retryable": true});
    let waiting =
        GraphStatus::Waiting { kind: "review".into(), data: json!(1), previous_error: Some(trouble.clone()) };
    let shown = serde_json::to_value(translate::outcome("k".into(), waiting)).unwrap();
    assert_eq!(shown, json!({"outcome": "error", "stateKey": "k", "error": trouble}));
}

#[test]
fn an_interrupt_that_is_too_large_is_a_bad_request_and_other_failures_are_outcomes() {
    let answered = |standing| translate::with_status(translate::outcome("k".into(), standing));
    let failed = |code: &str| GraphStatus::Failed(RunError::new(code, "at most 262144"));
    let refused = answered(failed("interrupt_too_large")).unwrap_err();
    assert_eq!(refused.status().as_u16(), 400);
    assert!(refused.body()["message"].as_str().unwrap().contains("262144"), "the message names the limit");
    assert_eq!(answered(failed("graph_error")).unwrap().0.as_u16(), 200);
    assert_eq!(answered(GraphStatus::Running).unwrap().0.as_u16(), 202);
}

/// Returns the frames of an event without its progress.
fn shown(event: Value) -> String {
    let event = serde_json::from_value(event).unwrap();
    let recorded = holdpoint_engine::RecordedEvent { seq: 1, at: holdpoint_core::Timestamp(0), event };
    let frames = events::frames("k", &recorded);
    frames[1..].iter().map(|frame| String::from_utf8_lossy(frame).into_owned()).collect()
}

#[test]
fn the_work_of_a_graph_has_typed_events() {
    let meta = json!({"messageId": "msg-1", "attempt": 2, "index": 0});
    let chunk = |kind: &str, text: &str| json!({"type": kind, "node": "graph", "chunk": text, "last": false, "meta": meta});
    assert_eq!(
        shown(chunk("ai.message.chunk", "Hel")),
        "event: content\ndata: {\"stateKey\":\"k\",\"messageId\":\"msg-1\",\"attempt\":2,\"delta\":\"Hel\"}\n\n"
    );
    assert_eq!(
        shown(chunk("holdpoint.reasoning.chunk", "Hm")),
        "event: reasoning\ndata: {\"stateKey\":\"k\",\"messageId\":\"msg-1\",\"attempt\":2,\"delta\":\"Hm\"}\n\n"
    );
    assert_eq!(shown(chunk("ai.message.chunk", "")), "", "a chunk without text is no event");
    let reply = json!({"type": "holdpoint.model.replied", "node": "graph", "seen": 0, "model": "m",
        "usage": {"inputTokens": 3, "outputTokens": 2}, "provider": true,
        "message": {"id": "msg-1", "role": "assistant", "content": "Hello",
            "calls": [{"id": "call-1", "name": "send", "arguments": {"to": "bob"}}]}});
    let expected = [
        r#"event: message"#,
        r#"data: {"stateKey":"k","messageId":"msg-1","text":"Hello"}"#,
        "",
        r#"event: tool_call"#,
        r#"data: {"stateKey":"k","messageId":"msg-1","toolCallId":"call-1","name":"send","arguments":{"to":"bob"}}"#,
        "",
        r#"event: usage"#,
        r#"data: {"stateKey":"k","messageId":"msg-1","model":"m","inputTokens":3,"outputTokens":2}"#,
        "",
        "",
    ];
    assert_eq!(shown(reply), expected.join("\n"));
    let result = json!({"type": "agent.toolReturned", "node": "graph", "call": "call-1", "status": "succeeded",
        "content": "sent"});
    assert_eq!(
        shown(result),
        "event: tool_result\ndata: {\"stateKey\":\"k\",\"toolCallId\":\"call-1\",\"status\":\"succeeded\",\"content\":\"sent\"}\n\n"
    );
}
