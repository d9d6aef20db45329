//! Requests to open an interrupt. `interrupt(…)` and `suspend(…)` of node code have different names for three members;
//! both forms are read.

use serde_json::{Map, Value};

use super::{Kind, approval, assignee_rules, clarification, conversation, external_event, low_confidence};
use crate::limits;
use crate::refusal::check_size;
use crate::schema::Schema;

/// A request to open an interrupt.
#[derive(Clone, Debug, PartialEq)]
pub struct InterruptRequest {
    /// The kind of the interrupt.
    pub kind: Kind,
    /// The key, which opens at most one interrupt of a run. Without it, the key is derived from the run, the node and a
    /// count.
    pub key: Option<String>,
    /// The payload to show.
    pub data: Value,
    /// The JSON Schema of the answer.
    pub resume_schema: Option<Value>,
    /// The time until the deadline.
    pub timeout_ms: Option<u64>,
    /// An answer that the host gives immediately. Only for tests of workflows, and only for exchanges of a
    /// conversation.
    pub simulated_answer: Option<Value>,
}

/// The error of an invalid field in a request to open an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BadRequest {
    /// The field, relative to the request.
    pub field: String,
    /// The message.
    pub message: String,
}

impl BadRequest {
    pub(crate) fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into() }
    }
}

/// The members of a request, and their names in `suspend`.
const SPELLINGS: [(&str, &str); 3] =
    [("kind", "reason"), ("key", "resumeKey"), ("resumeSchema", "answerSchema")];

impl InterruptRequest {
    /// The members that [`Self::from_json`] accepts.
    pub const MEMBERS: [&'static str; 8] =
        ["kind", "reason", "key", "resumeKey", "data", "resumeSchema", "answerSchema", "timeoutMs"];

    /// Creates a request with only a kind and data.
    pub fn new(kind: Kind, data: Value) -> Self {
        Self { kind, key: None, data, resume_schema: None, timeout_ms: None, simulated_answer: None }
    }

    /// Reads `{kind, key, data, resumeSchema, timeoutMs}`, or `{reason, resumeKey, data, answerSchema, timeoutMs}`.
    pub fn from_json(members: &Map<String, Value>) -> Result<Self, BadRequest> {
        if let Some(name) = members.keys().find(|name| !Self::MEMBERS.contains(&name.as_str())) {
            return Err(BadRequest::new(name, "is not a member of an interrupt"));
        }
        let [kind, key, resume_schema] = SPELLINGS.map(|(name, alias)| either(members, name, alias));
        let (_, kind) = kind?.ok_or_else(|| BadRequest::new("kind", "is missing"))?;
        let known = || Kind::ALL.map(Kind::as_str).join(", ");
        let kind = kind.as_str().and_then(Kind::parse).ok_or_else(|| {
            BadRequest::new("kind", format!("{kind} is not a kind of interrupt; known: {}", known()))
        })?;
        let key = match key? {
            None => None,
            Some((_, Value::String(key))) => Some(key.clone()),
            Some((name, _)) => return Err(BadRequest::new(name, "must be a string")),
        };
        let timeout_ms = match members.get("timeoutMs") {
            None => None,
            Some(ms) => Some(ms.as_u64().ok_or_else(|| {
                BadRequest::new("timeoutMs", "must be a whole number of milliseconds, 0 or more")
            })?),
        };
        let data = members.get("data").cloned().unwrap_or(Value::Null);
        let resume_schema = resume_schema?.map(|(_, schema)| schema.clone());
        Ok(Self { key, resume_schema, timeout_ms, ..Self::new(kind, data) })
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
            Schema::register(wanted).map_err(|why| BadRequest::new("resumeSchema", why))?;
        }
        if let Some(answer) = &self.simulated_answer {
            self.check_simulated_answer(answer)?;
        }
        match self.kind {
            Kind::Approval => approval::check_data(&self.data),
            Kind::Clarification => clarification::check_data(&self.data),
            Kind::ExternalEvent => external_event::check_data(&self.data),
            Kind::Custom => check_custom(&self.data),
            Kind::ConversationStart | Kind::ConversationClose => conversation::check_data(&self.data),
            Kind::ConversationExchange => conversation::check_exchange(&self.data),
            Kind::LowConfidence => low_confidence::check_data(&self.data),
        }?;
        match self.kind.returns_at_once() || self.simulated_answer.is_some() {
            true => assignee_rules::check_no_assignees(&self.data),
            false => assignee_rules::check_data(&self.data),
        }
    }
}

impl InterruptRequest {
    /// Checks a simulated answer with the schemas that apply to every answer.
    fn check_simulated_answer(&self, answer: &Value) -> Result<(), BadRequest> {
        if self.kind != Kind::ConversationExchange {
            return Err(BadRequest::new(
                "kind",
                "a simulated answer is allowed only for an exchange of a conversation",
            ));
        }
        let schemas = [
            ("resumeSchema", self.resume_schema.as_ref()),
            ("data.outcomeSchema", self.data.get("outcomeSchema")),
        ];
        for (field, schema) in schemas {
            let Some(schema) = schema else { continue };
            let schema = Schema::register(schema).map_err(|why| BadRequest::new(field, why))?;
            schema.check(answer).map_err(|(_, why)| BadRequest::new(field, why))?;
        }
        Ok(())
    }
}

/// Returns a member, and the name that the request uses for it. Rejects different values under the two names.
fn either<'a>(
    members: &'a Map<String, Value>,
    name: &'static str,
    alias: &'static str,
) -> Result<Option<(&'static str, &'a Value)>, BadRequest> {
    match (members.get(name), members.get(alias)) {
        (Some(one), Some(other)) if one != other => {
            Err(BadRequest::new(alias, format!("differs from {name}")))
        }
        (Some(value), _) => Ok(Some((name, value))),
        (None, Some(value)) => Ok(Some((alias, value))),
        (None, None) => Ok(None),
    }
}

fn check_custom(data: &Value) -> Result<(), BadRequest> {
    match data.get("customKind").and_then(Value::as_str) {
        Some(kind) if !kind.is_empty() => Ok(()),
        _ => Err(BadRequest::new("data.customKind", "must be a non-empty string")),
    }
}
