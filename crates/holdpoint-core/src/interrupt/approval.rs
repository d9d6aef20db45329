//! Approvals: the actions that a gate offers, the members that each action requires, and the answers of older clients,
//! which have a `decision` instead of an `action`.

use serde_json::{Map, Value, json};

use super::quorum::{Quorum, Vote};
use super::{
    Answer, AnswerAuthor, AnswerResult, BadRequest, Interrupt, answer_members, assignee_rules, governance,
    grant, quorum,
};
use crate::Timestamp;
use crate::agent::edited_arguments;
use crate::limits;
use crate::refusal::Refusal;

/// The actions that a definition may offer. `edit` and `edit-accept` are the same action.
const ACTIONS: [&str; 6] = ["accept", "reject", "refine", "edit", "edit-accept", "ask"];

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    for field in ["artifactId", "artifactType", "title"] {
        if data.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(BadRequest::new(&format!("data.{field}"), "must be a non-empty string"));
        }
    }
    check_actions(data.get("actions"))?;
    quorum::check_data(data)?;
    grant::check_data(data)?;
    governance::check_data(data)
}

fn check_actions(actions: Option<&Value>) -> Result<(), BadRequest> {
    let Some(actions) = actions.and_then(Value::as_array).filter(|actions| !actions.is_empty()) else {
        return Err(BadRequest::new("data.actions", "must be a non-empty array"));
    };
    for (index, action) in actions.iter().enumerate() {
        let known = action.as_str().is_some_and(|name| ACTIONS.contains(&name));
        if !known {
            let message = format!("{action} is not one of {}", ACTIONS.join(", "));
            return Err(BadRequest::new(&format!("data.actions[{index}]"), message));
        }
    }
    if actions.iter().all(|action| action == "ask") {
        return Err(BadRequest::new("data.actions", "must offer an action that decides, in addition to ask"));
    }
    Ok(())
}

/// Evaluates the answer of an approver. The recorded answer always contains the action, the decider and the time.
pub(super) fn evaluate(
    interrupt: &Interrupt,
    answer: &Answer,
    decider: &str,
    now: Timestamp,
) -> Result<AnswerResult, Refusal> {
    let Value::Object(given) = &answer.value else {
        return Err(Refusal::invalid("resumeValue", "must be an object with an action"));
    };
    let offered = offered_actions(&interrupt.data);
    let mut decided = match interrupt.is_governed() {
        true => governance::normalize_answer(given)?,
        false => with_action(given, &offered)?,
    };
    let Some(action) = decided.get("action").and_then(Value::as_str).map(str::to_owned) else {
        return Err(Refusal::invalid("resumeValue.action", "must name one of the offered actions"));
    };
    if !offered.contains(&action.as_str()) {
        let message = format!("{action:?} is not offered here; offered: {}", offered.join(", "));
        return Err(Refusal::invalid("resumeValue.action", message));
    }
    check_action_members(&action, &decided)?;
    answer_members::check_claimed_instant(&decided)?;
    check_edit(interrupt, &action, &decided)?;
    let acted_by = assignee_rules::acting_principal(answer, decider).map(str::to_owned);
    let who = AnswerAuthor { by: decider.to_owned(), acted_by };
    if action == "ask" {
        let question = decided.get("question").and_then(Value::as_str).unwrap_or_default();
        return Ok(AnswerResult::Asked { question: question.to_owned(), who });
    }
    answer_members::move_unknown_to_ignored(&mut decided, interrupt.resume_schema.as_deref());
    decided.insert("decidedBy".to_owned(), json!(decider));
    decided.insert("decidedAt".to_owned(), json!(now.to_string()));
    if let Some(acting) = &who.acted_by {
        decided.insert("actedBy".to_owned(), json!(acting));
    }
    count_vote(interrupt, answer, who, &action, decided)
}

/// Counts an answer. If one approval is enough, the answer is the decision; otherwise it is a vote, and the last vote
/// that is needed ends the interrupt with the outcome of all votes.
fn count_vote(
    interrupt: &Interrupt,
    answer: &Answer,
    who: AnswerAuthor,
    action: &str,
    decided: Map<String, Value>,
) -> Result<AnswerResult, Refusal> {
    let quorum = Quorum::of(&interrupt.data);
    if quorum.required == 1 {
        return Ok(AnswerResult::Decided { value: Value::Object(decided), by: who.by, vote: None });
    }
    let votes: Vec<&Vote> = interrupt.votes.iter().filter(|vote| vote.copied == answer.copied).collect();
    if let Some(earlier) = votes.iter().find(|vote| vote.by == who.by) {
        let same = earlier.action() == action && interrupt.repeated < limits::REPEATED_VOTES_MAX;
        let action = action.to_owned();
        return if same {
            Ok(AnswerResult::Repeated { who, action })
        } else {
            Err(Refusal::AlreadyVoted(who.by))
        };
    }
    let by = who.by;
    match quorum.outcome(&votes, &decided) {
        Some((mut value, count)) => {
            let vote = (value != decided).then_some(Value::Object(decided));
            value.insert("quorum".to_owned(), count);
            Ok(AnswerResult::Decided { value: Value::Object(value), by, vote })
        }
        None => Ok(AnswerResult::Voted { value: Value::Object(decided), by }),
    }
}

/// Returns the actions that an answer may contain.
fn offered_actions(data: &Value) -> Vec<&str> {
    let actions = data.get("actions").and_then(Value::as_array);
    let names = actions.into_iter().flatten().filter_map(Value::as_str);
    let names = names.map(|name| if name == "edit" { "edit-accept" } else { name });
    names.chain(governance::offers_override(data).then_some("override")).collect()
}

/// Returns the answer with an action. Older clients send a `decision` instead: a rejection with feedback becomes
/// `refine` if that is offered, otherwise it stays a rejection with its feedback.
fn with_action(given: &Map<String, Value>, offered: &[&str]) -> Result<Map<String, Value>, Refusal> {
    let mut answer = given.clone();
    if given.contains_key("action") {
        return Ok(answer);
    }
    let Some(decision) = answer.shift_remove("decision") else { return Ok(answer) };
    let feedback = given.get("feedback").and_then(Value::as_str).filter(|text| !text.is_empty());
    let structured = given.get("refineFeedback").is_some();
    let action = match decision.as_str() {
        Some("approved") => "accept",
        Some("rejected") if (structured || feedback.is_some()) && offered.contains(&"refine") => {
            let whole = || json!({"scope": "whole", "text": feedback});
            answer.entry("refineFeedback").or_insert_with(whole);
            "refine"
        }
        Some("rejected") => "reject",
        _ => return Err(Refusal::invalid("resumeValue.decision", "must be approved or rejected")),
    };
    answer.insert("action".to_owned(), json!(action));
    Ok(answer)
}

fn check_action_members(action: &str, value: &Map<String, Value>) -> Result<(), Refusal> {
    if value.get("feedback").is_some_and(|text| !text.is_string()) {
        return Err(Refusal::invalid("resumeValue.feedback", "must be a string"));
    }
    match action {
        "edit-accept" if value.get("editedArtifactData").is_none() => {
            Err(Refusal::invalid("resumeValue.editedArtifactData", "is required by edit-accept"))
        }
        "refine" => check_refinement(value.get("refineFeedback")),
        "ask" => check_question(value.get("question")),
        _ => Ok(()),
    }
}

/// Rejects edited arguments that the tool does not accept, so that the approver can correct them.
fn check_edit(interrupt: &Interrupt, action: &str, value: &Map<String, Value>) -> Result<(), Refusal> {
    let edited = value.get("editedArtifactData").filter(|_| action == "edit-accept");
    match edited.and_then(edited_arguments) {
        Some(arguments) => interrupt.compiled.of(interrupt)?.check_arguments(arguments),
        None => Ok(()),
    }
}

fn check_question(question: Option<&Value>) -> Result<(), Refusal> {
    let max = limits::ASK_CHARS_MAX;
    match question.and_then(Value::as_str).map(|text| text.chars().count()) {
        Some(length) if (1..=max).contains(&length) => Ok(()),
        Some(_) | None => {
            let message = format!("is required by ask: a text of 1 to {max} characters");
            Err(Refusal::invalid("resumeValue.question", message))
        }
    }
}

fn check_refinement(feedback: Option<&Value>) -> Result<(), Refusal> {
    let field = |name: &str| format!("resumeValue.refineFeedback{name}");
    let Some(feedback) = feedback.filter(|feedback| feedback.is_object()) else {
        return Err(Refusal::invalid(field(""), "is required by refine: an object with a scope"));
    };
    if feedback.get("text").is_some_and(|text| !text.is_string()) {
        return Err(Refusal::invalid(field(".text"), "must be a string"));
    }
    if feedback.get("tags").is_some_and(|tags| !assignee_rules::is_string_array(tags)) {
        return Err(Refusal::invalid(field(".tags"), "must be an array of strings"));
    }
    match feedback.get("scope").and_then(Value::as_str) {
        Some("whole") => Ok(()),
        Some("section") if feedback.get("sectionPath").is_some_and(Value::is_string) => Ok(()),
        Some("section") => Err(Refusal::invalid(field(".sectionPath"), "is required by the scope section")),
        Some("items") if feedback.get("itemIds").is_some_and(assignee_rules::is_string_array) => Ok(()),
        Some("items") => Err(Refusal::invalid(field(".itemIds"), "is required by the scope items")),
        _ => Err(Refusal::invalid(field(".scope"), "must be whole, section or items")),
    }
}
