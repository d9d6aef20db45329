//! Builds the body of a chat completions request from a prompt.

use std::collections::BTreeSet;

use holdpoint_core::agent::{CallRequest, Message, Role};
use serde_json::{Map, Value, json};

use super::super::ModelPrompt;
use super::settings::OpenAiSettings;

/// Members of a request that options must not set.
const RESERVED: [&str; 6] = ["messages", "model", "n", "stream", "stream_options", "tools"];

/// Returns true if an option of this name, as a definition spells it, is reserved.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&snake(name).as_str())
}

pub(super) fn body(settings: &OpenAiSettings, prompt: &ModelPrompt) -> Vec<u8> {
    let mut body = Map::new();
    for (name, value) in settings.options.iter().chain(&prompt.options) {
        if !is_reserved(name) {
            body.insert(snake(name), value.clone());
        }
    }
    body.insert("model".to_owned(), settings.model.clone().into());
    body.insert("messages".to_owned(), Value::Array(messages(prompt)));
    if !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(|tool| {
            let (name, description) = (&tool.name, &tool.description);
            json!({"type": "function", "function": {"name": name, "description": description, "parameters": tool.parameters}})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    if settings.stream {
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    Value::Object(body).to_string().into_bytes()
}

/// Converts a name to snake case: `maxTokens` is `max_tokens` on the wire.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn messages(prompt: &ModelPrompt) -> Vec<Value> {
    let instructions = prompt.instructions.iter().map(|text| json!({"role": "system", "content": text}));
    let mut rendered: Vec<Value> = instructions.collect();
    // Calls of the last reply that have no result yet.
    let mut open: Vec<&CallRequest> = Vec::new();
    for message in &prompt.messages {
        if message.role == Role::Tool {
            open.retain(|call| Some(&call.id) != message.call_id.as_ref());
        } else {
            rendered.extend(open.drain(..).map(missing_result));
        }
        rendered.push(render(message));
        let mut seen = BTreeSet::new();
        open.extend(message.calls.iter().filter(|call| seen.insert(&call.id)));
    }
    rendered.extend(open.drain(..).map(missing_result));
    rendered
}

/// Returns a placeholder result. Endpoints reject a conversation in which a call has no result.
fn missing_result(call: &CallRequest) -> Value {
    json!({"role": "tool", "tool_call_id": call.id, "content": "There is no result of this call."})
}

fn render(message: &Message) -> Value {
    match message.role {
        Role::System => json!({"role": "system", "content": content(message)}),
        Role::User => json!({"role": "user", "content": content(message)}),
        Role::Assistant if message.calls.is_empty() => {
            json!({"role": "assistant", "content": message.text()})
        }
        Role::Assistant => {
            let text = message.text();
            let text = if text.is_empty() { Value::Null } else { text.into() };
            let calls = message.calls.iter().map(|call| {
                let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
                json!({"id": call.id, "type": "function", "function": function})
            });
            json!({"role": "assistant", "content": text, "tool_calls": calls.collect::<Vec<_>>()})
        }
        Role::Tool => {
            let content = match &message.content {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            json!({"role": "tool", "tool_call_id": message.call_id, "content": content})
        }
    }
}

/// Returns the content. Lists of parts are unchanged: front ends and endpoints use the same format.
fn content(message: &Message) -> Value {
    match &message.content {
        Value::String(_) | Value::Array(_) => message.content.clone(),
        Value::Null => "".into(),
        other => other.to_string().into(),
    }
}
