//! Tools and context that a front end sends in the metadata of a message. The front end executes these tools itself.
//! Of several messages with the member, the last one is used.

use std::sync::Arc;

use holdpoint_core::agent::{Agent, Message};
use serde_json::{Value, json};

use super::tool::{ToolSpec, is_name};

/// The member of a message's metadata that contains the tools of the front end.
pub const CLIENT_TOOLS: &str = "clientTools";
/// The member of a message's metadata that contains the context for the model.
pub const CLIENT_CONTEXT: &str = "context";

/// Returns the tools of the front end. Skips tools with an invalid name or with the name of another tool.
pub(super) fn tools(agent: &Agent, taken: &[Arc<ToolSpec>]) -> Vec<Arc<ToolSpec>> {
    let Some(Value::Array(tools)) = last(agent, CLIENT_TOOLS) else { return Vec::new() };
    let mut found: Vec<Arc<ToolSpec>> = Vec::new();
    for tool in tools {
        let text = |member: &str| tool.get(member).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        let known = |spec: &Arc<ToolSpec>| spec.name == name;
        if !is_name(name) || taken.iter().any(known) || found.iter().any(known) {
            continue;
        }
        let parameters = tool.get("parameters").filter(|schema| schema.is_object());
        found.push(Arc::new(ToolSpec {
            name: name.to_owned(),
            description: text("description").to_owned(),
            parameters: parameters.cloned().unwrap_or_else(|| json!({ "type": "object" })),
            // The front end can be asked for a result again.
            idempotent: true,
            primary: None,
        }));
    }
    found
}

/// Returns the context of the front end for the model, as text.
pub(super) fn context(agent: &Agent) -> Option<String> {
    let Some(Value::Array(entries)) = last(agent, CLIENT_CONTEXT) else { return None };
    let lines = entries.iter().filter_map(|entry| {
        let text = |member: &str| match entry.get(member)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        Some(format!("{}: {}", text("description").unwrap_or_default(), text("value")?))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn last<'a>(agent: &'a Agent, member: &str) -> Option<&'a Value> {
    let value = |message: &'a Arc<Message>| message.metadata.get(member);
    agent.messages.iter().rev().find_map(value)
}

#[cfg(test)]
mod tests {
    use holdpoint_core::agent::Role;

    use super::*;

    fn agent(metadata: &[Value]) -> Agent {
        let message = |metadata: &Value| {
            let mut message = Message::new("m", Role::User, "hi");
            message.metadata = metadata.as_object().cloned().unwrap_or_default();
            Arc::new(message)
        };
        Agent { messages: metadata.iter().map(message).collect(), ..Agent::default() }
    }

    #[test]
    fn the_last_list_of_client_tools_is_used_and_taken_names_are_skipped() {
        let tool = |name: &str| json!({"name": name, "description": "d", "parameters": {"type": "object"}});
        let agent = agent(&[
            json!({"clientTools": [tool("old")]}),
            json!({"clientTools": [tool("mine"), tool("pick"), tool("pick"), tool("no name"), 5]}),
            json!({}),
        ]);
        let mine = ToolSpec {
            name: "mine".into(),
            description: String::new(),
            parameters: json!({}),
            idempotent: false,
            primary: None,
        };
        let names: Vec<_> = tools(&agent, &[Arc::new(mine)]).iter().map(|spec| spec.name.clone()).collect();
        assert_eq!(names, ["pick"]);
    }

    #[test]
    fn the_context_has_one_line_per_entry() {
        let entries = json!([{"description": "place", "value": "Ulm"}, {"description": "n", "value": 2}, {}]);
        assert_eq!(context(&agent(&[json!({"context": entries})])).as_deref(), Some("place: Ulm\nn: 2"));
        assert_eq!(context(&agent(&[json!({})])), None);
    }
}
