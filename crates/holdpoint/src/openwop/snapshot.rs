//! A run as the protocol shows it. Borrowed from the fold and written straight to the answer: this is what clients
//! ask for most.

use std::sync::Arc;

use holdpoint_core::{
    End, Interrupt, NodeId, NodeState, NodeStatus, Owner, Run, RunError, RunId, Started, Timestamp,
    WorkflowId,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::translate::interrupt_id;
use crate::instants::{iso, optional_iso};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot<'a> {
    run_id: &'a RunId,
    workflow_id: &'a WorkflowId,
    workflow_version: &'a str,
    status: &'static str,
    #[serde(flatten)]
    options: Option<Options<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_node_id: Option<&'a NodeId>,
    #[serde(serialize_with = "iso")]
    started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_iso")]
    completed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<Open<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RunError>,
    #[serde(serialize_with = "node_states")]
    node_states: &'a Run,
    variables: &'a Value,
}

/// What the run was started with.
#[derive(Debug, Serialize)]
struct Options<'a> {
    owner: &'a Owner,
    tags: &'a [String],
    metadata: &'a Map<String, Value>,
    configurable: &'a Map<String, Value>,
}

/// The interrupt that holds the run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Open<'a> {
    interrupt_id: String,
    kind: &'static str,
    node_id: &'a NodeId,
    key: &'a str,
    data: &'a Value,
    #[serde(serialize_with = "iso")]
    requested_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_iso")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume_schema: Option<&'a Value>,
}

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
}

impl<'a> Snapshot<'a> {
    pub(crate) fn of(run: &'a Run) -> Self {
        Self {
            run_id: &run.id,
            workflow_id: &run.workflow.id,
            workflow_version: &run.workflow.version,
            status: run.status().as_str(),
            options: run.started.as_ref().map(options),
            current_node_id: current_node(run),
            started_at: run.started_at,
            completed_at: run.end.as_ref().map(End::at),
            interrupt: run.waiting_on().map(|interrupt| open(run, interrupt)),
            error: match &run.end {
                Some(End::Failed { error, .. }) => Some(error),
                Some(End::Completed { .. } | End::Cancelled { .. }) | None => None,
            },
            node_states: run,
            variables: &run.variables,
        }
    }
}

fn options(started: &Arc<Started>) -> Options<'_> {
    Options {
        owner: &started.owner,
        tags: &started.tags,
        metadata: &started.metadata,
        configurable: &started.configurable,
    }
}

fn open<'a>(run: &Run, interrupt: &'a Interrupt) -> Open<'a> {
    Open {
        interrupt_id: interrupt_id(run.id.as_str(), interrupt.id),
        kind: interrupt.kind.as_str(),
        node_id: &interrupt.node,
        key: &interrupt.key,
        data: &interrupt.data,
        requested_at: interrupt.requested_at,
        timeout_ms: interrupt.timeout_ms,
        expires_at: interrupt.expires_at(),
        resume_schema: interrupt.resume_schema.as_ref(),
    }
}

fn current_node(run: &Run) -> Option<&NodeId> {
    if run.finished() {
        return None;
    }
    let busy = |status: &NodeStatus| matches!(status, NodeStatus::Running | NodeStatus::Sleeping(_));
    let active = || run.nodes.iter().position(|state| busy(&state.status));
    let waiting = run.waiting_on().map(|interrupt| &interrupt.node);
    waiting.or_else(|| active().map(|position| &run.workflow.nodes[position].id))
}

fn node_states<S: Serializer>(run: &&Run, serializer: S) -> Result<S::Ok, S::Error> {
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
    }
}
