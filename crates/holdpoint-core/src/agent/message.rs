//! What is said between people, agents and tools.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Role;

/// A call that a model wants to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRequest {
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub id: String,
    pub role: Role,
    /// A string, or parts as front ends and models know them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub content: Value,
    /// Of the assistant's: what it wants to be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRequest>,
    /// Of a tool's: which call it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Of an assistant's: the last message that it had seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Who said it, where that is a person or program with a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What clients want to be kept with it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Message {
    pub fn new(id: impl Into<String>, role: Role, content: impl Into<Value>) -> Self {
        Self {
            id: id.into(),
            role,
            content: content.into(),
            calls: Vec::new(),
            call_id: None,
            after: None,
            by: None,
            metadata: Map::new(),
        }
    }

    /// The content as text: parts that are no text are left out.
    pub fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }
}

/// Messages as a model takes them: results right behind the reply that wanted them, and each reply behind what it was a
/// reply to, though somebody said something meanwhile. Results without a call are left out; calls without a result stay.
pub fn in_prompt_order(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let mut ordered: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    for message in messages {
        let at = match message.role {
            Role::System | Role::User => Some(ordered.len()),
            Role::Assistant => Some(place_of_reply(&ordered, message)),
            Role::Tool => place_of_result(&ordered, message),
        };
        if let Some(at) = at {
            ordered.insert(at, message.clone());
        }
    }
    ordered
}

fn place_of_reply(ordered: &[Arc<Message>], reply: &Message) -> usize {
    let Some(after) = &reply.after else { return ordered.len() };
    ordered.iter().rposition(|message| message.id == *after).map_or(ordered.len(), |at| at + 1)
}

fn place_of_result(ordered: &[Arc<Message>], result: &Message) -> Option<usize> {
    let wanted = result.call_id.as_deref()?;
    let reply = ordered.iter().rposition(|message| message.calls.iter().any(|call| call.id == wanted))?;
    let results = ordered[reply + 1..].iter().take_while(|message| message.role == Role::Tool).count();
    Some(reply + 1 + results)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(id: &str, role: Role) -> Message {
        Message::new(id, role, id)
    }

    fn order(messages: Vec<Message>) -> Vec<String> {
        let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
        in_prompt_order(&messages).iter().map(|message| message.id.clone()).collect()
    }

    #[test]
    fn results_come_right_behind_the_reply_that_wanted_them() {
        let call = |id: &str| CallRequest { id: id.into(), name: "f".into(), arguments: Value::Null };
        let reply = Message { calls: vec![call("c1"), call("c2")], ..said("a1", Role::Assistant) };
        let result = |id: &str, of: &str| Message { call_id: Some(of.into()), ..said(id, Role::Tool) };
        let messages = vec![
            said("u1", Role::User),
            reply,
            result("r2", "c2"),
            said("u2", Role::User),
            result("r1", "c1"),
            result("stray", "nobody"),
        ];
        assert_eq!(order(messages), ["u1", "a1", "r2", "r1", "u2"]);
    }

    #[test]
    fn a_reply_stands_behind_what_it_had_seen() {
        let reply = Message { after: Some("u1".into()), ..said("a1", Role::Assistant) };
        assert_eq!(
            order(vec![said("u1", Role::User), said("u2", Role::User), reply]),
            ["u1", "a1", "u2"],
            "what was said meanwhile is still to be replied to"
        );
    }
}
