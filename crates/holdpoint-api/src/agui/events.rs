//! The events of AG-UI 1.0. Members without a value are left out: clients tell null from absent.

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
    #[serde(flatten)]
    pub event: Event,
    /// Unix milliseconds.
    pub timestamp: Option<i64>,
    pub raw_event: Option<Value>,
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
    RunStarted {
        thread_id: String,
        run_id: String,
        protocol_version: Option<Cow<'static, str>>,
        parent_run_id: Option<String>,
        input: Option<Value>,
    },
    RunFinished {
        thread_id: String,
        run_id: String,
        result: Option<Value>,
        outcome: Option<Outcome>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        usage: Vec<Usage>,
    },
    RunError {
        message: String,
        code: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        usage: Vec<Usage>,
    },
    StepStarted {
        step_name: String,
    },
    StepFinished {
        step_name: String,
    },
    TextMessageStart {
        message_id: String,
        role: Option<Cow<'static, str>>,
        name: Option<String>,
    },
    TextMessageContent {
        message_id: String,
        delta: String,
    },
    TextMessageEnd {
        message_id: String,
    },
    TextMessageChunk {
        message_id: Option<String>,
        role: Option<Cow<'static, str>>,
        delta: Option<String>,
        name: Option<String>,
    },
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
        parent_message_id: Option<String>,
    },
    ToolCallArgs {
        tool_call_id: String,
        delta: String,
    },
    ToolCallEnd {
        tool_call_id: String,
    },
    ToolCallChunk {
        tool_call_id: Option<String>,
        tool_call_name: Option<String>,
        parent_message_id: Option<String>,
        delta: Option<String>,
    },
    /// The content is text, because clients before 1.0 accept nothing else.
    ToolCallResult {
        message_id: String,
        tool_call_id: String,
        content: String,
        role: Option<Cow<'static, str>>,
    },
    StateSnapshot {
        snapshot: Value,
    },
    /// Changes as RFC 6902.
    StateDelta {
        delta: Vec<PatchOperation>,
    },
    MessagesSnapshot {
        messages: Vec<Message>,
    },
    ActivitySnapshot {
        message_id: String,
        activity_type: String,
        content: Map<String, Value>,
        replace: Option<bool>,
    },
    ActivityDelta {
        message_id: String,
        activity_type: String,
        patch: Vec<Value>,
    },
    Raw {
        event: Value,
        source: Option<String>,
    },
    Custom {
        name: String,
        value: Value,
    },
    ReasoningStart {
        message_id: String,
    },
    ReasoningMessageStart {
        message_id: String,
        role: Cow<'static, str>,
    },
    ReasoningMessageContent {
        message_id: String,
        delta: String,
    },
    ReasoningMessageEnd {
        message_id: String,
    },
    ReasoningMessageChunk {
        message_id: Option<String>,
        delta: Option<String>,
    },
    ReasoningEnd {
        message_id: String,
    },
    ReasoningEncryptedValue {
        subtype: Cow<'static, str>,
        entity_id: String,
        encrypted_value: String,
    },
    SubagentStarted {
        subagent_run_id: String,
        name: String,
        description: Option<String>,
        parent_subagent_run_id: Option<String>,
        parent_tool_call_id: Option<String>,
        parent_message_id: Option<String>,
    },
    SubagentFinished {
        subagent_run_id: String,
        result: Option<Value>,
        outcome: Option<SubagentOutcome>,
    },
    SubagentError {
        subagent_run_id: String,
        message: String,
        code: Option<String>,
    },
}

/// A change of the state, as in RFC 6902.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation {
    Add { path: String, value: Value },
    Remove { path: String },
    Replace { path: String, value: Value },
}

/// The outcome of a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum SubagentOutcome {
    Success,
    Suspended {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        interrupt_ids: Vec<String>,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Vec<(Event, Value)> {
        let id = || "m1".to_owned();
        vec![
            (Event::StepStarted { step_name: id() }, json!({"type": "STEP_STARTED", "stepName": "m1"})),
            (Event::StepFinished { step_name: id() }, json!({"type": "STEP_FINISHED", "stepName": "m1"})),
            (
                Event::TextMessageStart { message_id: id(), role: Some("assistant".into()), name: None },
                json!({"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"}),
            ),
            (
                Event::TextMessageChunk { message_id: None, role: None, delta: Some(id()), name: None },
                json!({"type": "TEXT_MESSAGE_CHUNK", "delta": "m1"}),
            ),
            (
                Event::ToolCallChunk {
                    tool_call_id: Some(id()),
                    tool_call_name: Some("f".to_owned()),
                    parent_message_id: None,
                    delta: None,
                },
                json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "m1", "toolCallName": "f"}),
            ),
            (
                Event::ToolCallResult {
                    message_id: id(),
                    tool_call_id: id(),
                    content: id(),
                    role: Some("tool".into()),
                },
                json!({"type": "TOOL_CALL_RESULT", "messageId": "m1", "toolCallId": "m1", "content": "m1", "role": "tool"}),
            ),
            (
                Event::StateSnapshot { snapshot: Value::Null },
                json!({"type": "STATE_SNAPSHOT", "snapshot": null}),
            ),
        ]
    }

    fn rare() -> Vec<(Event, Value)> {
        let id = || "m1".to_owned();
        vec![
            (
                Event::ActivitySnapshot {
                    message_id: id(),
                    activity_type: id(),
                    content: Map::new(),
                    replace: None,
                },
                json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "m1", "activityType": "m1", "content": {}}),
            ),
            (
                Event::ActivityDelta { message_id: id(), activity_type: id(), patch: vec![] },
                json!({"type": "ACTIVITY_DELTA", "messageId": "m1", "activityType": "m1", "patch": []}),
            ),
            (Event::Raw { event: json!({}), source: None }, json!({"type": "RAW", "event": {}})),
            (
                Event::Custom { name: id(), value: Value::Null },
                json!({"type": "CUSTOM", "name": "m1", "value": null}),
            ),
            (
                Event::ReasoningMessageStart { message_id: id(), role: "reasoning".into() },
                json!({"type": "REASONING_MESSAGE_START", "messageId": "m1", "role": "reasoning"}),
            ),
            (
                Event::ReasoningEncryptedValue {
                    subtype: "message".into(),
                    entity_id: id(),
                    encrypted_value: id(),
                },
                json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "m1", "encryptedValue": "m1"}),
            ),
            (
                Event::SubagentFinished {
                    subagent_run_id: id(),
                    result: None,
                    outcome: Some(SubagentOutcome::Suspended { interrupt_ids: vec![id()] }),
                },
                json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "m1",
                    "outcome": {"type": "suspended", "interruptIds": ["m1"]}}),
            ),
            (
                Event::SubagentError { subagent_run_id: id(), message: id(), code: None },
                json!({"type": "SUBAGENT_ERROR", "subagentRunId": "m1", "message": "m1"}),
            ),
        ]
    }

    #[test]
    fn events_are_written_in_the_words_of_the_protocol_and_nothing_is_null_that_was_not_said() {
        for (event, expected) in sample().into_iter().chain(rare()) {
            assert_eq!(serde_json::to_value(Frame::from(event)).unwrap(), expected);
        }
    }

    #[test]
    fn what_every_event_may_carry_stands_beside_its_own_members() {
        let event = Event::RunError { message: "no".to_owned(), code: None, usage: Vec::new() };
        let frame = Frame { timestamp: Some(5), ..Frame::from(event) };
        let expected = json!({"type": "RUN_ERROR", "message": "no", "timestamp": 5});
        assert_eq!(serde_json::to_value(&frame).unwrap(), expected);
    }

    #[test]
    fn outcomes_carry_what_belongs_to_them() {
        let finished = |outcome| {
            let (thread_id, run_id) = ("t".to_owned(), "r".to_owned());
            let event =
                Event::RunFinished { thread_id, run_id, result: None, outcome: Some(outcome), usage: vec![] };
            serde_json::to_value(event).unwrap()["outcome"].clone()
        };
        assert_eq!(finished(Outcome::Success { pending_tool_call_ids: vec![] }), json!({"type": "success"}));
        let pending = Outcome::Success { pending_tool_call_ids: vec!["c".to_owned()] };
        assert_eq!(finished(pending), json!({"type": "success", "pendingToolCallIds": ["c"]}));
        assert_eq!(finished(Outcome::Cancelled), json!({"type": "cancelled"}));
    }
}
