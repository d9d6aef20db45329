//! Compares an effect with its approval. Every node that depends on an approval calls these checks right before its
//! effect, so that only payloads that an approver has seen leave the server.

use holdpoint_core::workflow::{self, DefinitionFlaw, Workflow};
use holdpoint_core::{Interrupt, Kind, NodeId, NodeStatus, Run, digest};
use serde_json::{Number, Value};

use crate::context::Stop;
use crate::nodes::config_flaw;
use crate::permitted_effects;

/// The member of a node's config that names its approval gate.
pub const APPROVED_BY: &str = "approvedBy";

/// Fails if the stored payload of an interrupt differs from the payload that was shown.
pub fn check_as_shown(asked: &Interrupt) -> Result<(), Stop> {
    if asked.data_matches_digest() {
        return Ok(());
    }
    let message = format!(
        "the stored payload of the interrupt at {} differs from the payload that was shown; its answer was not used",
        asked.node
    );
    Err(Stop::failed("payload_mismatch", message))
}

/// Checks that the gate granted this payload in the visit that led to this node.
pub(crate) fn check_granted(run: &Run, gate: &NodeId, payload: Option<&Value>) -> Result<(), Stop> {
    let approved = find_granted_payload(run, gate)?;
    check_same(gate, Some(approved), payload)
}

/// Compares the body of an effect with the approved payload of each granted gate that showed the same value.
pub(crate) fn check_shown(run: &Run, effect: &NodeId, body: Option<&Value>) -> Result<(), Stop> {
    let Some(node) = run.workflow.node(effect) else { return Ok(()) };
    for asked in run.grants_before(effect) {
        let gate = run.workflow.node(&asked.node);
        let Some(port) = gate.and_then(|gate| permitted_effects::find_shown_port(gate, node)) else {
            continue;
        };
        check_as_shown(asked)?;
        let shown = asked.granted_payload().and_then(|granted| permitted_effects::read_port(granted, port));
        check_same(&asked.node, shown, body)?;
    }
    Ok(())
}

fn check_same(gate: &NodeId, approved: Option<&Value>, payload: Option<&Value>) -> Result<(), Stop> {
    let same = approved.zip(payload).is_some_and(|(approved, payload)| is_same(approved, payload));
    if same { Ok(()) } else { Err(mismatch(gate, "the payload differs from the one that was approved")) }
}

/// Returns the payload that a gate granted: the artifact that was shown, or the artifact as the approver edited it.
fn find_granted_payload<'a>(run: &'a Run, gate: &NodeId) -> Result<&'a Value, Stop> {
    let completed = run.node_state(gate).is_some_and(|state| state.status == NodeStatus::Completed);
    let asked = run.interrupt_of_node(gate).filter(|asked| completed && asked.kind == Kind::Approval);
    let Some(asked) = asked else { return Err(mismatch(gate, "it has not granted anything")) };
    check_as_shown(asked)?;
    if !asked.is_granted() {
        return Err(mismatch(gate, "it was not granted"));
    }
    asked.granted_payload().ok_or_else(|| mismatch(gate, "it showed no artifact to compare with"))
}

fn mismatch(gate: &NodeId, why: &str) -> Stop {
    Stop::failed("approval_mismatch", format!("gate {gate}: {why}"))
}

/// Compares digests and numbers. Two large integers have the same digest if they round to the same double; for the
/// receiver they differ.
fn is_same(approved: &Value, payload: &Value) -> bool {
    digest(approved) == digest(payload) && is_exact(approved, payload)
}

/// Returns whether two values with the same digest have the same numbers.
fn is_exact(approved: &Value, payload: &Value) -> bool {
    match (approved, payload) {
        (Value::Number(one), Value::Number(other)) => one == other || (is_small(one) && is_small(other)),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_exact(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, one)| other.get(name).is_some_and(|other| is_exact(one, other));
            one.len() == other.len() && one.iter().all(same)
        }
        (one, other) => one == other,
    }
}

/// Returns whether a double represents the number without loss. Below 2^53 each integer has its own double.
fn is_small(number: &Number) -> bool {
    const FIRST_SHARED: u64 = 1 << 53;
    let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    match size {
        Some(size) => size < FIRST_SHARED,
        None => number.as_f64().is_some_and(|number| number.abs() < FIRST_SHARED as f64),
    }
}

/// Returns the flaw in the `approvedBy` of a node. The type of the node must accept the named gate, and the gate must
/// lead to the effect and execute again in every loop iteration in which the effect executes.
pub(crate) fn find_gate_flaw(
    workflow: &Workflow,
    node: &workflow::Node,
    gate: &str,
    accepts: impl Fn(&workflow::Node) -> bool,
) -> Option<DefinitionFlaw> {
    let flaw = |message: String| Some(config_flaw(node, APPROVED_BY, message));
    let found = NodeId::parse(gate).ok().and_then(|gate| workflow.position(&gate));
    let (Some(from), Some(to)) = (found, workflow.position(&node.id)) else {
        return flaw(format!("there is no node {gate:?}"));
    };
    if !accepts(&workflow.nodes[from]) {
        return flaw(format!("{gate:?} is not an approval gate"));
    }
    if !node.needs_grant {
        return flaw("a node with grant: \"none\" cannot name a gate; remove one of the two".to_owned());
    }
    if !workflow.leads_to(from, to) {
        return flaw(format!("no path of edges leads from {gate:?} to here"));
    }
    if workflow.loops.iter().any(|found| found.region[to] && !found.region[from]) {
        return flaw(format!(
            "a loop leads here without passing {gate:?}: one approval would serve every round"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_integers_that_round_to_the_same_double_differ() {
        let first = 1_u64 << 53;
        let (last, first_float) = (first - 1, 9_007_199_254_740_992.0);
        for (approved, payload, same) in [
            (json!(100), json!(100.0), true),
            (json!(last), json!(last), true),
            (json!(last), json!(9_007_199_254_740_991.0), true),
            (json!(first + 1), json!(first + 1), true),
            (json!(first + 1), json!(first), false),
            (json!(first), json!(first + 1), false),
            (json!(first + 1), json!(first_float), false),
            (json!(first_float), json!(first + 1), false),
            (json!(first), json!(first_float), false),
            (json!(-9_007_199_254_740_993_i64), json!(-9_007_199_254_740_992_i64), false),
            (json!({"a": [first + 1]}), json!({"a": [first]}), false),
            // A large number in one member does not affect the comparison of small numbers in another.
            (json!({"a": [first + 1], "b": 1}), json!({"b": 1.0, "a": [first + 1]}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!("1"), json!(1), false),
        ] {
            assert_eq!(is_same(&approved, &payload), same, "{approved} and {payload}");
        }
    }
}
