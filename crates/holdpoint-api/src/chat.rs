//! The chat contract: graphs that are started and answered by their state key.

use holdpoint_ids::{CallStatus, NodeId, RunId, StrictValue, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::basics::{NO_CONTROL, not_null};
use crate::{Instant, Object};

/// The default time for which a response waits for the graph, in milliseconds.
pub const WAIT_MS_DEFAULT: u64 = 60_000;
/// The longest time for which a response waits for the graph, in milliseconds.
pub const WAIT_MS_MAX: u64 = 300_000;

/// The body of `POST /api/v1/ai/chat`. A start has graph; a resume has stateKey, resumeValue and resumeId; a further turn
/// has stateKey, turnId and input or messages.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Chat {
    /// The graph to start: native:WORKFLOW, native:agent:AGENT, langgraph:GRAPH, langgraph:SERVER/GRAPH or
    /// claude:PROFILE.
    #[serde(default)]
    #[schemars(with = "String", length(min = 1, max = limits::STATE_KEY_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub graph: Option<String>,
    /// The key of the graph, unique in the tenant. Required to resume; generated at a start without one.
    #[serde(default)]
    #[schemars(with = "String", length(min = 1, max = limits::STATE_KEY_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub state_key: Option<String>,
    /// The id of this answer. The same id and value again have no further effect.
    #[serde(default)]
    #[schemars(with = "String", length(min = 1, max = limits::STATE_KEY_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub resume_id: Option<String>,
    /// The id of this turn. The same id and input again return the outcome of the turn. Required for a further turn.
    #[serde(default)]
    #[schemars(with = "String", length(min = 1, max = limits::STATE_KEY_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub turn_id: Option<String>,
    /// The input of the graph.
    pub input: Option<StrictValue>,
    /// The messages for the graph. The same as input `{messages}`.
    #[serde(default)]
    #[schemars(with = "Vec<Value>")]
    pub messages: Option<Vec<StrictValue>>,
    /// The answer: at most 65536 bytes of compact JSON. Null is an answer, too.
    #[serde(default, deserialize_with = "not_null")]
    pub resume_value: Option<StrictValue>,
    /// The interrupt that is answered, as it was shown. The answer is rejected if the graph waits for another interrupt.
    #[serde(default)]
    #[schemars(with = "ChatInterrupt")]
    pub interrupt: Option<ChatInterrupt>,
    /// Milliseconds to wait for the graph.
    #[serde(default)]
    #[schemars(with = "u64", range(min = 0, max = WAIT_MS_MAX))]
    pub wait_ms: Option<u64>,
}

/// The open interrupt of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatInterrupt {
    /// The kind of the interrupt.
    pub kind: String,
    /// The data of the interrupt.
    pub data: StrictValue,
}

/// The outcome of a start or of an answer.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatOutcome {
    /// The state of the graph.
    pub outcome: ChatState,
    /// The key of the graph.
    pub state_key: String,
    /// The output of a graph that is completed.
    pub output: Option<Value>,
    /// The interrupt of a graph that needs input.
    pub interrupt: Option<ChatInterrupt>,
    /// The error of a graph that failed, or of an answer that it did not accept.
    pub error: Option<ChatError>,
}

/// The state of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ChatState {
    /// The graph is completed.
    Completed,
    /// The graph waits for an answer.
    NeedsInput,
    /// The graph failed, or did not accept the answer.
    Error,
    /// The graph is still running.
    Running,
}

/// The error of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatError {
    /// The error code.
    pub code: String,
    /// The error message.
    pub message: String,
    /// True if the same answer with a new resumeId may be accepted.
    pub retryable: bool,
}

/// A graph with its current outcome.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatStanding {
    /// The current outcome.
    #[serde(flatten)]
    pub outcome: ChatOutcome,
    /// The name of the graph.
    pub graph: String,
    /// The instant of the start.
    #[schemars(with = "String")]
    pub created_at: Instant,
    /// The instant after which the state is removed.
    #[schemars(with = "String")]
    pub expires_at: Instant,
    /// The reason for which the graph did not accept the last answer.
    #[schemars(with = "Option<Object>")]
    pub last_error: Option<Value>,
}

/// A page of the turns of a graph, the newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatHistory {
    /// The key of the graph.
    pub state_key: String,
    /// The turns.
    pub turns: Vec<ChatTurn>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// A turn of a graph.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatTurn {
    /// The run of the turn.
    pub run_id: RunId,
    /// The caller's id of the turn. Missing if the request had none.
    pub turn_id: Option<String>,
    /// The input of the turn.
    pub input: Value,
    /// The current outcome of the turn.
    pub outcome: ChatOutcome,
    /// The interrupts of the turn, in the order of their requests.
    pub interrupts: Vec<ChatTurnInterrupt>,
    /// The instant of the start.
    #[schemars(with = "String")]
    pub started_at: Instant,
    /// The instant of the end. Missing while the turn has not ended.
    #[schemars(with = "String")]
    pub ended_at: Option<Instant>,
}

/// An interrupt of a turn.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatTurnInterrupt {
    /// The kind of the interrupt.
    pub kind: String,
    /// The data of the interrupt.
    pub data: Value,
    /// The instant of the request.
    #[schemars(with = "String")]
    pub requested_at: Instant,
    /// The answer that closed the interrupt. Missing if there is none.
    #[schemars(with = "ChatTurnAnswer")]
    pub answer: Option<ChatTurnAnswer>,
    /// True if no answer arrived before the deadline of the interrupt.
    pub timed_out: bool,
}

/// The answer to an interrupt of a turn.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatTurnAnswer {
    /// The answer as it was recorded.
    pub value: Value,
    /// The principal that answered.
    pub by: String,
    /// The instant of the answer.
    #[schemars(with = "String")]
    pub at: Instant,
    /// The resumeId of the answer. Missing if it was sent over another protocol.
    pub resume_id: Option<String>,
}

/// A server-sent event. While the graph works: `progress` with a ChatProgress as data, `content` and `reasoning` with a
/// ChatDelta, `message` with a ChatMessage, `tool_call` with a ChatToolCall, `tool_result` with a ChatToolResult,
/// `usage` with a ChatUsage. Then one `outcome` with a ChatOutcome.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatStream {
    /// The name of the event.
    pub event: Option<String>,
    /// The data of the event as JSON.
    pub data: Option<String>,
}

/// An event of a graph: its type, its time and its node.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatProgress {
    /// The key of the graph.
    pub state_key: String,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: String,
    /// The instant of the event.
    pub at: Instant,
    /// The node of the event.
    pub node_id: Option<NodeId>,
}

/// The next text of a message, or of the reasoning before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatDelta {
    /// The key of the graph.
    pub state_key: String,
    /// The id of the message.
    pub message_id: String,
    /// The number of the attempt to write the message, from 1. A later attempt replaces the text of earlier ones.
    pub attempt: u64,
    /// The text.
    pub delta: String,
}

/// A complete message of the graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatMessage {
    /// The key of the graph.
    pub state_key: String,
    /// The id of the message.
    pub message_id: String,
    /// The whole text. It replaces the deltas of the message.
    pub text: String,
}

/// A tool call that a message requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatToolCall {
    /// The key of the graph.
    pub state_key: String,
    /// The id of the message.
    pub message_id: String,
    /// The id of the call.
    pub tool_call_id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatToolResult {
    /// The key of the graph.
    pub state_key: String,
    /// The id of the call.
    pub tool_call_id: String,
    /// The final state of the call.
    pub status: CallStatus,
    /// The result.
    pub content: Value,
}

/// The tokens of one message of a model.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatUsage {
    /// The key of the graph.
    pub state_key: String,
    /// The id of the message.
    pub message_id: String,
    /// The name of the model, if it is known.
    pub model: Option<String>,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the message.
    pub output_tokens: u64,
}
