//! Conversions for the agent: inputs to a prompt, deferred calls to interrupts, answers to decisions.

use serde_json::{Value, json};

use super::super::conversion::{OUTCOME_UNKNOWN, TOOL_APPROVAL};
use super::super::{ProviderAnswers, ProviderError, ProviderInterrupt, code};
use super::redaction::Redactor;
use super::reference::DeferredCall;
use super::settings::QUESTION;

/// The decision about a deferred call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallDecision {
    Approve,
    /// Approve with another input.
    Edit(Value),
    Reject(Option<String>),
    /// Make the call although it may have been made before.
    Retry,
    /// The answers to a question of the agent.
    Reply(Value),
}

impl CallDecision {
    pub(super) fn from_answers(answers: &ProviderAnswers) -> Result<Self, ProviderError> {
        let answer = answers.get("i0").cloned().unwrap_or_default();
        let reason = answer.get("reason").and_then(Value::as_str).map(str::to_owned);
        if let Some(answers) = answer.get("answers") {
            return Ok(Self::Reply(answers.clone()));
        }
        match answer.get("decision").and_then(Value::as_str) {
            Some("approve") => Ok(Self::Approve),
            Some("edit") => Ok(Self::Edit(answer.get("input").cloned().unwrap_or_default())),
            Some("reject") => Ok(Self::Reject(reason)),
            Some("retry") => Ok(Self::Retry),
            _ => Err(ProviderError::permanent(
                code::REJECTED,
                "answer: must be {\"decision\": \"approve\" | \"reject\" | \"edit\" | \"retry\"} or {\"answers\": {…}}",
            )),
        }
    }
}

/// Returns the interrupt for a deferred call, without ids of the agent.
pub(super) fn to_interrupt(deferred: &DeferredCall, redactor: &Redactor) -> ProviderInterrupt {
    let input = redactor.redact(&deferred.input);
    if deferred.tool == QUESTION {
        let questions = input.get("questions").cloned().unwrap_or_default();
        let schema = json!({
            "type": "object", "required": ["answers"], "additionalProperties": false,
            "properties": { "answers": { "type": "object" } },
        });
        return ProviderInterrupt::one("question", json!({ "questions": questions }), Some(schema));
    }
    let schema = decision_schema(&["approve", "reject", "edit"]);
    ProviderInterrupt::one(TOOL_APPROVAL, json!({ "tool": deferred.tool, "input": input }), Some(schema))
}

/// Returns the interrupt for a call with an unknown outcome.
pub(super) fn outcome_unknown_interrupt(
    deferred: &DeferredCall,
    input: Option<&Value>,
    redactor: &Redactor,
) -> ProviderInterrupt {
    let message = "the call was approved, but the agent's program stopped before it recorded a result: the outcome of the \
        call is unknown. retry makes the call (again); reject tells the agent that the outcome is unknown";
    let input = redactor.redact(input.unwrap_or(&deferred.input));
    let data = json!({ "tool": deferred.tool, "input": input, "message": message });
    ProviderInterrupt::one(OUTCOME_UNKNOWN, data, Some(decision_schema(&["retry", "reject"])))
}

fn decision_schema(words: &[&str]) -> Value {
    let mut properties = json!({ "decision": { "enum": words }, "reason": { "type": "string" } });
    if words.contains(&"edit") {
        properties["input"] = json!({ "type": "object" });
    }
    json!({ "type": "object", "properties": properties, "required": ["decision"], "additionalProperties": false })
}

/// Returns the prompt for an input: a text, `{prompt}`, or `{messages}` joined to one text.
pub(super) fn prompt(input: &Value) -> Result<String, ProviderError> {
    let text = match input {
        Value::String(text) => Some(text.clone()),
        Value::Object(members) => match (members.get("prompt"), members.get("messages")) {
            (Some(Value::String(text)), None) => Some(text.clone()),
            (None, Some(Value::Array(messages))) => conversation(messages),
            _ => None,
        },
        _ => None,
    };
    text.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
        let message =
            "input: must be a text, {\"prompt\": text} or {\"messages\": [{\"role\", \"content\"}]}";
        ProviderError::permanent(code::REJECTED, message)
    })
}

fn conversation(messages: &[Value]) -> Option<String> {
    let parts: Option<Vec<(&str, String)>> = messages
        .iter()
        .map(|message| Some((message.get("role")?.as_str()?, content(message.get("content")?)?)))
        .collect();
    let parts = parts?;
    if let [(_, only)] = parts.as_slice() {
        return Some(only.clone());
    }
    let lines: Vec<String> = parts.iter().map(|(role, text)| format!("{role}: {text}")).collect();
    Some(lines.join("\n\n"))
}

fn content(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Option<Vec<&str>> =
                parts.iter().map(|part| part.get("text").and_then(Value::as_str)).collect();
            Some(texts?.join("\n"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_input_becomes_one_prompt() {
        assert_eq!(prompt(&json!("hi")).unwrap(), "hi");
        assert_eq!(prompt(&json!({"prompt": "hi"})).unwrap(), "hi");
        let one = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]});
        assert_eq!(prompt(&one).unwrap(), "hi");
        let two = json!({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"}]});
        assert_eq!(prompt(&two).unwrap(), "user: hi\n\nassistant: yes?");
        for bad in [
            json!(7),
            json!({}),
            json!(" "),
            json!({"messages": []}),
            json!({"messages": [{"role": "user"}]}),
        ] {
            assert_eq!(prompt(&bad).unwrap_err().code, code::REJECTED, "{bad}");
        }
    }

    #[test]
    fn an_interrupt_contains_no_ids_of_the_agent() {
        let redactor = Redactor::new(Path::new("/data/ab"), Path::new("/data/ab/desk"), "0193");
        let input = json!({"command": "cat /data/ab/desk/x"});
        let call = DeferredCall { id: "toolu_1".into(), tool: "Bash".into(), input, attempt: "a".into() };
        let (kind, data) = to_interrupt(&call, &redactor).envelope();
        assert_eq!(
            (kind.as_str(), data),
            ("tool_approval", json!({"tool": "Bash", "input": {"command": "cat <workdir>/x"}}))
        );
        let asked = DeferredCall { tool: QUESTION.into(), input: json!({"questions": [1]}), ..call };
        assert_eq!(
            to_interrupt(&asked, &redactor).envelope(),
            ("question".to_owned(), json!({"questions": [1]}))
        );
    }

    #[test]
    fn an_answer_without_a_decision_is_rejected() {
        let decide = |value: Value| CallDecision::from_answers(&[("i0".to_owned(), value)].into());
        assert_eq!(decide(json!({"decision": "approve"})).unwrap(), CallDecision::Approve);
        assert_eq!(
            decide(json!({"decision": "reject", "reason": "no"})).unwrap(),
            CallDecision::Reject(Some("no".into()))
        );
        assert_eq!(decide(json!({"answers": {"q": "a"}})).unwrap(), CallDecision::Reply(json!({"q": "a"})));
        assert_eq!(decide(json!("yes")).unwrap_err().code, code::REJECTED);
    }
}
