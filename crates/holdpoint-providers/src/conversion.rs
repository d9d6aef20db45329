//! Conversion between the interrupts of a provider and the interrupts of a run, and between their answers.

use holdpoint_core::agent::{Agent, CallRequest, PROVIDER_CALL};
use holdpoint_core::{
    ASSIGNEE_MEMBERS, BadRequest, Interrupt, InterruptRequest, Kind, OPERATOR_APPROVAL, with_ignored,
};
use holdpoint_engine::OperatorApproval;
use holdpoint_engine::extension::RequirementSource;
use serde_json::{Map, Value, json};

use super::provider_interrupt::MULTI;
use super::{ProviderAnswers, ProviderError, ProviderInterrupt, ProviderInterruptItem};

/// Kind of an interrupt for a tool call that needs approval. The run shows it as an approval.
pub(crate) const TOOL_APPROVAL: &str = "tool_approval";
/// Kind of an interrupt for a tool call with an unknown outcome. An approver decides whether to repeat the call.
pub(crate) const OUTCOME_UNKNOWN: &str = "outcome_unknown";
/// Config member with the number of required approvals.
pub(crate) const QUORUM: &str = "requiredApprovals";

/// Rules for answers to the interrupts of a graph: members of an approval, and a timeout.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AnswerRules {
    members: Map<String, Value>,
    timeout_ms: Option<u64>,
    /// Approvers cannot edit the input of a call.
    edits_forbidden: bool,
}

impl AnswerRules {
    /// Reads the rules from the config of a node.
    pub(crate) fn from_config(config: &Map<String, Value>) -> Self {
        let given = ASSIGNEE_MEMBERS.iter().chain([&QUORUM]);
        let given = given.filter_map(|name| Some(((*name).to_owned(), config.get(*name)?.clone())));
        let timeout_ms = config.get("timeoutMs").and_then(Value::as_u64);
        Self { members: given.collect(), timeout_ms, edits_forbidden: false }
    }

    /// Combines the rules with the operator's requirements for the provider. The stricter rule applies.
    pub(crate) fn joined(self, operator: &OperatorApproval, graph: &str) -> Self {
        if operator.is_empty() {
            return self;
        }
        Self {
            members: operator.join(RequirementSource::Provider(graph), &self.members),
            timeout_ms: operator.timeout_ms(self.timeout_ms),
            edits_forbidden: !operator.is_editable(),
        }
    }

    /// Returns the rules of an earlier interrupt, for an interrupt that is opened again.
    pub(crate) fn from_interrupt(run_interrupt: &Interrupt) -> Self {
        let names = MEMBERS_OF_ALL.iter().chain(&MEMBERS_OF_APPROVALS).chain(&ASSIGNEE_MEMBERS);
        let members =
            names.filter_map(|name| Some(((*name).to_owned(), run_interrupt.data.get(*name)?.clone())));
        let actions = run_interrupt.data.get("actions").and_then(Value::as_array);
        let edits_forbidden = actions.is_some_and(|actions| !actions.iter().any(|action| action == EDIT));
        Self { members: members.collect(), timeout_ms: run_interrupt.timeout_ms, edits_forbidden }
    }

    fn may_edit(&self) -> bool {
        let several = self.members.get(QUORUM).and_then(Value::as_u64).is_some_and(|required| required > 1);
        !self.edits_forbidden && !several
    }
}

/// Members of every interrupt of a graph, in addition to [`ASSIGNEE_MEMBERS`].
const MEMBERS_OF_ALL: [&str; 2] = [OPERATOR_APPROVAL, "profile"];
/// Members of approvals only.
const MEMBERS_OF_APPROVALS: [&str; 2] = [QUORUM, "rejectionPolicy"];
const EDIT: &str = "edit-accept";

/// Returns the request of a run interrupt for a provider interrupt. The data of the graph is in `data.data`, or in
/// `data.artifactData` of an approval.
pub(crate) fn to_request(
    graph: &str,
    artifact: String,
    rules: &AnswerRules,
    interrupt: &ProviderInterrupt,
    failure: Option<&ProviderError>,
) -> InterruptRequest {
    let (kind, data) = interrupt.envelope();
    let mut shown = Map::new();
    shown.insert("customKind".to_owned(), json!(kind));
    shown.insert("graph".to_owned(), json!(graph));
    if let Some(failure) = failure {
        let error = json!({ "code": failure.code, "message": failure.message, "retryable": true });
        shown.insert("trouble".to_owned(), error);
    }
    let put = |shown: &mut Map<String, Value>, names: &[&str]| {
        let given =
            names.iter().filter_map(|name| Some(((*name).to_owned(), rules.members.get(*name)?.clone())));
        shown.extend(given);
    };
    put(&mut shown, &ASSIGNEE_MEMBERS);
    put(&mut shown, &MEMBERS_OF_ALL);
    let mut request = if is_tool_call(&kind) {
        let tool = data.get("tool").and_then(Value::as_str).unwrap_or("a tool");
        let (title, actions) = match kind == TOOL_APPROVAL {
            true if rules.may_edit() && data.get("editable") != Some(&json!(false)) => {
                (format!("Allow {tool}?"), json!(["accept", "reject", EDIT]))
            }
            true => (format!("Allow {tool}?"), json!(["accept", "reject"])),
            false => {
                (format!("Whether {tool} was called is unknown. Call it again?"), json!(["accept", "reject"]))
            }
        };
        shown.insert("title".to_owned(), json!(title));
        shown.insert("artifactId".to_owned(), json!(artifact));
        shown.insert("artifactType".to_owned(), json!("tool.call"));
        shown.insert("actions".to_owned(), actions);
        put(&mut shown, &MEMBERS_OF_APPROVALS);
        shown.insert("artifactData".to_owned(), data);
        InterruptRequest::new(Kind::Approval, Value::Object(shown))
    } else {
        shown.insert("data".to_owned(), data);
        let mut request = InterruptRequest::new(Kind::Custom, Value::Object(shown));
        request.resume_schema = interrupt.schema();
        request
    };
    request.timeout_ms = rules.timeout_ms;
    request
}

/// Returns the tool call of an item.
pub(crate) fn call_of(item: &ProviderInterruptItem) -> Option<CallRequest> {
    let id = item.call.clone().filter(|_| is_tool_call(&item.kind))?;
    let name = item.data.get("tool").and_then(Value::as_str)?.to_owned();
    Some(CallRequest { id, name, arguments: item.data.get("input").cloned().unwrap_or_default() })
}

/// Adds the id of the tool call to the data of an interrupt, if readers know the call. The interrupt stays a gate of the
/// node: front ends use the id to find the call.
pub(crate) fn bind_to_call(
    request: &mut InterruptRequest,
    interrupt: &ProviderInterrupt,
    agent: Option<&Agent>,
) {
    let [only] = interrupt.items.as_slice() else { return };
    let Some(call) = call_of(only).filter(|call| agent.is_some_and(|agent| agent.call(&call.id).is_some()))
    else {
        return;
    };
    request.data[PROVIDER_CALL] = json!(call.id);
}

fn is_tool_call(kind: &str) -> bool {
    [TOOL_APPROVAL, OUTCOME_UNKNOWN].contains(&kind)
}

/// Returns the first invalid member among the approval rules of a config.
pub(crate) fn find_assignee_flaw(config: &Map<String, Value>) -> Option<BadRequest> {
    let call = ProviderInterrupt::one(TOOL_APPROVAL, json!({ "tool": "any" }), None);
    let rules = AnswerRules::from_config(config);
    let bad = to_request("claude:any", "any".to_owned(), &rules, &call, None).check().err()?;
    let field = bad.field.strip_prefix("data.").unwrap_or(&bad.field).to_owned();
    Some(BadRequest { field, message: bad.message })
}

/// Returns the kind and the data of the provider interrupt that a run interrupt represents.
pub(crate) fn envelope(run_interrupt: &Interrupt) -> (String, Value) {
    let custom = run_interrupt.data.get("customKind").and_then(Value::as_str);
    let member = |name: &str| run_interrupt.data.get(name).cloned();
    match (run_interrupt.kind, custom) {
        (Kind::Approval, Some(kind)) if is_tool_call(kind) => {
            (kind.to_owned(), member("artifactData").unwrap_or_default())
        }
        (Kind::Custom, Some(kind)) if run_interrupt.data.get("graph").is_some() => {
            (kind.to_owned(), member("data").unwrap_or_default())
        }
        (Kind::Custom, Some(kind)) => {
            let mut rest = run_interrupt.data.as_object().cloned().unwrap_or_default();
            rest.shift_remove("customKind");
            // In a native graph, `data` can be the only other member.
            let only = (rest.len() == 1).then(|| rest.shift_remove("data")).flatten();
            (kind.to_owned(), only.unwrap_or(Value::Object(rest)))
        }
        (kind, _) => (kind.as_str().to_owned(), Value::clone(&run_interrupt.data)),
    }
}

/// Returns the error of the previous answer, if it failed.
pub(crate) fn previous_error(run_interrupt: &Interrupt) -> Option<&Value> {
    run_interrupt.data.get("trouble")
}

/// Returns the provider interrupt that a run interrupt represents, with the fields that answers need.
pub(crate) fn to_provider_interrupt(run_interrupt: &Interrupt) -> ProviderInterrupt {
    let (kind, data) = envelope(run_interrupt);
    if kind != MULTI {
        let schema = run_interrupt.resume_schema.as_deref().cloned();
        return ProviderInterrupt::one(kind, data, schema)
            .about_call(run_interrupt.provider_call().map(str::to_owned));
    }
    let items: Vec<ProviderInterruptItem> =
        data.get("items").cloned().and_then(|items| serde_json::from_value(items).ok()).unwrap_or_default();
    ProviderInterrupt { items }
}

/// Returns the answer to a run interrupt in the format of the provider.
pub(crate) fn to_provider_answers(run_interrupt: &Interrupt, value: Value) -> ProviderAnswers {
    let interrupt = to_provider_interrupt(run_interrupt);
    let value = if run_interrupt.kind == Kind::Approval {
        approval_to_provider_answer(&interrupt, &value)
    } else {
        value
    };
    interrupt.answers(value)
}

/// Converts the answer to an approval. If the outcome of the call is unknown, `accept` means that the call is repeated.
fn approval_to_provider_answer(interrupt: &ProviderInterrupt, answer: &Value) -> Value {
    let is_unknown = interrupt.items.first().is_some_and(|item| item.kind == OUTCOME_UNKNOWN);
    let text = |member: &str| answer.get(member).and_then(Value::as_str);
    match text("action") {
        Some("edit-accept") => {
            let edited = answer.get("editedArtifactData").cloned().unwrap_or_default();
            let input = edited.get("input").cloned().unwrap_or(edited);
            json!({ "decision": "edit", "input": input })
        }
        Some("reject") => json!({ "decision": "reject", "reason": text("feedback") }),
        _ if is_unknown => json!({ "decision": "retry" }),
        _ => json!({ "decision": "approve" }),
    }
}

/// Converts an answer in the format of the provider to the format of the interrupt: `{"decision": "approve"}` becomes
/// the `accept` of an approval.
pub(crate) fn to_run_answer(run_interrupt: &Interrupt, value: Value) -> Value {
    let (kind, data) = envelope(run_interrupt);
    if run_interrupt.kind != Kind::Approval || !is_tool_call(&kind) || value.get("action").is_some() {
        return value;
    }
    let value = from_review(value);
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
            // Without an input, the check of the approval reports the missing member.
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

/// Converts an answer in the form of LangChain's middleware with a single decision.
fn from_review(value: Value) -> Value {
    let Some([decision]) = value.get("decisions").and_then(Value::as_array).map(Vec::as_slice) else {
        return value;
    };
    match decision.get("type").and_then(Value::as_str) {
        Some("approve") => json!({ "decision": "approve" }),
        Some("reject") => match decision.get("message") {
            Some(message) => json!({ "decision": "reject", "reason": message }),
            None => json!({ "decision": "reject" }),
        },
        Some("edit") => {
            json!({ "decision": "edit", "input": decision.pointer("/edited_action/args") })
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_the_node_and_of_the_operator_are_combined() {
        let config = json!({"approversList": ["ann"], "timeoutMs": 500, "turnMs": 5});
        let operator = json!({"approverRoleRefs": ["lead"], "requiredApprovals": 2, "timeoutMs": 900});
        let operator = OperatorApproval::try_from(operator).unwrap();
        let own = AnswerRules::from_config(config.as_object().unwrap());
        assert_eq!(own.clone().joined(&OperatorApproval::default(), "claude:a"), own);
        let rules = own.joined(&operator, "claude:a");
        let call = ProviderInterrupt::one(TOOL_APPROVAL, json!({"tool": "Bash"}), None);
        let request = to_request("claude:a", "a".to_owned(), &rules, &call, None);
        request.check().unwrap();
        assert_eq!((&request.data["approversList"], request.timeout_ms), (&json!(["ann"]), Some(500)));
        assert_eq!(request.data["requiredApprovals"], 2);
        assert_eq!(request.data["actions"], json!(["accept", "reject"]), "edits need a single approver");
        let shown = &request.data["operatorApproval"];
        assert_eq!((&shown["provider"], &shown["approverRoleRefs"]), (&json!("claude:a"), &json!(["lead"])));
        let question = ProviderInterrupt::one("question", json!({}), None);
        let request = to_request("claude:a", "a".to_owned(), &rules, &question, None);
        assert!(
            request.data.get("requiredApprovals").is_none() && request.data.get("operatorApproval").is_some()
        );
    }
}
