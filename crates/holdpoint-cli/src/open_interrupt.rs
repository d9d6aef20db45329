//! Describes an open interrupt and the command that answers it.

use holdpoint_api::ids::Kind;
use holdpoint_api::snapshot::{OpenInterrupt, RunSnapshot};
use serde::Deserialize;
use serde_json::Value;

use super::output::{Output, age_since, cell, clean_lines, pretty, quoted};
use super::pending::expiry;

/// Describes the open interrupt of a run and the command that answers it; empty if the run has none.
pub(crate) fn describe_with_command(output: &Output, run: &RunSnapshot<'_>) -> String {
    match (&run.interrupt, answer_arguments(run)) {
        (Some(interrupt), Some(words)) => {
            format!("{}\nanswer with: {}", describe(output, interrupt), output.command(&words))
        }
        _ => String::new(),
    }
}

/// Describes an interrupt without the command that answers it.
pub(crate) fn describe(output: &Output, interrupt: &OpenInterrupt<'_>) -> String {
    let mut fields = match (interrupt.kind, InterruptData::of(interrupt)) {
        (Kind::Approval | Kind::Clarification | Kind::ExternalEvent, Some(data)) => data.fields(),
        (Kind::Approval | Kind::Clarification | Kind::ExternalEvent, None) => {
            vec![("data", lines(&interrupt.data))]
        }
        _ => custom(&interrupt.data),
    };
    fields.push(("answer schema", interrupt.resume_schema.as_deref().map(lines).unwrap_or_default()));
    fields.push(("expires", cell(interrupt.expires_at.map(|at| format!("{at} ({})", expiry(at))))));
    let (kind, node) = (cell(interrupt.kind), cell(&interrupt.node_id));
    let head = format!("waits for {kind} at {node}, open for {}", age_since(interrupt.requested_at));
    [head, output.fields(&fields)].join("\n").trim_end().to_owned()
}

type Fields = Vec<(&'static str, String)>;

/// The members of the data of an interrupt that commands show.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InterruptData {
    title: Value,
    actions: Vec<String>,
    pub(crate) questions: Vec<ClarificationQuestion>,
    context_type: Value,
    description: Value,
    artifact_data: Value,
    approvers_list: Value,
    operator_approval: Value,
    requester_may_not_approve: Option<bool>,
    event_type: Value,
    correlation: Value,
}

#[derive(Deserialize)]
pub(crate) struct ClarificationQuestion {
    pub(crate) id: String,
    pub(crate) question: String,
    schema: Option<Value>,
    #[serde(default)]
    pub(crate) options: Value,
}

impl InterruptData {
    pub(crate) fn of(interrupt: &OpenInterrupt<'_>) -> Option<Self> {
        Self::deserialize(&*interrupt.data).ok()
    }

    /// Returns the actions of an answer. The action `edit` of a definition is `edit-accept` in an answer.
    pub(crate) fn actions(&self) -> Vec<&str> {
        self.actions.iter().map(|name| if name == "edit" { "edit-accept" } else { name }).collect()
    }

    fn fields(&self) -> Fields {
        let question = |question: &ClarificationQuestion| {
            let schema = question.schema.as_ref().map(|schema| format!("\nschema {}", cell(schema)));
            let text = format!("{}: {}", cell(&question.id), clean_lines(&question.question));
            ("question", text + &schema.unwrap_or_default())
        };
        let requester = self
            .requester_may_not_approve
            .map(|may_not| if may_not { "cannot decide" } else { "can decide" });
        let mut fields = vec![("title", cell(&self.title))];
        fields.extend(self.questions.iter().map(question));
        fields.extend([
            ("context", cell(&self.context_type)),
            ("description", self.description.as_str().map_or_else(|| cell(&self.description), clean_lines)),
            ("artifact", lines(&self.artifact_data)),
            ("approvers", cell(&self.approvers_list)),
            ("operator", cell(&self.operator_approval)),
            ("requester", cell(requester)),
            ("event type", cell(&self.event_type)),
            ("correlation", lines(&self.correlation)),
            ("actions", self.actions().join(", ")),
        ]);
        fields
    }
}

/// Returns the fields of a custom interrupt. The payload is the member `payload`, or all members except the kind.
fn custom(data: &Value) -> Fields {
    let mut members = data.as_object().cloned().unwrap_or_default();
    let kind = members.shift_remove("customKind");
    let payload = match members.shift_remove("payload") {
        Some(payload) if !payload.is_null() => payload,
        _ if members.is_empty() => Value::Null,
        _ => Value::Object(members),
    };
    vec![("kind", cell(kind)), ("payload", lines(&payload))]
}

/// Returns the arguments of the command that answers the open interrupt of a run. Returns None if it has none.
pub(crate) fn answer_arguments(run: &RunSnapshot<'_>) -> Option<String> {
    let interrupt = run.interrupt.as_ref()?;
    let data = InterruptData::of(interrupt).unwrap_or_default();
    let answer = match interrupt.kind {
        Kind::Approval => action_arguments(&data.actions()),
        Kind::Clarification => {
            let set = |question: &ClarificationQuestion| format!("--set {}=ANSWER", quoted(&question.id));
            data.questions.iter().map(set).collect::<Vec<_>>().join(" ")
        }
        _ => "--value JSON".to_owned(),
    };
    let (run, node) = (quoted(run.run_id.as_str()), quoted(interrupt.node_id.as_str()));
    let is_one_of_several = !interrupt.open_interrupt_ids.is_empty();
    let named = is_one_of_several.then(|| format!(" --interrupt {}", quoted(&interrupt.interrupt_id)));
    Some(format!("answer {run} {node} {answer}{}", named.unwrap_or_default()))
}

fn action_arguments(offered: &[&str]) -> String {
    match offered.first() {
        Some(_) if offered.contains(&"accept") => "accept".to_owned(),
        Some(&"refine") => "refine --feedback TEXT".to_owned(),
        Some(&"edit-accept") => "edit-accept --edited JSON".to_owned(),
        Some(other) => quoted(other),
        None => "accept".to_owned(),
    }
}

fn lines(value: &Value) -> String {
    if value.is_null() { String::new() } else { clean_lines(&pretty(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::tests::{interrupt, snapshot};
    use serde_json::json;

    fn described(kind: &str, data: &Value) -> String {
        describe_with_command(&Output::json(), &snapshot(&json!({"interrupt": interrupt(kind, data)})))
    }

    #[test]
    fn an_approval_shows_the_whole_artifact_the_actions_and_the_approvers() {
        let artifact = json!({"body": "x".repeat(2000)});
        let data = json!({
            "title": "Ship?", "description": "Look\nclosely", "artifactData": artifact,
            "actions": ["edit", "reject"], "approversList": ["ann", "bob"],
        });
        let text = described("approval", &data);
        for part in ["Ship?", "  closely", "edit-accept, reject", "ann,bob", &"x".repeat(2000)] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            text.ends_with("\nanswer with: holdpoint answer r1 gate edit-accept --edited JSON"),
            "{text}"
        );
    }

    #[test]
    fn data_that_cannot_be_read_is_shown_as_it_is() {
        let text =
            described("approval", &json!({"title": "Ship?", "actions": "all", "artifactData": "the text"}));
        assert!(text.contains("Ship?") && text.contains("the text"), "{text}");
    }

    #[test]
    fn the_command_names_the_interrupt_if_the_node_has_several() {
        let mut interrupt = interrupt("approval", &json!({}));
        let words =
            |interrupt: &Value| answer_arguments(&snapshot(&json!({"interrupt": interrupt}))).unwrap();
        assert_eq!(words(&interrupt), "answer r1 gate accept");
        interrupt["openInterruptIds"] = json!(["r1:i1", "r1:i2"]);
        assert_eq!(words(&interrupt), "answer r1 gate accept --interrupt r1:i1");
    }

    #[test]
    fn a_clarification_shows_each_question_and_the_command_has_a_flag_for_each() {
        let data = json!({"questions": [
            {"id": "colour", "question": "Which?", "schema": {"type": "string"}}, {"id": "my size", "question": "How big?"},
        ], "artifactData": {"seen": "before"}, "approversList": ["ann"]});
        let text = described("clarification", &data);
        assert!(text.contains("before") && text.contains("ann"), "{text}");
        assert!(text.contains("colour: Which?") && text.contains("schema {\"type\":\"string\"}"), "{text}");
        assert!(text.ends_with("r1 gate --set colour=ANSWER --set 'my size'=ANSWER"), "{text}");
    }

    #[test]
    fn external_events_and_custom_interrupts_show_their_data() {
        let event = described("external-event", &json!({"eventType": "paid", "correlation": {"order": 7}}));
        assert!(event.contains("paid") && event.contains("\"order\": 7"), "{event}");
        let custom = described("custom", &json!({"customKind": "poll", "payload": {"a": [1]}}));
        assert!(custom.contains("poll") && custom.contains("\"a\": ["), "{custom}");
        assert!(custom.ends_with("r1 gate --value JSON"), "{custom}");
        assert_eq!(describe_with_command(&Output::json(), &snapshot(&json!({}))), "");
    }

    #[test]
    fn data_cannot_send_control_characters_to_the_terminal() {
        let text = described("approval", &json!({"title": "a\u{1b}[2J", "artifactData": "b\u{9b}2J"}));
        assert!(!text.contains(['\u{1b}', '\u{9b}']), "{text:?}");
    }
}
