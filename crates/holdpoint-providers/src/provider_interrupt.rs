//! The interrupt of a provider in a common format. Ids of the provider stay in its reference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An interrupt of a graph: one item, or several at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProviderInterrupt {
    /// At least one.
    pub items: Vec<ProviderInterruptItem>,
}

/// One item of an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProviderInterruptItem {
    /// `i0`, `i1` and so on. The reference maps it to the id of the provider.
    pub key: String,
    /// The kind, for example `tool_approval`. Clients see it.
    pub kind: String,
    /// The data that is shown.
    pub data: Value,
    /// JSON schema of the answer, if the graph declares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The tool call that the item is about: the id that [`LockedHandle::call_id`](crate::LockedHandle::call_id)
    /// returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
}

/// Answers by the keys of the items. Some of several items can stay open.
pub type ProviderAnswers = BTreeMap<String, Value>;

/// Kind of an interrupt with several items.
pub(crate) const MULTI: &str = "multi";

impl ProviderInterrupt {
    /// Returns an interrupt with one item.
    pub fn one(kind: impl Into<String>, data: Value, schema: Option<Value>) -> Self {
        let (key, kind) = ("i0".to_owned(), kind.into());
        Self { items: vec![ProviderInterruptItem { key, kind, data, schema, call: None }] }
    }

    /// Returns the interrupt with the tool call of its only item.
    #[must_use]
    pub fn about_call(mut self, call: Option<String>) -> Self {
        if let [only] = self.items.as_mut_slice() {
            only.call = call;
        }
        self
    }

    /// Returns kind and data as approvers see them: those of the only item, or `multi` with the items.
    pub fn envelope(&self) -> (String, Value) {
        match self.items.as_slice() {
            [only] => (only.kind.clone(), only.data.clone()),
            items => (MULTI.to_owned(), json!({ "items": items })),
        }
    }

    /// Returns the JSON schema of an answer to the interrupt.
    pub fn schema(&self) -> Option<Value> {
        if let [only] = self.items.as_slice() {
            return only.schema.clone();
        }
        let each = |item: &ProviderInterruptItem| {
            (item.key.clone(), item.schema.clone().unwrap_or(Value::Bool(true)))
        };
        let properties: serde_json::Map<String, Value> = self.items.iter().map(each).collect();
        Some(json!({
            "type": "object", "properties": properties, "additionalProperties": false, "minProperties": 1,
        }))
    }

    /// Splits an answer to the interrupt into the answers to its items.
    pub fn answers(&self, value: Value) -> ProviderAnswers {
        match (self.items.as_slice(), value) {
            ([only], value) => [(only.key.clone(), value)].into(),
            (_, Value::Object(members)) => members.into_iter().collect(),
            (_, _) => ProviderAnswers::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_item_is_shown_directly_and_several_as_multi() {
        let one = ProviderInterrupt::one("review", json!({"draft": 1}), None);
        assert_eq!(one.envelope(), ("review".to_owned(), json!({"draft": 1})));
        assert_eq!(one.answers(json!("yes")), [("i0".to_owned(), json!("yes"))].into());
        let mut two = one.clone();
        two.items.push(ProviderInterruptItem {
            key: "i1".into(),
            kind: "other".into(),
            data: json!(2),
            schema: Some(json!({"type": "string"})),
            call: None,
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
