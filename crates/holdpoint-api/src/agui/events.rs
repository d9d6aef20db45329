//! The events of AG-UI 1.0. Members without a value are omitted: clients distinguish null from absent.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use super::{Message, Outcome, Usage};

/// The version of the protocol.
pub const VERSION: &str = "1.0";

/// An event with the members that every event may have.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgUiFrame")]
pub struct Frame {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// The time of the event in Unix milliseconds.
    pub timestamp: Option<i64>,
    /// The event of another system from which this event was created.
    pub raw_event: Option<Value>,
    /// Data beyond that of the protocol.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The subagent that sends the event.
    pub subagent_run_id: Option<String>,
}

impl From<Event> for Frame {
    fn from(event: Event) -> Self {
        Self { event, timestamp: None, raw_event: None, metadata: Map::new(), subagent_run_id: None }
    }
}

/// An event of AG-UI. The server does not send all of them.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiEvent")]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum Event {
    /// A run starts.
    RunStarted {
        /// The id of the thread.
        thread_id: String,
        /// The id of the run.
        run_id: String,
        /// The version of AG-UI.
        protocol_version: Option<Cow<'static, str>>,
        /// The id of the parent run.
        parent_run_id: Option<String>,
        /// The input of the run.
        input: Option<Value>,
    },
    /// A run has ended, or waits.
    RunFinished {
        /// The id of the thread.
        thread_id: String,
        /// The id of the run.
        run_id: String,
        /// The result.
        result: Option<Value>,
        /// The outcome.
        outcome: Option<Outcome>,
        /// The tokens that the run used, by model.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        usage: Vec<Usage>,
    },
    /// A run has failed.
    RunError {
        /// The error message.
        message: String,
        /// The error code.
        code: Option<String>,
        /// The tokens that the run used, by model.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        usage: Vec<Usage>,
    },
    /// A step starts.
    StepStarted {
        /// The name of the step.
        step_name: String,
    },
    /// A step has ended.
    StepFinished {
        /// The name of the step.
        step_name: String,
    },
    /// A text message starts.
    TextMessageStart {
        /// The id of the message.
        message_id: String,
        /// The author of the message.
        role: Option<Cow<'static, str>>,
        /// The name of the author.
        name: Option<String>,
    },
    /// A part of a text message.
    TextMessageContent {
        /// The id of the message.
        message_id: String,
        /// The text to append.
        delta: String,
    },
    /// A text message is complete.
    TextMessageEnd {
        /// The id of the message.
        message_id: String,
    },
    /// A text message or a part of it, without start and end events.
    TextMessageChunk {
        /// The id of the message.
        message_id: Option<String>,
        /// The author of the message.
        role: Option<Cow<'static, str>>,
        /// The text to append.
        delta: Option<String>,
        /// The name of the author.
        name: Option<String>,
    },
    /// A tool call starts.
    ToolCallStart {
        /// The id of the tool call.
        tool_call_id: String,
        /// The name of the tool.
        tool_call_name: String,
        /// The id of the message that has the call.
        parent_message_id: Option<String>,
    },
    /// A part of the arguments of a tool call.
    ToolCallArgs {
        /// The id of the tool call.
        tool_call_id: String,
        /// The text to append to the arguments.
        delta: String,
    },
    /// The arguments of a tool call are complete.
    ToolCallEnd {
        /// The id of the tool call.
        tool_call_id: String,
    },
    /// A tool call or a part of it, without start and end events.
    ToolCallChunk {
        /// The id of the tool call.
        tool_call_id: Option<String>,
        /// The name of the tool.
        tool_call_name: Option<String>,
        /// The id of the message that has the call.
        parent_message_id: Option<String>,
        /// The text to append to the arguments.
        delta: Option<String>,
    },
    /// The result of a tool call. The content is text, because clients before 1.0 accept only text.
    ToolCallResult {
        /// The id of the message with the result.
        message_id: String,
        /// The id of the tool call.
        tool_call_id: String,
        /// The result: a string, or a list of content parts for clients of 1.0.
        content: Value,
        /// The author of the message.
        role: Option<Cow<'static, str>>,
    },
    /// The whole shared state.
    StateSnapshot {
        /// The state.
        snapshot: Value,
    },
    /// Changes of the shared state as a JSON Patch (RFC 6902).
    StateDelta {
        /// The changes.
        delta: Vec<PatchOperation>,
    },
    /// All messages of the thread.
    MessagesSnapshot {
        /// The messages.
        messages: Vec<Message>,
    },
    /// The whole content of an activity.
    ActivitySnapshot {
        /// The id of the activity.
        message_id: String,
        /// The type of the activity.
        activity_type: String,
        /// The content of the activity.
        content: Map<String, Value>,
        /// True if the content replaces an earlier snapshot.
        replace: Option<bool>,
    },
    /// Changes of an activity.
    ActivityDelta {
        /// The id of the activity.
        message_id: String,
        /// The type of the activity.
        activity_type: String,
        /// The changes as a JSON Patch (RFC 6902).
        patch: Vec<PatchOperation>,
    },
    /// An event of another system.
    Raw {
        /// The event.
        event: Value,
        /// The system that sent the event.
        source: Option<String>,
    },
    /// An event of the application.
    Custom {
        /// The name of the event.
        name: String,
        /// The value of the event.
        value: Value,
    },
    /// Reasoning starts.
    ReasoningStart {
        /// The id of the reasoning.
        message_id: String,
    },
    /// A reasoning message starts.
    ReasoningMessageStart {
        /// The id of the message.
        message_id: String,
        /// The author of the message.
        role: Cow<'static, str>,
    },
    /// A part of a reasoning message.
    ReasoningMessageContent {
        /// The id of the message.
        message_id: String,
        /// The text to append.
        delta: String,
    },
    /// A reasoning message is complete.
    ReasoningMessageEnd {
        /// The id of the message.
        message_id: String,
    },
    /// A reasoning message or a part of it, without start and end events.
    ReasoningMessageChunk {
        /// The id of the message.
        message_id: Option<String>,
        /// The text to append.
        delta: Option<String>,
    },
    /// Reasoning has ended.
    ReasoningEnd {
        /// The id of the reasoning.
        message_id: String,
    },
    /// Encrypted reasoning.
    ReasoningEncryptedValue {
        /// The kind of the entity.
        subtype: Cow<'static, str>,
        /// The id of the message or tool call that the value belongs to.
        entity_id: String,
        /// The encrypted value.
        encrypted_value: String,
    },
    /// A subagent starts.
    SubagentStarted {
        /// The id of the subagent run.
        subagent_run_id: String,
        /// The name of the subagent.
        name: String,
        /// The description of the subagent.
        description: Option<String>,
        /// The id of the subagent that started this one.
        parent_subagent_run_id: Option<String>,
        /// The id of the tool call that started the subagent.
        parent_tool_call_id: Option<String>,
        /// The id of the message that started the subagent.
        parent_message_id: Option<String>,
    },
    /// A subagent has ended.
    SubagentFinished {
        /// The id of the subagent run.
        subagent_run_id: String,
        /// The result.
        result: Option<Value>,
        /// The outcome.
        outcome: Option<SubagentOutcome>,
    },
    /// A subagent has failed.
    SubagentError {
        /// The id of the subagent run.
        subagent_run_id: String,
        /// The error message.
        message: String,
        /// The error code.
        code: Option<String>,
    },
}

/// One operation of a JSON Patch (RFC 6902).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation {
    /// Adds a value.
    Add {
        /// The JSON Pointer of the value.
        path: String,
        /// The new value.
        value: Value,
    },
    /// Removes a value.
    Remove {
        /// The JSON Pointer of the value.
        path: String,
    },
    /// Replaces a value.
    Replace {
        /// The JSON Pointer of the value.
        path: String,
        /// The new value.
        value: Value,
    },
}

/// The outcome of a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum SubagentOutcome {
    /// The subagent completed.
    Success,
    /// The subagent waits for answers.
    Suspended {
        /// The ids of the open interrupts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        interrupt_ids: Vec<String>,
    },
}

#[cfg(test)]
mod tests;
