//! The data of custom interrupts for front ends: as JSON, as a text, and as titles in the response schema. Pure.

use holdpoint_core::{ASSIGNEE_MEMBERS, Interrupt, OPERATOR_APPROVAL};
use serde_json::{Map, Value};

/// The maximum length of a text that is made from data, in characters.
const TEXT_CHARS_MAX: usize = 2000;
/// The kind of an interrupt with several items.
const MULTI: &str = "multi";
/// Members that come first in a text.
const FIRST: [&str; 5] = ["title", "question", "message", "prompt", "description"];

/// Returns the data of the interrupt: the member `data`, or all members except those for the kind and the approvers.
pub(super) fn data(asked: &Interrupt) -> Option<Value> {
    if let Some(data) = asked.data.get("data") {
        return Some(data.clone());
    }
    let own = |name: &&String| {
        !ASSIGNEE_MEMBERS.contains(&name.as_str())
            && !["customKind", "profile", OPERATOR_APPROVAL].contains(&name.as_str())
    };
    let names = asked.data.as_object()?.keys().filter(own);
    let shown: Map<String, Value> = names.map(|name| (name.clone(), asked.data[name].clone())).collect();
    (!shown.is_empty()).then_some(Value::Object(shown))
}

/// Returns the data as a text with one line per item or member.
pub(super) fn text(asked: &Interrupt) -> Option<String> {
    let data = data(asked)?;
    let lines: Vec<String> = match items(asked) {
        Some(items) => items.map(|(key, data)| format!("{key}: {}", as_lines(data))).collect(),
        None => vec![as_lines(&data)],
    };
    Some(cut(lines.join("\n"))).filter(|text| !text.is_empty())
}

/// Adds the question of each item as a title to its part of the schema, unless that part has a title.
pub(super) fn with_titles(asked: &Interrupt, mut schema: Value) -> Value {
    for (key, data) in items(asked).into_iter().flatten() {
        let Some(part) = schema.pointer_mut("/properties").and_then(|parts| parts.get_mut(key)) else {
            continue;
        };
        if *part == Value::Bool(true) {
            *part = Map::new().into();
        }
        if let Some(part) = part.as_object_mut() {
            part.entry("title").or_insert_with(|| cut(as_lines(data)).into());
        }
    }
    schema
}

/// Returns the items of an interrupt of the kind `multi`, with their keys.
fn items(asked: &Interrupt) -> Option<impl Iterator<Item = (&str, &Value)>> {
    let multi = asked.data.get("customKind").and_then(Value::as_str) == Some(MULTI);
    let items = asked.data.pointer("/data/items").and_then(Value::as_array).filter(|_| multi)?;
    Some(items.iter().filter_map(|item| Some((item.get("key")?.as_str()?, item.get("data")?))))
}

/// Returns a value as lines. `{"value": …}` is the form of an interrupt without a kind; only its value is used.
fn as_lines(data: &Value) -> String {
    match data {
        Value::Object(members) if members.len() == 1 && members.contains_key("value") => {
            as_lines(&members["value"])
        }
        Value::Object(members) => {
            let line =
                |(name, value): (&String, &Value)| format!("{name}: {}", super::messages::as_text(value));
            let (first, others): (Vec<_>, Vec<_>) =
                members.iter().partition(|(name, _)| FIRST.contains(&name.as_str()));
            first.into_iter().chain(others).map(line).collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => super::messages::as_text(other),
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
