//! What node code hands to `interrupt(…)`, also by its other name and in its other spelling.

use serde_json::{Map, Value};

use super::{Kind, approval, clarification, conversation, external_event, low_confidence, people};
use crate::limits;
use crate::refusal::check_size;
use crate::schema::Schema;

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub kind: Kind,
    /// Asked at most once per run. Left out, it is derived from run, node and count.
    pub key: Option<String>,
    pub data: Value,
    pub resume_schema: Option<Value>,
    pub timeout_ms: Option<u64>,
    /// An answer that the host gives itself, at once: only to turns of a conversation, and only for trying out.
    pub rehearsed: Option<Value>,
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

/// The members of a request, and what `suspend` calls them.
const SPELLINGS: [(&str, &str); 3] =
    [("kind", "reason"), ("key", "resumeKey"), ("resumeSchema", "answerSchema")];

impl Request {
    /// Every member that [`Self::from_json`] understands.
    pub const MEMBERS: [&'static str; 8] =
        ["kind", "reason", "key", "resumeKey", "data", "resumeSchema", "answerSchema", "timeoutMs"];

    pub fn new(kind: Kind, data: Value) -> Self {
        Self { kind, key: None, data, resume_schema: None, timeout_ms: None, rehearsed: None }
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
        if let Some(answer) = &self.rehearsed {
            self.check_rehearsal(answer)?;
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
        match self.kind.returns_at_once() || self.rehearsed.is_some() {
            true => people::check_unnamed(&self.data),
            false => people::check_data(&self.data),
        }
    }
}

impl Request {
    /// The host's own answer is held to what everybody's is.
    fn check_rehearsal(&self, answer: &Value) -> Result<(), BadRequest> {
        if self.kind != Kind::ConversationExchange {
            return Err(BadRequest::new("kind", "only turns of a conversation can be rehearsed"));
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

/// A member under one of its two names, and under which.
fn either<'a>(
    members: &'a Map<String, Value>,
    name: &'static str,
    alias: &'static str,
) -> Result<Option<(&'static str, &'a Value)>, BadRequest> {
    match (members.get(name), members.get(alias)) {
        (Some(one), Some(other)) if one != other => {
            Err(BadRequest::new(alias, format!("says something else than {name}")))
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
