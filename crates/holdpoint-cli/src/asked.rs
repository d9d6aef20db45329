//! What a waiting run asks, in full, and the command that answers it. Judges no answer.

use serde_json::Value;

use super::output::{Output, age, age_cell, cell, clean_lines, ms_since, quoted};

/// Everything an answer must know; nothing for a run that does not wait.
pub(crate) fn text(output: &Output, run: &Value) -> String {
    let interrupt = &run["interrupt"];
    if interrupt.is_null() {
        return String::new();
    }
    let answer = format!("answer with: {}", output.command(&answer_words(run)));
    let parts = [shown(output, interrupt), answer];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// What is asked, without how to answer it.
pub(crate) fn shown(output: &Output, interrupt: &Value) -> String {
    let (node, kind) = (cell(&interrupt["nodeId"]), cell(&interrupt["kind"]));
    let mut facts = match kind.as_str() {
        "approval" => approval(&interrupt["data"]),
        "clarification" => questions(&interrupt["data"]),
        "external-event" => external_event(&interrupt["data"]),
        _ => custom(&interrupt["data"]),
    };
    facts.push(("answer schema", pretty(&interrupt["resumeSchema"])));
    facts.push(("expires", expiry(&interrupt["expiresAt"])));
    let head = format!("waits for {kind} at {node} since {}", age_cell(&interrupt["requestedAt"]));
    let parts = [head, output.facts(&facts)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

type Facts = Vec<(&'static str, String)>;

fn approval(data: &Value) -> Facts {
    let title = ("title", cell(&data["title"]));
    let actions = ("actions", actions(data).join(", "));
    [title].into_iter().chain(shown_with(data)).chain([actions]).collect()
}

/// What stands beside a question, whichever it is.
fn shown_with(data: &Value) -> Facts {
    vec![
        ("description", lines(&data["description"])),
        ("artifact", pretty(&data["artifactData"])),
        ("approvers", cell(&data["approversList"])),
        ("operator", cell(&data["operatorApproval"])),
        ("requester", describe_requester_rule(&data["requesterMayNotApprove"])),
    ]
}

/// Describes the rule about the requester, if the interrupt has one.
fn describe_requester_rule(may_not: &Value) -> String {
    match may_not.as_bool() {
        Some(true) => "may not decide".to_owned(),
        Some(false) => "may decide as well".to_owned(),
        None => String::new(),
    }
}

fn questions(data: &Value) -> Facts {
    let asked = data["questions"].as_array().into_iter().flatten();
    let fact = |question: &Value| {
        let text = format!("{}: {}", cell(&question["id"]), lines(&question["question"]));
        match &question["schema"] {
            Value::Null => ("question", text),
            schema => ("question", format!("{text}\nschema {}", cell(schema))),
        }
    };
    let context = ("context", cell(&data["contextType"]));
    asked.map(fact).chain([context]).chain(shown_with(data)).collect()
}

fn external_event(data: &Value) -> Facts {
    vec![("event type", cell(&data["eventType"])), ("correlation", pretty(&data["correlation"]))]
}

fn custom(data: &Value) -> Facts {
    // A payload may be a member of its own or stand beside the kind.
    let payload = match (&data["payload"], data.as_object()) {
        (Value::Null, Some(all)) => {
            let mut rest = all.clone();
            rest.shift_remove("customKind");
            if rest.is_empty() { Value::Null } else { Value::Object(rest) }
        }
        (payload, _) => payload.clone(),
    };
    vec![("kind", cell(&data["customKind"])), ("payload", pretty(&payload))]
}

fn expiry(at: &Value) -> String {
    match ms_since(at) {
        Some(ms) if ms < 0 => format!("{} (in {})", cell(at), age(ms)),
        Some(_) => format!("{} (due)", cell(at)),
        None => cell(at),
    }
}

/// What a caller may submit: a definition may write `edit` where the answer is `edit-accept`.
pub(crate) fn actions(data: &Value) -> Vec<String> {
    let offered = data["actions"].as_array().into_iter().flatten().map(cell);
    offered.map(|name| if name == "edit" { "edit-accept".to_string() } else { name }).collect()
}

pub(crate) fn answer_words(run: &Value) -> String {
    let interrupt = &run["interrupt"];
    let answer = match interrupt["kind"].as_str() {
        Some("approval") => action_words(&actions(&interrupt["data"])),
        Some("clarification") => {
            let asked = interrupt["data"]["questions"].as_array().into_iter().flatten();
            let set = |question: &Value| format!("--set {}=ANSWER", quoted(&cell(&question["id"])));
            asked.map(set).collect::<Vec<_>>().join(" ")
        }
        _ => "--value JSON".to_string(),
    };
    let (run, node) = (quoted(&cell(&run["runId"])), quoted(&cell(&interrupt["nodeId"])));
    let several = interrupt["openInterruptIds"].is_array();
    let named = several.then(|| format!(" --interrupt {}", quoted(&cell(&interrupt["interruptId"]))));
    format!("answer {run} {node} {answer}{}", named.unwrap_or_default())
}

fn action_words(offered: &[String]) -> String {
    let has_accept = offered.is_empty() || offered.iter().any(|action| action == "accept");
    match offered.first().map(String::as_str) {
        _ if has_accept => "accept".to_string(),
        Some("refine") => "refine --feedback TEXT".to_string(),
        Some("edit-accept") => "edit-accept --edited JSON".to_string(),
        Some(other) => quoted(other),
        None => "accept".to_string(),
    }
}

fn lines(value: &Value) -> String {
    value.as_str().map_or_else(|| cell(value), clean_lines)
}

fn pretty(value: &Value) -> String {
    if value.is_null() { String::new() } else { clean_lines(&format!("{value:#}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(kind: &str, data: &Value) -> String {
        let interrupt = json!({"nodeId": "gate", "kind": kind, "data": data, "requestedAt": null});
        text(&Output::new(true), &json!({"runId": "r1", "interrupt": interrupt}))
    }

    #[test]
    fn an_approval_shows_the_whole_artifact_and_who_may_say_what() {
        let artifact = json!({"body": "x".repeat(2000)});
        let data = json!({
            "title": "Ship?", "description": "Look\nclosely", "artifactData": artifact,
            "actions": ["edit", "reject"], "approversList": ["ann", "bob"],
        });
        let text = asked("approval", &data);
        for part in ["Ship?", "  closely", "edit-accept, reject", "ann,bob", &"x".repeat(2000)] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            text.ends_with("\nanswer with: holdpoint answer r1 gate edit-accept --edited JSON"),
            "{text}"
        );
    }

    #[test]
    fn the_command_names_the_interrupt_if_several_are_open_at_the_node() {
        let mut interrupt =
            json!({"interruptId": "r1:i1", "nodeId": "agent", "kind": "approval", "data": {}});
        let words = |interrupt: &Value| answer_words(&json!({"runId": "r1", "interrupt": interrupt}));
        assert_eq!(words(&interrupt), "answer r1 agent accept");
        interrupt["openInterruptIds"] = json!(["r1:i1", "r1:i2"]);
        assert_eq!(words(&interrupt), "answer r1 agent accept --interrupt r1:i1");
    }

    #[test]
    fn every_question_is_shown_with_its_id_and_has_its_place_in_the_answer() {
        let data = json!({"questions": [
            {"id": "colour", "question": "Which?", "schema": {"type": "string"}}, {"id": "my size", "question": "How big?"},
        ], "artifactData": {"seen": "before"}, "approversList": ["ann"]});
        let text = asked("clarification", &data);
        assert!(text.contains("before") && text.contains("ann"), "{text}");
        assert!(text.contains("colour: Which?") && text.contains("schema {\"type\":\"string\"}"), "{text}");
        assert!(text.ends_with("r1 gate --set colour=ANSWER --set 'my size'=ANSWER"), "{text}");
    }

    #[test]
    fn events_and_custom_questions_show_what_they_wait_for() {
        let event = asked("external-event", &json!({"eventType": "paid", "correlation": {"order": 7}}));
        assert!(event.contains("paid") && event.contains("\"order\": 7"), "{event}");
        let custom = asked("custom", &json!({"customKind": "poll", "payload": {"a": [1]}}));
        assert!(custom.contains("poll") && custom.contains("\"a\": ["), "{custom}");
        assert!(custom.ends_with("r1 gate --value JSON"), "{custom}");
        assert_eq!(text(&Output::new(true), &json!({"runId": "r1"})), "");
    }

    #[test]
    fn what_is_asked_cannot_steer_the_terminal() {
        let text = asked("approval", &json!({"title": "a\u{1b}[2J", "artifactData": "b\u{9b}2J"}));
        assert!(!text.contains(['\u{1b}', '\u{9b}']), "{text:?}");
    }
}
