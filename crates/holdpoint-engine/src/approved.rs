//! What people approved, held against what is about to happen. Every node that acts on an approval asks here, right
//! before it acts: nothing may leave that nobody was shown.

use holdpoint_core::workflow::{self, Flaw, Workflow};
use holdpoint_core::{Interrupt, Kind, NodeId, NodeStatus, Resolution, Run, digest};
use serde_json::{Number, Value};

use crate::context::Stop;
use crate::nodes::config_flaw;

/// The types of nodes whose grants count. Each visit of them asks anew, under a key of its own.
const GATES: [&str; 1] = ["core.approvalGate"];

/// The member of a node's config that names its gate.
pub(crate) const APPROVED_BY: &str = "approvedBy";

/// Refuses to go on from a question that is no longer stored as it was shown.
pub(crate) fn check_as_shown(asked: &Interrupt) -> Result<(), Stop> {
    if asked.is_as_shown() {
        return Ok(());
    }
    let message = format!(
        "what {} was asked about is not stored as it was shown any more; nothing was done with the answer",
        asked.node
    );
    Err(Stop::failed("payload_mismatch", message))
}

/// Whether this very payload was granted at the gate, in the visit that led here.
pub(crate) fn check(run: &Run, gate: &NodeId, payload: Option<&Value>) -> Result<(), Stop> {
    let approved = granted(run, gate)?;
    let same = payload.is_some_and(|payload| is_same(approved, payload));
    if same { Ok(()) } else { Err(mismatch(gate, "something else was approved than what is to be sent")) }
}

/// What people agreed to at a gate: what they were shown, or what they made of it.
fn granted<'a>(run: &'a Run, gate: &NodeId) -> Result<&'a Value, Stop> {
    let completed = run.node_state(gate).is_some_and(|state| state.status == NodeStatus::Completed);
    let asked = run.interrupt_of_node(gate).filter(|asked| completed && asked.kind == Kind::Approval);
    let Some(asked) = asked else { return Err(mismatch(gate, "it has not granted anything")) };
    check_as_shown(asked)?;
    let Some(Resolution::Answered { value, .. }) = &asked.resolution else {
        return Err(mismatch(gate, "nobody has answered it"));
    };
    // Who granted it meant one run. A branch behind the gate would do once more what was granted once.
    if asked.taken_over {
        let why = "it was granted before this branch was made, to the run that the branch comes from; \
            branch before the gate, and ask again";
        return Err(mismatch(gate, why));
    }
    let artifact = match value.get("action").and_then(Value::as_str) {
        Some("accept") => asked.data.get("artifactData"),
        Some("edit-accept") => value.get("editedArtifactData"),
        _ => return Err(mismatch(gate, "it was not granted")),
    };
    artifact.ok_or_else(|| mismatch(gate, "it showed nothing that could be compared"))
}

fn mismatch(gate: &NodeId, why: &str) -> Stop {
    Stop::failed("approval_mismatch", format!("gate {gate}: {why}"))
}

/// By digest. To that, large integers are all the same that share a double; to whoever gets them they are not.
fn is_same(approved: &Value, payload: &Value) -> bool {
    digest(approved) == digest(payload) && (approved == payload || is_exact(payload))
}

fn is_exact(value: &Value) -> bool {
    const LAST: u64 = 1 << 53;
    let small = |number: &Number| {
        let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
        size.is_none_or(|size| size <= LAST)
    };
    match value {
        Value::Number(number) => small(number),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// What is wrong with the gate that a node names: it must be one, come before, and be passed anew whenever the node is.
pub(crate) fn flaw(workflow: &Workflow, node: &workflow::Node, gate: &str) -> Option<Flaw> {
    let flaw = |message: String| Some(config_flaw(node, APPROVED_BY, message));
    let found = NodeId::parse(gate).ok().and_then(|gate| workflow.position(&gate));
    let (Some(from), Some(to)) = (found, workflow.position(&node.id)) else {
        return flaw(format!("there is no node {gate:?}"));
    };
    if !GATES.contains(&workflow.nodes[from].type_id.as_str()) {
        return flaw(format!("{gate:?} is not an approval gate ({})", GATES.join(", ")));
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
