//! Webhooks: subscriptions to events, their deliveries and dead letters.

use holdpoint_ids::{
    AttemptOutcome, Backoff, ChangeReason, DeliveryState, EVENT_NAMES, Kind, Mode, NodeId, RunId,
    StrictValue, SubscriptionState, TenantId, WebhookEventType, limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Instant;
use crate::links::Intent;

/// The algorithms that sign deliveries.
pub const SIGNATURE_ALGORITHMS: [&str; 1] = ["v1"];

/// The body of `POST /v1/webhooks`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    extend("not" = {"required": ["secret"]}),
    example = serde_json::json!({"url": "https://example.com/hooks", "events": ["run.completed", "run.failed"]})
)]
pub struct CreateWebhook {
    /// The https URL that receives deliveries.
    #[schemars(
        required,
        length(max = limits::WEBHOOK_URL_CHARS_MAX),
        regex(pattern = "^[Hh][Tt][Tt][Pp][Ss]://"),
        extend("format" = "uri")
    )]
    pub url: Option<String>,
    /// The types of the events to send.
    #[schemars(required, length(min = 1), extend("items" = {"type": "string", "enum": EVENT_NAMES}))]
    pub events: Option<Vec<String>>,
    /// The tenant of the key. Another tenant is refused.
    pub tenant_id: Option<String>,
    /// Only events of runs with one of these tags.
    #[schemars(length(max = limits::TAGS_MAX), inner(length(min = 1, max = limits::TAG_CHARS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// With true, which is the default, each event is sent until the receiver accepts it or the attempts are used up.
    /// With false each event is sent once.
    pub durable: Option<bool>,
    /// With true, which is the default, a durable event waits for the earlier events of the same run.
    pub ordered: Option<bool>,
    /// The retries of a durable webhook.
    pub retry_policy: Option<WantedRetryPolicy>,
    /// The algorithms that the receiver can verify. Must contain v1.
    #[schemars(extend("contains" = {"enum": SIGNATURE_ALGORITHMS}))]
    pub supported_signature_algorithms: Option<Vec<String>>,
    /// Refused: the server makes the secret.
    #[schemars(skip)]
    pub secret: Option<StrictValue>,
}

/// The retries of a new durable webhook. baseMs is at most maxMs.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WantedRetryPolicy {
    /// Attempts of one delivery.
    #[schemars(range(min = 1, max = limits::WEBHOOK_ATTEMPTS_MAX))]
    pub max_attempts: Option<u32>,
    /// The growth of the delay.
    #[schemars(with = "Option<Backoff>")]
    pub backoff: Option<String>,
    /// The first delay in milliseconds.
    #[schemars(range(min = 0, max = limits::WEBHOOK_WAIT_MS_MAX))]
    pub base_ms: Option<u64>,
    /// The longest delay in milliseconds.
    #[schemars(range(min = 0, max = limits::WEBHOOK_WAIT_MS_MAX))]
    pub max_ms: Option<u64>,
}

/// The retries of a durable webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryPolicy {
    #[schemars(range(min = 1, max = limits::WEBHOOK_ATTEMPTS_MAX))]
    pub max_attempts: u32,
    pub backoff: Backoff,
    #[schemars(range(min = 0, max = limits::WEBHOOK_WAIT_MS_MAX))]
    pub base_ms: u64,
    #[schemars(range(min = 0, max = limits::WEBHOOK_WAIT_MS_MAX))]
    pub max_ms: u64,
}

/// The query of `DELETE /v1/webhooks/{webhookId}`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteWebhook {
    /// The tenant of the key; another one is refused.
    pub tenant_id: Option<String>,
}

/// The body of `POST /v1/webhooks/{webhookId}:rotate`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateWebhook {
    /// Seconds for which deliveries are signed with the old secret, too.
    #[schemars(
        range(min = 0, max = limits::WEBHOOK_OVERLAP_SECONDS_MAX),
        extend("default" = limits::WEBHOOK_OVERLAP_SECONDS_DEFAULT)
    )]
    pub overlap_seconds: Option<u64>,
}

/// A subscription without its secret.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub webhook_id: String,
    pub tenant_id: TenantId,
    pub url: String,
    pub events: Vec<String>,
    pub tags: Vec<String>,
    pub state: SubscriptionState,
    pub mode: Mode,
    pub durable: bool,
    pub ordered: bool,
    pub retry_policy: RetryPolicy,
    #[schemars(regex(pattern = "^[0-9a-f]{8}$"))]
    pub secret_fingerprint: String,
    #[schemars(extend("enum" = SIGNATURE_ALGORITHMS))]
    pub signature_algorithm: String,
    pub circuit: Circuit,
    pub circuit_open_until: Option<Instant>,
    pub failures_in_a_row: u32,
    pub created_at: Instant,
    pub updated_at: Instant,
    /// The reason for which it is not active. Absent if it is active, or if an earlier version stored it.
    pub reason: Option<ChangeReason>,
    /// The principal that created the webhook or resumed it last. The webhook is paused when the lineage of this key has
    /// no active key. Null if an earlier version stored it.
    #[serialize_always]
    pub owner: Option<WebhookOwner>,
    /// The secret before the last rotation, while deliveries are signed with both.
    pub old_secret: Option<OldSecret>,
}

/// The state of the circuit breaker of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Circuit {
    Closed,
    Open,
}

/// The owner of a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookOwner {
    pub principal: String,
    pub key_id: String,
    pub lineage: String,
}

/// The secret before a rotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OldSecret {
    #[schemars(regex(pattern = "^[0-9a-f]{8}$"))]
    pub fingerprint: String,
    pub valid_until: Instant,
}

/// A subscription with its new secret.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookCreated {
    #[serde(flatten)]
    pub webhook: Webhook,
    /// The same as webhookId.
    pub subscription_id: Option<String>,
    /// The same as events.
    pub event_types: Option<Vec<String>>,
    /// Shown once: not when the request is sent again under its Idempotency-Key.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub secret: Option<String>,
}

/// A page of subscriptions, oldest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookList {
    pub webhooks: Vec<Webhook>,
    pub next_cursor: Option<String>,
}

/// The query of `GET /v1/webhooks/{webhookId}/events`, beside that of a page.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListWebhookEvents {
    /// The type of the events that are listed.
    #[serde(rename = "type")]
    #[schemars(with = "Option<WebhookEventType>", extend("default" = WebhookEventType::StateChanged))]
    pub kind: Option<String>,
}

/// A page of the events of a subscription.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookEvents {
    pub events: Vec<WebhookEvent>,
    pub next_cursor: Option<String>,
}

/// A change of a subscription, or an attempt of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookEvent {
    pub event_id: String,
    #[serde(rename = "type")]
    pub kind: WebhookEventType,
    pub timestamp: Instant,
    pub payload: WebhookEventPayload,
}

/// The payload of an event of a subscription: states and a reason of a change, everything else of an attempt.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookEventPayload {
    pub subscription_id: String,
    pub from_state: Option<SubscriptionState>,
    pub to_state: Option<SubscriptionState>,
    pub reason: Option<ChangeReason>,
    pub delivery_id: Option<String>,
    pub attempt: Option<u32>,
    pub latency_ms: Option<u64>,
    pub times: Option<u64>,
    pub outcome: Option<AttemptOutcome>,
}

/// The query of `GET /v1/webhooks/{webhookId}/deliveries`, beside that of a page.
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
    pub deliveries: Vec<Delivery>,
    pub next_cursor: Option<String>,
}

/// A delivery with its attempts, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    #[serde(flatten)]
    pub row: DeliveryQueued,
    pub attempts: Vec<DeliveryAttempt>,
}

/// A delivery without its attempts.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryQueued {
    pub delivery_id: String,
    pub webhook_id: String,
    pub run_id: RunId,
    pub sequence: u64,
    #[schemars(extend("enum" = EVENT_NAMES))]
    pub event_type: String,
    pub state: DeliveryState,
    pub attempt: u32,
    pub dedup_key: String,
    pub created_at: Instant,
    pub next_attempt_at: Option<Instant>,
    pub ended_at: Option<Instant>,
    pub reason: Option<String>,
}

/// An attempt of a delivery.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAttempt {
    pub attempt: u32,
    pub at: Instant,
    pub latency_ms: u64,
    pub outcome: AttemptOutcome,
    #[schemars(range(min = 100, max = 999))]
    pub status: Option<u16>,
    pub error: Option<String>,
}

/// A page of dead letters, newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetters {
    pub deliveries: Vec<DeadLetter>,
    pub next_cursor: Option<String>,
}

/// A delivery that was given up.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    pub subscription_id: String,
    pub delivery_id: String,
    pub run_id: RunId,
    pub sequence: u64,
    #[schemars(extend("enum" = EVENT_NAMES))]
    pub event_type: String,
    pub attempt: u32,
    #[serialize_always]
    pub reason: Option<String>,
    pub dedup_key: String,
    /// The id of the event of the last attempt. Absent if there was no attempt.
    pub attempt_event_id: Option<String>,
    pub dead_lettered_at: Option<Instant>,
    pub expires_at: Option<Instant>,
}

/// The body of `POST /v1/webhooks/{webhookId}:replay`: the window of time in which the events happened.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayWindow {
    #[schemars(required, with = "Option<Instant>")]
    pub from: Option<String>,
    #[schemars(required, with = "Option<Instant>")]
    pub to: Option<String>,
    /// All events, unless some are named.
    #[schemars(extend("items" = {"type": "string", "enum": EVENT_NAMES}))]
    pub events: Option<Vec<String>>,
}

/// The number of deliveries that are sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    pub webhook_id: String,
    pub replayed: u64,
}

/// The members of a delivery before `event`, which is the event as readers of the log get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryHead {
    /// The run of the event.
    pub run_id: RunId,
    /// The tenant of the run.
    pub workspace_id: TenantId,
}

/// The body of a callback: an interrupt of a run with a callbackUrl.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptCallback {
    /// The run that waits.
    pub run_id: RunId,
    /// The node that waits.
    pub node_id: NodeId,
    /// The interrupt.
    pub interrupt_id: String,
    /// The kind of the interrupt.
    pub kind: Kind,
    /// Missing if a key that started or forked the run has ended without a successor.
    #[serde(flatten)]
    pub link: Option<CallbackLink>,
}

/// The link in a callback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallbackLink {
    /// The use of the link.
    pub intent: Intent,
    /// The URL of the link.
    pub callback_url: String,
    /// The token of the link.
    pub interrupt_token: String,
    /// The end of the link.
    pub expires_at: Instant,
}
