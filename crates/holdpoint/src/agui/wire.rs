//! The shapes of AG-UI beside its events: what clients send, messages, interrupts, outcomes. What is not known here is
//! let through unread, as the protocol wants it.

use holdpoint_core::StrictValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::body::or_default;

/// What a client sends to run an agent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunAgentInput {
    pub thread_id: String,
    pub run_id: String,
    /// Clients before 1.0 say nothing here.
    #[serde(default)]
    pub protocol_version: Option<String>,
    #[serde(default)]
    pub state: Option<StrictValue>,
    #[serde(default, deserialize_with = "or_default")]
    pub messages: Vec<InputMessage>,
    #[serde(default, deserialize_with = "or_default")]
    pub tools: Vec<StrictValue>,
    #[serde(default, deserialize_with = "or_default")]
    pub context: Vec<StrictValue>,
    #[serde(default)]
    pub forwarded_props: Option<StrictValue>,
    #[serde(default, deserialize_with = "or_default")]
    pub resume: Vec<ResumeEntry>,
}

/// A message as clients send it; of most of them only the id is looked at.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InputMessage {
    #[serde(default)]
    pub id: Option<String>,
    pub role: String,
    #[serde(default)]
    pub content: Option<StrictValue>,
    #[serde(default)]
    pub tool_call_id: Option<String>,
    #[serde(default)]
    pub error: Option<StrictValue>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeEntry {
    pub interrupt_id: String,
    pub status: ResumeStatus,
    #[serde(default)]
    pub payload: Option<StrictValue>,
    #[serde(default)]
    pub metadata: Option<StrictValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ResumeStatus {
    Resolved,
    Cancelled,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(super) enum Outcome {
    Success {
        /// Calls of tools that are the client's own.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pending_tool_call_ids: Vec<String>,
    },
    Interrupt {
        interrupts: Vec<Interrupt>,
    },
    /// Clients before 1.0 do not know it.
    Cancelled,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interrupt {
    pub id: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Always an object, since clients do not take `true` for a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// What calls of models cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
}

/// A message as clients are told it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(super) enum Message {
    Developer {
        id: String,
        content: String,
    },
    System {
        id: String,
        content: String,
    },
    User {
        id: String,
        content: Value,
    },
    Assistant {
        id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    Tool {
        id: String,
        tool_call_id: String,
        content: String,
    },
}

impl Message {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Developer { id, .. }
            | Self::System { id, .. }
            | Self::User { id, .. }
            | Self::Assistant { id, .. }
            | Self::Tool { id, .. } => id,
        }
    }

    /// Whether it was said to an agent, and not by one or by a tool.
    pub(super) fn is_told(&self) -> bool {
        match self {
            Self::Developer { .. } | Self::System { .. } | Self::User { .. } => true,
            Self::Assistant { .. } | Self::Tool { .. } => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ToolCall {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub function: Function,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Function {
    pub name: String,
    /// JSON as text.
    pub arguments: String,
}

impl ToolCall {
    pub(super) fn new(id: String, name: &str, arguments: &Value) -> Self {
        let function = Function { name: name.to_owned(), arguments: arguments.to_string() };
        Self { id, kind: "function", function }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_input_of_any_client_is_read() {
        let newest = json!({
            "threadId": "t", "runId": "r", "protocolVersion": "1.0", "tools": [], "context": [],
            "forwardedProps": {}, "state": {}, "parentRunId": "p", "somethingNew": 1,
            "messages": [{"id": "a", "role": "activity", "activityType": "x", "content": {"a": 1}},
                {"id": "b", "role": "user", "content": "Hello", "name": "ann"}],
        });
        let read: RunAgentInput = serde_json::from_value(newest).unwrap();
        assert_eq!((read.messages.len(), read.protocol_version.as_deref()), (2, Some("1.0")));
        let resume = json!({
            "threadId": "t", "runId": "r", "messages": null,
            "resume": [{"interruptId": "i", "status": "resolved", "payload": false, "metadata": {"a": 1}},
                {"interruptId": "j", "status": "cancelled", "payload": null}],
        });
        let read: RunAgentInput = serde_json::from_value(resume).unwrap();
        assert_eq!(read.resume[0].payload.as_ref().map(|given| &given.0), Some(&json!(false)));
        assert!(read.resume[1].payload.is_none(), "null is nothing");
        for bad in
            [json!({"runId": "r"}), json!({"threadId": "t", "runId": "r", "resume": [{"interruptId": "i"}]})]
        {
            assert!(serde_json::from_value::<RunAgentInput>(bad).is_err());
        }
    }

    #[test]
    fn messages_and_interrupts_leave_out_what_they_do_not_have() {
        let call = ToolCall::new("r:c1".to_owned(), "f", &json!({"a": 1}));
        let message = Message::Assistant { id: "m".to_owned(), content: None, tool_calls: vec![call] };
        let expected = json!({"role": "assistant", "id": "m", "toolCalls": [
            {"id": "r:c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]});
        assert_eq!(serde_json::to_value(message).unwrap(), expected);
        let interrupt = Interrupt {
            id: "r:i1".to_owned(),
            reason: "confirmation".to_owned(),
            message: None,
            tool_call_id: None,
            response_schema: None,
            expires_at: None,
            metadata: Map::new(),
        };
        let expected = json!({"id": "r:i1", "reason": "confirmation"});
        assert_eq!(serde_json::to_value(interrupt).unwrap(), expected);
    }
}
