//! Webhooks: subscriptions to events, their changes, and callbacks.

use holdpoint_ids::{
    AttemptOutcome, Backoff, ChangeReason, EVENT_NAMES, Kind, Mode, NodeId, RunId, StrictValue,
    SubscriptionState, TenantId, WebhookEventType, limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Instant;
pub use crate::deliveries::{
    DeadLetter, DeadLetters, Delivery, DeliveryAttempt, DeliveryList, DeliveryQueued, ListDeliveries,
    ReplayWindow, Replayed,
};
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
    /// The tenant of the key. Another tenant is rejected.
    pub tenant_id: Option<String>,
    /// Only events of runs with one of these tags.
    #[schemars(length(max = limits::TAGS_MAX), inner(length(min = 1, max = limits::TAG_CHARS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// If true (default), each event is sent until the receiver accepts it or the attempts are used up. If false, each
    /// event is sent once.
    pub durable: Option<bool>,
    /// If true (default), a durable event waits for the earlier events of the same run.
    pub ordered: Option<bool>,
    /// The retries of a durable webhook.
    pub retry_policy: Option<WantedRetryPolicy>,
    /// The algorithms that the receiver can verify. Must contain v1.
    #[schemars(extend("contains" = {"enum": SIGNATURE_ALGORITHMS}))]
    pub supported_signature_algorithms: Option<Vec<String>>,
    /// Rejected: the server creates the secret.
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
    /// The maximum number of attempts.
    #[schemars(range(min = 1, max = limits::WEBHOOK_ATTEMPTS_MAX))]
    pub max_attempts: u32,
    /// The growth of the delay between attempts.
    pub backoff: Backoff,
    /// The first delay in milliseconds.
    #[schemars(range(min = 0, max = limits::WEBHOOK_WAIT_MS_MAX))]
    pub base_ms: u64,
    /// The longest delay in milliseconds.
    #[schemars(range(min = 0, max = limits::WEBHOOK_WAIT_MS_MAX))]
    pub max_ms: u64,
}

/// The query of `DELETE /v1/webhooks/{webhookId}`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteWebhook {
    /// The tenant of the key; another one is rejected.
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
    /// The id of the webhook.
    pub webhook_id: String,
    /// The tenant of the webhook.
    pub tenant_id: TenantId,
    /// The URL that receives the events.
    pub url: String,
    /// The types of events that are delivered.
    pub events: Vec<String>,
    /// Only events of runs with one of these tags are delivered. If empty, events of all runs are delivered.
    pub tags: Vec<String>,
    /// The state of the webhook.
    pub state: SubscriptionState,
    /// The mode of delivery.
    pub mode: Mode,
    /// True if deliveries are durable.
    pub durable: bool,
    /// True if later events of a run wait for earlier ones.
    pub ordered: bool,
    /// The retries of durable deliveries.
    pub retry_policy: RetryPolicy,
    /// The first 8 hexadecimal digits of the SHA-256 of the secret.
    #[schemars(regex(pattern = "^[0-9a-f]{8}$"))]
    pub secret_fingerprint: String,
    /// The algorithm of the signatures.
    #[schemars(extend("enum" = SIGNATURE_ALGORITHMS))]
    pub signature_algorithm: String,
    /// The state of the circuit breaker.
    pub circuit: Circuit,
    /// The instant until which an open circuit breaker stops deliveries.
    pub circuit_open_until: Option<Instant>,
    /// The number of consecutive failures.
    pub failures_in_a_row: u32,
    /// The instant of the creation.
    pub created_at: Instant,
    /// The instant of the last change.
    pub updated_at: Instant,
    /// The reason for which the webhook is not active. Absent if it is active, or if an earlier version stored its
    /// state.
    pub reason: Option<ChangeReason>,
    /// The principal that created the webhook or resumed it last. The webhook is paused when the lineage of this key
    /// has no active key. Null if an earlier version stored the webhook.
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
    /// Events are delivered.
    Closed,
    /// Deliveries are stopped after consecutive failures.
    Open,
}

/// The owner of a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookOwner {
    /// The principal of the owner.
    pub principal: String,
    /// The key of the owner.
    pub key_id: String,
    /// The lineage of that key.
    pub lineage: String,
}

/// The secret before a rotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OldSecret {
    /// The fingerprint of the old secret.
    #[schemars(regex(pattern = "^[0-9a-f]{8}$"))]
    pub fingerprint: String,
    /// The instant until which deliveries are signed with both secrets.
    pub valid_until: Instant,
}

/// A subscription with its new secret.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookCreated {
    /// The webhook without its secret.
    #[serde(flatten)]
    pub webhook: Webhook,
    /// The same as webhookId.
    pub subscription_id: Option<String>,
    /// The same as events.
    pub event_types: Option<Vec<String>>,
    /// The new secret. Shown once: not when the request is sent again under its Idempotency-Key.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub secret: Option<String>,
}

/// A page of subscriptions, oldest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookList {
    /// The webhooks of this page.
    pub webhooks: Vec<Webhook>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// The query of `GET /v1/webhooks/{webhookId}/events`, in addition to that of a page.
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
    /// The events of this page.
    pub events: Vec<WebhookEvent>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// A change of a subscription, or an attempt of a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookEvent {
    /// The id of the event.
    pub event_id: String,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: WebhookEventType,
    /// The instant of the event.
    pub timestamp: Instant,
    /// The data of the event.
    pub payload: WebhookEventPayload,
}

/// The payload of an event of a subscription. A change has fromState, toState and reason; an attempt has the other
/// members.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookEventPayload {
    /// The id of the webhook.
    pub subscription_id: String,
    /// The state before the change.
    pub from_state: Option<SubscriptionState>,
    /// The state after the change.
    pub to_state: Option<SubscriptionState>,
    /// The reason of the change.
    pub reason: Option<ChangeReason>,
    /// The id of the delivery.
    pub delivery_id: Option<String>,
    /// The number of the attempt, from 1.
    pub attempt: Option<u32>,
    /// The duration of the attempt in milliseconds.
    pub latency_ms: Option<u64>,
    /// The number of events that were dropped.
    pub times: Option<u64>,
    /// The outcome of the attempt.
    pub outcome: Option<AttemptOutcome>,
}

/// The members of the body of a delivery before its member `event`, which has the same bytes as in the log.
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
    /// The link. Absent if a key that started or forked the run has ended without a successor.
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
    /// The expiry of the link.
    pub expires_at: Instant,
}
