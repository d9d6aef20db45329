//! Messages between users, models and tools.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Role;
use crate::RequestSource;

/// A tool call that a model requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRequest {
    /// The id that the model gave the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments of the call.
    pub arguments: Value,
}

/// A part of the reasoning of a model before its reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasoningPart {
    /// The readable text, which can be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Data of the provider, such as a signature. The next request contains it unchanged.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// The API and the model that wrote the part. Only they get it back.
    pub source: String,
    /// True if readers may see the part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown: bool,
}

/// The visibility of reasoning for the readers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningVisibility {
    /// Readers do not see it.
    #[default]
    Hidden,
    /// Every reader of the run sees it.
    Shown,
}

/// One entry of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The id of the message.
    pub id: String,
    /// The sender: system, user, model or tool.
    pub role: Role,
    /// A string, or an array of content parts.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub content: Value,
    /// The tool calls that a message of the model requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRequest>,
    /// For a message of a tool: the call whose result the message contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The last message that the model had seen when it sent this message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The reasoning of the model before this message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<ReasoningPart>,
    /// The principal that sent the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Metadata from the client.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The source of the request that sent the message. Earlier versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<RequestSource>,
}

impl ReasoningPart {
    /// The member of the data with reasoning that only the model can read.
    pub const ENCRYPTED: &str = "encrypted";

    /// Returns the reasoning that only the model can read.
    pub fn encrypted(&self) -> Option<&str> {
        self.data.get(Self::ENCRYPTED)?.as_str()
    }
}

impl Message {
    /// Creates a message without calls and metadata.
    pub fn new(id: impl Into<String>, role: Role, content: impl Into<Value>) -> Self {
        Self {
            id: id.into(),
            role,
            content: content.into(),
            calls: Vec::new(),
            call_id: None,
            after: None,
            reasoning: Vec::new(),
            by: None,
            metadata: Map::new(),
            source: None,
        }
    }

    /// Returns the content as text. Parts without text are left out.
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

/// Returns the messages in the order of a prompt. Results follow the reply that requested them. A reply follows the
/// last message that the model had seen, before messages that arrived while it was generated. Results without a call
/// are left out; calls without a result stay.
pub fn in_prompt_order(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let mut ordered: Vec<Arc<Message>> = Vec::with_capacity(messages.len());
    for message in messages {
        let at = match message.role {
            Role::System | Role::User => Some(ordered.len()),
            Role::Assistant => Some(reply_position(&ordered, message)),
            Role::Tool => result_position(&ordered, message),
        };
        if let Some(at) = at {
            ordered.insert(at, message.clone());
        }
    }
    ordered
}

fn reply_position(ordered: &[Arc<Message>], reply: &Message) -> usize {
    let Some(after) = &reply.after else { return ordered.len() };
    ordered.iter().rposition(|message| message.id == *after).map_or(ordered.len(), |at| at + 1)
}

fn result_position(ordered: &[Arc<Message>], result: &Message) -> Option<usize> {
    let wanted = result.call_id.as_deref()?;
    let reply = ordered.iter().rposition(|message| message.calls.iter().any(|call| call.id == wanted))?;
    let results = ordered[reply + 1..].iter().take_while(|message| message.role == Role::Tool).count();
    Some(reply + 1 + results)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, role: Role) -> Message {
        Message::new(id, role, id)
    }

    fn order(messages: Vec<Message>) -> Vec<String> {
        let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
        in_prompt_order(&messages).iter().map(|message| message.id.clone()).collect()
    }

    #[test]
    fn results_follow_the_reply_that_requested_them() {
        let call = |id: &str| CallRequest { id: id.into(), name: "f".into(), arguments: Value::Null };
        let reply = Message { calls: vec![call("c1"), call("c2")], ..message("a1", Role::Assistant) };
        let result = |id: &str, of: &str| Message { call_id: Some(of.into()), ..message(id, Role::Tool) };
        let messages = vec![
            message("u1", Role::User),
            reply,
            result("r2", "c2"),
            message("u2", Role::User),
            result("r1", "c1"),
            result("stray", "unknown"),
        ];
        assert_eq!(order(messages), ["u1", "a1", "r2", "r1", "u2"]);
    }

    #[test]
    fn a_reply_follows_the_last_message_that_the_model_had_seen() {
        let reply = Message { after: Some("u1".into()), ..message("a1", Role::Assistant) };
        assert_eq!(
            order(vec![message("u1", Role::User), message("u2", Role::User), reply]),
            ["u1", "a1", "u2"],
            "a message that arrived during the reply is still unanswered"
        );
    }
}
