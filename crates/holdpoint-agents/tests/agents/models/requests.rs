//! Requests to endpoints.

use std::sync::Arc;

use holdpoint_agents::model::{EndpointModel, ModelPrompt};
use holdpoint_agents::tool::ToolSpec;
use holdpoint_engine::core::agent::{CallRequest, Message, Role};
use serde_json::{Value, json};

use crate::models::fake_endpoint::{FakeEndpoint, ask, local, prompt, text_reply};

/// Returns the body of the request for a prompt.
async fn request_body(prompt: &ModelPrompt) -> Value {
    let endpoint = FakeEndpoint::with([text_reply("Hello.")]).await;
    ask(&endpoint.model(), prompt).await.0.unwrap();
    endpoint.body(0)
}

fn call(id: &str, arguments: Value) -> CallRequest {
    CallRequest { id: id.to_owned(), name: "mail".to_owned(), arguments }
}

#[tokio::test]
async fn a_conversation_is_sent_as_chat_completions_messages() {
    let reply =
        Message { calls: vec![call("c1", json!({"to": "a"}))], ..Message::new("a1", Role::Assistant, "") };
    let result = |id: &str, of: &str, content: Value| Message {
        call_id: Some(of.to_owned()),
        ..Message::new(id, Role::Tool, content)
    };
    let parts = json!([{"type": "text", "text": "and"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgoA"}}]);
    let messages = [
        Message::new("s1", Role::System, "Be kind."),
        Message::new("u1", Role::User, "Write."),
        reply,
        result("r1", "c1", json!({"sent": true})),
        Message::new("a2", Role::Assistant, "Sent."),
        Message::new("u2", Role::User, parts.clone()),
    ];
    let tool = ToolSpec {
        name: "mail".to_owned(),
        description: "Sends mail".to_owned(),
        parameters: json!({"type": "object"}),
        idempotent: false,
        primary: None,
    };
    let prompt = ModelPrompt {
        instructions: Some("You write mail.".to_owned()),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: vec![Arc::new(tool)],
        ..prompt("")
    };
    let function = json!({"name": "mail", "arguments": "{\"to\":\"a\"}"});
    let expected = json!({
        "model": "small",
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {
            "name": "mail", "description": "Sends mail", "parameters": {"type": "object"}
        }}],
        "messages": [
            {"role": "system", "content": "You write mail."},
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Write."},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": function}
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"sent\":true}"},
            {"role": "assistant", "content": "Sent."},
            {"role": "user", "content": parts},
        ],
    });
    assert_eq!(request_body(&prompt).await, expected);
}

#[tokio::test]
async fn a_call_without_a_result_gets_a_placeholder_result() {
    let two = vec![call("c1", json!({})), call("c2", json!({}))];
    let reply = Message { calls: two, ..Message::new("a1", Role::Assistant, "Let me see.") };
    let result = Message { call_id: Some("c2".to_owned()), ..Message::new("r2", Role::Tool, "ok") };
    for has_later_message in [true, false] {
        let mut messages = vec![Message::new("u1", Role::User, "Write."), reply.clone(), result.clone()];
        if has_later_message {
            messages.push(Message::new("u2", Role::User, "Well?"));
        }
        let prompt = ModelPrompt { messages: messages.into_iter().map(Arc::new).collect(), ..prompt("") };
        let body = request_body(&prompt).await;
        let messages = body["messages"].as_array().unwrap();
        let of: Vec<_> = messages.iter().map(|message| message["tool_call_id"].as_str()).collect();
        let mut expected = vec![None, None, Some("c2"), Some("c1")];
        expected.extend(has_later_message.then_some(None));
        assert_eq!(of, expected);
    }
}

#[tokio::test]
async fn options_of_the_prompt_override_options_of_the_definition_and_no_other_members() {
    let endpoint = FakeEndpoint::with([text_reply("Hello.")]).await;
    let mut settings = endpoint.settings();
    let options = json!({"temperature": 0.5, "maxTokens": 10, "reasoningEffort": "low", "top_p": 0.9});
    settings.options = options.as_object().unwrap().clone();
    settings.stream = false;
    let options_of_prompt =
        json!({"maxTokens": 20, "model": "large", "messages": [], "streamOptions": {}, "n": 5});
    let prompt = ModelPrompt { options: options_of_prompt.as_object().unwrap().clone(), ..prompt("hello") };
    ask(&EndpointModel::new(settings, local()).unwrap(), &prompt).await.0.unwrap();
    let expected = json!({
        "model": "small",
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0.5,
        "max_tokens": 20,
        "reasoning_effort": "low",
        "top_p": 0.9,
    });
    assert_eq!(endpoint.body(0), expected);
}
