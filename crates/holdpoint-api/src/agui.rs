//! AG-UI: the input of a run, messages, interrupts and outcomes, and the state of a thread. Unknown members of an input
//! are ignored, as the protocol requires.

mod capabilities;
mod events;

use std::borrow::Cow;

use holdpoint_ids::{Kind, NodeId, RunId, Status, StrictValue, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

pub use capabilities::*;
pub use events::{Event, Frame, PatchOperation, SubagentOutcome, VERSION};

use crate::agents::MESSAGE_ID_CHARS_MAX;
use crate::basics::{NO_CONTROL, or_default};
use crate::{Instant, Object};

/// The largest number of characters in the id of a run that the client chooses.
pub const RUN_ID_CHARS_MAX: usize = 256;
/// The largest number of answers in one input.
pub const RESUME_ENTRIES_MAX: usize = 256;

/// The body of `POST /ag-ui/{agentId}`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(example = json!({
    "threadId": "t1", "runId": "r1", "messages": [{"id": "m1", "role": "user", "content": "Hello"}]
}))]
pub struct RunAgentInput {
    /// The thread, chosen by the client.
    #[schemars(length(min = 1, max = limits::THREAD_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub thread_id: String,
    /// The id of this run, chosen by the client.
    #[schemars(length(min = 1, max = RUN_ID_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub run_id: String,
    /// The run of the thread that the input continues: its id, or the runId of the input that started it. If it is not
    /// the last run, the thread continues from its end, without the later runs.
    #[schemars(length(min = 1, max = RUN_ID_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub parent_run_id: Option<String>,
    /// The version of AG-UI. Absent in the input of clients before 1.0.
    pub protocol_version: Option<String>,
    /// The first state of a run. Ignored with resume.
    pub state: Option<StrictValue>,
    /// The messages of the thread; the server reads the new ones.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<InputMessage>>")]
    pub messages: Vec<InputMessage>,
    /// Tools that the client executes.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<StrictValue>>")]
    pub tools: Vec<StrictValue>,
    /// Further data for the agent.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<StrictValue>>")]
    pub context: Vec<StrictValue>,
    /// Data that the front end forwards. Its member inputs has the inputs of a workflow.
    pub forwarded_props: Option<StrictValue>,
    /// Answers to open interrupts.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<ResumeEntry>>", length(max = RESUME_ENTRIES_MAX))]
    pub resume: Vec<ResumeEntry>,
}

/// A message of a client. The server reads the messages to agents; of other messages it reads the id only.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgUiInputMessage", extend(
    "if" = {"properties": {"role": {"enum": ["user", "system", "developer"]}}},
    "then" = {
        "required": ["id", "content"],
        "properties": {
            "id": {"type": "string", "minLength": 1, "maxLength": MESSAGE_ID_CHARS_MAX, "pattern": NO_CONTROL},
            "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
        },
    }
))]
pub struct InputMessage {
    /// The id of the message.
    pub id: Option<String>,
    /// The author of the message.
    pub role: String,
    /// A text or a list of parts.
    pub content: Option<StrictValue>,
    /// The call whose result this message of the role tool is.
    pub tool_call_id: Option<String>,
    /// The error of that call.
    pub error: Option<StrictValue>,
}

/// The answer to an interrupt.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgUiResumeEntry")]
pub struct ResumeEntry {
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The kind of the answer.
    pub status: ResumeStatus,
    /// The answer, as the responseSchema of the interrupt describes it.
    pub payload: Option<StrictValue>,
    /// Metadata of the answer. If it has a digest, the answer is rejected unless the payload that was shown has this
    /// digest.
    pub metadata: Option<StrictValue>,
}

/// The kind of an answer to an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ResumeStatus {
    /// The payload is the answer.
    Resolved,
    /// The user declines.
    Cancelled,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[schemars(rename = "AgUiOutcome")]
pub enum Outcome {
    /// The run completed, or waits for calls of the tools of the client.
    Success {
        /// Calls of the tools of the client.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pending_tool_call_ids: Vec<String>,
    },
    /// The run waits for answers.
    Interrupt {
        /// The open interrupts.
        interrupts: Vec<Interrupt>,
    },
    /// The run was cancelled. Clients before 1.0 do not know this outcome.
    Cancelled,
}

/// An open interrupt.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgUiInterrupt")]
pub struct Interrupt {
    /// The id of the interrupt.
    pub id: String,
    /// The reason of the interrupt.
    pub reason: String,
    /// The text that the user is shown.
    pub message: Option<String>,
    /// The tool call that the interrupt is about.
    pub tool_call_id: Option<String>,
    /// The JSON Schema of the payload. Always an object, because clients do not accept `true` as a schema.
    #[schemars(with = "Option<Object>")]
    pub response_schema: Option<Value>,
    /// The deadline of the interrupt.
    pub expires_at: Option<Instant>,
    /// Data beyond that of the protocol.
    pub metadata: Option<InterruptMetadata>,
    /// The subagent that waits: a child run of the run of the thread, or a run below it.
    pub subagent_run_id: Option<String>,
}

/// Data of an interrupt beyond that of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiInterruptMetadata")]
pub struct InterruptMetadata {
    /// The interrupt as the server has it.
    pub holdpoint: InterruptFacts,
}

/// The interrupt as the server has it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgUiInterruptFacts")]
pub struct InterruptFacts {
    /// The kind of the interrupt.
    pub kind: Kind,
    /// The run that waits.
    pub run_id: RunId,
    /// The node that waits.
    pub node_id: NodeId,
    /// The digest of the data that is shown.
    pub digest: Option<String>,
    /// The title, as the data of the interrupt has it.
    pub title: Option<Value>,
    /// The tool call that the interrupt is about.
    pub tool_call: Option<Value>,
    /// The artifact that the interrupt is about.
    pub artifact: Option<Value>,
    /// The data of an interrupt of the kind custom.
    pub data: Option<Value>,
    /// The number of approvals, if more than one is required.
    pub required_approvals: Option<u64>,
    /// The number of votes, if more than one approval is required.
    pub votes: Option<usize>,
}

/// The tokens that calls of models used.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgUiUsage")]
pub struct Usage {
    /// The name of the model.
    pub model: Option<String>,
    /// The tokens that the model read.
    pub input_tokens: u64,
    /// The tokens that the model wrote.
    pub output_tokens: u64,
    /// The sum of both.
    pub total_tokens: u64,
    /// The tokens of `outputTokens` that are reasoning, if the model reports them.
    pub reasoning_tokens: Option<u64>,
}

/// A message of a thread.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[schemars(rename = "AgUiMessage")]
pub enum Message {
    /// A message of the developer of the application.
    Developer {
        /// The id of the message.
        id: String,
        /// The content of the message.
        content: String,
    },
    /// A message of the application that uses the agent.
    System {
        /// The id of the message.
        id: String,
        /// The content of the message.
        content: String,
    },
    /// A message of the user.
    User {
        /// The id of the message.
        id: String,
        /// The content of the message.
        content: Value,
    },
    /// A message of the agent.
    Assistant {
        /// The id of the message.
        id: String,
        /// The content of the message.
        content: Option<String>,
        /// The tool calls of the message.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// Reasoning of the agent before the next message.
    Reasoning {
        /// The id of the message.
        id: String,
        /// The text, which is empty if only the model can read the reasoning.
        content: String,
        /// The reasoning that only the model can read.
        encrypted_value: Option<String>,
    },
    /// The result of a tool call.
    Tool {
        /// The id of the message.
        id: String,
        /// The call whose result this message is.
        tool_call_id: String,
        /// The result: a string, or a list of content parts for clients of 1.0.
        content: Value,
    },
}

impl Message {
    /// The id of the message.
    pub fn id(&self) -> &str {
        match self {
            Self::Developer { id, .. }
            | Self::System { id, .. }
            | Self::User { id, .. }
            | Self::Assistant { id, .. }
            | Self::Reasoning { id, .. }
            | Self::Tool { id, .. } => id,
        }
    }
}

/// A tool call in a message of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiToolCall")]
pub struct ToolCall {
    /// The id of the call.
    pub id: String,
    /// The type of the call; always `function`.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The tool and its arguments.
    pub function: Function,
}

/// The tool and the arguments of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiFunction")]
pub struct Function {
    /// The name of the tool.
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
}

/// A server-sent event of AG-UI 1.0. Its data is JSON with a type.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgUiStream {
    /// The event as JSON.
    pub data: Option<String>,
}

/// The state of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiThread {
    /// The id of the thread.
    pub thread_id: String,
    /// The latest run of the thread.
    pub run_id: RunId,
    /// The status of that run.
    pub status: Status,
    /// True if the stream of the thread has further events.
    pub running: bool,
    /// The state that the agent shares with front ends.
    #[schemars(with = "Object")]
    pub state: Value,
    /// The messages of the thread.
    pub messages: Vec<Message>,
    /// The open interrupts.
    pub interrupts: Vec<Interrupt>,
    /// Calls of the tools of the client that have no result.
    pub pending_tool_call_ids: Vec<String>,
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
        assert!(read.resume[1].payload.is_none(), "null means no payload");
        for bad in
            [json!({"runId": "r"}), json!({"threadId": "t", "runId": "r", "resume": [{"interruptId": "i"}]})]
        {
            assert!(serde_json::from_value::<RunAgentInput>(bad).is_err());
        }
    }

    #[test]
    fn messages_and_interrupts_omit_members_without_a_value() {
        let function = Function { name: "f".to_owned(), arguments: "{\"a\":1}".to_owned() };
        let call = ToolCall { id: "r:c1".to_owned(), kind: "function".into(), function };
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
            metadata: None,
            subagent_run_id: None,
        };
        let expected = json!({"id": "r:i1", "reason": "confirmation"});
        assert_eq!(serde_json::to_value(interrupt).unwrap(), expected);
    }
}
