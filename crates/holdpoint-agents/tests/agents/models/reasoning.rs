//! Reasoning of models: it is streamed, and sent back unchanged until the turn ends.

use std::sync::Arc;

use holdpoint_agents::model::{EndpointApi, EndpointModel, ModelPrompt, ModelReply, ReplyDelta};
use holdpoint_engine::core::agent::{CallRequest, Message, ReasoningPart, Role};
use serde_json::{Value, json};

use crate::models::fake_endpoint::{DONE, FakeEndpoint, Turn, ask, ends, event, local, piece, prompt};

fn model(endpoint: &FakeEndpoint, api: EndpointApi) -> EndpointModel {
    EndpointModel::new(endpoint.settings_of(api), local()).unwrap()
}

async fn reply_to(api: EndpointApi, turn: Turn) -> (ModelReply, Vec<ReplyDelta>) {
    let endpoint = FakeEndpoint::with([turn]).await;
    let (reply, deltas) = ask(&model(&endpoint, api), &prompt("hello")).await;
    (reply.unwrap(), deltas)
}

fn part(text: &str, data: Value, source: &str) -> ReasoningPart {
    ReasoningPart { text: text.to_owned(), data, source: source.to_owned(), shown: false }
}

fn thought(part: usize, text: &str) -> ReplyDelta {
    ReplyDelta::Reasoning { part, text: text.to_owned() }
}

/// Returns the body of the next request after a reply with this reasoning and a tool call, with and without a further
/// message of the user.
async fn bodies_after(api: EndpointApi, reasoning: &[ReasoningPart]) -> [Value; 2] {
    let call = CallRequest { id: "c1".to_owned(), name: "mail".to_owned(), arguments: json!({}) };
    let reply = Message {
        calls: vec![call],
        reasoning: reasoning.to_vec(),
        ..Message::new("a1", Role::Assistant, "I write.")
    };
    let result = Message { call_id: Some("c1".to_owned()), ..Message::new("r1", Role::Tool, "sent") };
    let turn = vec![Message::new("u1", Role::User, "Write."), reply, result];
    let later = [turn.clone(), vec![Message::new("u2", Role::User, "Again.")]].concat();
    let mut bodies = Vec::new();
    for messages in [turn, later] {
        let endpoint = FakeEndpoint::with([Turn::json(400, &json!({}))]).await;
        let messages = messages.into_iter().map(Arc::new).collect();
        let _ = ask(&model(&endpoint, api), &ModelPrompt { messages, ..prompt("") }).await;
        bodies.push(endpoint.body(0));
    }
    bodies.try_into().unwrap()
}

#[tokio::test]
async fn chat_completions_send_reasoning_in_one_of_three_members() {
    let source = "openai:small";
    for member in ["reasoning_content", "reasoning"] {
        let turn = Turn::stream([
            piece(json!({member: "First, ", "content": null})),
            piece(json!({member: "the sum."})),
            piece(json!({"content": "5"})),
            ends("stop"),
            DONE.to_owned(),
        ]);
        let (reply, deltas) = reply_to(EndpointApi::ChatCompletions, turn).await;
        assert_eq!(reply.reasoning, [part("First, the sum.", json!({"member": member}), source)]);
        assert_eq!(deltas[..2], [thought(0, "First, "), thought(0, "the sum.")]);
        let [turn, later] = bodies_after(EndpointApi::ChatCompletions, &reply.reasoning).await;
        assert_eq!(turn["messages"][1][member], "First, the sum.");
        assert_eq!(later["messages"][1].get(member), None, "not after the turn");
    }
}

#[tokio::test]
async fn reasoning_details_are_joined_and_sent_back() {
    let detail = |more: Value| {
        let mut detail = json!({"type": "reasoning.text", "index": 0});
        detail.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        detail
    };
    let encrypted = json!({"type": "reasoning.encrypted", "index": 1, "data": "x"});
    let turn = Turn::stream([
        piece(json!({"reasoning": "First, ", "reasoning_details": [detail(json!({"text": "First, "}))]})),
        piece(json!({"reasoning": "the sum.", "reasoning_details": [detail(json!({"text": "the sum."}))]})),
        piece(json!({"reasoning_details": [detail(json!({"signature": "s", "text": null})), encrypted]})),
        piece(json!({"content": "5"})),
        ends("stop"),
        DONE.to_owned(),
    ]);
    let (reply, _) = reply_to(EndpointApi::ChatCompletions, turn).await;
    assert_eq!(reply.reasoning[0].text, "First, the sum.");
    let [turn, _] = bodies_after(EndpointApi::ChatCompletions, &reply.reasoning).await;
    let joined = detail(json!({"text": "First, the sum.", "signature": "s"}));
    assert_eq!(turn["messages"][1]["reasoning_details"], json!([joined, encrypted]));
    assert_eq!(turn["messages"][1].get("reasoning"), None, "the details contain the text");
}

#[tokio::test]
async fn anthropic_gets_thinking_and_its_signature_back_before_the_text() {
    let block = |index: u64, block: Value| {
        event(&json!({"type": "content_block_start", "index": index, "content_block": block}))
    };
    let delta = |index: u64, delta: Value| {
        event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let turn = Turn::stream([
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "First, "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "the sum."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        block(1, json!({"type": "redacted_thinking", "data": "ZGF0YQ=="})),
        block(2, json!({"type": "text", "text": "5"})),
        event(&json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})),
        event(&json!({"type": "message_stop"})),
    ]);
    let (reply, deltas) = reply_to(EndpointApi::Messages, turn).await;
    let source = "anthropic:small";
    let expected = [
        part("First, the sum.", json!({"signature": "c2ln"}), source),
        part("", json!({"encrypted": "ZGF0YQ=="}), source),
    ];
    assert_eq!(reply.reasoning, expected);
    assert_eq!(deltas[..2], [thought(0, "First, "), thought(0, "the sum.")]);
    let [turn, later] = bodies_after(EndpointApi::Messages, &reply.reasoning).await;
    let blocks = turn["messages"][1]["content"].as_array().unwrap();
    let thinking = json!({"type": "thinking", "thinking": "First, the sum.", "signature": "c2ln"});
    assert_eq!(blocks[..2], [thinking, json!({"type": "redacted_thinking", "data": "ZGF0YQ=="})]);
    assert_eq!((&blocks[2]["type"], &blocks[3]["type"]), (&json!("text"), &json!("tool_use")));
    assert_eq!(later["messages"][1]["content"][0]["type"], "text");
}

#[tokio::test]
async fn the_responses_api_gets_encrypted_reasoning_back() {
    let item = |done: bool| {
        let mut item = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        if done {
            item["summary"] =
                json!([{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]);
            item["encrypted_content"] = json!("gAAA");
        }
        item
    };
    let summary = |kind: &str, more: Value| {
        let mut one = json!({"type": format!("response.reasoning_summary_{kind}"), "output_index": 0});
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event(&one)
    };
    let usage =
        json!({"input_tokens": 5, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 4}});
    let turn = Turn::stream([
        event(&json!({"type": "response.output_item.added", "output_index": 0, "item": item(false)})),
        summary("part.added", json!({"summary_index": 0})),
        summary("text.delta", json!({"delta": "One."})),
        summary("part.added", json!({"summary_index": 1})),
        summary("text.delta", json!({"delta": "Two."})),
        event(&json!({"type": "response.output_item.done", "output_index": 0, "item": item(true)})),
        event(&json!({"type": "response.output_text.delta", "output_index": 1, "delta": "5"})),
        event(&json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}})),
    ]);
    let (reply, _) = reply_to(EndpointApi::Responses, turn).await;
    assert_eq!((reply.reasoning[0].text.as_str(), reply.usage.reasoning_tokens), ("One.\n\nTwo.", 4));
    assert_eq!(reply.reasoning[0].encrypted(), Some("gAAA"));
    let [turn, later] = bodies_after(EndpointApi::Responses, &reply.reasoning).await;
    assert_eq!(turn["input"][1], item(true), "the item is sent back unchanged");
    assert_eq!(turn["input"][2]["role"], "assistant");
    assert_eq!(later["input"][1]["role"], "assistant");
}

#[tokio::test]
async fn encrypted_reasoning_is_requested_only_with_reasoning_options() {
    for (options, include) in [
        (json!({"reasoning": {"effort": "low"}}), json!(["reasoning.encrypted_content"])),
        (json!({}), Value::Null),
    ] {
        let endpoint = FakeEndpoint::with([Turn::json(400, &json!({}))]).await;
        let prompt = ModelPrompt { options: options.as_object().unwrap().clone(), ..prompt("hello") };
        let _ = ask(&model(&endpoint, EndpointApi::Responses), &prompt).await;
        assert_eq!(endpoint.body(0)["include"], include);
    }
}

#[tokio::test]
async fn another_model_does_not_get_the_reasoning() {
    let other = part("First.", json!({"signature": "c2ln"}), "anthropic:large");
    let [turn, _] = bodies_after(EndpointApi::Messages, &[other]).await;
    assert!(!turn.to_string().contains("First."), "{turn}");
}

#[tokio::test]
async fn results_with_attachments_have_the_form_of_the_api() {
    let image =
        json!({"type": "image", "source": {"type": "data", "value": "/9j/AAAA", "mimeType": "image/jpeg"}});
    let content = json!([{"type": "text", "text": "A chart"}, image]);
    let call = CallRequest { id: "c1".to_owned(), name: "plot".to_owned(), arguments: json!({}) };
    let reply = Message { calls: vec![call], ..Message::new("a1", Role::Assistant, "") };
    let result = Message { call_id: Some("c1".to_owned()), ..Message::new("r1", Role::Tool, content) };
    let messages = [Message::new("u1", Role::User, "Plot."), reply, result].map(Arc::new).to_vec();
    for (api, path, expected) in [
        (
            EndpointApi::Messages,
            "/messages/2/content/0/content/1/source",
            json!({"type": "base64", "media_type": "image/jpeg", "data": "/9j/AAAA"}),
        ),
        (EndpointApi::Responses, "/input/2/output/1/image_url", json!("data:image/jpeg;base64,/9j/AAAA")),
        (
            EndpointApi::ChatCompletions,
            "/messages/2/content",
            json!("A chart\n(An attachment was left out: this API accepts none in results of tools.)"),
        ),
    ] {
        let endpoint = FakeEndpoint::with([Turn::json(400, &json!({}))]).await;
        let _ = ask(&model(&endpoint, api), &ModelPrompt { messages: messages.clone(), ..prompt("") }).await;
        let body = endpoint.body(0);
        assert_eq!(body.pointer(path), Some(&expected), "{api:?}: {body}");
    }
}
