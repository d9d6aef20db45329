//! Between our words and the agent's: inputs become a prompt, calls that wait become pauses, answers become decisions.

use serde_json::{Value, json};

use super::super::asking::{OUTCOME_UNKNOWN, TOOL_APPROVAL};
use super::super::{Answers, Pause, Trouble, code};
use super::hygiene::Veil;
use super::reference::Deferred;
use super::settings::QUESTION;

/// What people decided about a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    Approve,
    /// With another input.
    Edit(Value),
    Reject(Option<String>),
    /// Make it, although it may have been made.
    Retry,
    /// What was asked is answered.
    Reply(Value),
}

impl Decision {
    pub(super) fn of(answers: &Answers) -> Result<Self, Trouble> {
        let answer = answers.get("i0").cloned().unwrap_or_default();
        let reason = answer.get("reason").and_then(Value::as_str).map(str::to_owned);
        if let Some(said) = answer.get("answers") {
            return Ok(Self::Reply(said.clone()));
        }
        match answer.get("decision").and_then(Value::as_str) {
            Some("approve") => Ok(Self::Approve),
            Some("edit") => Ok(Self::Edit(answer.get("input").cloned().unwrap_or_default())),
            Some("reject") => Ok(Self::Reject(reason)),
            Some("retry") => Ok(Self::Retry),
            _ => Err(Trouble::lasting(
                code::REJECTED,
                "the answer must be {\"decision\": \"approve\" | \"reject\" | \"edit\" | \"retry\"} or {\"answers\": {…}}",
            )),
        }
    }
}

/// What people are shown of a call that waits. Nothing by which the agent knows it.
pub(super) fn pause(deferred: &Deferred, veil: &Veil) -> Pause {
    let input = veil.hide(&deferred.input);
    if deferred.tool == QUESTION {
        let questions = input.get("questions").cloned().unwrap_or_default();
        let schema = json!({
            "type": "object", "required": ["answers"], "additionalProperties": false,
            "properties": { "answers": { "type": "object" } },
        });
        return Pause::one("question", json!({ "questions": questions }), Some(schema));
    }
    let schema = decisions(&["approve", "reject", "edit"]);
    Pause::one(TOOL_APPROVAL, json!({ "tool": deferred.tool, "input": input }), Some(schema))
}

/// What people are asked when the program was stopped in the middle of a call.
pub(super) fn unknown(deferred: &Deferred, input: Option<&Value>, veil: &Veil) -> Pause {
    let message = "the call was approved, and the agent's program was stopped before it wrote down a result: whether \
        the call was made is unknown. retry makes it (again); reject tells the agent that the outcome is unknown";
    let input = veil.hide(input.unwrap_or(&deferred.input));
    let data = json!({ "tool": deferred.tool, "input": input, "message": message });
    Pause::one(OUTCOME_UNKNOWN, data, Some(decisions(&["retry", "reject"])))
}

fn decisions(words: &[&str]) -> Value {
    let mut properties = json!({ "decision": { "enum": words }, "reason": { "type": "string" } });
    if words.contains(&"edit") {
        properties["input"] = json!({ "type": "object" });
    }
    json!({ "type": "object", "properties": properties, "required": ["decision"], "additionalProperties": false })
}

/// The first words to the agent: a text, `{prompt}`, or `{messages}` in one text.
pub(super) fn prompt(input: &Value) -> Result<String, Trouble> {
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
            "the input must be a text, {\"prompt\": text} or {\"messages\": [{\"role\", \"content\"}]}";
        Trouble::lasting(code::REJECTED, message)
    })
}

fn conversation(messages: &[Value]) -> Option<String> {
    let said: Option<Vec<(&str, String)>> = messages
        .iter()
        .map(|message| Some((message.get("role")?.as_str()?, content(message.get("content")?)?)))
        .collect();
    let said = said?;
    if let [(_, only)] = said.as_slice() {
        return Some(only.clone());
    }
    let lines: Vec<String> = said.iter().map(|(role, text)| format!("{role}: {text}")).collect();
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
    fn an_input_is_one_text() {
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
    fn a_pause_does_not_tell_the_agents_name_for_the_call() {
        let veil = Veil::new(Path::new("/data/ab"), Path::new("/data/ab/desk"), "0193");
        let input = json!({"command": "cat /data/ab/desk/x"});
        let call = Deferred { id: "toolu_1".into(), tool: "Bash".into(), input, attempt: "a".into() };
        let (kind, data) = pause(&call, &veil).envelope();
        assert_eq!(
            (kind.as_str(), data),
            ("tool_approval", json!({"tool": "Bash", "input": {"command": "cat <workdir>/x"}}))
        );
        let asked = Deferred { tool: QUESTION.into(), input: json!({"questions": [1]}), ..call };
        assert_eq!(pause(&asked, &veil).envelope(), ("question".to_owned(), json!({"questions": [1]})));
    }

    #[test]
    fn an_answer_is_a_decision_or_nothing() {
        let decide = |value: Value| Decision::of(&[("i0".to_owned(), value)].into());
        assert_eq!(decide(json!({"decision": "approve"})).unwrap(), Decision::Approve);
        assert_eq!(
            decide(json!({"decision": "reject", "reason": "no"})).unwrap(),
            Decision::Reject(Some("no".into()))
        );
        assert_eq!(decide(json!({"answers": {"q": "a"}})).unwrap(), Decision::Reply(json!({"q": "a"})));
        assert_eq!(decide(json!("yes")).unwrap_err().code, code::REJECTED);
    }
}
