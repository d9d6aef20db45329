//! What a provider waits for, in our words: names of its own stay in its reference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a graph pauses for: one question, or several at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pause {
    /// At least one.
    pub items: Vec<PauseItem>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PauseItem {
    /// `i0`, `i1` and so on; the reference says what the provider calls it.
    pub key: String,
    pub kind: String,
    pub data: Value,
    /// What an answer must look like, where the graph says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// Answers under the keys of the questions; of several questions some may stay open.
pub(crate) type Answers = BTreeMap<String, Value>;

/// The kind of a pause with several questions.
pub(crate) const MULTI: &str = "multi";

impl Pause {
    pub(crate) fn one(kind: impl Into<String>, data: Value, schema: Option<Value>) -> Self {
        Self { items: vec![PauseItem { key: "i0".to_owned(), kind: kind.into(), data, schema }] }
    }

    /// What people are shown: `{kind, data}`, or `multi` with items.
    pub(crate) fn envelope(&self) -> (String, Value) {
        match self.items.as_slice() {
            [only] => (only.kind.clone(), only.data.clone()),
            items => (MULTI.to_owned(), json!({ "items": items })),
        }
    }

    /// What an answer to the whole must look like.
    pub(crate) fn schema(&self) -> Option<Value> {
        if let [only] = self.items.as_slice() {
            return only.schema.clone();
        }
        let each = |item: &PauseItem| (item.key.clone(), item.schema.clone().unwrap_or(Value::Bool(true)));
        let properties: serde_json::Map<String, Value> = self.items.iter().map(each).collect();
        Some(json!({
            "type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1,
        }))
    }

    /// The answers in an answer to the whole.
    pub(crate) fn answers(&self, value: Value) -> Answers {
        match (self.items.as_slice(), value) {
            ([only], value) => [(only.key.clone(), value)].into(),
            (_, Value::Object(members)) => members.into_iter().collect(),
            (_, _) => Answers::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_question_is_shown_as_it_is_and_several_as_items() {
        let one = Pause::one("review", json!({"draft": 1}), None);
        assert_eq!(one.envelope(), ("review".to_owned(), json!({"draft": 1})));
        assert_eq!(one.answers(json!("yes")), [("i0".to_owned(), json!("yes"))].into());
        let mut two = one.clone();
        two.items.push(PauseItem {
            key: "i1".into(),
            kind: "other".into(),
            data: json!(2),
            schema: Some(json!({"type": "string"})),
        });
        let (kind, data) = two.envelope();
        assert_eq!(kind, "multi");
        assert_eq!(
            data["items"][1],
            json!({"key": "i1", "kind": "other", "data": 2, "schema": {"type": "string"}})
        );
        assert_eq!(two.answers(json!({"i1": "x"})), [("i1".to_owned(), json!("x"))].into());
    }
}
