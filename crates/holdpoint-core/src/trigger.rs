//! The rules of triggers: the instants of a schedule, the events that match a filter, and the inputs of the runs that a
//! trigger starts. The module does no I/O: the time zones are part of the program.

mod mapping;
mod schedule;

use holdpoint_ids::{MissedPolicy, OverlapPolicy, TriggerSourceName, WorkflowId, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use mapping::{InputMapping, MappingError, REFERENCE};
pub use schedule::{BadSchedule, DueInstants, Schedule};

use crate::equality::json_equal;
use crate::interrupt::ExternalEvent;
use crate::limits;
use crate::mailbox::DispatchOptions;
use crate::refusal::{Refusal, check_size};
use crate::webhook::RetryPolicy;
use crate::{TenantId, Timestamp};

/// The content of a trigger. It is stored as JSON and does not change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerSpec {
    /// The workflow of the runs. Its newest revision is used at each start.
    pub workflow: WorkflowId,
    /// The source of the deliveries.
    pub source: TriggerSource,
    /// The inputs of the runs.
    #[serde(default)]
    pub inputs: InputMapping,
    /// The tags of the runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Priority and attempts of the dispatches of the runs.
    #[serde(default, skip_serializing_if = "DispatchOptions::is_default")]
    pub dispatch: DispatchOptions,
    /// The attempts to start a run.
    pub retry: RetryPolicy,
    /// The principal that created the trigger. It stays a requester of the runs if the owner changes.
    pub created_by: String,
    /// The scopes that a key of the owner must have whenever a run starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_scopes: Vec<String>,
}

/// The source of the deliveries of a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum TriggerSource {
    /// The instants of a cron expression.
    Schedule {
        /// The cron expression.
        cron: String,
        /// The name of the time zone.
        time_zone: String,
        /// The treatment of missed instants.
        missed: MissedPolicy,
        /// The treatment of an instant while an earlier run has not ended.
        overlap: OverlapPolicy,
    },
    /// External events.
    Event {
        /// The type of the events.
        event_type: String,
        /// Members that the correlation of an event must have.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        correlation: Map<String, Value>,
        /// Values that the payload of an event must have, by JSON Pointer.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        payload: Map<String, Value>,
    },
}

impl TriggerSpec {
    /// Rejects an invalid trigger and names the invalid field.
    pub fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        match &self.source {
            TriggerSource::Schedule { cron, time_zone, missed, overlap } => {
                Schedule::parse(cron, time_zone).map_err(|bad| Refusal::invalid(bad.field, bad.message))?;
                if (missed, overlap) == (&MissedPolicy::All, &OverlapPolicy::Skip) {
                    let message = "must be queue or allow if missed is all: skip drops missed instants that start together";
                    return Err(Refusal::invalid("schedule.overlap", message));
                }
            }
            TriggerSource::Event { event_type, correlation, payload } => {
                // The limits of an event also apply to the filter.
                let event_id = "filter".to_owned();
                let (event_type, correlation) = (event_type.clone(), correlation.clone());
                ExternalEvent { event_type, event_id, correlation, payload: Value::Null }
                    .check()
                    .map_err(|refusal| within("event", refusal))?;
                check_payload_filter(payload)?;
            }
        }
        self.inputs.check()?;
        self.retry.check().map_err(|bad| Refusal::invalid(format!("retryPolicy.{}", bad.field), bad.rule))?;
        if self.dispatch.available_at.is_some() || self.dispatch.dedupe_key.is_some() {
            return Err(Refusal::invalid("dispatch", "can have only priority and maxAttempts"));
        }
        self.dispatch.check(now)
    }

    /// Returns the name of the source.
    pub fn source_name(&self) -> TriggerSourceName {
        match self.source {
            TriggerSource::Schedule { .. } => TriggerSourceName::Schedule,
            TriggerSource::Event { .. } => TriggerSourceName::Event,
        }
    }

    /// Returns the treatment of overlapping runs. Each event is a fact of its own, so that its run never waits.
    pub fn overlap(&self) -> OverlapPolicy {
        match self.source {
            TriggerSource::Schedule { overlap, .. } => overlap,
            TriggerSource::Event { .. } => OverlapPolicy::Allow,
        }
    }

    /// Returns the schedule; None for other sources.
    pub fn schedule(&self) -> Option<Result<Schedule, BadSchedule>> {
        match &self.source {
            TriggerSource::Schedule { cron, time_zone, .. } => Some(Schedule::parse(cron, time_zone)),
            TriggerSource::Event { .. } => None,
        }
    }

    /// Returns whether an event starts a run.
    pub fn matches(&self, event: &ExternalEvent) -> bool {
        let TriggerSource::Event { event_type, correlation, payload } = &self.source else { return false };
        let has = |found: Option<&Value>, wanted| found.is_some_and(|found| json_equal(found, wanted));
        *event_type == event.event_type
            && correlation.iter().all(|(name, wanted)| has(event.correlation.get(name), wanted))
            && payload.iter().all(|(pointer, wanted)| has(event.payload.pointer(pointer), wanted))
    }
}

/// The occurrence that a delivery reports: the document that the input mapping reads.
#[derive(Clone, Debug, PartialEq)]
pub enum TriggerOccurrence<'a> {
    /// An instant of the schedule.
    ScheduledAt(Timestamp),
    /// An external event.
    Event {
        /// The event.
        event: &'a ExternalEvent,
        /// The time of its reception. An event with the same id is another one after the first was forgotten.
        received: Timestamp,
    },
}

impl TriggerOccurrence<'_> {
    /// Returns the document that the input mapping reads.
    pub fn document(&self) -> Value {
        match self {
            Self::ScheduledAt(at) => json!({"scheduledFor": at.to_string()}),
            Self::Event { event, .. } => json!({
                "eventType": event.event_type,
                "eventId": event.event_id,
                "correlation": event.correlation,
                "payload": event.payload,
            }),
        }
    }

    /// Returns the deduplication key: an opaque text that is the same for the same occurrence of a trigger.
    pub fn dedup_key(&self, tenant: &TenantId, trigger: &str) -> String {
        let of = match self {
            Self::ScheduledAt(at) => json!(at.0),
            Self::Event { event, received } => json!([event.event_id, received.0]),
        };
        digest(&json!([tenant.as_str(), trigger, of]))
    }
}

fn check_payload_filter(payload: &Map<String, Value>) -> Result<(), Refusal> {
    let refuse = |message: String| Err(Refusal::invalid("event.payload", message));
    if payload.len() > limits::CORRELATION_MEMBERS_MAX {
        let max = limits::CORRELATION_MEMBERS_MAX;
        return refuse(format!("has {} members; at most {max} are accepted", payload.len()));
    }
    if let Some(pointer) = payload.keys().find(|pointer| !mapping::is_pointer(pointer)) {
        return refuse(format!("{pointer:?} is not a JSON Pointer; begin it with a slash"));
    }
    check_size("it", &Value::Object(payload.clone()), limits::TRIGGER_MAPPING_BYTES_MAX)
        .map_err(|why| Refusal::invalid("event.payload", why.to_string()))
}

/// Returns a refusal whose field is inside of another one.
fn within(outer: &str, refusal: Refusal) -> Refusal {
    if let Refusal::InvalidRequest { field, message } = refusal {
        return Refusal::InvalidRequest { field: format!("{outer}.{field}"), message };
    }
    refusal
}
