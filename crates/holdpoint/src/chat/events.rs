//! Translates events of a run into events of the chat stream. Pure. Native agents and providers have the same events.

use bytes::Bytes;
use holdpoint_api::chat::{ChatDelta, ChatMessage, ChatProgress, ChatToolCall, ChatToolResult, ChatUsage};
use holdpoint_core::Event;
use holdpoint_core::agent::{Message, Usage};
use holdpoint_engine::RecordedEvent;
use serde::Serialize;
use serde_json::Value;

/// Returns the frames of an event: its name as progress, then its content.
pub(super) fn frames(state_key: &str, recorded: &RecordedEvent) -> Vec<Bytes> {
    let mut frames = vec![frame("progress", &progress(state_key, recorded))];
    if let Event::MessageChunk { node, chunk, meta, .. } = &recorded.event {
        let id = meta.get("messageId").and_then(Value::as_str).unwrap_or(node.as_str());
        let attempt = meta.get("attempt").and_then(Value::as_u64).unwrap_or(1);
        frames.extend(delta(state_key, id, attempt, chunk).map(|delta| frame("content", &delta)));
    } else if let Event::ReasoningChunk { node, chunk, meta, .. } = &recorded.event {
        let id = meta.get("messageId").and_then(Value::as_str).unwrap_or(node.as_str());
        let attempt = meta.get("attempt").and_then(Value::as_u64).unwrap_or(1);
        frames.extend(delta(state_key, id, attempt, chunk).map(|delta| frame("reasoning", &delta)));
    } else if let Event::ModelReplied { message, usage, model, .. } = &recorded.event {
        add_message(state_key, message, &mut frames);
        frames.extend(tokens(state_key, &message.id, *usage, model).map(|usage| frame("usage", &usage)));
    } else if let Event::ToolReturned { call, status, content, .. } = &recorded.event {
        let (state_key, tool_call_id) = (state_key.to_owned(), call.clone());
        let result = ChatToolResult { state_key, tool_call_id, status: *status, content: content.clone() };
        frames.push(frame("tool_result", &result));
    }
    frames
}

/// Returns a server-sent event.
pub(super) fn frame(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

fn progress(state_key: &str, recorded: &RecordedEvent) -> ChatProgress {
    let node_id = match &recorded.event {
        Event::NodeStarted { node, .. } | Event::NodeCompleted { node, .. } => Some(node.clone()),
        _ => None,
    };
    let (state_key, kind) = (state_key.to_owned(), recorded.event.name().to_owned());
    ChatProgress { state_key, kind, at: recorded.at.into(), node_id }
}

fn delta(state_key: &str, message: &str, attempt: u64, text: &str) -> Option<ChatDelta> {
    let (state_key, message_id, delta) = (state_key.to_owned(), message.to_owned(), text.to_owned());
    (!text.is_empty()).then_some(ChatDelta { state_key, message_id, attempt, delta })
}

fn add_message(state_key: &str, message: &Message, frames: &mut Vec<Bytes>) {
    let (text, message_id) = (message.text(), message.id.clone());
    if !text.is_empty() {
        let (state_key, message_id) = (state_key.to_owned(), message_id.clone());
        frames.push(frame("message", &ChatMessage { state_key, message_id, text }));
    }
    for call in &message.calls {
        let shown = ChatToolCall {
            state_key: state_key.to_owned(),
            message_id: message_id.clone(),
            tool_call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        frames.push(frame("tool_call", &shown));
    }
}

fn tokens(state_key: &str, message: &str, usage: Usage, model: &str) -> Option<ChatUsage> {
    (usage.total() > 0).then(|| ChatUsage {
        state_key: state_key.to_owned(),
        message_id: message.to_owned(),
        model: Some(model.to_owned()).filter(|model| !model.is_empty()),
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
    })
}
