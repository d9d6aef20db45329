//! What a front end says to an interrupt, in our words. Pure; whether it counts is judged by the core.

use std::borrow::Cow;

use holdpoint_api::agui::{ResumeEntry, ResumeStatus};
use holdpoint_api::interrupts::{ApprovalAnswer, CallAnswer, ClarificationAnswer, EditedCall};
use holdpoint_core::agent::{ResumeDecisionAction, ToolCallResumeMode};
use holdpoint_core::{Interrupt, Resolution, canonical, repeats_answer, with_ignored};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::interrupts::{self, Form};
use crate::json::to_json;

/// Why somebody who only closes a dialog says no.
const CANCELLED: &str = "cancelled in the front end";

/// How names of decisions begin that were made here.
const HERE: &str = "ag-ui:";

/// The members of a payload that each form reads. Other members are recorded as ignored.
const PERMISSION: [&str; 3] = ["approved", "editedArgs", "reason"];
const OUTCOME: [&str; 3] = ["approved", "result", "reason"];
const APPROVAL: [&str; 4] = ["approved", "editedArtifactData", "feedback", "reason"];

/// What giving up on a question does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cancel {
    Answer(Value),
    /// There is no way to decline: the run ends.
    Run,
}

/// The answer to a question; else what is wrong with the payload.
pub(super) fn answer(asked: &Interrupt, payload: Option<&Value>) -> Result<Value, String> {
    let payload = payload.ok_or_else(|| "a resolved interrupt needs a payload".to_owned())?;
    match Form::of(asked) {
        Form::Permission { edits } => Ok(with_ignored(permission(payload, edits)?, payload, &PERMISSION)),
        Form::OutcomeUnknown => Ok(with_ignored(outcome(payload)?, payload, &OUTCOME)),
        Form::Ticket { mode, .. } => ticket(asked, payload, mode),
        Form::ClientTool => Ok(resume(payload)),
        Form::Approval { edits, .. } => approval(payload, edits),
        Form::Clarification => Ok(match payload.get("answers") {
            Some(Value::Object(_) | Value::Array(_)) => payload.clone(),
            Some(_) | None => to_json(&ClarificationAnswer { answers: Cow::Borrowed(payload) }),
        }),
        // A yes lets the agent's decision stand; anything else is decided instead.
        Form::LowConfidence
            if [Some(payload), payload.get("approved")].contains(&Some(&Value::Bool(true))) =>
        {
            Ok(accept())
        }
        Form::ExternalEvent | Form::Conversation | Form::LowConfidence | Form::Custom => Ok(payload.clone()),
    }
}

pub(super) fn cancel(asked: &Interrupt) -> Cancel {
    match Form::of(asked) {
        Form::Permission { .. } | Form::OutcomeUnknown | Form::Approval { rejects: true, .. } => {
            Cancel::Answer(reject(Some(CANCELLED)))
        }
        Form::Ticket { .. } | Form::ClientTool => Cancel::Answer(decline(CANCELLED)),
        Form::Approval { rejects: false, .. }
        | Form::Clarification
        | Form::ExternalEvent
        | Form::Conversation
        | Form::LowConfidence
        | Form::Custom => Cancel::Run,
    }
}

fn permission(payload: &Value, edits: bool) -> Result<Value, String> {
    let approved = approved(payload)?;
    match payload.get("editedArgs") {
        _ if !approved => rejected(payload, "reason"),
        None => Ok(accept()),
        Some(_) if !edits => Err("editedArgs is not offered here".to_owned()),
        Some(edited @ Value::Object(_)) => {
            let arguments = Some(Cow::Borrowed(edited));
            Ok(accept_edited(&to_json(&EditedCall { arguments, result: None })))
        }
        Some(_) => Err("editedArgs must be an object".to_owned()),
    }
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

/// Where a yes makes the call, a no must not, and neither may anything else; elsewhere the tool is told what was said,
/// provided that it is what the front end was told to say.
fn ticket(asked: &Interrupt, payload: &Value, mode: ToolCallResumeMode) -> Result<Value, String> {
    let said = ["approved", "confirmed"].iter().find_map(|word| payload.get(word)?.as_bool());
    let said = payload.as_bool().or(said);
    let decides = mode == ToolCallResumeMode::ReplayToolCall;
    if let (true, Some(false)) = (decides, said) {
        let reason = payload.get("reason").and_then(Value::as_str).unwrap_or("it was declined");
        return Ok(decline(reason));
    }
    if decides && said.is_none() {
        return Err("it must say true or false, or have a member approved or confirmed that does".to_owned());
    }
    // A yes may come alone or in an object, whichever of them is shown.
    if let Some(schema) = interrupts::shown_schema(asked).filter(|_| !decides) {
        holdpoint_core::checker(&schema).and_then(|check| check(payload))?;
    }
    Ok(resume(payload))
}

fn approval(payload: &Value, edits: bool) -> Result<Value, String> {
    // Whoever knows our words may use them: refine, override and the like.
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
        Some(_) if !edits => return Err("editedArtifactData is not offered here".to_owned()),
        Some(edited) => accept_edited(edited),
    };
    Ok(with_ignored(answer, payload, &APPROVAL))
}

fn approved(payload: &Value) -> Result<bool, String> {
    let said = payload.get("approved").and_then(Value::as_bool);
    said.ok_or_else(|| "approved must be true or false".to_owned())
}

fn rejected(payload: &Value, why: &str) -> Result<Value, String> {
    match payload.get(why).or_else(|| payload.get("reason")) {
        None => Ok(reject(None)),
        Some(Value::String(reason)) => Ok(reject(Some(reason))),
        Some(_) => Err(format!("{why} must be a text")),
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

/// The answer that gives a tool call its result.
pub(super) fn resume(result: &Value) -> Value {
    let result = Some(Cow::Borrowed(result));
    to_json(&CallAnswer { action: ResumeDecisionAction::Resume, result, reason: None })
}

fn decline(reason: &str) -> Value {
    let reason = Some(Cow::Borrowed(reason));
    to_json(&CallAnswer { action: ResumeDecisionAction::Cancel, result: None, reason })
}

/// What a decision is called that was made here, but for its end, which is another one each time: the same entry said
/// again is known by this, and two who say it at once are still two.
pub(super) fn name(entry: &ResumeEntry) -> String {
    let members = [
        ("interruptId", Value::from(entry.interrupt_id.as_str())),
        ("status", to_json(&entry.status)),
        ("payload", to_json(&entry.payload)),
    ];
    let said = members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let hash = Sha256::digest(canonical(&Value::Object(said)).as_bytes());
    format!("{HERE}{}:", holdpoint_core::hex(&hash))
}

/// Whether an interrupt was answered with what the entry says, here or anywhere else.
pub(super) fn is_said_again(asked: &Interrupt, entry: &ResumeEntry) -> bool {
    let Some(Resolution::Answered { value, decision, .. }) = &asked.resolution else { return false };
    // Said here, it was said in these words or in others; said elsewhere, what it means counts.
    if let Some(made) = decision.as_ref().filter(|made| made.starts_with(HERE)) {
        return made.starts_with(&name(entry));
    }
    match entry.status {
        ResumeStatus::Cancelled => {
            let action = value.get("action").and_then(Value::as_str);
            matches!(action, Some("reject" | "cancel"))
        }
        ResumeStatus::Resolved => {
            let said = answer(asked, entry.payload.as_ref().map(|given| &given.0));
            said.is_ok_and(|said| repeats_answer(value, &said))
        }
    }
}

#[cfg(test)]
mod tests;
