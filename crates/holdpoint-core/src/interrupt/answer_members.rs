//! The members of an answer: those that the interrupt reads, those that are recorded as ignored, and those that become
//! outputs of the gate.

use serde_json::{Map, Value};

use super::{InterruptRequest, Kind, is_governed};
use crate::refusal::Refusal;
use crate::schema::is_instant;

/// The member of a recorded answer that contains the members which the kind of the interrupt does not read.
pub(crate) const IGNORED: &str = "ignored";

/// Members that an approval reads, in addition to `decidedAt` and those that a resume schema names.
const APPROVAL_MEMBERS: [&str; 11] = [
    "action",
    "decision",
    "feedback",
    "comment",
    "reason",
    "refineFeedback",
    "editedArtifactData",
    "question",
    "decidedBy",
    "voter",
    "digest",
];

/// Members that a clarification reads.
const CLARIFICATION_MEMBERS: [&str; 4] = ["answers", "decidedBy", "voter", "digest"];

/// Members that only the host writes.
const HOST_MEMBERS: [&str; 5] = ["quorum", "actedBy", "claimedAt", "decidedAt", IGNORED];

/// Members of a recorded approval that are outputs of its gate, in addition to those that a resume schema names.
const OUTPUT_MEMBERS: [&str; 13] = [
    "action",
    "decision",
    "feedback",
    "comment",
    "reason",
    "refineFeedback",
    "editedArtifactData",
    "decidedBy",
    "decidedAt",
    "claimedAt",
    "actedBy",
    "voter",
    "quorum",
];

/// Rejects a `decidedAt` of the client that is not an instant.
pub(super) fn check_claimed_instant(answer: &Map<String, Value>) -> Result<(), Refusal> {
    match answer.get("decidedAt") {
        None => Ok(()),
        Some(Value::String(at)) if is_instant(at) => Ok(()),
        Some(_) => {
            let message = "must be an instant such as 2026-05-01T10:00:00Z, or be left out";
            Err(Refusal::invalid("resumeValue.decidedAt", message))
        }
    }
}

/// Moves members that an approval does not read to `ignored`. The client's `decidedAt` becomes `claimedAt`.
pub(super) fn move_unknown_to_ignored(answer: &mut Map<String, Value>, resume_schema: Option<&Value>) {
    let claimed = answer.shift_remove("decidedAt");
    let action = answer.get("action").and_then(Value::as_str);
    let (edits, refines) = (action == Some("edit-accept"), action == Some("refine"));
    let known = |name: &str| {
        !HOST_MEMBERS.contains(&name)
            && (APPROVAL_MEMBERS.contains(&name) || names(resume_schema).any(|property| property == name))
            && (edits || name != "editedArtifactData")
            && (refines || name != "refineFeedback")
    };
    let ignored = take_unknown(answer, known);
    answer.extend(claimed.map(|at| ("claimedAt".to_owned(), at)));
    record_ignored(answer, ignored);
}

/// Returns the members of an answer that a clarification does not read.
pub(super) fn ignored_by_clarification(answer: &Value) -> Map<String, Value> {
    let mut members = answer.as_object().cloned().unwrap_or_default();
    take_unknown(&mut members, |name| CLARIFICATION_MEMBERS.contains(&name))
}

/// Returns the answer that a protocol derived from a payload. The member `ignored` contains the members of the payload
/// that the protocol does not read.
pub fn with_ignored(mut answer: Value, payload: &Value, read: &[&str]) -> Value {
    let mut members = payload.as_object().cloned().unwrap_or_default();
    let ignored = take_unknown(&mut members, |name| read.contains(&name));
    if let Value::Object(answer) = &mut answer {
        record_ignored(answer, ignored);
    }
    answer
}

/// Returns whether an answer repeats a recorded one. The host adds members to the record and moves others, so the
/// record must contain each member of the answer, and may contain more.
pub fn repeats_answer(recorded: &Value, again: &Value) -> bool {
    let (Value::Object(recorded), Value::Object(again)) = (recorded, again) else { return recorded == again };
    let ignored = recorded.get(IGNORED);
    let is_recorded = |name: &str, value: &Value| {
        let claimed = recorded.get("claimedAt").filter(|_| name == "decidedAt");
        [recorded.get(name), claimed, ignored.and_then(|members| members.get(name))].contains(&Some(value))
    };
    let all_ignored = |value: &Value| {
        let members = value.as_object().zip(ignored.and_then(Value::as_object));
        members.is_some_and(|(sent, known)| sent.iter().all(|(name, value)| known.get(name) == Some(value)))
    };
    again.iter().all(|(name, value)| is_recorded(name, value) || (name == IGNORED && all_ignored(value)))
}

/// Returns a recorded approval as an answer that can be sent again: without the members that the host added.
pub fn as_answer(recorded: &Value) -> Value {
    let mut answer = recorded.clone();
    if let Value::Object(members) = &mut answer {
        members.retain(|name, _| !["quorum", "actedBy"].contains(&name.as_str()));
        if let Some(claimed) = members.shift_remove("claimedAt") {
            members.insert("decidedAt".to_owned(), claimed);
        }
        // Earlier versions recorded the `decidedAt` of the client without a check.
        if check_claimed_instant(members).is_err() {
            members.shift_remove("decidedAt");
        }
    }
    answer
}

/// Removes unknown members from the answer and returns them, with those that a protocol already recorded as ignored.
fn take_unknown(answer: &mut Map<String, Value>, known: impl Fn(&str) -> bool) -> Map<String, Value> {
    let mut ignored = match answer.shift_remove(IGNORED) {
        Some(Value::Object(members)) => members,
        Some(other) => Map::from_iter([(IGNORED.to_owned(), other)]),
        None => Map::new(),
    };
    let unknown: Vec<String> = answer.keys().filter(|name| !known(name)).cloned().collect();
    for name in unknown {
        let value = answer.shift_remove(&name).unwrap_or_default();
        ignored.entry(name).or_insert(value);
    }
    ignored
}

pub(super) fn record_ignored(answer: &mut Map<String, Value>, ignored: Map<String, Value>) {
    if !ignored.is_empty() {
        answer.insert(IGNORED.to_owned(), Value::Object(ignored));
    }
}

/// Returns the members that `properties` or `required` of a resume schema name.
fn names(schema: Option<&Value>) -> impl Iterator<Item = &str> {
    let member = move |name: &str| schema.and_then(|schema| schema.get(name));
    let properties = member("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let required = member("required").and_then(Value::as_array).into_iter().flatten();
    properties.map(String::as_str).chain(required.filter_map(Value::as_str))
}

/// The outputs of a gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GateOutputs {
    /// The outputs by name.
    pub outputs: Map<String, Value>,
    /// Names of outputs that do not become variables: the answer, not the definition, determines whether they exist.
    pub unmapped: Vec<String>,
}

impl InterruptRequest {
    /// Returns the outputs of the gate that made this request, for a recorded answer. They are a closed set of members.
    pub fn outputs(&self, answer: &Value) -> GateOutputs {
        let is_output = |name: &str| match self.kind {
            Kind::Approval => {
                OUTPUT_MEMBERS.contains(&name)
                    || (!HOST_MEMBERS.contains(&name)
                        && names(self.resume_schema.as_ref()).any(|one| one == name))
            }
            Kind::Clarification => ["answers", "actedBy"].contains(&name),
            Kind::ExternalEvent
            | Kind::Custom
            | Kind::ConversationStart
            | Kind::ConversationExchange
            | Kind::ConversationClose
            | Kind::LowConfidence => false,
        };
        let members = answer.as_object().into_iter().flatten();
        let outputs: Map<String, Value> = members
            .filter(|(name, _)| is_output(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let unmapped = outputs.keys().filter(|name| !self.maps(name)).cloned().collect();
        GateOutputs { outputs, unmapped }
    }

    /// Returns whether an output becomes a variable. This depends only on the definition.
    fn maps(&self, output: &str) -> bool {
        let offers = |action: &str| {
            let actions = self.data.get("actions").and_then(Value::as_array);
            actions.into_iter().flatten().any(|offered| offered == action)
        };
        if self.kind == Kind::Clarification {
            return output == "answers";
        }
        match output {
            "action" | "decidedBy" | "decidedAt" | "quorum" => true,
            "decision" => is_governed(&self.data),
            "editedArtifactData" => offers("edit") || offers("edit-accept"),
            "refineFeedback" => offers("refine"),
            _ => false,
        }
    }
}
