//! What a graph asks, in our words.

use holdpoint_core::{Kind, Request, limits};
use serde::Deserialize;
use serde_json::{Value, json};

use super::reference::Names;
use crate::providers::pause::MULTI;
use crate::providers::{Pause, PauseItem, Trouble, code};

/// The kind of a question that does not say `{kind, data}` itself.
const PLAIN: &str = "langgraph.interrupt";
const KIND_CHARS_MAX: usize = 128;

/// A question as the server tells it.
#[derive(Clone, Deserialize)]
pub(super) struct Question {
    pub id: String,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    pub response_schema: Option<Value>,
}

/// The questions under keys of ours in the server's order, and what the server calls them. A question that was open before
/// keeps its key: an answer to it may be on its way.
pub(super) fn pause(questions: Vec<Question>, before: &Names) -> Result<(Pause, Names), Trouble> {
    let (mut items, mut names) = (Vec::new(), Names::new());
    let known = |id: &str| before.iter().find(|(_, name)| *name == id).map(|(key, _)| key.clone());
    let kept: Vec<Option<String>> = questions.iter().map(|question| known(&question.id)).collect();
    let mut fresh =
        (0..).map(|at| format!("i{at}")).filter(|key| !kept.iter().flatten().any(|one| one == key));
    for (question, key) in questions.into_iter().zip(&kept) {
        let Some(key) = key.clone().or_else(|| fresh.next()) else { continue };
        names.insert(key.clone(), question.id);
        let (kind, data) = envelope(question.value);
        items.push(PauseItem { key, kind, data, schema: question.response_schema });
    }
    let mut pause = Pause { items };
    let shown = pause.envelope().1.to_string().len();
    if shown > limits::INTERRUPT_DATA_BYTES_MAX {
        let most = limits::INTERRUPT_DATA_BYTES_MAX;
        let message = format!("the graph asks with {shown} bytes of data, and {most} may be shown");
        return Err(Trouble::lasting(code::TOO_LARGE, message));
    }
    if !is_usable(pause.schema()) {
        // The graph looks at the answer itself.
        tracing::info!("a graph says what answers look like in a way that is not understood");
        pause.items.iter_mut().for_each(|item| item.schema = None);
    }
    Ok((pause, names))
}

fn envelope(value: Value) -> (String, Value) {
    match value {
        Value::Object(mut members) if members.len() == 2 && names_its_kind(&members) => {
            let kind = members.get("kind").and_then(Value::as_str).unwrap_or(PLAIN).to_owned();
            (kind, members.shift_remove("data").unwrap_or_default())
        }
        value => (PLAIN.to_owned(), json!({ "value": value })),
    }
}

/// `multi` is what we call several questions.
fn names_its_kind(members: &serde_json::Map<String, Value>) -> bool {
    let kind = members.get("kind").and_then(Value::as_str);
    let fits = |kind: &str| !kind.is_empty() && kind.chars().count() <= KIND_CHARS_MAX && kind != MULTI;
    members.contains_key("data") && kind.is_some_and(fits)
}

fn is_usable(schema: Option<Value>) -> bool {
    let mut request = Request::new(Kind::Custom, json!({ "customKind": PLAIN }));
    request.resume_schema = schema;
    request.check().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(values: &[Value]) -> Vec<Question> {
        let question = |(at, value): (usize, &Value)| Question {
            id: format!("id-{at}"),
            value: value.clone(),
            response_schema: None,
        };
        values.iter().enumerate().map(question).collect()
    }

    fn shown(value: Value) -> (String, Value) {
        pause(asked(&[value]), &Names::new()).unwrap().0.envelope()
    }

    #[test]
    fn a_question_that_says_its_kind_and_data_is_shown_as_it_is() {
        let (kind, data) = shown(json!({"kind": "review", "data": {"a": 1}}));
        assert_eq!((kind.as_str(), data), ("review", json!({"a": 1})));
    }

    #[test]
    fn every_other_question_is_a_value() {
        for value in [
            json!("which?"),
            json!({"kind": "review"}),
            json!({"kind": "review", "data": 1, "more": 2}),
            json!({"kind": 7, "data": 1}),
            json!({"kind": "", "data": 1}),
            json!({"kind": "multi", "data": {"items": []}}),
            json!(null),
        ] {
            assert_eq!(shown(value.clone()), (PLAIN.to_owned(), json!({ "value": value })));
        }
    }

    #[test]
    fn several_questions_have_keys_in_the_servers_order() {
        let (pause, names) = pause(asked(&[json!("a"), json!("b")]), &Names::new()).unwrap();
        assert_eq!(pause.envelope().0, "multi");
        assert_eq!(names["i1"], "id-1");
        assert_eq!(pause.items[1].data, json!({"value": "b"}));
        assert!(!pause.envelope().1.to_string().contains("id-"));
    }

    #[test]
    fn a_question_that_stays_open_keeps_its_key() {
        let (_, names) = pause(asked(&[json!("a"), json!("b"), json!("c")]), &Names::new()).unwrap();
        let mut left = asked(&[json!("a"), json!("b"), json!("c")]);
        left.remove(0);
        left.push(Question { id: "id-9".into(), value: json!("d"), response_schema: None });
        let (rest, _) = pause(left, &names).unwrap();
        let keys: Vec<&str> = rest.items.iter().map(|item| item.key.as_str()).collect();
        assert_eq!(keys, ["i1", "i2", "i0"]);
    }

    #[test]
    fn more_than_may_be_shown_is_refused() {
        let large = json!("x".repeat(limits::INTERRUPT_DATA_BYTES_MAX));
        assert_eq!(pause(asked(&[large]), &Names::new()).unwrap_err().code, code::TOO_LARGE);
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_left_to_the_graph() {
        let mut questions = asked(&[json!("a")]);
        questions[0].response_schema = Some(json!({"type": "object"}));
        assert!(pause(questions.clone(), &Names::new()).unwrap().0.items[0].schema.is_some());
        questions[0].response_schema = Some(json!({"type": 7}));
        assert!(pause(questions, &Names::new()).unwrap().0.items[0].schema.is_none());
    }
}
