//! The messages API of Anthropic: requests, streams, documents and errors.

use std::sync::Arc;

use holdpoint_agents::model::{
    EndpointApi, EndpointModel, FinishReason, ModelError, ModelPrompt, ModelReply, ReplyDelta,
    unparsed_arguments,
};
use holdpoint_agents::tool::ToolSpec;
use holdpoint_engine::core::agent::{CallRequest, Message, ReasoningPart, Role, Usage};
use serde_json::{Value, json};

use crate::models::fake_endpoint::{FakeEndpoint, Turn, ask, event, header, local, prompt};

fn model(endpoint: &FakeEndpoint) -> EndpointModel {
    EndpointModel::new(endpoint.settings_of(EndpointApi::Messages), local()).unwrap()
}

fn model_without_retries(endpoint: &FakeEndpoint) -> EndpointModel {
    let mut settings = endpoint.settings_of(EndpointApi::Messages);
    settings.retries = 0;
    EndpointModel::new(settings, local()).unwrap()
}

/// A stream event with its name, as the API sends it.
fn named(data: &Value) -> String {
    format!("event: {}\n{}", data["type"].as_str().unwrap(), event(data))
}

fn start() -> String {
    let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 2, "cache_creation_input_tokens": null, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "small-2", "stop_reason": null, "usage": usage});
    named(&json!({"type": "message_start", "message": message}))
}

fn block(index: u64, block: Value) -> String {
    named(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn delta(index: u64, delta: Value) -> String {
    named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn text(index: u64, text: &str) -> String {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn arguments(index: u64, json: &str) -> String {
    delta(index, json!({"type": "input_json_delta", "partial_json": json}))
}

fn block_stop(index: u64) -> String {
    named(&json!({"type": "content_block_stop", "index": index}))
}

fn ends(reason: &str) -> String {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    named(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}))
        + &named(&json!({"type": "message_stop"}))
}

fn hello() -> Turn {
    Turn::stream([
        start(),
        block(0, json!({"type": "text", "text": ""})),
        text(0, "Hello."),
        ends("end_turn"),
    ])
}

async fn reply_to(turn: Turn) -> (Result<ModelReply, ModelError>, Vec<ReplyDelta>) {
    let endpoint = FakeEndpoint::with([turn]).await;
    ask(&model_without_retries(&endpoint), &prompt("hello")).await
}

fn call(id: &str, arguments: Value) -> CallRequest {
    CallRequest { id: id.to_owned(), name: "mail".to_owned(), arguments }
}

fn result(id: &str, of: &str, content: Value) -> Message {
    Message { call_id: Some(of.to_owned()), ..Message::new(id, Role::Tool, content) }
}

async fn request_body(messages: Vec<Message>, tools: Vec<ToolSpec>) -> Value {
    let endpoint = FakeEndpoint::with([hello()]).await;
    let prompt = ModelPrompt {
        instructions: Some("You write mail.".to_owned()),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: tools.into_iter().map(Arc::new).collect(),
        ..prompt("")
    };
    ask(&model(&endpoint), &prompt).await.0.unwrap();
    endpoint.body(0)
}

#[tokio::test]
async fn a_conversation_is_sent_as_alternating_messages_with_results_of_the_user() {
    let calls = vec![call("c1", json!({"to": "a"})), call("c.2", json!({"to": "b"}))];
    let messages = vec![
        Message::new("s1", Role::System, "Be kind."),
        Message::new("u1", Role::User, "Write."),
        Message { calls, ..Message::new("a1", Role::Assistant, "I write.") },
        result("r1", "c1", json!({"sent": true})),
        Message::new("u2", Role::User, "Well?"),
        Message::new("a2", Role::Assistant, ""),
        Message::new("u3", Role::User, " "),
    ];
    let tool = ToolSpec {
        name: "mail".to_owned(),
        description: "Sends mail".to_owned(),
        parameters: json!({"required": ["to"]}),
        idempotent: false,
        primary: None,
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let expected = json!({
        "max_tokens": 4096,
        "model": "small",
        "system": "You write mail.\n\nBe kind.",
        "stream": true,
        "tools": [{"name": "mail", "description": "Sends mail", "input_schema": {"required": ["to"], "type": "object"}}],
        "messages": [
            {"role": "user", "content": [text("Write.")]},
            {"role": "assistant", "content": [
                text("I write."),
                {"type": "tool_use", "id": "call_1", "name": "mail", "input": {"to": "a"}},
                {"type": "tool_use", "id": "call_2", "name": "mail", "input": {"to": "b"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "{\"sent\":true}"},
                {"type": "tool_result", "tool_use_id": "call_2", "content": "There is no result of this call."},
                text("Well?"),
            ]},
        ],
    });
    assert_eq!(request_body(messages, vec![tool]).await, expected);
    let begins = vec![Message::new("a1", Role::Assistant, "Hello."), Message::new("u1", Role::User, "")];
    let expected = json!([
        {"role": "user", "content": [text("(no text)")]},
        {"role": "assistant", "content": [text("Hello.")]},
        {"role": "user", "content": [text("(no text)")]},
    ]);
    assert_eq!(request_body(begins, Vec::new()).await["messages"], expected);
}

#[tokio::test]
async fn calls_of_two_runs_with_the_same_id_have_different_ids_in_a_request() {
    let run = |n: u32, ids: [&str; 2]| {
        let calls = ids.map(|id| call(id, json!({"run": n}))).to_vec();
        let results = ids.map(|id| result(&format!("r{n}{id}"), id, json!(format!("{n} {id}"))));
        let mut messages = vec![
            Message::new(format!("u{n}"), Role::User, "Write."),
            Message { calls, ..Message::new(format!("a{n}"), Role::Assistant, "") },
        ];
        messages.extend(results);
        messages
    };
    let messages = [run(1, ["c.1", "c_1"]), run(2, ["c_1", "c.1"])].concat();
    let body = request_body(messages, Vec::new()).await;
    let blocks: Vec<&Value> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|one| one["content"].as_array().unwrap())
        .collect();
    let ids: Vec<_> = blocks.iter().filter_map(|block| block["id"].as_str()).collect();
    assert_eq!(ids, ["call_1", "call_2", "call_3", "call_4"]);
    let results = blocks.iter().filter(|block| block["type"] == "tool_result");
    let results: Vec<_> = results
        .map(|block| (block["tool_use_id"].as_str().unwrap(), block["content"].as_str().unwrap()))
        .collect();
    assert_eq!(results, [("call_1", "1 c.1"), ("call_2", "1 c_1"), ("call_3", "2 c_1"), ("call_4", "2 c.1")]);
}

#[tokio::test]
async fn options_that_are_null_are_not_sent() {
    let endpoint = FakeEndpoint::with([hello()]).await;
    let mut settings = endpoint.settings_of(EndpointApi::Messages);
    settings.options.insert("maxTokens".to_owned(), Value::Null);
    settings.options.insert("topK".to_owned(), Value::Null);
    ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await.0.unwrap();
    let body = endpoint.body(0);
    assert_eq!((&body["max_tokens"], body.get("top_k")), (&json!(4096), None));
}

#[tokio::test]
async fn requests_have_the_key_the_version_and_the_path_of_the_api() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "sk-1").unwrap();
    let endpoint = FakeEndpoint::with([hello()]).await;
    let mut settings = endpoint.settings_of(EndpointApi::Messages);
    settings.api_key = Some(holdpoint_agents::model::KeyRef::File(folder.path().join("key")));
    ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await.0.unwrap();
    let request = &endpoint.requests()[0];
    assert!(request.starts_with("POST /v1/messages "), "{request}");
    assert_eq!(header(request, "x-api-key").as_deref(), Some("sk-1"));
    assert_eq!(header(request, "anthropic-version").as_deref(), Some("2023-06-01"));
    assert_eq!(header(request, "authorization"), None);
}

#[tokio::test]
async fn a_stream_yields_text_calls_and_usage_and_skips_other_events() {
    let (reply, deltas) = reply_to(Turn::stream([
        start(),
        named(&json!({"type": "ping"})),
        block(0, json!({"type": "thinking", "thinking": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
        delta(0, json!({"type": "signature_delta", "signature": "x"})),
        block_stop(0),
        block(1, json!({"type": "text", "text": ""})),
        text(1, "I "),
        text(1, "write."),
        block_stop(1),
        block(2, json!({"type": "tool_use", "id": "t1", "name": "mail", "input": {}})),
        arguments(2, ""),
        arguments(2, "{\"to\": \"b"),
        arguments(2, "ob\"}"),
        block_stop(2),
        block(3, json!({"type": "tool_use", "id": "t2", "name": "mail", "input": {}})),
        block_stop(3),
        named(&json!({"type": "new_event", "content": 7})),
        ends("tool_use"),
    ]))
    .await;
    let thinking = ReasoningPart {
        text: "Hm.".to_owned(),
        data: json!({"signature": "x"}),
        source: "anthropic:small".to_owned(),
        shown: false,
    };
    let expected = ModelReply {
        reasoning: vec![thinking],
        text: "I write.".to_owned(),
        calls: vec![call("t1", json!({"to": "bob"})), call("t2", json!({}))],
        usage: Usage { input_tokens: 12, output_tokens: 7, ..Usage::default() },
        model: "small-2".to_owned(),
        finish: FinishReason::Calls,
        ..ModelReply::default()
    };
    assert_eq!(reply.unwrap(), expected);
    let texts: Vec<_> = deltas.iter().filter(|delta| matches!(delta, ReplyDelta::Text(_))).collect();
    assert_eq!(texts, [&ReplyDelta::Text("I ".to_owned()), &ReplyDelta::Text("write.".to_owned())]);
}

#[tokio::test]
async fn a_stream_is_parsed_independently_of_chunks() {
    let stream = [
        start(),
        block(0, json!({"type": "text", "text": ""})),
        text(0, "Grüße 😀"),
        block(1, json!({"type": "tool_use", "id": "t1", "name": "mail", "input": {}})),
        arguments(1, "{\"to\": \"ä\"}"),
        ends("tool_use"),
    ]
    .concat();
    for size in [1, 3, 64, 100_000] {
        let (reply, _) = reply_to(Turn::stream(stream.as_bytes().chunks(size))).await;
        let reply = reply.unwrap();
        assert_eq!((reply.text.as_str(), &reply.calls), ("Grüße 😀", &vec![call("t1", json!({"to": "ä"}))]));
    }
}

#[tokio::test]
async fn a_reply_can_be_a_document() {
    let document = json!({
        "type": "message", "role": "assistant", "model": "small-3", "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "text", "text": "I write."},
            {"type": "tool_use", "id": "t1", "name": "mail", "input": {"to": "bob"}},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    });
    let (reply, deltas) = reply_to(Turn::json(200, &document)).await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), reply.model.as_str()), ("I write.", "small-3"));
    assert_eq!(reply.calls, [call("t1", json!({"to": "bob"}))]);
    assert_eq!(
        (reply.usage, deltas.len()),
        (Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() }, 3)
    );
    let without_reason = json!({"type": "message", "content": [], "stop_reason": null});
    assert_eq!(reply_to(Turn::json(200, &without_reason)).await.0.unwrap_err().code(), "model_bad_reply");
}

#[tokio::test]
async fn stop_reasons_map_to_finish_reasons_and_refusals() {
    for (reason, expected) in [
        ("end_turn", Ok(FinishReason::Stop)),
        ("stop_sequence", Ok(FinishReason::Stop)),
        ("max_tokens", Ok(FinishReason::Length)),
        ("refusal", Err("model_refused")),
    ] {
        let turn = Turn::stream([start(), text(0, "It is"), ends(reason)]);
        let finish = reply_to(turn).await.0.map(|reply| reply.finish).map_err(|error| error.code());
        assert_eq!(finish, expected, "{reason}");
    }
}

#[tokio::test]
async fn a_truncated_call_is_not_executed() {
    let tool = || block(0, json!({"type": "tool_use", "id": "t1", "name": "mail", "input": {}}));
    for (pieces, original) in [(vec!["{\"to\": \"bo"], "{\"to\": \"bo"), (vec![], "")] {
        let pieces = pieces.into_iter().map(|piece| arguments(0, piece));
        let stream = [start(), tool()].into_iter().chain(pieces).chain([ends("max_tokens")]);
        let reply = reply_to(Turn::stream(stream)).await.0.unwrap();
        assert_eq!(unparsed_arguments(&reply.calls[0].arguments), Some(original));
    }
    for broken in [
        Turn::stream([start(), tool(), arguments(0, "{}")]),
        Turn::stream([start(), tool(), arguments(0, "{}")]).cut(),
        Turn::stream([start(), arguments(4, "{}"), ends("tool_use")]),
    ] {
        let failed = reply_to(broken.clone()).await.0.unwrap_err();
        assert!(matches!(failed, ModelError::BadReply(_)), "{broken:?}: {failed:?}");
    }
}

#[tokio::test]
async fn errors_map_to_distinct_codes_as_a_status_and_as_an_event() {
    let long = "prompt is too long: 9 tokens > 8 maximum";
    for (status, kind, message, code) in [
        (400, "invalid_request_error", "max_tokens: Field required", "model_bad_request"),
        (400, "invalid_request_error", long, "context_overflow"),
        (401, "authentication_error", "invalid x-api-key", "model_unauthorized"),
        (403, "permission_error", "no", "model_unauthorized"),
        (404, "not_found_error", "model: small", "model_bad_request"),
        (413, "request_too_large", "Request exceeds the maximum size", "context_overflow"),
        (429, "rate_limit_error", "Slow down", "model_unavailable"),
        (500, "api_error", "Internal server error", "model_unavailable"),
        (529, "overloaded_error", "Overloaded", "model_unavailable"),
    ] {
        let error = json!({"type": "error", "error": {"type": kind, "message": message}});
        for turn in
            [Turn::json(status, &error), Turn::stream([start(), named(&error)]), Turn::json(200, &error)]
        {
            let failed = reply_to(turn.clone()).await.0.unwrap_err();
            assert_eq!(failed.code(), code, "{turn:?}: {failed:?}");
            assert!(failed.to_string().contains(message), "{failed}");
        }
    }
}

#[tokio::test]
async fn an_overloaded_server_is_called_again_after_the_delay_that_it_requests() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let in_stream = Turn::stream([start(), text(0, "He"), named(&error)]);
    let busy = Turn::answer(529, &[("retry-after-ms", "20")], [error.to_string()]);
    let endpoint = FakeEndpoint::with([busy, in_stream, hello()]).await;
    let (reply, deltas) = ask(&model(&endpoint), &prompt("hello")).await;
    assert_eq!(reply.unwrap().text, "Hello.");
    assert_eq!(endpoint.requests().len(), 3);
    assert_eq!(deltas[..2], [ReplyDelta::Text("He".to_owned()), ReplyDelta::Restarted]);
    let waits = Turn::answer(529, &[("retry-after", "31")], [error.to_string()]);
    let failed = reply_to(waits).await.0.unwrap_err();
    assert!(matches!(failed, ModelError::Unavailable { retry_after_ms: Some(31_000), .. }), "{failed:?}");
}

#[tokio::test]
async fn a_reply_over_the_size_limit_fails_and_is_not_requested_again() {
    let parts = std::iter::once(start()).chain((0..20).map(|_| text(0, &"x".repeat(1000))));
    let endpoint = FakeEndpoint::with([Turn::stream(parts)]).await;
    let mut settings = endpoint.settings_of(EndpointApi::Messages);
    settings.reply_bytes_max = 10_000;
    let failed = ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await.0.unwrap_err();
    assert_eq!((failed.code(), endpoint.requests().len()), ("model_bad_reply", 1));
}
