//! Messages of LangChain: their text, reasoning, tool calls, results and tokens.

use holdpoint_core::agent::Usage;
use serde_json::Value;

use super::redaction::ServerRedaction;
use crate::redaction::TextRedaction;
use crate::{ProviderCall, ProviderMessage, ProviderProgress};

/// Returns the report of a complete message. None for messages of users and systems, and for messages without an id.
pub(super) fn complete(message: &Value, redaction: &ServerRedaction) -> Option<ProviderProgress> {
    match message.get("type").and_then(Value::as_str)? {
        "ai" | "AIMessageChunk" => Some(ProviderProgress::Message(ProviderMessage {
            id: text_of(message, "id")?.to_owned(),
            text: redaction.redact_text(&text(message)),
            calls: calls(message, redaction),
            usage: usage(message),
            model: model(message),
        })),
        "tool" | "ToolMessageChunk" => Some(ProviderProgress::Result {
            call: text_of(message, "tool_call_id")?.to_owned(),
            content: redaction.redact(message.get("content").unwrap_or(&Value::Null)),
            is_error: message.get("status").is_some_and(|status| status == "error"),
        }),
        _ => None,
    }
}

/// Returns the messages in the update of a node, which can be under any name. A graph in a node repeats the messages that
/// it was given, so that only those after the last message of a user count.
pub(super) fn in_update(update: &Value) -> impl Iterator<Item = &Value> {
    let nodes = update.as_object().into_iter().flatten().map(|(_, written)| written);
    // A node can return several updates.
    let updates =
        nodes.flat_map(|written| written.as_array().map_or(std::slice::from_ref(written), Vec::as_slice));
    updates.filter_map(Value::as_object).flatten().flat_map(|(_, value)| after_user(value))
}

/// Returns the messages of a state after the last message of a user: those that the graph wrote in its last turn.
pub(super) fn of_last_turn(values: &Value) -> impl Iterator<Item = &Value> {
    values.get("messages").map_or(&[][..], after_user).iter()
}

/// Returns a message, or those of a list after the last message of a user.
fn after_user(value: &Value) -> &[Value] {
    let all = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let is_user = |message: &Value| message.get("type").is_some_and(|kind| kind == "human");
    let from = all.iter().rposition(is_user).map_or(0, |at| at + 1);
    &all[from..]
}

/// Returns the text of a message. Its content is a string, or a list of strings and blocks.
pub(super) fn text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks.iter().filter_map(block_text).collect(),
        _ => String::new(),
    }
}

fn block_text(block: &Value) -> Option<&str> {
    block.as_str().or_else(|| block.get("text").and_then(Value::as_str))
}

/// Returns the reasoning of a message: in blocks, or in the form of models with a compatible API.
pub(super) fn reasoning(message: &Value) -> String {
    let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
    let of_block = |block: &Value| {
        let member = ["thinking", "reasoning"].iter().find_map(|name| block.get(*name)?.as_str());
        member.map(str::to_owned)
    };
    let found: String = blocks.filter_map(of_block).collect();
    if found.is_empty() {
        let other = message.pointer("/additional_kwargs/reasoning_content").and_then(Value::as_str);
        return other.unwrap_or_default().to_owned();
    }
    found
}

fn calls(message: &Value, redaction: &ServerRedaction) -> Vec<ProviderCall> {
    let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    let call = |call: &Value| {
        Some(ProviderCall {
            id: text_of(call, "id")?.to_owned(),
            name: text_of(call, "name")?.to_owned(),
            arguments: redaction.redact(call.get("args").unwrap_or(&Value::Null)),
        })
    };
    calls.filter_map(call).collect()
}

fn usage(message: &Value) -> Usage {
    let count = |name: &str| message.pointer(&format!("/usage_metadata/{name}")).and_then(Value::as_u64);
    Usage {
        input_tokens: count("input_tokens").unwrap_or_default(),
        output_tokens: count("output_tokens").unwrap_or_default(),
        reasoning_tokens: count("output_token_details/reasoning").unwrap_or_default(),
    }
}

fn model(message: &Value) -> String {
    let names = ["model_name", "model"].iter();
    let found =
        names.filter_map(|name| message.pointer(&format!("/response_metadata/{name}"))?.as_str()).next();
    found.unwrap_or_default().to_owned()
}

fn text_of<'a>(value: &'a Value, member: &str) -> Option<&'a str> {
    value.get(member).and_then(Value::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_of_models_and_tools_are_reported() {
        let none = ServerRedaction::default();
        let message = json!({"type": "ai", "id": "run-1", "content": [{"type": "text", "text": "I "}, "will."],
            "tool_calls": [{"id": "c9", "name": "send", "args": {"to": "bob"}, "type": "tool_call"}],
            "usage_metadata": {"input_tokens": 3, "output_tokens": 2}, "response_metadata": {"model_name": "m"}});
        let Some(ProviderProgress::Message(found)) = complete(&message, &none) else { panic!("a message") };
        assert_eq!((found.id.as_str(), found.text.as_str(), found.model.as_str()), ("run-1", "I will.", "m"));
        assert_eq!(found.usage, Usage { input_tokens: 3, output_tokens: 2, reasoning_tokens: 0 });
        assert_eq!(
            (found.calls[0].name.as_str(), &found.calls[0].arguments),
            ("send", &json!({"to": "bob"}))
        );
        let result = json!({"type": "tool", "tool_call_id": "c9", "content": "sent", "status": "success"});
        let expected =
            ProviderProgress::Result { call: "c9".into(), content: json!("sent"), is_error: false };
        assert_eq!(complete(&result, &none), Some(expected));
        for other in [json!({"type": "human", "id": "h", "content": "x"}), json!({"type": "ai"}), json!(7)] {
            assert_eq!(complete(&other, &none), None);
        }
    }

    #[test]
    fn updates_and_states_contain_messages() {
        let update = json!({"model": {"messages": [{"type": "ai", "id": "a"}], "count": 1},
            "tools": [{"messages": [{"type": "tool"}]}, {"note": null}], "__interrupt__": []});
        let kinds: Vec<_> = in_update(&update).filter_map(|one| one.get("type")?.as_str()).collect();
        assert_eq!(kinds, ["ai", "tool"]);
        let repeated = json!({"agent": {"messages": [{"type": "ai", "id": "given"}, {"type": "human"}, {"type": "ai"}]}});
        assert_eq!(in_update(&repeated).count(), 1, "messages that the graph was given are not its own");
        let values = json!({"messages": [{"type": "ai", "id": "old"}, {"type": "human"}, {"type": "ai", "id": "new"}]});
        let found: Vec<_> = of_last_turn(&values).map(|one| &one["id"]).collect();
        assert_eq!(found, [&json!("new")]);
    }
}
