//! The shapes of threads, messages and decisions. Members that nobody knows are refused: a misspelt one would silently
//! be a default.

use std::collections::BTreeMap;

use holdpoint_core::agent::{Message, ResumeDecisionAction, ToolCallResumeMode};
use holdpoint_core::{StrictValue, Timestamp};
use holdpoint_engine::InputMode;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::body::{Object, or_default};
use crate::instants::{iso, optional_iso};

/// Where one of two members is said, nothing is no way to say it.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StartRun {
    pub thread_id: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub message: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub messages: Option<Vec<Said>>,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Object,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Say {
    pub agent_id: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub message: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub messages: Option<Vec<Said>>,
    #[serde(default, deserialize_with = "or_default")]
    pub mode: Mode,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Object,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Inputs {
    #[serde(default, deserialize_with = "not_null")]
    pub message: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub messages: Option<Vec<Said>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    pub id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub role: Speaker,
    pub content: StrictValue,
}

/// What agents and tools say is not told by others.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Speaker {
    #[default]
    User,
    System,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    #[default]
    Queue,
    LiveThenQueue,
    /// Another word for the same.
    Steer,
    InterruptThenQueue,
    ResumeOpenRun,
}

impl From<Mode> for InputMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Queue => Self::Queue,
            Mode::LiveThenQueue | Mode::Steer => Self::LiveThenQueue,
            Mode::InterruptThenQueue => Self::InterruptThenQueue,
            Mode::ResumeOpenRun => Self::ResumeOpenRun,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decide {
    #[serde(default, deserialize_with = "not_null")]
    pub tool_call_id: Option<String>,
    #[serde(default, deserialize_with = "not_null")]
    pub ticket_id: Option<String>,
    pub action: ResumeDecisionAction,
    #[serde(alias = "payload")]
    pub result: Option<StrictValue>,
    pub reason: Option<String>,
    pub decision_id: Option<String>,
    /// Of what was shown to whoever decides.
    pub digest: Option<String>,
    /// Unknown members, which are rejected by name.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct InterruptThread {
    #[serde(default, deserialize_with = "or_default")]
    pub keep_waiting: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelThread {
    pub reason: Option<String>,
}

/// `after` is a cursor, too: where a reader goes on that has seen the last page.
#[derive(Debug, Deserialize)]
pub(crate) struct After {
    pub after: Option<String>,
}

/// A message and its place in its thread.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    #[serde(flatten)]
    pub message: Message,
    pub run_id: String,
    pub seq: u64,
    #[serde(serialize_with = "iso")]
    pub at: Timestamp,
    pub cursor: String,
}

/// What a run waits for, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waiting {
    pub reason: &'static str,
    pub ticket_ids: Vec<String>,
    pub tickets: Vec<Ticket>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The dispatch in which it came to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_dispatch_id: Option<String>,
}

/// A call of a tool that somebody decides about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ticket {
    pub ticket_id: String,
    pub tool_call_id: String,
    pub tool_name: String,
    pub arguments: Value,
    pub resume_mode: ToolCallResumeMode,
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
    #[serde(serialize_with = "optional_iso", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// What somebody decided; nobody, where its time ran out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    #[serde(serialize_with = "iso")]
    pub decided_at: Timestamp,
    pub timed_out: bool,
}
