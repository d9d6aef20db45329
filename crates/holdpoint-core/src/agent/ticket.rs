//! The ticket that suspends a tool call, and the decision that resumes it. Names and meanings follow the mailbox
//! contract.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ResumeDecisionAction, ToolCallResumeMode};

/// The value that a tool, or a permission check before it, returns instead of a result to suspend the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuspendTicket {
    /// The request to the approver.
    pub suspension: Suspension,
    /// The call that waits.
    pub pending: PendingToolCall,
    /// The effect of the decision on the call.
    #[serde(default)]
    pub resume_mode: ToolCallResumeMode,
}

/// The request to the approver of a suspended call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    /// The id of the ticket.
    pub id: String,
    /// The requested action, such as `approve` or `confirm`. Front ends select a view by it.
    pub action: String,
    /// The text for the approver.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Data that the front end needs to show the request.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Value>,
}

/// A suspended tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingToolCall {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments from the model.
    pub arguments: Value,
}

/// The decision about a suspended call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallResume {
    /// The id of the decision. A repetition with the same id has no further effect.
    pub decision_id: String,
    /// Resume or cancel.
    pub action: ResumeDecisionAction,
    /// The result for the call, or edits of its arguments.
    #[serde(default)]
    pub result: Value,
    /// The reason of a cancellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time of the decision in Unix milliseconds.
    pub updated_at: u64,
}

/// Returns the arguments of a call merged with a decision. The members of an object replace arguments of the same name;
/// any other value becomes the member `decision`.
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
