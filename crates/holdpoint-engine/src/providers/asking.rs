//! A provider's pause as one of our interrupts, and the answer to that in the provider's words.

use holdpoint_core::{BadRequest, Interrupt, Kind, OPERATOR_APPROVAL, PEOPLE, Request, with_ignored};
use serde_json::{Map, Value, json};

use super::pause::MULTI;
use super::{Answers, Pause, PauseItem, Trouble};
use crate::operator::{OperatorApproval, Source};

/// A call of a tool that somebody must allow. Asked as an approval, so that everybody who can approve can answer it.
pub(crate) const TOOL_APPROVAL: &str = "tool_approval";
/// A call of a tool of which nobody knows whether it was made. Whoever may allow calls may have it made again.
pub(crate) const OUTCOME_UNKNOWN: &str = "outcome_unknown";
/// What a node's config may say about who decides, besides naming people.
pub(crate) const QUORUM: &str = "requiredApprovals";

/// Rules for answers to the interrupts of a graph: members of an approval, and a timeout.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AnswerRules {
    members: Map<String, Value>,
    timeout_ms: Option<u64>,
    /// An approver may not change the input of a call.
    as_it_is: bool,
}

impl AnswerRules {
    /// Reads what the config of a node says.
    pub(crate) fn of_config(config: &Map<String, Value>) -> Self {
        let given = PEOPLE.iter().chain([&QUORUM]);
        let given = given.filter_map(|name| Some(((*name).to_owned(), config.get(*name)?.clone())));
        let timeout_ms = config.get("timeoutMs").and_then(Value::as_u64);
        Self { members: given.collect(), timeout_ms, as_it_is: false }
    }

    /// Joins what the operator requires of a provider: the stricter of both holds.
    pub(crate) fn joined(self, operator: &OperatorApproval, graph: &str) -> Self {
        if operator.is_empty() {
            return self;
        }
        Self {
            members: operator.join(Source::Provider(graph), &self.members),
            timeout_ms: operator.timeout_ms(self.timeout_ms),
            as_it_is: !operator.is_editable(),
        }
    }

    /// Returns the rules of an interrupt that is asked once more.
    pub(crate) fn of_interrupt(asked: &Interrupt) -> Self {
        let names = OF_ALL.iter().chain(&OF_APPROVALS).chain(&PEOPLE);
        let members = names.filter_map(|name| Some(((*name).to_owned(), asked.data.get(*name)?.clone())));
        let actions = asked.data.get("actions").and_then(Value::as_array);
        let as_it_is = actions.is_some_and(|actions| !actions.iter().any(|action| action == EDIT));
        Self { members: members.collect(), timeout_ms: asked.timeout_ms, as_it_is }
    }

    fn may_edit(&self) -> bool {
        let several = self.members.get(QUORUM).and_then(Value::as_u64).is_some_and(|required| required > 1);
        !self.as_it_is && !several
    }
}

/// Members besides [`PEOPLE`] that every interrupt of a graph has, and those that only approvals have.
const OF_ALL: [&str; 2] = [OPERATOR_APPROVAL, "profile"];
const OF_APPROVALS: [&str; 2] = [QUORUM, "rejectionPolicy"];
const EDIT: &str = "edit-accept";

/// What is asked. The words of a graph stand in `data.data`, beside what we say ourselves.
pub(crate) fn request(
    graph: &str,
    artifact: String,
    rules: &AnswerRules,
    pause: &Pause,
    trouble: Option<&Trouble>,
) -> Request {
    let (kind, data) = pause.envelope();
    let mut shown = Map::new();
    shown.insert("customKind".to_owned(), json!(kind));
    shown.insert("graph".to_owned(), json!(graph));
    if let Some(trouble) = trouble {
        let told = json!({ "code": trouble.code, "message": trouble.message, "retryable": true });
        shown.insert("trouble".to_owned(), told);
    }
    let put = |shown: &mut Map<String, Value>, names: &[&str]| {
        let given =
            names.iter().filter_map(|name| Some(((*name).to_owned(), rules.members.get(*name)?.clone())));
        shown.extend(given);
    };
    put(&mut shown, &PEOPLE);
    put(&mut shown, &OF_ALL);
    let mut request = if is_about_a_call(&kind) {
        let tool = data.get("tool").and_then(Value::as_str).unwrap_or("a tool");
        let (title, actions) = match kind == TOOL_APPROVAL {
            true if rules.may_edit() => (format!("Allow {tool}?"), json!(["accept", "reject", EDIT])),
            true => (format!("Allow {tool}?"), json!(["accept", "reject"])),
            false => {
                (format!("Whether {tool} was called is unknown. Call it again?"), json!(["accept", "reject"]))
            }
        };
        shown.insert("title".to_owned(), json!(title));
        shown.insert("artifactId".to_owned(), json!(artifact));
        shown.insert("artifactType".to_owned(), json!("tool.call"));
        shown.insert("actions".to_owned(), actions);
        put(&mut shown, &OF_APPROVALS);
        shown.insert("artifactData".to_owned(), data);
        Request::new(Kind::Approval, Value::Object(shown))
    } else {
        shown.insert("data".to_owned(), data);
        let mut request = Request::new(Kind::Custom, Value::Object(shown));
        request.resume_schema = pause.schema();
        request
    };
    request.timeout_ms = rules.timeout_ms;
    request
}

fn is_about_a_call(kind: &str) -> bool {
    [TOOL_APPROVAL, OUTCOME_UNKNOWN].contains(&kind)
}

/// What is wrong with what a config says about who decides.
pub(crate) fn people_flaw(config: &Map<String, Value>) -> Option<BadRequest> {
    let call = Pause::one(TOOL_APPROVAL, json!({ "tool": "any" }), None);
    let rules = AnswerRules::of_config(config);
    let bad = request("claude:any", "any".to_owned(), &rules, &call, None).check().err()?;
    let field = bad.field.strip_prefix("data.").unwrap_or(&bad.field).to_owned();
    Some(BadRequest { field, message: bad.message })
}

/// What an interrupt says that a provider's pause became: `{kind, data}`.
pub(crate) fn envelope(asked: &Interrupt) -> (String, Value) {
    let custom = asked.data.get("customKind").and_then(Value::as_str);
    let member = |name: &str| asked.data.get(name).cloned();
    match (asked.kind, custom) {
        (Kind::Approval, Some(kind)) if is_about_a_call(kind) => {
            (kind.to_owned(), member("artifactData").unwrap_or_default())
        }
        (Kind::Custom, Some(kind)) if asked.data.get("graph").is_some() => {
            (kind.to_owned(), member("data").unwrap_or_default())
        }
        (Kind::Custom, Some(kind)) => {
            let mut rest = asked.data.as_object().cloned().unwrap_or_default();
            rest.shift_remove("customKind");
            // A graph of our own that has nothing else to say but its data.
            let only = (rest.len() == 1).then(|| rest.shift_remove("data")).flatten();
            (kind.to_owned(), only.unwrap_or(Value::Object(rest)))
        }
        (kind, _) => (kind.as_str().to_owned(), asked.data.clone()),
    }
}

/// What the answer before did not come to, if it came to nothing.
pub(crate) fn trouble(asked: &Interrupt) -> Option<&Value> {
    asked.data.get("trouble")
}

/// The pause that was asked, as far as answers need it.
pub(crate) fn pause(asked: &Interrupt) -> Pause {
    let (kind, data) = envelope(asked);
    if kind != MULTI {
        return Pause::one(kind, data, asked.resume_schema.clone());
    }
    let items: Vec<PauseItem> =
        data.get("items").cloned().and_then(|items| serde_json::from_value(items).ok()).unwrap_or_default();
    Pause { items }
}

/// The answers in the provider's words.
pub(crate) fn answers(asked: &Interrupt, value: Value) -> Answers {
    let pause = pause(asked);
    let again = pause.items.first().is_some_and(|item| item.kind == OUTCOME_UNKNOWN);
    let value = if asked.kind == Kind::Approval { from_approval(&value, again) } else { value };
    pause.answers(value)
}

/// Of a call that may have been made, `accept` means that it is made again.
fn from_approval(answer: &Value, again: bool) -> Value {
    let text = |member: &str| answer.get(member).and_then(Value::as_str);
    match text("action") {
        Some("edit-accept") => {
            let edited = answer.get("editedArtifactData").cloned().unwrap_or_default();
            let input = edited.get("input").cloned().unwrap_or(edited);
            json!({ "decision": "edit", "input": input })
        }
        Some("reject") => json!({ "decision": "reject", "reason": text("feedback") }),
        _ if again => json!({ "decision": "retry" }),
        _ => json!({ "decision": "approve" }),
    }
}

/// An answer in the provider's words, as the interrupt takes it: `{"decision": "approve"}` is an approval's `accept`.
pub(crate) fn in_our_words(asked: &Interrupt, value: Value) -> Value {
    let (kind, data) = envelope(asked);
    if asked.kind != Kind::Approval || !is_about_a_call(&kind) || value.get("action").is_some() {
        return value;
    }
    let reason = value.get("reason").cloned();
    let answer = match (value.get("decision").and_then(Value::as_str), kind == TOOL_APPROVAL) {
        (Some("approve"), true) | (Some("retry"), false) => json!({ "action": "accept" }),
        (Some("reject"), _) => {
            let mut answer = json!({ "action": "reject" });
            if let Some(reason) = reason {
                answer["feedback"] = reason;
            }
            answer
        }
        (Some("edit"), true) => {
            let mut answer = json!({ "action": "edit-accept" });
            // Without it the approval says what is missing.
            if let Some(input) = value.get("input").filter(|input| input.is_object()) {
                let tool = data.get("tool").cloned().unwrap_or_default();
                answer["editedArtifactData"] = json!({ "tool": tool, "input": input });
            }
            answer
        }
        _ => return value,
    };
    with_ignored(answer, &value, &["decision", "reason", "input"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_node_and_of_its_provider_are_joined_and_survive_being_asked_again() {
        let config = json!({"approversList": ["ann"], "timeoutMs": 500, "turnMs": 5});
        let operator = json!({"approverRoleRefs": ["lead"], "requiredApprovals": 2, "timeoutMs": 900});
        let operator = OperatorApproval::try_from(operator).unwrap();
        let own = AnswerRules::of_config(config.as_object().unwrap());
        assert_eq!(own.clone().joined(&OperatorApproval::default(), "claude:a"), own);
        let rules = own.joined(&operator, "claude:a");
        let call = Pause::one(TOOL_APPROVAL, json!({"tool": "Bash"}), None);
        let asked = request("claude:a", "a".to_owned(), &rules, &call, None);
        asked.check().unwrap();
        assert_eq!((&asked.data["approversList"], asked.timeout_ms), (&json!(["ann"]), Some(500)));
        assert_eq!(asked.data["requiredApprovals"], 2);
        assert_eq!(asked.data["actions"], json!(["accept", "reject"]), "several cannot edit");
        let shown = &asked.data["operatorApproval"];
        assert_eq!((&shown["provider"], &shown["approverRoleRefs"]), (&json!("claude:a"), &json!(["lead"])));
        let question = Pause::one("question", json!({}), None);
        let asked = request("claude:a", "a".to_owned(), &rules, &question, None);
        assert!(
            asked.data.get("requiredApprovals").is_none() && asked.data.get("operatorApproval").is_some()
        );
    }
}
