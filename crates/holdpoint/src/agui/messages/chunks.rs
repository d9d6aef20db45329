//! The messages of nodes that are not agents: their record has only the chunks.

use holdpoint_api::agui::{Function, Message, ToolCall};
use holdpoint_core::{Event, Run};
use serde_json::{Map, Value};

use crate::agui::ids;
use crate::agui::translate::reasoning_id;

/// Adds a chunk to its message. The chunks of an agent are skipped: its complete message follows.
pub(super) fn add(run: &Run, seq: u64, event: &Event, messages: &mut Vec<(u64, Message)>) {
    let (Event::MessageChunk { node, chunk, meta, .. }
    | Event::ReasoningChunk { node, chunk, meta, .. }
    | Event::ToolCallChunk { node, chunk, meta, .. }) = event
    else {
        return;
    };
    let Some(reply) = meta.get("messageId").and_then(Value::as_str) else {
        return add_text(messages, seq, ids::text_message_id(run, node), chunk);
    };
    if run.node_state(node).is_some_and(|state| state.agent.is_some()) {
        return;
    }
    // A new attempt replaces the messages of the attempts before it.
    if number(meta, "index") == 0 && number(meta, "attempt") > 1 {
        let of_node = ids::wire_id(run, node, "");
        messages.retain(|(_, message)| !message.id().starts_with(&of_node));
    }
    let id = ids::wire_id(run, node, reply);
    match event {
        Event::ReasoningChunk { .. } => {
            add_reasoning(messages, seq, reasoning_id(&id, number(meta, "part")), chunk);
        }
        Event::ToolCallChunk { call, name, .. } => {
            let Some(calls) = calls_of(messages, seq, id) else { return };
            let id = ids::wire_id(run, node, call);
            let at = calls.iter().position(|known| known.id == id).unwrap_or(calls.len());
            if at == calls.len() {
                let name = name.clone().unwrap_or_default();
                let function = Function { name, arguments: String::new() };
                calls.push(ToolCall { id, kind: "function".into(), function });
            }
            calls[at].function.arguments.push_str(chunk);
        }
        _ => add_text(messages, seq, id, chunk),
    }
}

fn add_text(messages: &mut Vec<(u64, Message)>, seq: u64, id: String, chunk: &str) {
    let known = messages.iter_mut().rev().find(|(_, message)| message.id() == id);
    if let Some((_, Message::Assistant { content, .. })) = known {
        content.get_or_insert_default().push_str(chunk);
    } else {
        let content = Some(chunk.to_owned());
        messages.push((seq, Message::Assistant { id, content, tool_calls: Vec::new() }));
    }
}

fn add_reasoning(messages: &mut Vec<(u64, Message)>, seq: u64, id: String, chunk: &str) {
    let known = messages.iter_mut().rev().find(|(_, message)| message.id() == id);
    if let Some((_, Message::Reasoning { content, .. })) = known {
        content.push_str(chunk);
    } else {
        let content = chunk.to_owned();
        messages.push((seq, Message::Reasoning { id, content, encrypted_value: None }));
    }
}

/// Returns the calls of a message, which is added if it is new.
fn calls_of(messages: &mut Vec<(u64, Message)>, seq: u64, id: String) -> Option<&mut Vec<ToolCall>> {
    let is_message = |(_, message): &(u64, Message)| matches!(message, Message::Assistant { id: known, .. } if *known == id);
    let at = messages.iter().rposition(is_message).unwrap_or_else(|| {
        messages.push((seq, Message::Assistant { id: id.clone(), content: None, tool_calls: Vec::new() }));
        messages.len() - 1
    });
    match &mut messages[at].1 {
        Message::Assistant { tool_calls, .. } => Some(tool_calls),
        _ => None,
    }
}

fn number(meta: &Map<String, Value>, name: &str) -> u64 {
    meta.get(name).and_then(Value::as_u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use holdpoint_core::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::agui::test_runs::{event, new_run, started, workflow};

    #[test]
    fn a_complete_message_of_a_provider_replaces_its_chunks() {
        let run = new_run(workflow("langgraph:g", &["graph"]));
        let reply = json!({"type": "holdpoint.model.replied", "node": "graph", "seen": 0, "provider": true,
            "usage": {"inputTokens": 0, "outputTokens": 0},
            "message": {"id": "m1", "role": "assistant", "content": "Hello"}});
        let chunk = json!({"type": "ai.message.chunk", "node": "graph", "chunk": "Hel", "last": false,
            "meta": {"messageId": "m1", "attempt": 1, "index": 0}});
        let events = [started(json!({})), json!({"type": "node.started", "node": "graph"}), chunk, reply];
        let recorded = (0..).zip(events).map(|(seq, one)| holdpoint_engine::RecordedEvent {
            seq,
            at: Timestamp(0),
            event: event(one),
        });
        let shown = super::super::of_workflow(run, &recorded.collect::<Vec<_>>());
        let texts: Vec<_> = shown.iter().map(|(_, message)| serde_json::to_value(message).unwrap()).collect();
        assert_eq!(texts, [json!({"role": "assistant", "id": "r:graph:m1", "content": "Hello"})]);
    }

    #[test]
    fn chunks_of_a_graph_are_one_message_with_its_calls_after_its_reasoning() {
        let mut run = new_run(workflow("w", &["graph"]));
        let meta = |attempt: u64, index: u64| json!({"messageId": "m1", "attempt": attempt, "index": index});
        let chunk = |kind: &str, text: &str, meta: Value, more: Value| {
            let mut one = json!({"type": kind, "node": "graph", "chunk": text, "last": false, "meta": meta});
            one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            one
        };
        let named = json!({"call": "c1", "name": "look"});
        let events = [
            started(json!({})),
            json!({"type": "node.started", "node": "graph"}),
            chunk("ai.message.chunk", "Wrong", meta(1, 0), json!({})),
            chunk("holdpoint.reasoning.chunk", "Hm", meta(2, 0), json!({})),
            chunk("holdpoint.reasoning.chunk", ".", meta(2, 1), json!({})),
            chunk("ai.message.chunk", "I look.", meta(2, 2), json!({})),
            chunk("holdpoint.tool.chunk", "{\"a\":", meta(2, 3), named),
            chunk("holdpoint.tool.chunk", "1}", meta(2, 4), json!({"call": "c1"})),
        ];
        let mut messages = Vec::new();
        for one in events {
            let one = event(one);
            run.apply(&one, Timestamp(1000));
            add(&run, 0, &one, &mut messages);
        }
        let shown: Vec<Message> = messages.into_iter().map(|(_, message)| message).collect();
        let function = json!({"name": "look", "arguments": "{\"a\":1}"});
        let expected = json!([
            {"role": "reasoning", "id": "r:graph:m1:reasoning-0", "content": "Hm."},
            {"role": "assistant", "id": "r:graph:m1", "content": "I look.",
                "toolCalls": [{"id": "r:graph:c1", "type": "function", "function": function}]},
        ]);
        assert_eq!(serde_json::to_value(shown).unwrap(), expected);
    }
}
