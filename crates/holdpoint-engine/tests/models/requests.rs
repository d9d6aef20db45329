//! What endpoints are asked.

use std::sync::Arc;

use holdpoint_engine::agent::model::{OpenAi, Prompt};
use holdpoint_engine::agent::tool::ToolSpec;
use holdpoint_engine::core::agent::{CallRequest, Message, Role};
use serde_json::{Value, json};

use crate::stand_in::{StandIn, ask, local, prompt, says};

async fn asked(prompt: &Prompt) -> Value {
    let stand_in = StandIn::with([says("Hello.")]).await;
    ask(&stand_in.model(), prompt).await.0.unwrap();
    stand_in.body(0)
}

fn call(id: &str, arguments: Value) -> CallRequest {
    CallRequest { id: id.to_owned(), name: "mail".to_owned(), arguments }
}

#[tokio::test]
async fn a_conversation_is_told_in_the_form_that_endpoints_take() {
    let reply =
        Message { calls: vec![call("c1", json!({"to": "a"}))], ..Message::new("a1", Role::Assistant, "") };
    let result = |id: &str, of: &str, content: Value| Message {
        call_id: Some(of.to_owned()),
        ..Message::new(id, Role::Tool, content)
    };
    let parts =
        json!([{"type": "text", "text": "and"}, {"type": "image_url", "image_url": {"url": "data:,"}}]);
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
    let prompt = Prompt {
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
    assert_eq!(asked(&prompt).await, expected);
}

#[tokio::test]
async fn a_call_without_a_result_is_given_one_because_endpoints_refuse_it_otherwise() {
    let two = vec![call("c1", json!({})), call("c2", json!({}))];
    let reply = Message { calls: two, ..Message::new("a1", Role::Assistant, "Let me see.") };
    let result = Message { call_id: Some("c2".to_owned()), ..Message::new("r2", Role::Tool, "ok") };
    for said_since in [true, false] {
        let mut messages = vec![Message::new("u1", Role::User, "Write."), reply.clone(), result.clone()];
        if said_since {
            messages.push(Message::new("u2", Role::User, "Well?"));
        }
        let prompt = Prompt { messages: messages.into_iter().map(Arc::new).collect(), ..prompt("") };
        let body = asked(&prompt).await;
        let messages = body["messages"].as_array().unwrap();
        let of: Vec<_> = messages.iter().map(|message| message["tool_call_id"].as_str()).collect();
        let mut expected = vec![None, None, Some("c2"), Some("c1")];
        expected.extend(said_since.then_some(None));
        assert_eq!(of, expected);
    }
}

#[tokio::test]
async fn options_of_the_prompt_go_before_those_of_the_definition_and_touch_nothing_else() {
    let stand_in = StandIn::with([says("Hello.")]).await;
    let mut settings = stand_in.settings();
    let options = json!({"temperature": 0.5, "maxTokens": 10, "reasoningEffort": "low", "top_p": 0.9});
    settings.options = options.as_object().unwrap().clone();
    settings.stream = false;
    let said = json!({"maxTokens": 20, "model": "large", "messages": [], "streamOptions": {}, "n": 5});
    let prompt = Prompt { options: said.as_object().unwrap().clone(), ..prompt("hello") };
    ask(&OpenAi::new(settings, local()).unwrap(), &prompt).await.0.unwrap();
    let expected = json!({
        "model": "small",
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0.5,
        "max_tokens": 20,
        "reasoning_effort": "low",
        "top_p": 0.9,
    });
    assert_eq!(stand_in.body(0), expected);
}
