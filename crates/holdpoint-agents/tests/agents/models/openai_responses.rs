//! The responses API of OpenAI: requests, streams, documents and errors.

use std::sync::Arc;

use holdpoint_agents::model::{
    EndpointApi, EndpointModel, FinishReason, ModelError, ModelPrompt, ModelReply, ReplyDelta,
    unparsed_arguments,
};
use holdpoint_agents::tool::ToolSpec;
use holdpoint_engine::core::agent::{CallRequest, Message, ReasoningPart, Role, Usage};
use serde_json::{Value, json};

use crate::models::fake_endpoint::{FakeEndpoint, Turn, ask, event, local, prompt};

async fn reply_to(turn: Turn) -> (Result<ModelReply, ModelError>, Vec<ReplyDelta>) {
    let endpoint = FakeEndpoint::with([turn]).await;
    let mut settings = endpoint.settings_of(EndpointApi::Responses);
    settings.retries = 0;
    ask(&EndpointModel::new(settings, local()).unwrap(), &prompt("hello")).await
}

fn call(id: &str, arguments: Value) -> CallRequest {
    CallRequest { id: id.to_owned(), name: "mail".to_owned(), arguments }
}

fn text(text: &str) -> String {
    event(
        &json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text}),
    )
}

fn item(event_type: &str, index: u64, arguments: &str) -> String {
    let item = json!({"type": "function_call", "id": "fc_1", "call_id": format!("c{index}"), "name": "mail", "arguments": arguments});
    event(&json!({"type": event_type, "output_index": index, "item": item}))
}

fn added(index: u64) -> String {
    item("response.output_item.added", index, "")
}

fn arguments(index: u64, delta: &str) -> String {
    event(
        &json!({"type": "response.function_call_arguments.delta", "output_index": index, "item_id": "fc_1", "delta": delta}),
    )
}

fn response(status: &str) -> Value {
    json!({"id": "resp_1", "object": "response", "model": "small-2", "status": status, "error": null,
        "incomplete_details": null, "output": [], "usage": {"input_tokens": 5, "output_tokens": 6}})
}

fn ends(status: &str) -> String {
    event(&json!({"type": format!("response.{status}"), "response": response(status)}))
}

fn incomplete(reason: &str) -> String {
    let mut response = response("incomplete");
    response["incomplete_details"] = json!({"reason": reason});
    event(&json!({"type": "response.incomplete", "response": response}))
}

#[tokio::test]
async fn a_conversation_is_sent_whole_and_is_not_stored() {
    let endpoint = FakeEndpoint::with([Turn::stream([text("Hello."), ends("completed")])]).await;
    let reply = Message {
        calls: vec![call("c1", json!({"to": "a"})), call("c2", json!({}))],
        ..Message::new("a1", Role::Assistant, "I write.")
    };
    let messages = [
        Message::new("u1", Role::User, "Write."),
        reply,
        Message { call_id: Some("c1".to_owned()), ..Message::new("r1", Role::Tool, json!({"sent": true})) },
        Message::new("s1", Role::System, "Be kind."),
    ];
    let tool = ToolSpec {
        name: "mail".to_owned(),
        description: "Sends mail".to_owned(),
        parameters: json!({"type": "object"}),
        idempotent: false,
        primary: None,
    };
    let options = json!({"maxTokens": 50, "store": true, "previousResponseId": "resp_0", "tools": []});
    let prompt = ModelPrompt {
        instructions: Some("You write mail.".to_owned()),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![Arc::new(tool)],
        options: options.as_object().unwrap().clone(),
        ..prompt("")
    };
    let settings = endpoint.settings_of(EndpointApi::Responses);
    ask(&EndpointModel::new(settings, local()).unwrap(), &prompt).await.0.unwrap();
    let expected = json!({
        "max_output_tokens": 50,
        "model": "small",
        "store": false,
        "stream": true,
        "tools": [{"type": "function", "name": "mail", "description": "Sends mail", "parameters": {"type": "object"}, "strict": false}],
        "input": [
            {"role": "system", "content": "You write mail."},
            {"role": "user", "content": "Write."},
            {"role": "assistant", "content": "I write."},
            {"type": "function_call", "call_id": "c1", "name": "mail", "arguments": "{\"to\":\"a\"}"},
            {"type": "function_call", "call_id": "c2", "name": "mail", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "{\"sent\":true}"},
            {"type": "function_call_output", "call_id": "c2", "output": "There is no result of this call."},
            {"role": "system", "content": "Be kind."},
        ],
    });
    assert_eq!(endpoint.body(0), expected);
    assert!(endpoint.requests()[0].starts_with("POST /v1/responses "));
}

#[tokio::test]
async fn a_stream_yields_text_calls_and_usage() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let stream = [
        event(&json!({"type": "response.created", "response": response("in_progress")})),
        event(&json!({"type": "response.output_item.added", "output_index": 0, "item": reasoning})),
        event(&json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm."})),
        text("I "),
        text("write."),
        event(&json!({"type": "response.output_text.done", "text": "I write."})),
        added(2),
        added(3),
        arguments(2, "{\"to\": \"b"),
        arguments(2, "ob\"}"),
        event(&json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{\"to\": \"bob\"}"})),
        item("response.output_item.done", 2, "{\"to\": \"bob\"}"),
        item("response.output_item.done", 3, "{\"to\": \"eve\"}"),
        ends("completed"),
    ]
    .concat();
    for size in [1, 7, 100_000] {
        let (reply, deltas) = reply_to(Turn::stream(stream.as_bytes().chunks(size))).await;
        let reasoning = ReasoningPart {
            text: "Hm.".to_owned(),
            data: Value::Null,
            source: "openai-responses:small".to_owned(),
            shown: false,
        };
        let expected = ModelReply {
            reasoning: vec![reasoning],
            text: "I write.".to_owned(),
            calls: vec![call("c2", json!({"to": "bob"})), call("c3", json!({"to": "eve"}))],
            usage: Usage { input_tokens: 5, output_tokens: 6, ..Usage::default() },
            model: "small-2".to_owned(),
            finish: FinishReason::Calls,
            ..ModelReply::default()
        };
        assert_eq!(reply.unwrap(), expected);
        assert_eq!(deltas[0], ReplyDelta::Reasoning { part: 0, text: "Hm.".to_owned() });
        assert_eq!(deltas[1..3], [ReplyDelta::Text("I ".to_owned()), ReplyDelta::Text("write.".to_owned())]);
    }
}

#[tokio::test]
async fn a_reply_can_be_a_document_or_only_in_the_last_event() {
    let mut document = response("completed");
    document["output"] = json!([
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I write.", "annotations": []}]},
        {"type": "function_call", "call_id": "c1", "name": "mail", "arguments": "{\"to\":\"bob\"}"},
    ]);
    let last = event(&json!({"type": "response.completed", "response": document}));
    for turn in [Turn::json(200, &document), Turn::stream([last])] {
        let reply = reply_to(turn).await.0.unwrap();
        assert_eq!((reply.text.as_str(), reply.calls), ("I write.", vec![call("c1", json!({"to": "bob"}))]));
    }
}

#[tokio::test]
async fn incomplete_responses_and_refusals_are_reported() {
    let refusal = event(&json!({"type": "response.refusal.delta", "delta": "I cannot do that."}));
    for (turn, expected) in [
        (Turn::stream([text("It"), ends("completed")]), Ok(FinishReason::Stop)),
        (Turn::stream([text("It"), incomplete("max_output_tokens")]), Ok(FinishReason::Length)),
        (Turn::stream([text("It"), incomplete("content_filter")]), Err("model_refused")),
        (Turn::stream([refusal, ends("completed")]), Err("model_refused")),
        (Turn::stream([text("It")]), Err("model_bad_reply")),
        (Turn::stream([text("It")]).cut(), Err("model_bad_reply")),
        (Turn::json(200, &response("in_progress")), Err("model_bad_reply")),
        (Turn::stream([arguments(0, "{}"), ends("completed")]), Err("model_bad_reply")),
    ] {
        let (reply, _) = reply_to(turn.clone()).await;
        assert_eq!(reply.map(|reply| reply.finish).map_err(|error| error.code()), expected, "{turn:?}");
    }
    let cut_off = Turn::stream([added(0), arguments(0, "{\"to\": \"bo"), incomplete("max_output_tokens")]);
    let reply = reply_to(cut_off).await.0.unwrap();
    assert_eq!(unparsed_arguments(&reply.calls[0].arguments), Some("{\"to\": \"bo"));
}

#[tokio::test]
async fn failed_responses_and_error_events_map_to_distinct_codes() {
    for (code, message, expected) in [
        ("server_error", "Oops", "model_unavailable"),
        ("rate_limit_exceeded", "Slow down", "model_unavailable"),
        ("invalid_prompt", "No such member", "model_bad_request"),
        ("context_length_exceeded", "Too long", "context_overflow"),
    ] {
        let mut failed = response("failed");
        failed["error"] = json!({"code": code, "message": message});
        let flat = json!({"type": "error", "code": code, "message": message, "param": null});
        let nested = json!({"type": "error", "error": {"code": code, "message": message}});
        for turn in [
            Turn::stream([text("It"), event(&json!({"type": "response.failed", "response": failed}))]),
            Turn::stream([text("It"), event(&flat)]),
            Turn::stream([text("It"), event(&nested)]),
            Turn::json(200, &failed),
        ] {
            let error = reply_to(turn.clone()).await.0.unwrap_err();
            assert_eq!(error.code(), expected, "{turn:?}: {error:?}");
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
