//! Converts interrupts of the server to provider interrupts.

use holdpoint_core::{InterruptRequest, Kind, limits};
use serde::Deserialize;
use serde_json::{Value, json};

use super::reference::InterruptIds;
use super::reviewed_action::ReviewedAction;
use crate::conversion::TOOL_APPROVAL;
use crate::provider_interrupt::MULTI;
use crate::{ProviderError, ProviderInterrupt, ProviderInterruptItem, code};

/// Kind of an interrupt whose value is not `{kind, data}`.
const DEFAULT_KIND: &str = "langgraph.interrupt";
const KIND_CHARS_MAX: usize = 128;

/// An interrupt in the format of the server.
#[derive(Clone, Deserialize)]
pub(super) struct ServerInterrupt {
    pub id: String,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    pub response_schema: Option<Value>,
}

/// Returns the interrupts with keys in the server's order, and the server's ids by key. An interrupt that was open
/// before keeps its key, because an answer to it may be in transit.
pub(super) fn to_interrupt(
    server_interrupts: Vec<ServerInterrupt>,
    before: &InterruptIds,
) -> Result<(ProviderInterrupt, InterruptIds), ProviderError> {
    let (mut items, mut ids) = (Vec::new(), InterruptIds::new());
    let known = |id: &str| before.iter().find(|(_, name)| *name == id).map(|(key, _)| key.clone());
    let earlier_keys: Vec<Option<String>> =
        server_interrupts.iter().map(|server_interrupt| known(&server_interrupt.id)).collect();
    let mut fresh =
        (0..).map(|at| format!("i{at}")).filter(|key| !earlier_keys.iter().flatten().any(|one| one == key));
    for (server_interrupt, key) in server_interrupts.into_iter().zip(&earlier_keys) {
        let Some(key) = key.clone().or_else(|| fresh.next()) else { continue };
        ids.insert(key.clone(), server_interrupt.id);
        let (kind, data) = envelope(server_interrupt.value);
        items.push(ProviderInterruptItem {
            key,
            kind,
            data,
            schema: server_interrupt.response_schema,
            call: None,
        });
    }
    let mut interrupt = ProviderInterrupt { items };
    let shown = interrupt.envelope().1.to_string().len();
    if shown > limits::INTERRUPT_DATA_BYTES_MAX {
        let most = limits::INTERRUPT_DATA_BYTES_MAX;
        let message = format!("the data of the interrupt has {shown} bytes; the limit is {most}");
        return Err(ProviderError::permanent(code::TOO_LARGE, message));
    }
    if !is_usable(interrupt.schema()) {
        // The graph checks the answer itself.
        tracing::info!("ignoring the invalid answer schema of a graph");
        interrupt.items.iter_mut().for_each(|item| item.schema = None);
    }
    Ok((interrupt, ids))
}

impl ServerInterrupt {
    /// Returns an answer in the form that the graph expects.
    pub(super) fn to_graph_answer(&self, answer: Value) -> Value {
        match ReviewedAction::of(&self.value) {
            Some(action) => action.to_decisions(answer),
            None => answer,
        }
    }
}

fn envelope(value: Value) -> (String, Value) {
    if let Some(action) = ReviewedAction::of(&value) {
        return (TOOL_APPROVAL.to_owned(), action.data());
    }
    match value {
        Value::Object(mut members) if members.len() == 2 && names_its_kind(&members) => {
            let kind = members.get("kind").and_then(Value::as_str).unwrap_or(DEFAULT_KIND).to_owned();
            (kind, members.shift_remove("data").unwrap_or_default())
        }
        value => (DEFAULT_KIND.to_owned(), json!({ "value": value })),
    }
}

/// Returns whether the value is `{kind, data}` with a valid kind. `multi` is reserved.
fn names_its_kind(members: &serde_json::Map<String, Value>) -> bool {
    let kind = members.get("kind").and_then(Value::as_str);
    let fits = |kind: &str| !kind.is_empty() && kind.chars().count() <= KIND_CHARS_MAX && kind != MULTI;
    members.contains_key("data") && kind.is_some_and(fits)
}

fn is_usable(schema: Option<Value>) -> bool {
    let mut request = InterruptRequest::new(Kind::Custom, json!({ "customKind": DEFAULT_KIND }));
    request.resume_schema = schema;
    request.check().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupts(values: &[Value]) -> Vec<ServerInterrupt> {
        let server_interrupt = |(at, value): (usize, &Value)| ServerInterrupt {
            id: format!("id-{at}"),
            value: value.clone(),
            response_schema: None,
        };
        values.iter().enumerate().map(server_interrupt).collect()
    }

    fn shown(value: Value) -> (String, Value) {
        to_interrupt(interrupts(&[value]), &InterruptIds::new()).unwrap().0.envelope()
    }

    #[test]
    fn an_interrupt_with_kind_and_data_keeps_them() {
        let (kind, data) = shown(json!({"kind": "review", "data": {"a": 1}}));
        assert_eq!((kind.as_str(), data), ("review", json!({"a": 1})));
    }

    #[test]
    fn other_interrupts_get_the_default_kind() {
        for value in [
            json!("which?"),
            json!({"kind": "review"}),
            json!({"kind": "review", "data": 1, "more": 2}),
            json!({"kind": 7, "data": 1}),
            json!({"kind": "", "data": 1}),
            json!({"kind": "multi", "data": {"items": []}}),
            json!(null),
        ] {
            assert_eq!(shown(value.clone()), (DEFAULT_KIND.to_owned(), json!({ "value": value })));
        }
    }

    #[test]
    fn several_interrupts_have_keys_in_the_order_of_the_server() {
        let (interrupt, ids) =
            to_interrupt(interrupts(&[json!("a"), json!("b")]), &InterruptIds::new()).unwrap();
        assert_eq!(interrupt.envelope().0, "multi");
        assert_eq!(ids["i1"], "id-1");
        assert_eq!(interrupt.items[1].data, json!({"value": "b"}));
        assert!(!interrupt.envelope().1.to_string().contains("id-"));
    }

    #[test]
    fn an_interrupt_that_stays_open_keeps_its_key() {
        let (_, ids) =
            to_interrupt(interrupts(&[json!("a"), json!("b"), json!("c")]), &InterruptIds::new()).unwrap();
        let mut left = interrupts(&[json!("a"), json!("b"), json!("c")]);
        left.remove(0);
        left.push(ServerInterrupt { id: "id-9".into(), value: json!("d"), response_schema: None });
        let (rest, _) = to_interrupt(left, &ids).unwrap();
        let keys: Vec<&str> = rest.items.iter().map(|item| item.key.as_str()).collect();
        assert_eq!(keys, ["i1", "i2", "i0"]);
    }

    #[test]
    fn data_above_the_size_limit_is_rejected() {
        let large = json!("x".repeat(limits::INTERRUPT_DATA_BYTES_MAX));
        assert_eq!(
            to_interrupt(interrupts(&[large]), &InterruptIds::new()).unwrap_err().code,
            code::TOO_LARGE
        );
    }

    #[test]
    fn an_invalid_schema_is_dropped() {
        let mut server_interrupts = interrupts(&[json!("a")]);
        server_interrupts[0].response_schema = Some(json!({"type": "object"}));
        assert!(
            to_interrupt(server_interrupts.clone(), &InterruptIds::new()).unwrap().0.items[0]
                .schema
                .is_some()
        );
        server_interrupts[0].response_schema = Some(json!({"type": 7}));
        assert!(to_interrupt(server_interrupts, &InterruptIds::new()).unwrap().0.items[0].schema.is_none());
    }
}
