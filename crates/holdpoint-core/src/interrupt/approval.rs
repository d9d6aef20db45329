//! Approvals: which actions a gate offers, what each needs to count, and the older words for them.

use serde_json::{Map, Value, json};

use super::quorum::{Quorum, Vote};
use super::{Answer, BadRequest, Interrupt, Judged, Who, governance, grant, members, people, quorum};
use crate::Timestamp;
use crate::agent::edited_arguments;
use crate::limits;
use crate::refusal::Refusal;

/// What a definition may offer; `edit` and `edit-accept` are two spellings of one offer.
const OFFERS: [&str; 6] = ["accept", "reject", "refine", "edit", "edit-accept", "ask"];

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
        let known = action.as_str().is_some_and(|name| OFFERS.contains(&name));
        if !known {
            let message = format!("{action} is not one of {}", OFFERS.join(", "));
            return Err(BadRequest::new(&format!("data.actions[{index}]"), message));
        }
    }
    if actions.iter().all(|action| action == "ask") {
        return Err(BadRequest::new("data.actions", "must offer something that decides, besides ask"));
    }
    Ok(())
}

/// Judges one approver's answer. What is recorded always names the action, who decided and when.
pub(super) fn judge(
    interrupt: &Interrupt,
    answer: &Answer,
    decider: &str,
    now: Timestamp,
) -> Result<Judged, Refusal> {
    let Value::Object(given) = &answer.value else {
        return Err(Refusal::invalid("resumeValue", "must be an object with an action"));
    };
    let offered = offered(&interrupt.data);
    let mut decided = match interrupt.is_governed() {
        true => governance::in_actions(given)?,
        false => in_todays_words(given, &offered)?,
    };
    let Some(action) = decided.get("action").and_then(Value::as_str).map(str::to_owned) else {
        return Err(Refusal::invalid("resumeValue.action", "must name one of the offered actions"));
    };
    if !offered.contains(&action.as_str()) {
        let message = format!("{action:?} is not offered here; offered: {}", offered.join(", "));
        return Err(Refusal::invalid("resumeValue.action", message));
    }
    check_extras(&action, &decided)?;
    members::check_claimed_instant(&decided)?;
    check_edit(interrupt, &action, &decided)?;
    let acted_by = people::speaker(answer, decider).map(str::to_owned);
    let who = Who { by: decider.to_owned(), acted_by };
    if action == "ask" {
        let question = decided.get("question").and_then(Value::as_str).unwrap_or_default();
        return Ok(Judged::Asked { question: question.to_owned(), who });
    }
    members::set_aside_unknown(&mut decided, interrupt.resume_schema.as_ref());
    decided.insert("decidedBy".to_owned(), json!(decider));
    decided.insert("decidedAt".to_owned(), json!(now.to_string()));
    if let Some(acting) = &who.acted_by {
        decided.insert("actedBy".to_owned(), json!(acting));
    }
    count(interrupt, who, &action, decided, answer.copied)
}

/// Counts an answer. If one approval is enough, the answer is the decision; otherwise it is a vote, and the last vote
/// that is needed ends the interrupt with the outcome of all votes.
fn count(
    interrupt: &Interrupt,
    who: Who,
    action: &str,
    decided: Map<String, Value>,
    copied: bool,
) -> Result<Judged, Refusal> {
    let quorum = Quorum::of(&interrupt.data);
    if quorum.required == 1 {
        return Ok(Judged::Decided { value: Value::Object(decided), by: who.by, vote: None });
    }
    let votes: Vec<&Vote> = interrupt.votes.iter().filter(|vote| vote.copied == copied).collect();
    if let Some(earlier) = votes.iter().find(|vote| vote.by == who.by) {
        let same = earlier.action() == action && interrupt.repeated < limits::REPEATED_VOTES_MAX;
        let action = action.to_owned();
        return if same { Ok(Judged::Repeated { who, action }) } else { Err(Refusal::AlreadyVoted(who.by)) };
    }
    let by = who.by;
    match quorum.outcome(&votes, &decided) {
        Some((mut value, count)) => {
            let vote = (value != decided).then_some(Value::Object(decided));
            value.insert("quorum".to_owned(), count);
            Ok(Judged::Decided { value: Value::Object(value), by, vote })
        }
        None => Ok(Judged::Voted { value: Value::Object(decided), by }),
    }
}

/// The actions a caller may submit.
fn offered(data: &Value) -> Vec<&str> {
    let actions = data.get("actions").and_then(Value::as_array);
    let names = actions.into_iter().flatten().filter_map(Value::as_str);
    let names = names.map(|name| if name == "edit" { "edit-accept" } else { name });
    names.chain(governance::offers_override(data).then_some("override")).collect()
}

/// Older clients send a `decision` instead of an action. A refusal with a reason asks for a better version where
/// that is offered; where it is not, it is a refusal that keeps its reason.
fn in_todays_words(given: &Map<String, Value>, offered: &[&str]) -> Result<Map<String, Value>, Refusal> {
    let mut words = given.clone();
    if given.contains_key("action") {
        return Ok(words);
    }
    let Some(decision) = words.shift_remove("decision") else { return Ok(words) };
    let feedback = given.get("feedback").and_then(Value::as_str).filter(|text| !text.is_empty());
    let structured = given.get("refineFeedback").is_some();
    let action = match decision.as_str() {
        Some("approved") => "accept",
        Some("rejected") if (structured || feedback.is_some()) && offered.contains(&"refine") => {
            let whole = || json!({"scope": "whole", "text": feedback});
            words.entry("refineFeedback").or_insert_with(whole);
            "refine"
        }
        Some("rejected") => "reject",
        // Those two are what becomes of a gate, and nobody's to say.
        _ => return Err(Refusal::invalid("resumeValue.decision", "must be approved or rejected")),
    };
    words.insert("action".to_owned(), json!(action));
    Ok(words)
}

fn check_extras(action: &str, value: &Map<String, Value>) -> Result<(), Refusal> {
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

/// Rejects an edit of a call that its tool does not take, so that the approval can still be given.
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
    if feedback.get("tags").is_some_and(|tags| !people::is_string_array(tags)) {
        return Err(Refusal::invalid(field(".tags"), "must be an array of strings"));
    }
    match feedback.get("scope").and_then(Value::as_str) {
        Some("whole") => Ok(()),
        Some("section") if feedback.get("sectionPath").is_some_and(Value::is_string) => Ok(()),
        Some("section") => Err(Refusal::invalid(field(".sectionPath"), "is required by the scope section")),
        Some("items") if feedback.get("itemIds").is_some_and(people::is_string_array) => Ok(()),
        Some("items") => Err(Refusal::invalid(field(".itemIds"), "is required by the scope items")),
        _ => Err(Refusal::invalid(field(".scope"), "must be whole, section or items")),
    }
}
