//! Deliveries and dead letters of webhooks.

use holdpoint_ids::{AttemptOutcome, DeliveryState, EVENT_NAMES, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Instant;

/// The query of `GET /v1/webhooks/{webhookId}/deliveries`, in addition to that of a page.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListDeliveries {
    /// Only deliveries in this state.
    #[schemars(with = "Option<DeliveryState>")]
    pub state: Option<String>,
}

/// A page of deliveries, newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryList {
    /// The deliveries of this page.
    pub deliveries: Vec<Delivery>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// A delivery with its attempts, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// The delivery.
    #[serde(flatten)]
    pub row: DeliveryQueued,
    /// The attempts, newest first.
    pub attempts: Vec<DeliveryAttempt>,
}

/// A delivery without its attempts.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryQueued {
    /// The id of the delivery.
    pub delivery_id: String,
    /// The id of the webhook.
    pub webhook_id: String,
    /// The run of the event.
    pub run_id: RunId,
    /// The sequence of the event in the log of its run.
    pub sequence: u64,
    /// The type of the event.
    #[schemars(extend("enum" = EVENT_NAMES))]
    pub event_type: String,
    /// The state of the delivery.
    pub state: DeliveryState,
    /// The number of attempts.
    pub attempt: u32,
    /// The key by which a receiver recognizes repeated deliveries.
    pub dedup_key: String,
    /// The instant of the creation.
    pub created_at: Instant,
    /// The instant of the next attempt.
    pub next_attempt_at: Option<Instant>,
    /// The instant at which the delivery ended.
    pub ended_at: Option<Instant>,
    /// The reason for which the delivery is a dead letter.
    pub reason: Option<String>,
}

/// An attempt of a delivery.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAttempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The instant of the attempt.
    pub at: Instant,
    /// The duration in milliseconds.
    pub latency_ms: u64,
    /// The outcome of the attempt.
    pub outcome: AttemptOutcome,
    /// The HTTP status of the response.
    #[schemars(range(min = 100, max = 999))]
    pub status: Option<u16>,
    /// The error of a failed attempt.
    pub error: Option<String>,
}

/// A page of dead letters, newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetters {
    /// The dead letters of this page.
    pub deliveries: Vec<DeadLetter>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// A delivery that is not tried again automatically.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The id of the webhook.
    pub subscription_id: String,
    /// The id of the delivery.
    pub delivery_id: String,
    /// The run of the event.
    pub run_id: RunId,
    /// The sequence of the event in the log of its run.
    pub sequence: u64,
    /// The type of the event.
    #[schemars(extend("enum" = EVENT_NAMES))]
    pub event_type: String,
    /// The number of attempts.
    pub attempt: u32,
    /// The reason for which the delivery is a dead letter.
    #[serialize_always]
    pub reason: Option<String>,
    /// The key by which a receiver recognizes repeated deliveries.
    pub dedup_key: String,
    /// The id of the event of the last attempt. Absent if there was no attempt.
    pub attempt_event_id: Option<String>,
    /// The instant at which the delivery became a dead letter.
    pub dead_lettered_at: Option<Instant>,
    /// The instant after which the dead letter is removed.
    pub expires_at: Option<Instant>,
}

/// The body of `POST /v1/webhooks/{webhookId}:replay`: the window of time in which the events happened.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayWindow {
    /// The start of the time window.
    #[schemars(required, with = "Option<Instant>")]
    pub from: Option<String>,
    /// The end of the time window.
    #[schemars(required, with = "Option<Instant>")]
    pub to: Option<String>,
    /// The types of the events. All by default.
    #[schemars(extend("items" = {"type": "string", "enum": EVENT_NAMES}))]
    pub events: Option<Vec<String>>,
}

/// The number of deliveries that are sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// The id of the webhook.
    pub webhook_id: String,
    /// The number of deliveries.
    pub replayed: u64,
}
