//! What a call hands out instead of a result, and what comes back. Names and meanings are those of the mailbox contract.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ResumeDecisionAction, ToolCallResumeMode};

/// What a tool, or a gate in front of it, returns instead of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuspendTicket {
    pub suspension: Suspension,
    pub pending: PendingToolCall,
    #[serde(default)]
    pub resume_mode: ToolCallResumeMode,
}

/// What is wanted, for whoever is to give it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    pub id: String,
    /// What to do, as front ends tell them apart: `approve`, `confirm` and the like.
    pub action: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
}

/// The call that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingToolCall {
    pub id: String,
    pub name: String,
    /// As the model gave them.
    pub arguments: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallResume {
    /// Told again under the same name, a decision is the same decision.
    pub decision_id: String,
    pub action: ResumeDecisionAction,
    #[serde(default)]
    pub result: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Unix milliseconds.
    pub updated_at: u64,
}

/// The arguments of a call that is given a decision: an object goes over them, member by member; anything else becomes
/// the member `decision`.
pub(super) fn with_decision(arguments: &Value, decision: &Value) -> Value {
    let mut merged = arguments.as_object().cloned().unwrap_or_default();
    match decision {
        Value::Object(members) => merged.extend(members.clone()),
        other => {
            merged.insert("decision".to_owned(), other.clone());
        }
    }
    Value::Object(merged)
}
