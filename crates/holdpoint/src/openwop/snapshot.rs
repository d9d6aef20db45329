//! A run as the protocol shows it. Borrowed from the fold and written straight to the answer: this is what clients
//! ask for most.

use holdpoint_core::{
    Child, Drain, End, Fork, ForkMode, Interrupt, NodeId, NodeStatus, Owner, Parent, Pause, Refusal, Run,
    RunError, RunId, Started, Timestamp, WorkflowId,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::documents::{HIDDEN, shown};
use crate::instants::{iso, optional_iso};
use crate::links::Minted;

mod nodes;

use nodes::node_states;

/// The form of the event log, as the protocol numbers it. Less than 2 means a run without a log of events.
pub(super) const EVENT_LOG_SCHEMA: u32 = 2;

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
    error: Option<Failure<'a>>,
    #[serde(flatten)]
    pause: Option<Paused<'a>>,
    #[serde(flatten)]
    draining: Option<Draining<'a>>,
    #[serde(flatten)]
    parent: Option<Above<'a>>,
    #[serde(flatten)]
    fork: Option<Forked<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    forked_by: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    requested_by: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    child_runs: Vec<Below<'a>>,
    #[serde(serialize_with = "node_states")]
    node_states: &'a Run,
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<Value>,
    variables: Values<'a>,
    event_log_schema_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_version: Option<u64>,
}

/// What the run was started with.
#[derive(Debug, Serialize)]
struct Options<'a> {
    owner: &'a Owner,
    tags: &'a [String],
    metadata: &'a Map<String, Value>,
    configurable: &'a Map<String, Value>,
    inputs: Values<'a>,
}

/// Values by the name of their variable; those that are nobody's business are hidden.
#[derive(Debug)]
struct Values<'a> {
    run: &'a Run,
    values: Option<&'a Map<String, Value>>,
}

/// Why a run failed. The protocol closes this object, so what is ours is under `details`.
#[derive(Debug, Serialize)]
struct Failure<'a> {
    code: &'a str,
    message: &'a str,
    details: Cause<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cause<'a> {
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_node_id: Option<&'a NodeId>,
    #[serde(flatten)]
    more: &'a Map<String, Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Paused<'a> {
    #[serde(serialize_with = "iso")]
    paused_at: Timestamp,
    paused_by: &'a str,
    drain_policy: Drain,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_reason: Option<&'a str>,
}

/// A pause that waits for the nodes at work.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Draining<'a> {
    #[serde(serialize_with = "iso")]
    pause_requested_at: Timestamp,
    pause_requested_by: &'a str,
    drain_policy: Drain,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_reason: Option<&'a str>,
}

/// The run that started this one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Above<'a> {
    parent_run_id: &'a RunId,
    parent_node_id: &'a NodeId,
}

/// The run that this one was forked from.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Forked<'a> {
    source_run_id: &'a RunId,
    from_seq: u64,
    fork_mode: ForkMode,
}

/// A run that this one started.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Below<'a> {
    run_id: &'a RunId,
    workflow_id: &'a WorkflowId,
    node_id: &'a NodeId,
    /// As the parent last heard of it.
    status: &'static str,
}

/// The interrupt that holds the run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Open<'a> {
    interrupt_id: String,
    /// The ids of all open interrupts of the node, if there are several: an answer must then name its interrupt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_interrupt_ids: Vec<String>,
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
    #[serde(flatten)]
    link: Option<Offered>,
}

/// A link with which whoever reads the run can answer it. Never in a log or a stream: those have many readers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Offered {
    interrupt_token: String,
    callback_url: String,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn of(run: &'a Run) -> Self {
        Self {
            run_id: &run.id,
            workflow_id: &run.workflow.id,
            workflow_version: &run.workflow.version,
            status: run.status().as_str(),
            options: run.started.as_deref().map(|started| options(run, started)),
            current_node_id: current_node(run),
            started_at: run.begun_at(),
            completed_at: run.end.as_ref().map(End::at),
            interrupt: run.waiting_on().map(|interrupt| open(run, interrupt)),
            error: match &run.end {
                Some(End::Failed { error, node, .. }) => Some(failure(error, node.as_ref())),
                Some(End::Completed { .. } | End::Cancelled { .. }) | None => None,
            },
            pause: run.paused.as_ref().filter(|_| !run.finished()).map(paused),
            draining: run.draining.as_ref().filter(|_| !run.finished()).map(draining),
            parent: run.started.as_deref().and_then(|started| started.parent.as_ref()).map(above),
            fork: run.started.as_deref().and_then(|started| started.fork.as_ref()).map(forked),
            forked_by: run.started.as_deref().map(|started| &started.forked_by[..]).unwrap_or_default(),
            requested_by: run.started.as_deref().map(|started| &started.requested_by[..]).unwrap_or_default(),
            child_runs: run.children.iter().map(|child| below(child)).collect(),
            node_states: run,
            channels: Some(run.channel_states())
                .filter(|states| !states.is_empty())
                .map(|states| shown(run, &states)),
            variables: Values { run, values: run.variables.as_object() },
            event_log_schema_version: EVENT_LOG_SCHEMA,
            engine_version: run.started.as_deref().and_then(|started| started.engine_version),
        }
    }

    /// Shows a link to what the run waits for.
    pub(crate) fn offer(&mut self, minted: Minted) {
        if let Some(open) = &mut self.interrupt {
            open.link = Some(Offered { interrupt_token: minted.token, callback_url: minted.url });
        }
    }
}

fn options<'a>(run: &'a Run, started: &'a Started) -> Options<'a> {
    Options {
        owner: &started.owner,
        tags: &started.tags,
        metadata: &started.metadata,
        configurable: &started.configurable,
        inputs: Values { run, values: Some(&started.inputs) },
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hidden = Value::String(HIDDEN.to_owned());
        let values = self.values.into_iter().flatten();
        serializer.collect_map(
            values.map(|(name, value)| (name, if self.run.is_hidden(name) { &hidden } else { value })),
        )
    }
}

fn failure<'a>(error: &'a RunError, node: Option<&'a NodeId>) -> Failure<'a> {
    let details = Cause { retryable: error.retryable, failed_node_id: node, more: &error.details };
    Failure { code: &error.code, message: &error.message, details }
}

fn paused(pause: &Pause) -> Paused<'_> {
    Paused {
        paused_at: pause.at,
        paused_by: &pause.by,
        drain_policy: pause.drain,
        pause_reason: pause.reason.as_deref(),
    }
}

fn draining(pause: &Pause) -> Draining<'_> {
    Draining {
        pause_requested_at: pause.at,
        pause_requested_by: &pause.by,
        drain_policy: pause.drain,
        pause_reason: pause.reason.as_deref(),
    }
}

fn above(parent: &Parent) -> Above<'_> {
    Above { parent_run_id: &parent.run, parent_node_id: &parent.node }
}

fn forked(fork: &Fork) -> Forked<'_> {
    Forked { source_run_id: &fork.source, from_seq: fork.from_seq, fork_mode: fork.mode }
}

fn below(child: &Child) -> Below<'_> {
    Below {
        run_id: &child.run,
        workflow_id: &child.workflow,
        node_id: &child.node,
        status: child.status.as_str(),
    }
}

fn open<'a>(run: &Run, interrupt: &'a Interrupt) -> Open<'a> {
    Open {
        interrupt_id: run.interrupt_name(interrupt.id),
        open_interrupt_ids: match run.addressed_interrupt(&interrupt.node, None) {
            Err(Refusal::InterruptAmbiguous(names)) => names,
            Ok(_) | Err(_) => Vec::new(),
        },
        kind: interrupt.kind.as_str(),
        node_id: &interrupt.node,
        key: &interrupt.key,
        data: &interrupt.data,
        requested_at: interrupt.requested_at,
        timeout_ms: interrupt.timeout_ms,
        expires_at: interrupt.expires_at(),
        resume_schema: interrupt.resume_schema.as_ref(),
        link: None,
    }
}

fn current_node(run: &Run) -> Option<&NodeId> {
    if run.finished() {
        return None;
    }
    let busy = |status: &NodeStatus| match status {
        NodeStatus::Running | NodeStatus::Waiting(_) | NodeStatus::Sleeping(_) | NodeStatus::Awaiting(_) => {
            true
        }
        NodeStatus::Pending | NodeStatus::Completed | NodeStatus::Failed | NodeStatus::Skipped => false,
    };
    let active = || run.nodes.iter().position(|state| busy(&state.status));
    let waiting = run.waiting_on().map(|interrupt| &interrupt.node);
    waiting.or_else(|| active().map(|position| &run.workflow.nodes[position].id))
}

#[cfg(test)]
mod tests;
