//! Approvals: which actions a gate offers and what each needs to count. Quorums and questions are not offered yet,
//! and a gate that wants them is refused when it is registered, never quietly weakened.

use serde_json::{Value, json};

use super::{Answer, BadRequest};
use crate::ids::Timestamp;
use crate::refusal::Refusal;

/// What a definition may offer; `edit` and `edit-accept` are two spellings of one offer.
const OFFERS: [&str; 5] = ["accept", "reject", "refine", "edit", "edit-accept"];

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    for field in ["artifactId", "artifactType", "title"] {
        if data.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(BadRequest::new(&format!("data.{field}"), "must be a non-empty string"));
        }
    }
    check_actions(data.get("actions"))?;
    if let Some(required) = data.get("requiredApprovals")
        && required.as_u64() != Some(1)
    {
        return Err(BadRequest::new("data.requiredApprovals", "only 1 is supported by this version"));
    }
    if let Some(list) = data.get("approversList")
        && !is_string_array(list)
    {
        return Err(BadRequest::new("data.approversList", "must be an array of strings"));
    }
    Ok(())
}

fn check_actions(actions: Option<&Value>) -> Result<(), BadRequest> {
    let Some(actions) = actions.and_then(Value::as_array).filter(|actions| !actions.is_empty()) else {
        return Err(BadRequest::new("data.actions", "must be a non-empty array"));
    };
    for (index, action) in actions.iter().enumerate() {
        let known = action.as_str().is_some_and(|name| OFFERS.contains(&name));
        if !known {
            let message = format!("{action} is not one of {}", OFFERS.join(", "));
            return Err(BadRequest::new(&format!("data.actions[{index}]"), message));
        }
    }
    Ok(())
}

fn is_string_array(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

/// Judges one approver's answer. What is recorded always names the action, who decided and when.
pub(super) fn judge(data: &Value, answer: &Answer, now: Timestamp) -> Result<Value, Refusal> {
    check_approver(data, answer)?;
    let Value::Object(given) = &answer.value else {
        return Err(Refusal::invalid("resumeValue", "must be an object with an action"));
    };
    let Some(action) = given.get("action").and_then(Value::as_str) else {
        return Err(Refusal::invalid("resumeValue.action", "must name one of the offered actions"));
    };
    let offered = offered(data);
    if !offered.contains(&action) {
        let message = format!("{action:?} is not offered here; offered: {}", offered.join(", "));
        return Err(Refusal::invalid("resumeValue.action", message));
    }
    check_extras(action, &answer.value)?;
    let mut decided = given.clone();
    decided.insert("decidedBy".to_owned(), json!(answer.by.name));
    decided.entry("decidedAt").or_insert_with(|| json!(now.to_string()));
    Ok(Value::Object(decided))
}

/// The actions a caller may submit.
fn offered(data: &Value) -> Vec<&str> {
    let actions = data.get("actions").and_then(Value::as_array);
    let names = actions.into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| if name == "edit" { "edit-accept" } else { name }).collect()
}

fn check_approver(data: &Value, answer: &Answer) -> Result<(), Refusal> {
    let Some(list) = data.get("approversList").and_then(Value::as_array).filter(|list| !list.is_empty())
    else {
        return Ok(());
    };
    let listed = |name: &str| list.iter().any(|entry| entry.as_str() == Some(name));
    if listed(&answer.by.name) || answer.by.roles.iter().any(|role| listed(role)) {
        return Ok(());
    }
    Err(Refusal::NotAnApprover(answer.by.name.clone()))
}

fn check_extras(action: &str, value: &Value) -> Result<(), Refusal> {
    match action {
        "edit-accept" if value.get("editedArtifactData").is_none() => {
            Err(Refusal::invalid("resumeValue.editedArtifactData", "is required by edit-accept"))
        }
        "refine" => check_refinement(value.get("refineFeedback")),
        _ => Ok(()),
    }
}

fn check_refinement(feedback: Option<&Value>) -> Result<(), Refusal> {
    let field = |name: &str| format!("resumeValue.refineFeedback{name}");
    let Some(feedback) = feedback.filter(|feedback| feedback.is_object()) else {
        return Err(Refusal::invalid(field(""), "is required by refine: an object with a scope"));
    };
    match feedback.get("scope").and_then(Value::as_str) {
        Some("whole") => Ok(()),
        Some("section") if feedback.get("sectionPath").is_some_and(Value::is_string) => Ok(()),
        Some("section") => Err(Refusal::invalid(field(".sectionPath"), "is required by the scope section")),
        Some("items") if feedback.get("itemIds").is_some_and(is_string_array) => Ok(()),
        Some("items") => Err(Refusal::invalid(field(".itemIds"), "is required by the scope items")),
        _ => Err(Refusal::invalid(field(".scope"), "must be whole, section or items")),
    }
}
