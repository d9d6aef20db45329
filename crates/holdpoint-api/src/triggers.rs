//! Triggers: stored subscriptions that start runs at times or for events.

use holdpoint_ids::{
    ChangeReason, DeliveryState, MissedPolicy, OverlapPolicy, RunId, SubscriptionState, TenantId,
    TriggerSourceName, WorkflowId, limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::mailbox::DispatchOptions;
use crate::webhooks::{RetryPolicy, WantedRetryPolicy, WebhookOwner};
use crate::{Instant, Object};

/// The number of instants of a preview, if the request names none.
pub const PREVIEW_COUNT_DEFAULT: u64 = 5;
/// The largest number of instants of a preview.
pub const PREVIEW_COUNT_MAX: u64 = 100;

/// The body of `POST /v1/trigger-subscriptions`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = serde_json::json!({
    "source": "schedule", "workflowId": "report",
    "schedule": {"cron": "30 9 * * MON-FRI", "timeZone": "Europe/Berlin"},
    "inputMapping": {"day": {"$from": "/scheduledFor"}},
}))]
pub struct CreateTrigger {
    /// The source of the deliveries.
    #[schemars(required, with = "Option<TriggerSourceName>")]
    pub source: Option<String>,
    /// The workflow whose runs start.
    #[schemars(required, length(min = 1, max = limits::ID_CHARS_MAX))]
    pub workflow_id: Option<String>,
    /// The schedule. Required with the source schedule, otherwise rejected.
    pub schedule: Option<WantedSchedule>,
    /// The events. Required with the source event, otherwise rejected.
    pub event: Option<WantedEvents>,
    /// The inputs of the runs. An object `{"$from": "/payload/id"}` is replaced by a part of the occurrence: scheduledFor
    /// of a schedule; eventType, eventId, correlation and payload of an event. A missing part is an error, unless the
    /// object has a member default. Other values are used as they are.
    pub input_mapping: Option<Object>,
    /// The tags of the runs.
    #[schemars(length(max = limits::TAGS_MAX), inner(length(max = limits::TAG_CHARS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// Priority and attempts of the dispatches of the runs. Other options are rejected.
    pub dispatch: Option<DispatchOptions>,
    /// The attempts to start a run.
    pub retry_policy: Option<WantedRetryPolicy>,
    /// Must be true or absent: a repeated occurrence never starts a second run.
    pub dedup_enabled: Option<bool>,
}

/// The schedule of a new trigger.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WantedSchedule {
    /// The cron expression: minute, hour, day of month, month and day of week, or @hourly, @daily, @weekly, @monthly or
    /// @yearly.
    #[schemars(length(min = 1, max = limits::TRIGGER_CRON_CHARS_MAX))]
    pub cron: String,
    /// The name of the time zone in the tz database. The default is UTC.
    #[schemars(extend("default" = "UTC"))]
    pub time_zone: Option<String>,
    /// The treatment of instants that passed while no server ran.
    #[schemars(with = "Option<MissedPolicy>", extend("default" = MissedPolicy::Last))]
    pub missed: Option<String>,
    /// The treatment of an instant while a run of an earlier instant has not ended.
    #[schemars(with = "Option<OverlapPolicy>", extend("default" = OverlapPolicy::Skip))]
    pub overlap: Option<String>,
}

/// The events of a new trigger.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WantedEvents {
    /// The type of the events.
    #[schemars(length(min = 1, max = limits::EVENT_TYPE_CHARS_MAX))]
    pub event_type: String,
    /// Members that the correlation of an event must have, with equal values.
    #[schemars(extend("maxProperties" = limits::CORRELATION_MEMBERS_MAX))]
    pub correlation: Option<Object>,
    /// Values that the payload of an event must have, by JSON Pointer.
    #[schemars(extend("maxProperties" = limits::CORRELATION_MEMBERS_MAX))]
    pub payload: Option<Object>,
}

/// A trigger.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    /// The id of the trigger.
    pub subscription_id: String,
    /// The tenant of the trigger.
    pub tenant_id: TenantId,
    /// The source of the deliveries.
    pub source: TriggerSourceName,
    /// The workflow whose runs start.
    pub workflow_id: WorkflowId,
    /// The schedule.
    pub schedule: Option<Schedule>,
    /// The events.
    pub event: Option<EventSource>,
    /// The inputs of the runs.
    pub input_mapping: Object,
    /// The tags of the runs.
    pub tags: Vec<String>,
    /// Options of the dispatches of the runs.
    pub dispatch: Option<TriggerDispatch>,
    /// The attempts to start a run.
    pub retry_policy: RetryPolicy,
    /// Always true: a repeated occurrence never starts a second run.
    pub dedup_enabled: bool,
    /// The state of the trigger.
    pub state: SubscriptionState,
    /// The reason for which the trigger is not active.
    pub reason: Option<ChangeReason>,
    /// The principal that created the trigger. It is a requester of the runs.
    pub created_by: String,
    /// The principal that created the trigger or resumed it last, and its key. The runs start with its rights.
    pub owner: Option<WebhookOwner>,
    /// The next instant of an active schedule.
    pub next_fire_at: Option<Instant>,
    /// The last run that the trigger started.
    pub last_run_id: Option<RunId>,
    /// The instant of the creation.
    pub created_at: Instant,
    /// The instant of the last change.
    pub updated_at: Instant,
}

/// Options of the dispatches of the runs of a trigger.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggerDispatch {
    /// The priority; 0 is claimed first.
    pub priority: Option<u8>,
    /// The number of failed attempts after which a dispatch is a dead letter.
    pub max_attempts: Option<u32>,
}

/// The schedule of a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TriggerSchedule")]
pub struct Schedule {
    /// The cron expression.
    pub cron: String,
    /// The name of the time zone.
    pub time_zone: String,
    /// The treatment of missed instants.
    pub missed: MissedPolicy,
    /// The treatment of an instant while an earlier run has not ended.
    pub overlap: OverlapPolicy,
}

/// The events of a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TriggerEvents")]
pub struct EventSource {
    /// The type of the events.
    pub event_type: String,
    /// Members that the correlation of an event must have.
    pub correlation: Object,
    /// Values that the payload of an event must have, by JSON Pointer.
    pub payload: Object,
}

/// A page of triggers, oldest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggerList {
    /// The triggers of this page.
    pub triggers: Vec<Trigger>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// The query of `GET /v1/trigger-subscriptions:preview`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewTrigger {
    /// The cron expression.
    #[schemars(required, length(min = 1, max = limits::TRIGGER_CRON_CHARS_MAX), example = "@daily")]
    pub cron: Option<String>,
    /// The name of the time zone in the tz database. The default is UTC.
    #[schemars(extend("default" = "UTC"), example = "Europe/Berlin")]
    pub time_zone: Option<String>,
    /// The number of instants.
    #[schemars(range(min = 1, max = PREVIEW_COUNT_MAX), extend("default" = PREVIEW_COUNT_DEFAULT))]
    pub count: Option<u64>,
}

/// The next instants of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggerPreview {
    /// The instants, in their order.
    pub instants: Vec<Instant>,
}

/// A page of the deliveries of a trigger, newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggerDeliveryList {
    /// The deliveries of this page.
    pub deliveries: Vec<TriggerDelivery>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// An occurrence of a trigger: an instant of its schedule, or an event.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggerDelivery {
    /// The id of the delivery. It is the causationId of the run.
    pub delivery_id: String,
    /// The id of the trigger.
    pub subscription_id: String,
    /// The state of the delivery.
    pub state: DeliveryState,
    /// The run of the delivery. It exists once the delivery is delivered.
    pub run_id: RunId,
    /// The number of attempts.
    pub attempt: u32,
    /// A text that is the same for the same occurrence.
    pub dedup_key: String,
    /// The principal that sent the event.
    pub sent_by: Option<String>,
    /// The error of the last attempt, or the reason why no run started.
    pub error: Option<String>,
    /// The instant of the creation.
    pub created_at: Instant,
    /// The instant of the next attempt.
    pub next_attempt_at: Option<Instant>,
    /// The instant at which the delivery ended.
    pub ended_at: Option<Instant>,
}
