//! The effect of a decision on a suspended tool call.

use serde_json::{Value, json};

use super::ticket::with_decision;
use super::{ResumeDecisionAction, ToolCall, ToolCallResume, ToolCallResumeMode};
use crate::interrupt::{Interrupt, Kind, Resolution};
use crate::refusal::Refusal;

/// The effect of a decision on a tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum Resumption {
    /// The call is made.
    Run {
        /// The arguments of the call.
        arguments: Value,
    },
    /// The call is not made; this is its result.
    Result(Value),
    /// The call is not made.
    Cancel {
        /// The reason for the agent.
        reason: String,
    },
}

impl ToolCall {
    /// Returns the effect of the answer to an interrupt. None if the interrupt is open.
    pub fn resumption(&self, asked: &Interrupt) -> Option<Resumption> {
        let value = match asked.resolution.as_ref()? {
            Resolution::TimedOut { .. } => {
                let reason = "no decision was made before the deadline; the call was not refused".to_owned();
                return Some(Resumption::Cancel { reason });
            }
            Resolution::Answered { value, .. } => value,
        };
        if asked.kind == Kind::Approval {
            return Some(self.resumption_of_approval(value));
        }
        if value.get("action").and_then(Value::as_str) != Some("resume") {
            return Some(Resumption::Cancel { reason: find_reason(value, "reason") });
        }
        let result = value.get("result").cloned().unwrap_or_default();
        let mode = self.interrupt.map(|waiting| waiting.mode).unwrap_or_default();
        Some(match mode {
            ToolCallResumeMode::ReplayToolCall => {
                Resumption::Run { arguments: self.effective_arguments().clone() }
            }
            ToolCallResumeMode::UseDecisionAsToolResult => Resumption::Result(result),
            ToolCallResumeMode::PassDecisionToTool => {
                Resumption::Run { arguments: with_decision(self.effective_arguments(), &result) }
            }
        })
    }

    fn resumption_of_approval(&self, value: &Value) -> Resumption {
        let edited = value.get("editedArtifactData").unwrap_or(&Value::Null);
        match value.get("action").and_then(Value::as_str) {
            Some("accept") => Resumption::Run { arguments: self.effective_arguments().clone() },
            Some("edit-accept") => match edited_arguments(edited) {
                Some(arguments) => Resumption::Run { arguments: arguments.clone() },
                None => Resumption::Result(edited["result"].clone()),
            },
            _ => Resumption::Cancel { reason: find_reason(value, "feedback") },
        }
    }
}

/// Returns the arguments in an edit of a call: the member `arguments`, otherwise the whole edit. None if the edit has a
/// `result`, which replaces the call.
pub(crate) fn edited_arguments(edited: &Value) -> Option<&Value> {
    match edited.get("result") {
        Some(_) => None,
        None => Some(edited.get("arguments").unwrap_or(edited)),
    }
}

fn find_reason(value: &Value, member: &str) -> String {
    let given =
        [member, "reason", "feedback", "comment"].into_iter().find_map(|name| value.get(name)?.as_str());
    given.filter(|given| !given.is_empty()).map_or_else(|| "the call was refused".to_owned(), str::to_owned)
}

impl ToolCallResume {
    /// Rejects a result with members that an approval does not read.
    pub fn check(&self, asked: &Interrupt) -> Result<(), Refusal> {
        let result = self.result.as_object().filter(|_| asked.kind == Kind::Approval);
        let mut names = result.into_iter().flat_map(|members| members.keys());
        match names.find(|name| !EDITS.contains(&name.as_str())) {
            Some(name) => {
                let message = "is unknown; use arguments or result";
                Err(Refusal::invalid(format!("result.{name}"), message))
            }
            None => Ok(()),
        }
    }

    /// Returns the answer to the interrupt that the call waits for.
    pub fn answer(&self, asked: &Interrupt) -> Value {
        let resume = self.action == ResumeDecisionAction::Resume;
        match asked.kind {
            Kind::Approval if resume && has_edits(&self.result) => {
                json!({ "action": "edit-accept", "editedArtifactData": self.result })
            }
            Kind::Approval if resume => json!({ "action": "accept" }),
            Kind::Approval => match &self.reason {
                Some(reason) => json!({ "action": "reject", "feedback": reason }),
                None => json!({ "action": "reject" }),
            },
            Kind::Clarification
            | Kind::ExternalEvent
            | Kind::Custom
            | Kind::ConversationStart
            | Kind::ConversationExchange
            | Kind::ConversationClose
            | Kind::LowConfidence => {
                let action = if resume { "resume" } else { "cancel" };
                let mut value = json!({ "action": action, "result": self.result });
                if let Some(reason) = &self.reason {
                    value["reason"] = json!(reason);
                }
                value
            }
        }
    }
}

/// The members of a result that an approval reads.
const EDITS: [&str; 2] = ["arguments", "result"];

/// Returns true if an approval edits the arguments of the call or gives its result.
fn has_edits(result: &Value) -> bool {
    EDITS.iter().any(|name| result.get(name).is_some())
}
