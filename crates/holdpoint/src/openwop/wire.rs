//! The protocol's own shapes. Unknown members of its requests are ignored: clients of several ages exist. Bodies of routes
//! that are ours reject them.

use holdpoint_core::{RunId, StrictValue, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ApiError;
use crate::instants::iso;
use crate::links::Intent;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resolve {
    pub resume_value: StrictValue,
    /// Of what the caller was shown.
    pub digest: Option<String>,
    /// The interrupt that the caller was shown.
    pub interrupt_id: Option<String>,
}

/// The query parameter that names the interrupt of a request to a node.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InterruptQuery {
    pub interrupt_id: Option<String>,
}

impl InterruptQuery {
    /// Returns the interrupt id of the query or of the body. Both may be given if they are the same.
    pub(crate) fn or(self, body: Option<String>) -> Result<Option<String>, ApiError> {
        match (self.interrupt_id, body) {
            (Some(query), Some(body)) if query != body => {
                Err(ApiError::invalid("interruptId", "must be the same in the query and in the body"))
            }
            (query, body) => Ok(query.or(body)),
        }
    }
}

/// The same without a wrapping: the answer is the body, and what else could be said stands among its members.
#[derive(Debug, Deserialize)]
#[serde(try_from = "StrictValue")]
pub(crate) struct Unwrapped(pub Resolve);

impl TryFrom<StrictValue> for Unwrapped {
    type Error = &'static str;

    fn try_from(StrictValue(mut value): StrictValue) -> Result<Self, Self::Error> {
        let members = value.as_object_mut().ok_or("must be an object with an action")?;
        let mut take = |member: &str, wrong| match members.remove(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong),
        };
        let digest = take("digest", "digest must be a string")?;
        let interrupt_id = take("interruptId", "interruptId must be a string")?;
        Ok(Self(Resolve { resume_value: StrictValue(value), digest, interrupt_id }))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MintToken {
    pub intent: Option<Intent>,
    pub expires_in_seconds: Option<u64>,
    /// The same in milliseconds.
    pub ttl_ms: Option<u64>,
    #[serde(rename = "for")]
    pub sub: Option<String>,
    /// Required if the node has several open interrupts.
    pub interrupt_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AnswerAsk {
    pub answer: String,
    /// Required if the node has several open interrupts.
    pub interrupt_id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListPending {
    pub kind: Option<String>,
    pub assignee: Option<String>,
    pub workflow_id: Option<String>,
    pub tag: Option<String>,
    pub older_than_seconds: Option<u64>,
    pub newer_than_seconds: Option<u64>,
    pub expires_before: Option<String>,
    pub order: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SendEvent {
    // Of any type at first, so that whoever sends another one is told which.
    pub event_type: Option<StrictValue>,
    pub event_id: Option<StrictValue>,
    pub correlation: Option<StrictValue>,
    pub payload: Option<StrictValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stream {
    pub stream_mode: Option<String>,
    pub buffer_ms: Option<u64>,
}

/// `after` is a cursor, too: where a reader goes on that has seen the last page.
#[derive(Debug, Deserialize)]
pub(crate) struct After {
    pub after: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Poll {
    pub stream_mode: Option<String>,
    pub last_sequence: Option<i64>,
    pub timeout: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DebugBundle {
    pub max_events: Option<i64>,
}

/// A run event as every reader sees it, byte for byte the same on each read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventDoc {
    pub event_id: String,
    pub run_id: RunId,
    #[serde(rename = "type")]
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    pub payload: Value,
    #[serde(serialize_with = "iso")]
    pub timestamp: Timestamp,
    pub sequence: u64,
}
