//! Grants over HTTP: the effects that a decision permits, and its use for effects outside of Holdpoint.

use holdpoint_core::{Interrupt, Run};
use holdpoint_engine::{Engine, Permit};
use serde_json::{Value, json};

mod handlers;
pub(crate) mod routes;
pub(crate) mod schemas;

/// Returns the effects that the decision of an interrupt permits, or None if it permits none.
pub(crate) fn permits(engine: &Engine, run: &Run, asked: &Interrupt) -> Option<Value> {
    let permits = if asked.is_gate() { engine.permits(&run.workflow, &asked.node) } else { Vec::new() };
    (!permits.is_empty()).then(|| shown(&permits))
}

fn shown(permits: &[Permit]) -> Value {
    let shown = |permit: &Permit| {
        json!({
            "nodeId": permit.node, "typeId": permit.type_id, "payload": permit.payload.as_str(),
            "repeat": permit.repeat,
        })
    };
    permits.iter().map(shown).collect()
}
