//! Governed gates: approvals that require a role or a scope, have their own decisions, and permit an override with
//! another role. They record denials. All other rules of approvals also apply to them.

use serde_json::{Map, Value, json};

use super::BadRequest;
use crate::Principal;
use crate::limits;
use crate::refusal::Refusal;

/// The members that make a gate a governed gate. A gate with one of them must satisfy the rules for all of them.
const GOVERNING_MEMBERS: [&str; 3] = ["gateId", "requiredRole", "requiredScope"];

pub(crate) fn is_governed(data: &Value) -> bool {
    GOVERNING_MEMBERS.iter().any(|member| data.get(member).is_some())
}

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    if !is_governed(data) {
        return Ok(());
    }
    if data.get("gateId").is_none() {
        return Err(BadRequest::new(
            "data.gateId",
            "is missing; a gate with requiredRole or requiredScope needs a gateId",
        ));
    }
    for member in GOVERNING_MEMBERS {
        check_name(data.get(member), &format!("data.{member}"))?;
    }
    if data.get("requiredRole").is_none() && data.get("requiredScope").is_none() {
        return Err(BadRequest::new("data.requiredRole", "is missing; give requiredRole or requiredScope"));
    }
    let actions = data.get("actions").and_then(Value::as_array).into_iter().flatten();
    let is_invalid = |action: &Value| !matches!(action.as_str(), Some("accept" | "reject" | "ask"));
    if let Some(place) = actions.into_iter().position(is_invalid) {
        let message = "cannot be offered by a governed gate; use accept, reject or ask";
        return Err(BadRequest::new(&format!("data.actions[{place}]"), message));
    }
    if data.get("quorum").is_some() && data.get("quorum") != data.get("requiredApprovals") {
        return Err(BadRequest::new("data.quorum", "differs from requiredApprovals"));
    }
    check_override(data)
}

fn check_name(name: Option<&Value>, field: &str) -> Result<(), BadRequest> {
    let max = limits::ROLE_CHARS_MAX;
    let Some(name) = name else { return Ok(()) };
    match name.as_str().map(|text| text.chars().count()) {
        Some(length) if (1..=max).contains(&length) => Ok(()),
        Some(_) | None => Err(BadRequest::new(field, format!("must be a text of 1 to {max} characters"))),
    }
}

fn check_override(data: &Value) -> Result<(), BadRequest> {
    let bypasses = match data.get("overrideBypassesQuorum") {
        None => false,
        Some(Value::Bool(bypasses)) => *bypasses,
        Some(_) => return Err(BadRequest::new("data.overrideBypassesQuorum", "must be true or false")),
    };
    let Some(given) = data.get("override") else {
        let message = "requires override";
        return if bypasses { Err(BadRequest::new("data.overrideBypassesQuorum", message)) } else { Ok(()) };
    };
    let members = given.as_object().filter(|members| members.contains_key("requiredRole"));
    let Some(members) = members else {
        return Err(BadRequest::new("data.override", "must be an object with a requiredRole"));
    };
    check_name(members.get("requiredRole"), "data.override.requiredRole")?;
    if members.get("audited").is_some_and(|audited| *audited != json!(true)) {
        return Err(BadRequest::new("data.override.audited", "must be true; overrides are always recorded"));
    }
    match members.keys().find(|name| !["requiredRole", "audited"].contains(&name.as_str())) {
        Some(name) => {
            Err(BadRequest::new(&format!("data.override.{name}"), "is not a member of an override"))
        }
        None => Ok(()),
    }
}

/// Rejects an answer of a principal without the required role or scope. Only roles and scopes of the credential count.
pub(super) fn check(data: &Value, who: &Principal, answer: &Value) -> Result<(), Refusal> {
    let overriding = data.get("override").filter(|_| is_override(answer));
    let needed = match overriding {
        Some(path) => vec![("role", &who.roles, path.get("requiredRole").unwrap_or(&Value::Null))],
        None => [("role", &who.roles, "requiredRole"), ("scope", &who.scopes, "requiredScope")]
            .into_iter()
            .filter_map(|(what, held, member)| Some((what, held, data.get(member)?)))
            .collect(),
    };
    let holds = |held: &[String], wanted: &Value| held.iter().any(|name| wanted == name.as_str());
    match needed.iter().find(|(_, held, wanted)| !holds(held, wanted)) {
        Some((what, _, wanted)) => {
            let name = &who.name;
            Err(Refusal::NotAuthorized(format!(
                "{name} may not decide this interrupt: it requires the {what} {wanted}"
            )))
        }
        // Only the data of a request that was not checked has neither member.
        None if needed.is_empty() => Err(Refusal::NotAuthorized(
            "the gate has no requiredRole and no requiredScope; set one of them".to_owned(),
        )),
        None => Ok(()),
    }
}

/// Returns whether the principal could decide, at least by an override.
pub(super) fn may_decide(data: &Value, who: &Principal) -> bool {
    let ways = [json!({}), json!({"override": true})];
    !is_governed(data) || ways.iter().any(|answer| check(data, who, answer).is_ok())
}

/// Returns the required roles and scopes as entries of an assignee list.
pub(super) fn entries(data: &Value) -> Vec<String> {
    let places = [
        ("role", data.get("requiredRole")),
        ("scope", data.get("requiredScope")),
        ("role", data.pointer("/override/requiredRole")),
    ];
    let named = places.into_iter().filter_map(|(what, name)| Some(format!("{what}:{}", name?.as_str()?)));
    named.collect()
}

/// Returns the name of the action that an answer attempts, in the form of a scope.
pub(super) fn attempted_action(answer: &Value) -> &'static str {
    if is_override(answer) { "approvals:override" } else { "approvals:respond" }
}

fn is_override(answer: &Value) -> bool {
    let says = |member: &str, word: &str| answer.get(member).and_then(Value::as_str) == Some(word);
    says("decision", "overridden")
        || says("action", "override")
        || answer.get("override") == Some(&json!(true))
}

/// Returns whether the gate permits an override.
pub(super) fn offers_override(data: &Value) -> bool {
    is_governed(data) && data.get("override").is_some()
}

/// Returns the answer with the members `action`, `decision` and `reason`. Clients may send only one of `action` and
/// `decision`, `override: true` for an override, and `feedback` instead of `reason`.
pub(super) fn normalize_answer(given: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    let action = action_of(given)?.to_owned();
    let mut answer = given.clone();
    answer.shift_remove("override");
    if !answer.contains_key("reason")
        && let Some(reason) = answer.shift_remove("feedback")
    {
        answer.insert("reason".to_owned(), reason);
    }
    let reason = answer.get("reason").map(|reason| reason.as_str().unwrap_or_default().trim());
    if answer.get("reason").is_some_and(|reason| !reason.is_string()) {
        return Err(Refusal::invalid("resumeValue.reason", "must be a string"));
    }
    if action == "override" && reason.is_none_or(str::is_empty) {
        return Err(Refusal::invalid("resumeValue.reason", "is required by an override"));
    }
    let decision = match action.as_str() {
        "accept" => Some("granted"),
        "reject" => Some("rejected"),
        "override" => Some("overridden"),
        _ => None,
    };
    if let Some(decision) = decision {
        answer.insert("decision".to_owned(), json!(decision));
    }
    answer.insert("action".to_owned(), json!(action));
    Ok(answer)
}

fn action_of(given: &Map<String, Value>) -> Result<&str, Refusal> {
    let decision = match given.get("decision").map(Value::as_str) {
        None => None,
        Some(Some("granted")) => Some("accept"),
        Some(Some("rejected")) => Some("reject"),
        Some(Some("overridden")) => Some("override"),
        Some(_) => {
            return Err(Refusal::invalid("resumeValue.decision", "must be granted, rejected or overridden"));
        }
    };
    let action = given.get("action").map(|action| action.as_str().unwrap_or_default());
    let chosen = match (decision, action) {
        (None, None) => return Err(Refusal::invalid("resumeValue.decision", "must be granted or rejected")),
        (Some(decision), Some(action)) if decision != action => {
            return Err(Refusal::invalid("resumeValue.action", "differs from decision"));
        }
        (Some(chosen), _) | (None, Some(chosen)) => chosen,
    };
    match given.get("override") {
        None | Some(Value::Bool(false)) => Ok(chosen),
        Some(Value::Bool(true)) if ["accept", "override"].contains(&chosen) => Ok("override"),
        Some(Value::Bool(true)) => {
            Err(Refusal::invalid("resumeValue.override", "is allowed only with the decision granted"))
        }
        Some(_) => Err(Refusal::invalid("resumeValue.override", "must be true or false")),
    }
}

/// Returns the answer that the resume schema checks: its decision is granted or rejected. An override counts as
/// granted.
pub(super) fn as_decision(answer: &Value) -> Value {
    let Some(Ok(mut members)) = answer.as_object().map(normalize_answer) else { return answer.clone() };
    members.shift_remove("action");
    if members.get("decision") == Some(&json!("overridden")) {
        members.insert("decision".to_owned(), json!("granted"));
    }
    Value::Object(members)
}
