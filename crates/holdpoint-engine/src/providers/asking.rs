//! A provider's pause as one of our interrupts, and the answer to that in the provider's words.

use holdpoint_core::{BadRequest, Interrupt, Kind, PEOPLE, Request, with_ignored};
use serde_json::{Map, Value, json};

use super::pause::MULTI;
use super::{Answers, Pause, PauseItem, Trouble};

/// A call of a tool that somebody must allow. Asked as an approval, so that everybody who can approve can answer it.
pub(crate) const TOOL_APPROVAL: &str = "tool_approval";
/// A call of a tool of which nobody knows whether it was made. Whoever may allow calls may have it made again.
pub(crate) const OUTCOME_UNKNOWN: &str = "outcome_unknown";
/// What a node's config may say about who decides, besides naming people.
pub(crate) const QUORUM: &str = "requiredApprovals";

/// What is asked. The words of a graph stand in `data.data`, beside what we say ourselves.
pub(crate) fn request(
    graph: &str,
    artifact: String,
    config: &Map<String, Value>,
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
    let put = |shown: &mut Map<String, Value>, members: &[&str]| {
        let given = members.iter().filter_map(|name| Some(((*name).to_owned(), config.get(*name)?.clone())));
        shown.extend(given);
    };
    put(&mut shown, &PEOPLE);
    let mut request = if is_about_a_call(&kind) {
        let tool = data.get("tool").and_then(Value::as_str).unwrap_or("a tool");
        let (title, actions) = match kind == TOOL_APPROVAL {
            true => (format!("Allow {tool}?"), json!(["accept", "reject", "edit-accept"])),
            false => {
                (format!("Whether {tool} was called is unknown. Call it again?"), json!(["accept", "reject"]))
            }
        };
        shown.insert("title".to_owned(), json!(title));
        shown.insert("artifactId".to_owned(), json!(artifact));
        shown.insert("artifactType".to_owned(), json!("tool.call"));
        shown.insert("actions".to_owned(), actions);
        put(&mut shown, &[QUORUM]);
        shown.insert("artifactData".to_owned(), data);
        Request::new(Kind::Approval, Value::Object(shown))
    } else {
        shown.insert("data".to_owned(), data);
        let mut request = Request::new(Kind::Custom, Value::Object(shown));
        request.resume_schema = pause.schema();
        request
    };
    request.timeout_ms = config.get("timeoutMs").and_then(Value::as_u64);
    request
}

fn is_about_a_call(kind: &str) -> bool {
    [TOOL_APPROVAL, OUTCOME_UNKNOWN].contains(&kind)
}

/// What is wrong with what a config says about who decides.
pub(crate) fn people_flaw(config: &Map<String, Value>) -> Option<BadRequest> {
    let call = Pause::one(TOOL_APPROVAL, json!({ "tool": "any" }), None);
    let bad = request("claude:any", "any".to_owned(), config, &call, None).check().err()?;
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
            rest.remove("customKind");
            // A graph of our own that has nothing else to say but its data.
            let only = (rest.len() == 1).then(|| rest.remove("data")).flatten();
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
