//! External events that resolve interrupts.

use holdpoint_ids::{EventReception, NodeId, RunId, StrictValue, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{Instant, Object};

/// The body of `POST /v1/events`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = serde_json::json!({
    "eventType": "payment.settled", "eventId": "evt_1042", "correlation": {"orderId": "o-7"}, "payload": {"amount": 30},
}))]
pub struct SendEvent {
    /// The type that interrupts wait for.
    #[schemars(with = "String", length(min = 1, max = limits::EVENT_TYPE_CHARS_MAX))]
    #[schemars(regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    pub event_type: Option<StrictValue>,
    /// The id of the event. An event that is sent again under the same id has no further effect.
    #[schemars(with = "String", length(min = 1, max = limits::EVENT_ID_CHARS_MAX))]
    #[schemars(regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]*$"))]
    pub event_id: Option<StrictValue>,
    /// The correlation of the event. It matches interrupts whose correlation has all these members with equal values;
    /// without members it matches interrupts without a correlation.
    #[schemars(with = "Option<Object>", extend("maxProperties" = limits::CORRELATION_MEMBERS_MAX))]
    pub correlation: Option<StrictValue>,
    /// The data that the interrupt receives.
    pub payload: Option<StrictValue>,
}

/// The effect of an external event.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventReceived {
    /// The id of the event.
    pub event_id: String,
    /// The effect of the event.
    pub status: EventReception,
    /// The interrupts that the event resolved.
    pub matched: Vec<EventTarget>,
    /// The interrupts that wait for such an event and rejected this event.
    pub refused: Vec<EventRefused>,
    /// The instant until which the server keeps an event that no interrupt waits for.
    pub kept_until: Option<Instant>,
    /// True if more interrupts wait for such an event than one event can resolve.
    pub more: Option<bool>,
    /// The runs that the event starts through triggers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggered: Vec<EventRun>,
}

/// A run that an event starts through a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventRun {
    /// The id of the trigger.
    pub subscription_id: String,
    /// The id of the delivery. It is the causationId of the run.
    pub delivery_id: String,
    /// The id of the run. The run exists once the delivery is delivered.
    pub run_id: RunId,
}

/// An interrupt that waits for an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventTarget {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the node.
    pub node_id: NodeId,
    /// The id of the interrupt.
    pub interrupt_id: String,
}

/// An interrupt that rejected an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventRefused {
    /// The interrupt.
    #[serde(flatten)]
    pub by: EventTarget,
    /// The error code.
    pub error: String,
    /// The error message.
    pub message: String,
}
