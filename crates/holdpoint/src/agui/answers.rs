//! Translates the payload of a front end into the answer to an interrupt. Pure; the core validates the answer.

use std::borrow::Cow;

use holdpoint_api::agui::{ResumeEntry, ResumeStatus};
use holdpoint_api::interrupts::{ApprovalAnswer, CallAnswer, ClarificationAnswer, EditedCall};
use holdpoint_core::agent::{ResumeDecisionAction, ToolCallResumeMode};
use holdpoint_core::{Interrupt, Resolution, canonical, repeats_answer, with_ignored};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::interrupts::{self, Edits, InterruptForm};
use crate::json::to_json;

/// The reason of a rejection that cancels an interrupt.
const CANCEL_REASON: &str = "cancelled in the front end";

/// The prefix of the ids of decisions that were made over AG-UI.
const DECISION_PREFIX: &str = "ag-ui:";

/// The members of a payload that each form reads. Other members are recorded as ignored.
const PERMISSION_MEMBERS: [&str; 3] = ["approved", "editedArgs", "reason"];
const OUTCOME_MEMBERS: [&str; 3] = ["approved", "result", "reason"];
const APPROVAL_MEMBERS: [&str; 4] = ["approved", "editedArtifactData", "feedback", "reason"];

/// The effect of cancelling an interrupt.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CancelEffect {
    Answer(Value),
    /// The interrupt cannot be declined: the run is cancelled.
    Run,
}

/// Returns the answer to an interrupt, or a description of the error in the payload.
pub(super) fn answer(asked: &Interrupt, payload: Option<&Value>) -> Result<Value, String> {
    let payload = payload.ok_or_else(|| "a resolved interrupt requires a payload".to_owned())?;
    match InterruptForm::of(asked) {
        InterruptForm::Permission { edits } => {
            Ok(with_ignored(permission(payload, edits)?, payload, &PERMISSION_MEMBERS))
        }
        InterruptForm::ProviderCall { edits } => provider_call(asked, payload, edits),
        InterruptForm::OutcomeUnknown => Ok(with_ignored(outcome(payload)?, payload, &OUTCOME_MEMBERS)),
        InterruptForm::Ticket { mode, .. } => ticket(asked, payload, mode),
        InterruptForm::ClientTool => Ok(resume(payload)),
        InterruptForm::Approval { edits, .. } => approval(payload, edits),
        InterruptForm::Clarification => Ok(match payload.get("answers") {
            Some(Value::Object(_) | Value::Array(_)) => payload.clone(),
            Some(_) | None => to_json(&ClarificationAnswer { answers: Cow::Borrowed(payload) }),
        }),
        // `true` accepts the decision of the agent; any other payload replaces it.
        InterruptForm::LowConfidence
            if [Some(payload), payload.get("approved")].contains(&Some(&Value::Bool(true))) =>
        {
            Ok(accept())
        }
        InterruptForm::ExternalEvent
        | InterruptForm::Conversation
        | InterruptForm::LowConfidence
        | InterruptForm::Custom => Ok(payload.clone()),
    }
}

pub(super) fn cancel(asked: &Interrupt) -> CancelEffect {
    match InterruptForm::of(asked) {
        InterruptForm::Permission { .. }
        | InterruptForm::ProviderCall { .. }
        | InterruptForm::OutcomeUnknown
        | InterruptForm::Approval { rejects: true, .. } => CancelEffect::Answer(reject(Some(CANCEL_REASON))),
        InterruptForm::Ticket { .. } | InterruptForm::ClientTool => {
            CancelEffect::Answer(decline(CANCEL_REASON))
        }
        InterruptForm::Approval { rejects: false, .. }
        | InterruptForm::Clarification
        | InterruptForm::ExternalEvent
        | InterruptForm::Conversation
        | InterruptForm::LowConfidence
        | InterruptForm::Custom => CancelEffect::Run,
    }
}

fn permission(payload: &Value, edits: Edits) -> Result<Value, String> {
    let approved = approved(payload)?;
    match payload.get("editedArgs") {
        _ if !approved => rejected(payload, "reason"),
        None => Ok(accept()),
        Some(_) if edits == Edits::Forbidden => {
            Err("editedArgs is not allowed for this interrupt".to_owned())
        }
        Some(edited @ Value::Object(_)) => {
            let arguments = Some(Cow::Borrowed(edited));
            Ok(accept_edited(&to_json(&EditedCall { arguments, result: None })))
        }
        Some(_) => Err("editedArgs must be an object".to_owned()),
    }
}

/// Translates an answer to a call of a provider. The answers to an approval of a workflow are also valid.
fn provider_call(asked: &Interrupt, payload: &Value, edits: Edits) -> Result<Value, String> {
    let edited = match payload.get("editedArgs") {
        None => return approval(payload, edits),
        Some(edited) => edited,
    };
    // The checks of the permission of a call apply; only the form of the edit differs.
    let mut answer = permission(payload, edits)?;
    if answer.get("editedArtifactData").is_some() {
        let tool = asked.data.pointer("/artifactData/tool").cloned().unwrap_or_default();
        let call = [("tool".to_owned(), tool), ("input".to_owned(), edited.clone())];
        answer["editedArtifactData"] = Value::Object(call.into_iter().collect());
    }
    Ok(with_ignored(answer, payload, &PERMISSION_MEMBERS))
}

fn outcome(payload: &Value) -> Result<Value, String> {
    let approved = approved(payload)?;
    match payload.get("result") {
        _ if !approved => rejected(payload, "reason"),
        None => Ok(accept()),
        Some(result) => {
            let result = Some(Cow::Borrowed(result));
            Ok(accept_edited(&to_json(&EditedCall { arguments: None, result })))
        }
    }
}

/// Translates an answer to a suspended tool call. In the mode `ReplayToolCall` the payload must be a clear
/// yes or no, and a yes repeats the call. In other modes the tool gets the payload if it matches the response schema.
fn ticket(asked: &Interrupt, payload: &Value, mode: ToolCallResumeMode) -> Result<Value, String> {
    let given = ["approved", "confirmed"].iter().find_map(|word| payload.get(word)?.as_bool());
    let given = payload.as_bool().or(given);
    let decides = mode == ToolCallResumeMode::ReplayToolCall;
    if let (true, Some(false)) = (decides, given) {
        let reason = payload.get("reason").and_then(Value::as_str).unwrap_or("it was declined");
        return Ok(decline(reason));
    }
    if decides && given.is_none() {
        return Err(
            "must be true or false, or an object with a boolean member approved or confirmed".to_owned()
        );
    }
    // Not checked if the payload decides: a yes may be a boolean or an object, independent of the schema.
    if let Some(schema) = interrupts::response_schema(asked).filter(|_| !decides) {
        holdpoint_core::compile_checker(&schema).and_then(|check| check(payload))?;
    }
    Ok(resume(payload))
}

fn approval(payload: &Value, edits: Edits) -> Result<Value, String> {
    // A payload with an action is an answer in the form of Holdpoint: refine, override and others.
    if payload.get("action").is_some_and(Value::is_string) {
        return Ok(payload.clone());
    }
    let approved = match payload {
        Value::Bool(approved) => *approved,
        _ => approved(payload)?,
    };
    let answer = match payload.get("editedArtifactData") {
        _ if !approved => rejected(payload, "feedback")?,
        None => accept(),
        Some(_) if edits == Edits::Forbidden => {
            return Err("editedArtifactData is not allowed for this interrupt".to_owned());
        }
        Some(edited) => accept_edited(edited),
    };
    Ok(with_ignored(answer, payload, &APPROVAL_MEMBERS))
}

fn approved(payload: &Value) -> Result<bool, String> {
    let given = payload.get("approved").and_then(Value::as_bool);
    given.ok_or_else(|| "approved must be true or false".to_owned())
}

fn rejected(payload: &Value, why: &str) -> Result<Value, String> {
    match payload.get(why).or_else(|| payload.get("reason")) {
        None => Ok(reject(None)),
        Some(Value::String(reason)) => Ok(reject(Some(reason))),
        Some(_) => Err(format!("{why} must be a string")),
    }
}

fn accept() -> Value {
    to_json(&ApprovalAnswer { action: "accept".into(), ..Default::default() })
}

fn accept_edited(edited: &Value) -> Value {
    let edited_artifact_data = Some(Cow::Borrowed(edited));
    to_json(&ApprovalAnswer { action: "edit-accept".into(), edited_artifact_data, ..Default::default() })
}

fn reject(feedback: Option<&str>) -> Value {
    let feedback = feedback.map(Cow::Borrowed);
    to_json(&ApprovalAnswer { action: "reject".into(), feedback, ..Default::default() })
}

/// Returns the answer that gives a tool call its result.
pub(super) fn resume(result: &Value) -> Value {
    let result = Some(Cow::Borrowed(result));
    to_json(&CallAnswer { action: ResumeDecisionAction::Resume, result, reason: None })
}

fn decline(reason: &str) -> Value {
    let reason = Some(Cow::Borrowed(reason));
    to_json(&CallAnswer { action: ResumeDecisionAction::Cancel, result: None, reason })
}

/// Returns the prefix of the id of a decision: a hash of the entry. The prefix identifies a repeated entry. If two
/// clients send the same entry at the same time, a random suffix distinguishes their decisions.
pub(super) fn decision_prefix(entry: &ResumeEntry) -> String {
    let members = [
        ("interruptId", Value::from(entry.interrupt_id.as_str())),
        ("status", to_json(&entry.status)),
        ("payload", to_json(&entry.payload)),
    ];
    let given = members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let hash = Sha256::digest(canonical(&Value::Object(given)).as_bytes());
    format!("{DECISION_PREFIX}{}:", holdpoint_core::hex(&hash))
}

/// Returns whether an interrupt was already answered with the content of the entry, over AG-UI or another protocol.
pub(super) fn is_repeated(asked: &Interrupt, entry: &ResumeEntry) -> bool {
    let Some(Resolution::Answered { value, decision, .. }) = &asked.resolution else { return false };
    // A decision of AG-UI must have the same entry. For other protocols, an equivalent answer is sufficient.
    if let Some(made) = decision.as_ref().filter(|made| made.starts_with(DECISION_PREFIX)) {
        return made.starts_with(&decision_prefix(entry));
    }
    match entry.status {
        ResumeStatus::Cancelled => {
            let action = value.get("action").and_then(Value::as_str);
            matches!(action, Some("reject" | "cancel"))
        }
        ResumeStatus::Resolved => {
            let given = answer(asked, entry.payload.as_ref().map(|given| &given.0));
            given.is_ok_and(|given| repeats_answer(value, &given))
        }
    }
}

#[cfg(test)]
mod tests;
