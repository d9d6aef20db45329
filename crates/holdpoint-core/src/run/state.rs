//! The states of a run, its nodes and its child runs, as plain values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::agent::{Agent, StreamProgress};
use crate::event::{ChildInterrupt, ChildResult, ClosedChildInterrupt, Drain, RunError};
use crate::run::{Status, UnseenChanges};
use crate::{InterruptId, NodeId, NodeStatusName, RunId, Timestamp, WorkflowId};

/// The state of a node in its current visit.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeState {
    /// The status of the node.
    pub status: NodeStatus,
    /// The time at which the visit began.
    pub started_at: Option<Timestamp>,
    /// The time at which the current or last attempt began. The first attempt begins with the visit, the others after a
    /// failure.
    pub tried_at: Option<Timestamp>,
    /// The time at which the node ended.
    pub ended_at: Option<Timestamp>,
    /// The outputs as a JSON object, empty until the node is completed.
    pub outputs: Arc<Value>,
    /// The error of a failed node.
    pub error: Option<RunError>,
    /// The results of effects by step name.
    pub steps: BTreeMap<String, Value>,
    /// The number of sleeps that have ended.
    pub slept: u32,
    /// The number of the visit, from 1. Each iteration of a loop is a new visit.
    pub visit: u32,
    /// The outputs of the previous visit.
    pub outputs_before: Arc<Value>,
    /// The number of retries in this visit.
    pub retries: u32,
    /// True while the node sleeps before the next retry.
    pub retrying: bool,
    /// The first count of derived interrupt keys in this visit, after the counts of all earlier visits.
    pub keys_from: u32,
    /// The child runs that this visit started.
    pub children: Vec<RunId>,
    /// The state of the agent, for the node of an agent.
    pub agent: Option<Arc<Agent>>,
    /// The progress of a reply that is being streamed.
    pub streamed: Option<StreamProgress>,
    /// The number of reported activities.
    pub activities: u32,
    /// True if the node resumes when all its interrupts are closed, not with the first answer.
    pub waits_for_all: bool,
    /// The current delay because of an outage. Every other event of the node, except a chunk, ends it.
    pub delay: Option<Arc<OutageDelay>>,
    /// The changes of other nodes that the running node does not see. None if there are none.
    pub unseen: Option<Arc<UnseenChanges>>,
}

/// The delay of a node because a server that it needs is unavailable.
#[derive(Clone, Debug, PartialEq)]
pub struct OutageDelay {
    /// The time at which the outage began.
    pub since: Timestamp,
    /// The time of the last automatic retry. None if the node continues only after an operator requeues its dispatch.
    pub until: Option<Timestamp>,
    /// The error of the last attempt.
    pub error: RunError,
}

impl NodeState {
    pub(super) fn fail(&mut self, error: &RunError, at: Timestamp) {
        self.status = NodeStatus::Failed;
        self.error = Some(error.clone());
        self.ended_at = Some(at);
    }

    pub(super) fn delay(&mut self, error: &RunError, until: Option<Timestamp>, at: Timestamp) {
        self.delay = Some(Arc::new(OutageDelay { since: at, until, error: error.clone() }));
    }

    /// Returns whether the node is no longer retried automatically, because the outage lasted too long.
    pub fn waits_for_operator(&self) -> bool {
        self.delay.as_ref().is_some_and(|delay| delay.until.is_none())
    }

    /// Keeps the start of the earlier delay if the node is no longer retried automatically.
    pub(super) fn continue_delay(&mut self, before: Option<Arc<OutageDelay>>) {
        let (Some(delay), Some(before)) = (&mut self.delay, before) else { return };
        if delay.until.is_none() {
            Arc::make_mut(delay).since = before.since;
        }
    }

    pub(super) fn record(&mut self, step: &str, result: &Value) {
        self.steps.insert(step.to_owned(), result.clone());
    }

    pub(super) fn sleep(&mut self, until: Timestamp) {
        self.status = NodeStatus::Sleeping(until);
    }

    pub(super) fn retry(&mut self) {
        self.retries += 1;
        self.retrying = true;
    }

    pub(super) fn wake(&mut self, at: Timestamp) {
        self.status = NodeStatus::Running;
        // The sleep before a retry does not count as a sleep of the node.
        if std::mem::take(&mut self.retrying) {
            self.tried_at = Some(at);
        } else {
            self.slept += 1;
        }
    }

    pub(crate) fn new() -> Self {
        Self {
            status: NodeStatus::Pending,
            started_at: None,
            tried_at: None,
            ended_at: None,
            outputs: Arc::new(Value::Object(Map::new())),
            error: None,
            steps: BTreeMap::new(),
            slept: 0,
            visit: 1,
            outputs_before: Arc::new(Value::Object(Map::new())),
            retries: 0,
            retrying: false,
            keys_from: 0,
            children: Vec::new(),
            agent: None,
            streamed: None,
            activities: 0,
            waits_for_all: false,
            delay: None,
            unseen: None,
        }
    }
}

/// A child run, as its parent knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildRunState {
    /// The id of the child run.
    pub run: RunId,
    /// The node that started it.
    pub node: NodeId,
    /// The visit of the node that started it.
    pub visit: u32,
    /// The workflow of the child run.
    pub workflow: WorkflowId,
    /// The inputs of the child run.
    pub inputs: Map<String, Value>,
    /// True if the node waits for the end of the child run.
    pub wait: bool,
    /// True if the child run is cancelled when this run fails or is cancelled.
    pub cascade: bool,
    /// The tool call that the child run executes.
    pub call: Option<String>,
    /// The last status that this run knows.
    pub status: Status,
    /// The open interrupts of the child run and of the runs below it, oldest first.
    pub interrupts: Vec<ChildInterrupt>,
    /// The decisions that closed interrupts of the child run and of the runs below it.
    pub decisions: Vec<ClosedChildInterrupt>,
    /// The result, after the child run has ended.
    pub result: Option<Arc<ChildResult>>,
    /// True if the result is no longer needed. The engine cancels the child run.
    pub abandoned: bool,
}

/// A pause of the run by an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The time of the pause.
    pub at: Timestamp,
    /// The reason that the operator gave.
    pub reason: Option<String>,
    /// The treatment of executing nodes.
    pub drain: Drain,
    /// The principal that paused the run.
    pub by: String,
}

/// The status of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStatus {
    /// The node has not begun.
    Pending,
    /// The node has begun. A worker executes it, or will enter it again.
    Running,
    /// The node waits for an interrupt.
    Waiting(InterruptId),
    /// The node sleeps until this time.
    Sleeping(Timestamp),
    /// The node waits for a child run.
    Awaiting(RunId),
    /// The node has completed.
    Completed,
    /// The node has failed.
    Failed,
    /// The node was skipped.
    Skipped,
}

impl NodeStatus {
    /// Returns whether the node has begun and not ended.
    pub fn is_active(&self) -> bool {
        match self {
            Self::Running | Self::Waiting(_) | Self::Sleeping(_) | Self::Awaiting(_) => true,
            Self::Pending | Self::Completed | Self::Failed | Self::Skipped => false,
        }
    }

    /// Returns whether the node has ended.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Skipped => true,
            Self::Pending | Self::Running | Self::Waiting(_) | Self::Sleeping(_) | Self::Awaiting(_) => false,
        }
    }

    /// Returns the name of the status in the API.
    pub fn name(&self) -> NodeStatusName {
        match self {
            Self::Pending => NodeStatusName::Pending,
            Self::Running => NodeStatusName::Running,
            Self::Waiting(_) => NodeStatusName::Suspended,
            Self::Sleeping(_) => NodeStatusName::Sleeping,
            Self::Awaiting(_) => NodeStatusName::Awaiting,
            Self::Completed => NodeStatusName::Completed,
            Self::Failed => NodeStatusName::Failed,
            Self::Skipped => NodeStatusName::Skipped,
        }
    }
}

/// The outcome of an edge after its source node completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeOutcome {
    /// The edge is taken.
    Taken,
    /// The edge is not taken.
    NotTaken,
    /// The evaluation of the condition failed with this message.
    Failed(String),
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// The run completed.
    Completed {
        /// The time of the end.
        at: Timestamp,
    },
    /// The run failed.
    Failed {
        /// The time of the end.
        at: Timestamp,
        /// The error.
        error: RunError,
        /// The node that failed.
        node: Option<NodeId>,
    },
    /// The run was cancelled.
    Cancelled {
        /// The time of the end.
        at: Timestamp,
        /// The reason that the caller gave.
        reason: Option<String>,
        /// The principal that cancelled the run.
        by: String,
        /// The parent run, if the run was cancelled with it.
        parent: Option<RunId>,
    },
}

impl RunEnd {
    /// Returns the time of the end.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Completed { at } | Self::Failed { at, .. } | Self::Cancelled { at, .. } => *at,
        }
    }
}

/// Work that a worker can do for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeWork {
    /// Begin the node at this position, which is ready.
    Begin(usize),
    /// Enter the running node at this position: execute its code from the start.
    Enter(usize),
}

impl NodeWork {
    /// Returns the position of the node in the workflow.
    pub fn position(self) -> usize {
        match self {
            Self::Begin(position) | Self::Enter(position) => position,
        }
    }
}
