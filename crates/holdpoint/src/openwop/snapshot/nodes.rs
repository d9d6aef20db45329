//! The nodes of a run as its snapshot shows them.

use holdpoint_core::{Delay, NodeState, Run, RunError, Timestamp};
use serde::{Serialize, Serializer};

use crate::instants::{iso, optional_iso};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node<'a> {
    status: &'static str,
    type_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_iso")]
    started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_iso")]
    completed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RunError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Delayed<'a>>,
}

/// The wait of a node for a server outside that is away.
#[derive(Debug, Serialize)]
struct Delayed<'a> {
    #[serde(serialize_with = "iso")]
    since: Timestamp,
    /// Left out if only an operator lets the node go on.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_iso")]
    until: Option<Timestamp>,
    error: &'a RunError,
}

pub(super) fn node_states<S: Serializer>(run: &&Run, serializer: S) -> Result<S::Ok, S::Error> {
    let states = run.workflow.nodes.iter().zip(&run.nodes);
    serializer.collect_map(states.map(|(node, state)| (&node.id, node_state(state, &node.type_id))))
}

fn node_state<'a>(state: &'a NodeState, type_id: &'a str) -> Node<'a> {
    Node {
        status: state.status.as_str(),
        type_id,
        started_at: state.started_at,
        completed_at: state.ended_at,
        error: state.error.as_ref(),
        delay: state.delay.as_deref().map(delayed),
    }
}

fn delayed(delay: &Delay) -> Delayed<'_> {
    Delayed { since: delay.since, until: delay.until, error: &delay.error }
}
