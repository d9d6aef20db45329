//! Governed gates: approvals that require a role or a scope, in words of their own, with a way past them for whoever holds
//! another role. Whoever is turned away is written down. Everything else about them is as in every approval.

use serde_json::{Map, Value, json};

use super::BadRequest;
use crate::Principal;
use crate::limits;
use crate::refusal::Refusal;

/// Members of the data that make a gate a governed one: a gate that names any of them is held to all of them.
const MARKS: [&str; 3] = ["gateId", "requiredRole", "requiredScope"];

pub(crate) fn is_governed(data: &Value) -> bool {
    MARKS.iter().any(|mark| data.get(mark).is_some())
}

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    if !is_governed(data) {
        return Ok(());
    }
    if data.get("gateId").is_none() {
        return Err(BadRequest::new("data.gateId", "is missing: this gate requires a role or a scope"));
    }
    for mark in MARKS {
        check_name(data.get(mark), &format!("data.{mark}"))?;
    }
    if data.get("requiredRole").is_none() && data.get("requiredScope").is_none() {
        return Err(BadRequest::new("data.requiredRole", "is missing, and so is requiredScope: give one"));
    }
    let actions = data.get("actions").and_then(Value::as_array).into_iter().flatten();
    let strange = |action: &Value| !matches!(action.as_str(), Some("accept" | "reject" | "ask"));
    if let Some(place) = actions.into_iter().position(strange) {
        let message = "cannot be offered by a gate that requires a role or a scope";
        return Err(BadRequest::new(&format!("data.actions[{place}]"), message));
    }
    if data.get("quorum").is_some() && data.get("quorum") != data.get("requiredApprovals") {
        return Err(BadRequest::new("data.quorum", "says something else than requiredApprovals"));
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
        let message = "makes no sense without an override";
        return if bypasses { Err(BadRequest::new("data.overrideBypassesQuorum", message)) } else { Ok(()) };
    };
    let members = given.as_object().filter(|members| members.contains_key("requiredRole"));
    let Some(members) = members else {
        return Err(BadRequest::new("data.override", "must be an object with a requiredRole"));
    };
    check_name(members.get("requiredRole"), "data.override.requiredRole")?;
    if members.get("audited").is_some_and(|audited| *audited != json!(true)) {
        return Err(BadRequest::new(
            "data.override.audited",
            "must be true: an override is always on record",
        ));
    }
    match members.keys().find(|name| !["requiredRole", "audited"].contains(&name.as_str())) {
        Some(name) => {
            Err(BadRequest::new(&format!("data.override.{name}"), "is not a member of an override"))
        }
        None => Ok(()),
    }
}

/// Whether somebody holds what their answer needs. What nobody vouches for they do not hold.
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
                "{name} may not decide here, which takes the {what} {wanted}"
            )))
        }
        // Nothing is needed only where the data was never checked.
        None if needed.is_empty() => {
            Err(Refusal::NotAuthorized("this gate does not say who may decide".to_owned()))
        }
        None => Ok(()),
    }
}

/// Whether somebody could decide here at all, be it by an override.
pub(super) fn may_decide(data: &Value, who: &Principal) -> bool {
    let ways = [json!({}), json!({"override": true})];
    !is_governed(data) || ways.iter().any(|answer| check(data, who, answer).is_ok())
}

/// Whom a governed gate is for, as lists of people would say it.
pub(super) fn entries(data: &Value) -> Vec<String> {
    let places = [
        ("role", data.get("requiredRole")),
        ("scope", data.get("requiredScope")),
        ("role", data.pointer("/override/requiredRole")),
    ];
    let named = places.into_iter().filter_map(|(what, name)| Some(format!("{what}:{}", name?.as_str()?)));
    named.collect()
}

/// What an answer to a governed gate attempts, as a scope would be called.
pub(super) fn attempted(answer: &Value) -> &'static str {
    if is_override(answer) { "approvals:override" } else { "approvals:respond" }
}

fn is_override(answer: &Value) -> bool {
    let says = |member: &str, word: &str| answer.get(member).and_then(Value::as_str) == Some(word);
    says("decision", "overridden")
        || says("action", "override")
        || answer.get("override") == Some(&json!(true))
}

/// Whether the data of a gate names a way past it.
pub(super) fn offers_override(data: &Value) -> bool {
    is_governed(data) && data.get("override").is_some()
}

/// An answer with its action, whatever word it came with, and with its decision and reason under the gate's own names.
pub(super) fn in_actions(given: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    let action = action_of(given)?.to_owned();
    let mut words = given.clone();
    words.shift_remove("override");
    if !words.contains_key("reason")
        && let Some(reason) = words.shift_remove("feedback")
    {
        words.insert("reason".to_owned(), reason);
    }
    let reason = words.get("reason").map(|reason| reason.as_str().unwrap_or_default().trim());
    if words.get("reason").is_some_and(|reason| !reason.is_string()) {
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
        words.insert("decision".to_owned(), json!(decision));
    }
    words.insert("action".to_owned(), json!(action));
    Ok(words)
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
    let said = match (decision, action) {
        (None, None) => return Err(Refusal::invalid("resumeValue.decision", "must be granted or rejected")),
        (Some(decision), Some(action)) if decision != action => {
            return Err(Refusal::invalid("resumeValue.action", "says something else than decision"));
        }
        (Some(said), _) | (None, Some(said)) => said,
    };
    match given.get("override") {
        None | Some(Value::Bool(false)) => Ok(said),
        Some(Value::Bool(true)) if ["accept", "override"].contains(&said) => Ok("override"),
        Some(Value::Bool(true)) => Err(Refusal::invalid("resumeValue.override", "goes with granted only")),
        Some(_) => Err(Refusal::invalid("resumeValue.override", "must be true or false")),
    }
}

/// An answer as a resume schema sees it: a grant or a rejection. That a grant overrides the rules is the host's matter.
pub(super) fn in_decisions(answer: &Value) -> Value {
    let Some(Ok(mut words)) = answer.as_object().map(in_actions) else { return answer.clone() };
    words.shift_remove("action");
    if words.get("decision") == Some(&json!("overridden")) {
        words.insert("decision".to_owned(), json!("granted"));
    }
    Value::Object(words)
}
