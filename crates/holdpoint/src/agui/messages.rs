//! Translates the messages of a thread for front ends. Pure. Uses the same ids as the streams, so that a client does
//! not show a message twice.

use holdpoint_api::agui::{Event as WireEvent, Function, Message, ToolCall};
use holdpoint_core::agent::{self, Role};
use holdpoint_core::{Event, Run, RunId};
use serde_json::Value;

use super::ids;
use super::translate::reasoning_id;

mod chunks;

/// The maximum number of messages in a snapshot; it contains the last ones.
pub(super) const MESSAGES_MAX: usize = 1000;
/// The number of messages that every request reads, and that a client without messages gets.
pub(super) const RECENT_MESSAGES: usize = 100;
/// The number of messages from which on a client is cut to [`MESSAGES_MAX`], so that its requests stay small.
pub(super) const CLIENT_MESSAGES_MAX: usize = 1250;
/// The maximum size of a snapshot: clients accept frames of at most 10 MiB.
pub(super) const BYTES_MAX: usize = 8 * 1024 * 1024;
/// The member of the metadata of a message that has the role as the client wrote it.
pub(super) const ROLE_KEY: &str = "role";

/// Returns the number of messages in a snapshot for a client that has `known` messages: not fewer than the client shows.
pub(super) fn snapshot_size(known: usize) -> usize {
    known.clamp(RECENT_MESSAGES, MESSAGES_MAX)
}

/// Returns the estimated size of a message in a snapshot.
pub(super) fn estimate_bytes(message: &agent::Message) -> usize {
    let size = |value: &Value| value.as_str().map_or_else(|| value.to_string().len(), str::len);
    let reasoning = message.reasoning.iter().filter(|part| part.shown).map(|part| part.text.len());
    size(&message.content)
        + message.calls.iter().map(|call| size(&call.arguments)).sum::<usize>()
        + reasoning.sum::<usize>()
}

/// Returns a message of a run of a single agent, after the reasoning that led to it.
pub(super) fn of_agent(run: &RunId, message: &agent::Message) -> Vec<Message> {
    describe_all(message, |name| ids::agent_wire_id(run, name))
}

/// Returns the messages in the inputs of a workflow run and those of its nodes, each with the sequence of its first
/// event. `run` is the run before the events.
pub(super) fn of_workflow(mut run: Run, events: &[holdpoint_engine::RecordedEvent]) -> Vec<(u64, Message)> {
    let mut messages = Vec::new();
    for one in events {
        run.apply(&one.event, one.at);
        add_event(&run, one.seq, &one.event, &mut messages);
    }
    messages
}

fn add_event(run: &Run, seq: u64, event: &Event, messages: &mut Vec<(u64, Message)>) {
    if let Event::RunStarted(started) = event {
        let given = started.inputs.get("messages").and_then(Value::as_array).into_iter().flatten();
        messages.extend(given.filter_map(parse_input).map(|message| (seq, message)));
    } else if let Event::MessageChunk { .. } | Event::ReasoningChunk { .. } | Event::ToolCallChunk { .. } =
        event
    {
        chunks::add(run, seq, event, messages);
    } else if let Event::MessageAdded { node, message } = event {
        // Messages of the workflow itself to an agent have no author and are not shown.
        if message.by.is_some() {
            messages.push((seq, describe(message, |name| ids::wire_id(run, node, name))));
        }
    } else if let Event::ModelReplied { node, message, .. } = event {
        let shown = describe_all(message, |name| ids::wire_id(run, node, name));
        // The first message of a provider begins like one of a node that is not an agent.
        messages.retain(|(_, known)| shown.iter().all(|message| message.id() != known.id()));
        messages.extend(shown.into_iter().map(|message| (seq, message)));
    } else if let Event::ToolReturned { node, call, content, .. } = event {
        let result =
            describe(&agent::Message::result_of(call, content), |name| ids::wire_id(run, node, name));
        let place = place_of_result(messages, &ids::wire_id(run, node, call));
        messages.insert(place, (seq, result));
    }
}

/// Returns the position after the reply that contains the call, and after the results that follow it.
fn place_of_result(messages: &[(u64, Message)], call: &str) -> usize {
    let wanted = |message: &Message| matches!(message, Message::Assistant { tool_calls, .. } if tool_calls.iter().any(|one| one.id == call));
    let Some(reply) = messages.iter().rposition(|(_, message)| wanted(message)) else {
        return messages.len();
    };
    let results =
        messages[reply + 1..].iter().take_while(|(_, message)| matches!(message, Message::Tool { .. }));
    reply + 1 + results.count()
}

/// Parses a message in the inputs of a workflow, in the form that [`crate::agui::run`] writes.
fn parse_input(given: &Value) -> Option<Message> {
    let id = given.get("id")?.as_str()?.to_owned();
    let content = given.get("content").cloned().unwrap_or_default();
    let text = || agent::Message::new("", Role::User, content.clone()).text();
    Some(match given.get("role")?.as_str()? {
        "system" => Message::System { id, content: text() },
        "developer" => Message::Developer { id, content: text() },
        _ => Message::User { content: user_content(&content), id },
    })
}

/// Describes a message after the reasoning that led to it.
fn describe_all(message: &agent::Message, name: impl Fn(&str) -> String) -> Vec<Message> {
    let reply = name(&message.id);
    let parts = (0..).zip(&message.reasoning).filter(|(_, part)| part.shown);
    let parts = parts.map(|(at, part)| Message::Reasoning {
        id: reasoning_id(&reply, at),
        content: part.text.clone(),
        encrypted_value: part.encrypted().filter(|_| part.text.is_empty()).map(str::to_owned),
    });
    let is_empty = |part: &Message| matches!(part, Message::Reasoning { content, encrypted_value: None, .. } if content.is_empty());
    parts.filter(|part| !is_empty(part)).chain([describe(message, name)]).collect()
}

/// Describes a message. `name` returns the id on the wire for an id that is unique only in its run.
fn describe(message: &agent::Message, name: impl Fn(&str) -> String) -> Message {
    match message.role {
        Role::System if message.metadata.get(ROLE_KEY).and_then(Value::as_str) == Some("developer") => {
            Message::Developer { id: message.id.clone(), content: message.text() }
        }
        Role::System => Message::System { id: message.id.clone(), content: message.text() },
        Role::User => Message::User { id: message.id.clone(), content: user_content(&message.content) },
        Role::Assistant => {
            let calls = message.calls.iter();
            let calls = calls.map(|call| tool_call(name(&call.id), &call.name, &call.arguments));
            let content = Some(message.text()).filter(|text| !text.is_empty());
            Message::Assistant { id: name(&message.id), content, tool_calls: calls.collect() }
        }
        Role::Tool => Message::Tool {
            id: name(&message.id),
            tool_call_id: name(message.call_id.as_deref().unwrap_or_default()),
            content: result_content(&message.content),
        },
    }
}

/// Returns the result of a call: content parts as they are, and other values as a string.
pub(super) fn result_content(content: &Value) -> Value {
    if agent::is_content_parts(content) { content.clone() } else { as_text(content).into() }
}

/// Changes the results in an event to strings. Clients before 1.0 reject lists.
pub(super) fn with_text_results(mut event: WireEvent) -> WireEvent {
    let to_text = |content: &mut Value| {
        if content.is_array() {
            *content = agent::content_parts_as_text(content).into();
        }
    };
    match &mut event {
        WireEvent::ToolCallResult { content, .. } => to_text(content),
        WireEvent::MessagesSnapshot { messages } => {
            for message in messages {
                if let Message::Tool { content, .. } = message {
                    to_text(content);
                }
            }
        }
        _ => {}
    }
    event
}

/// Returns a value as a string, which every client accepts.
pub(super) fn as_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the content of a user message. Unknown parts would end the run at the client, so they become text.
pub(super) fn user_content(content: &Value) -> Value {
    let known = |part: &Value| match part.get("type").and_then(Value::as_str) {
        Some("text") => part.get("text").is_some_and(Value::is_string),
        Some("image" | "audio" | "video" | "document") => part.get("source").is_some_and(Value::is_object),
        Some("binary") => part.get("mimeType").is_some_and(Value::is_string),
        Some(_) | None => false,
    };
    match content {
        Value::String(_) => content.clone(),
        Value::Array(parts) if parts.iter().all(known) => content.clone(),
        _ => Value::String(agent::Message::new("", Role::User, content.clone()).text()),
    }
}

/// Returns the last messages, at most `limit` and as many as fit into one frame. Leaves out results whose calls are not
/// included.
pub(super) fn snapshot(mut messages: Vec<Message>, limit: usize) -> Vec<Message> {
    let mut bytes = 0;
    let sized = messages.iter().rev().take(limit).take_while(|message| {
        bytes += serde_json::to_string(message).map_or(usize::MAX / 2, |text| text.len());
        bytes <= BYTES_MAX
    });
    let first = messages.len() - sized.count();
    let mut last = messages.split_off(first);
    let is_result = |message: &&Message| matches!(message, Message::Tool { .. });
    let orphans = if first == 0 { 0 } else { last.iter().take_while(is_result).count() };
    last.drain(..orphans);
    last
}

fn tool_call(id: String, name: &str, arguments: &Value) -> ToolCall {
    let function = Function { name: name.to_owned(), arguments: arguments.to_string() };
    ToolCall { id, kind: "function".into(), function }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::agent::CallRequest;
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_of_runs_become_unique_in_the_thread_and_ids_of_clients_stay() {
        let call = CallRequest { id: "c1".into(), name: "f".into(), arguments: json!({"a": 1}) };
        let mut reply = agent::Message::new("reply-1", Role::Assistant, "");
        reply.calls.push(call);
        let result = agent::Message::result_of("c1", &json!({"ok": true}));
        let mut instruction = agent::Message::new("d", Role::System, "Be brief.");
        instruction.metadata.insert(ROLE_KEY.to_owned(), json!("developer"));
        let messages = [agent::Message::new("u", Role::User, "Hello"), instruction, reply, result];
        let shown = messages.map(|one| of_agent(&RunId::parse("r").unwrap(), &one)).concat();
        let shown = serde_json::to_value(shown).unwrap();
        let expected = json!([
            {"role": "user", "id": "u", "content": "Hello"},
            {"role": "developer", "id": "d", "content": "Be brief."},
            {"role": "assistant", "id": "r:reply-1", "toolCalls": [
                {"id": "r:c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
            {"role": "tool", "id": "r:c1:result", "toolCallId": "r:c1", "content": "{\"ok\":true}"},
        ]);
        assert_eq!(shown, expected);
    }

    #[test]
    fn unknown_parts_become_text() {
        let known = json!([{"type": "text", "text": "a"}, {"type": "image", "source": {"type": "url"}}]);
        assert_eq!(user_content(&known), known);
        let strange = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]);
        assert_eq!(user_content(&strange), json!("a"));
    }

    #[test]
    fn a_snapshot_contains_the_last_messages_of_a_long_thread() {
        let user = |at: usize| Message::User { id: at.to_string(), content: json!("x") };
        let messages: Vec<Message> = (0..MESSAGES_MAX + 5).map(user).collect();
        let shown = snapshot(messages, MESSAGES_MAX);
        assert_eq!((shown.len(), shown[0].id()), (MESSAGES_MAX, "5"));
        let large =
            |at: usize| Message::User { id: at.to_string(), content: json!("x".repeat(BYTES_MAX / 2)) };
        let shown = snapshot(vec![large(1), large(2), user(3)], MESSAGES_MAX);
        assert_eq!(shown.iter().map(Message::id).collect::<Vec<_>>(), ["2", "3"]);
        let tool = Message::Tool { id: "t".into(), tool_call_id: "c".into(), content: json!("") };
        let mut messages: Vec<Message> = vec![user(0), tool];
        messages.extend((1..MESSAGES_MAX).map(user));
        assert_eq!(snapshot(messages, MESSAGES_MAX)[0].id(), "1", "a result without its call is left out");
    }
}
