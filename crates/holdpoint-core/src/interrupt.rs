//! Interrupts: what a node may ask, what an answer must look like, and what is known of each one asked.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{InterruptId, NodeId, Principal, Timestamp};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::schema;

mod approval;
mod clarification;
mod external_event;

/// What an interrupt is about. Decides the shape of its data and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Approval,
    Clarification,
    ExternalEvent,
    Custom,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Approval, Kind::Clarification, Kind::ExternalEvent, Kind::Custom];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Approval => "approval",
            Kind::Clarification => "clarification",
            Kind::ExternalEvent => "external-event",
            Kind::Custom => "custom",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What node code hands to `interrupt(…)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub kind: Kind,
    /// Asked at most once per run. Left out, it is derived from run, node and count.
    pub key: Option<String>,
    pub data: Value,
    pub resume_schema: Option<Value>,
    pub timeout_ms: Option<u64>,
}

/// Why a request cannot be asked; the field is relative to the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BadRequest {
    pub field: String,
    pub message: String,
}

impl BadRequest {
    pub(crate) fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into() }
    }
}

impl Request {
    pub fn new(kind: Kind, data: Value) -> Self {
        Self { kind, key: None, data, resume_schema: None, timeout_ms: None }
    }

    /// Checks everything about a request that does not depend on its run.
    pub fn check(&self) -> Result<(), BadRequest> {
        if let Some(key) = &self.key {
            let length = key.chars().count();
            if length == 0 || length > limits::INTERRUPT_KEY_CHARS_MAX {
                let max = limits::INTERRUPT_KEY_CHARS_MAX;
                return Err(BadRequest::new("key", format!("must be 1 to {max} characters")));
            }
        }
        check_size("interrupt data", &self.data, limits::INTERRUPT_DATA_BYTES_MAX)
            .map_err(|refusal| BadRequest::new("data", refusal.to_string()))?;
        if let Some(wanted) = &self.resume_schema {
            schema::compile(wanted).map_err(|why| BadRequest::new("resumeSchema", why))?;
        }
        match self.kind {
            Kind::Approval => approval::check_data(&self.data),
            Kind::Clarification => clarification::check_data(&self.data),
            Kind::ExternalEvent => external_event::check_data(&self.data),
            Kind::Custom => check_custom(&self.data),
        }
    }
}

fn check_custom(data: &Value) -> Result<(), BadRequest> {
    match data.get("customKind").and_then(Value::as_str) {
        Some(kind) if !kind.is_empty() => Ok(()),
        _ => Err(BadRequest::new("data.customKind", "must be a non-empty string")),
    }
}

/// Somebody's answer, before it is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub value: Value,
    pub by: Principal,
}

/// One interrupt of a run, as folded from its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Interrupt {
    pub id: InterruptId,
    pub node: NodeId,
    pub kind: Kind,
    pub key: String,
    pub data: Value,
    pub resume_schema: Option<Value>,
    pub timeout_ms: Option<u64>,
    pub requested_at: Timestamp,
    /// From when its time counts: the request, or the fork that has taken it over from another run.
    pub counts_from: Timestamp,
    pub resolution: Option<Resolution>,
}

/// How an interrupt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    Answered { value: Value, by: String, at: Timestamp },
    TimedOut { at: Timestamp },
}

impl Interrupt {
    pub fn is_open(&self) -> bool {
        self.resolution.is_none()
    }

    pub fn expires_at(&self) -> Option<Timestamp> {
        self.timeout_ms.map(|ms| self.counts_from.plus_ms(ms))
    }

    /// One line for lists: what a person would call this interrupt.
    pub fn title(&self) -> &str {
        let text = |pointer: &str| self.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match self.kind {
            Kind::Approval => text("/title"),
            Kind::Clarification => text("/questions/0/question"),
            Kind::ExternalEvent => text("/eventType"),
            Kind::Custom => text("/customKind"),
        }
    }

    /// The value that will be recorded for an answer, or why it does not count. The interrupt is open.
    pub(crate) fn judge(&self, answer: &Answer, now: Timestamp) -> Result<Value, Refusal> {
        check_size("the resume value", &answer.value, limits::RESUME_VALUE_BYTES_MAX)?;
        let value = match self.kind {
            Kind::Approval => approval::judge(&self.data, answer, now)?,
            Kind::Clarification => clarification::judge(&self.data, &answer.value)?,
            Kind::ExternalEvent => external_event::judge(&self.data, &answer.value)?,
            Kind::Custom => answer.value.clone(),
        };
        if let Some(wanted) = &self.resume_schema {
            schema::check(wanted, &answer.value)
                .map_err(|(path, message)| Refusal::invalid(format!("resumeValue{path}"), message))?;
        }
        Ok(value)
    }
}
