//! Events of the log of a run: lists, pages and streams.

use std::borrow::Cow;

use holdpoint_ids::{NodeId, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::Instant;

/// The default time that `GET /v1/runs/{runId}/events/poll` waits, in seconds.
pub const POLL_SECONDS_DEFAULT: u64 = 30;
/// The longest time that `GET /v1/runs/{runId}/events/poll` waits, in seconds.
pub const POLL_SECONDS_MAX: u64 = 60;
/// The longest time for which a stream gathers events, in milliseconds.
pub const BUFFER_MS_MAX: u64 = 5000;

/// An event of the log of a run. Every reader receives the same bytes.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Event")]
pub struct Event<P = Value> {
    /// The id of the event.
    #[schemars(length(max = 128))]
    pub event_id: String,
    /// The id of the run.
    pub run_id: RunId,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The node of the event.
    pub node_id: Option<NodeId>,
    /// The data of the event. Its members depend on the type of the event.
    pub payload: P,
    /// The instant of the event.
    pub timestamp: Instant,
    /// The position of the event in the log of the run, from 0.
    pub sequence: u64,
    /// The delivery of a trigger that started the run. Only in `run.started`, and only of such a run.
    pub causation_id: Option<String>,
}

/// The events of a run so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventList {
    /// The events in the order of the log.
    pub events: Vec<Event>,
}

/// Events of a run after a sequence number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventPage {
    /// The events in the order of the log.
    pub events: Vec<Event>,
    /// True if the run has ended and these are its last events.
    pub is_complete: bool,
}

/// The query of `GET /v1/runs/{runId}/events`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamEvents {
    /// The events that are shown: one mode, or several separated by commas; values cannot be combined. The default is
    /// updates for a stream and all events for a list.
    #[schemars(regex(
        pattern = r"^\s*(values|(updates|messages|debug)(\s*,\s*(updates|messages|debug))*)\s*$"
    ))]
    pub stream_mode: Option<String>,
    /// The time for which a stream gathers events into one batch, in milliseconds.
    #[schemars(range(min = 0, max = BUFFER_MS_MAX), extend("default" = 0))]
    pub buffer_ms: Option<u64>,
}

/// The header with which a reader of a run continues.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastEventId {
    /// The sequence of the last event that the reader has seen. If it is beyond the end of the log, the stream
    /// continues at the end.
    #[serde(rename = "Last-Event-ID")]
    #[schemars(range(min = 0, max = i64::MAX))]
    pub last_event_id: Option<i64>,
}

/// The query of `GET /v1/runs/{runId}/events/poll`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollEvents {
    /// The events that are shown: one mode, or several separated by commas; values cannot be combined. All events by
    /// default.
    #[schemars(regex(
        pattern = r"^\s*(values|(updates|messages|debug)(\s*,\s*(updates|messages|debug))*)\s*$"
    ))]
    pub stream_mode: Option<String>,
    /// The sequence of the last event that the reader has seen.
    #[schemars(range(min = i64::MIN, max = i64::MAX))]
    pub last_sequence: Option<i64>,
    /// Seconds to wait for new events.
    #[schemars(range(min = 1, max = POLL_SECONDS_MAX), extend("default" = POLL_SECONDS_DEFAULT))]
    pub timeout: Option<u64>,
}

/// A server-sent event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamedEvent {
    /// The sequence of the event or of the last event of a batch, for Last-Event-ID.
    #[schemars(regex(pattern = "^[0-9]+$"))]
    pub id: String,
    /// The type of the event; state.snapshot in the mode values; batch with bufferMs.
    pub event: String,
    /// The event, the snapshot or the batch as JSON.
    #[schemars(extend("contentMediaType" = "application/json", "contentSchema" = {"anyOf": [
        {"$ref": "#/components/schemas/Event"},
        {"$ref": "#/components/schemas/RunSnapshot"},
        {"type": "array", "minItems": 1, "items": {"anyOf": [
            {"$ref": "#/components/schemas/Event"},
            {"$ref": "#/components/schemas/RunSnapshot"},
        ]}},
    ]}))]
    pub data: String,
}

/// The query of the messages and the events of a thread, in addition to that of a page.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct After {
    /// The cursor of the last message or event that the reader has seen.
    pub after: Option<String>,
}

/// The header with which a reader of a thread continues.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastCursor {
    /// The cursor of the last event that a reconnecting reader has seen. It takes precedence over after.
    #[serde(rename = "Last-Event-ID")]
    pub last_event_id: Option<String>,
}

/// An event of a run with its position in the thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadEvent {
    /// The position of the event, for the parameter after.
    pub cursor: String,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// A page of the events of a thread.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadEvents {
    /// The events of this page.
    pub events: Vec<ThreadEvent>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// A server-sent event of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamedThreadEvent {
    /// The cursor of the event, for Last-Event-ID.
    pub id: String,
    /// The type of the event.
    pub event: String,
    /// The event as JSON.
    #[schemars(extend(
        "contentMediaType" = "application/json",
        "contentSchema" = {"$ref": "#/components/schemas/ThreadEvent"},
    ))]
    pub data: String,
}
