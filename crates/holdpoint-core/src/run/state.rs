//! The states a run and its nodes can be in, as plain values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::agent::Agent;
use crate::event::{ChildResult, Drain, RunError};
use crate::run::Status;
use crate::{InterruptId, NodeId, NodeStatusName, RunId, Timestamp, WorkflowId};

#[derive(Clone, Debug, PartialEq)]
pub struct NodeState {
    pub status: NodeStatus,
    pub started_at: Option<Timestamp>,
    /// When the attempt began that is under way, or was last: the first with the visit, others after a failure.
    pub tried_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// A JSON object, empty until the node completed.
    pub outputs: Arc<Value>,
    pub error: Option<RunError>,
    /// Results of outside effects by step name.
    pub steps: BTreeMap<String, Value>,
    /// How many of the node's sleeps are over.
    pub slept: u32,
    /// Counts, from 1, how often the node's turn has come: once, and again with every loop.
    pub visit: u32,
    /// The outputs of the visit before.
    pub outputs_before: Arc<Value>,
    /// How often this visit was tried again, and whether the node sleeps before the next time.
    pub retries: u32,
    pub retrying: bool,
    /// Where the counts of derived keys begin in this visit: after those of all visits before.
    pub keys_from: u32,
    /// Runs that this visit started.
    pub children: Vec<RunId>,
    /// Of an agent: what was said and done in this visit.
    pub agent: Option<Arc<Agent>>,
    /// It goes on when nothing is open any more that it has asked, and not with the first answer.
    pub waits_for_all: bool,
    /// A server outside that it needs is away, and nothing has happened to the node since.
    pub delay: Option<Arc<Delay>>,
}

/// The wait of a node for a server outside that is away.
#[derive(Clone, Debug, PartialEq)]
pub struct Delay {
    pub since: Timestamp,
    /// When the node is entered for the last time. None if only an operator lets it go on.
    pub until: Option<Timestamp>,
    pub error: RunError,
}

impl NodeState {
    pub(super) fn fail(&mut self, error: &RunError, at: Timestamp) {
        self.status = NodeStatus::Failed;
        self.error = Some(error.clone());
        self.ended_at = Some(at);
    }

    pub(super) fn delay(&mut self, error: &RunError, until: Option<Timestamp>, at: Timestamp) {
        self.delay = Some(Arc::new(Delay { since: at, until, error: error.clone() }));
    }

    /// Returns whether no worker tries the node any more: its server was away for too long.
    pub fn is_given_up(&self) -> bool {
        self.delay.as_ref().is_some_and(|delay| delay.until.is_none())
    }

    /// A delay that ends without success began with the one before it.
    pub(super) fn continue_delay(&mut self, before: Option<Arc<Delay>>) {
        let (Some(delay), Some(before)) = (&mut self.delay, before) else { return };
        if delay.until.is_none() {
            Arc::make_mut(delay).since = before.since;
        }
    }

    pub(super) fn wait(&mut self, interrupt: InterruptId, for_all: bool) {
        self.status = NodeStatus::Waiting(interrupt);
        self.waits_for_all = for_all;
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
        // A wait before another try is not one that the node has asked for.
        if std::mem::take(&mut self.retrying) {
            self.tried_at = Some(at);
        } else {
            self.slept += 1;
        }
    }

    pub(crate) fn untouched() -> Self {
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
            waits_for_all: false,
            delay: None,
        }
    }
}

/// A run that this one started.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    pub run: RunId,
    pub node: NodeId,
    /// Which visit of the node started it.
    pub visit: u32,
    pub workflow: WorkflowId,
    pub inputs: Map<String, Value>,
    pub wait: bool,
    pub cascade: bool,
    /// The call of an agent that it carries out.
    pub call: Option<String>,
    /// As this run last heard of it.
    pub status: Status,
    /// Once it has ended.
    pub result: Option<Arc<ChildResult>>,
    /// Nobody wants to know any more what becomes of it: it is cancelled.
    pub given_up: bool,
}

/// Why and how a run stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    pub at: Timestamp,
    pub reason: Option<String>,
    pub drain: Drain,
    pub by: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStatus {
    Pending,
    Running,
    Waiting(InterruptId),
    Sleeping(Timestamp),
    /// For a run that it started.
    Awaiting(RunId),
    Completed,
    Failed,
    Skipped,
}

impl NodeStatus {
    /// It has begun and not ended.
    pub fn is_at_work(&self) -> bool {
        match self {
            Self::Running | Self::Waiting(_) | Self::Sleeping(_) | Self::Awaiting(_) => true,
            Self::Pending | Self::Completed | Self::Failed | Self::Skipped => false,
        }
    }

    pub fn has_ended(&self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Skipped => true,
            Self::Pending | Self::Running | Self::Waiting(_) | Self::Sleeping(_) | Self::Awaiting(_) => false,
        }
    }

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

/// What a condition said of its edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Taken,
    NotTaken,
    /// It could not be evaluated, and why.
    Broken(String),
}

/// How and when a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    Completed { at: Timestamp },
    Failed { at: Timestamp, error: RunError, node: Option<NodeId> },
    Cancelled { at: Timestamp, reason: Option<String>, by: String, parent: Option<RunId> },
}

impl End {
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Completed { at } | Self::Failed { at, .. } | Self::Cancelled { at, .. } => *at,
        }
    }
}

/// The next thing a worker can do for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A node whose turn has come.
    Begin(usize),
    /// A node that began and neither ended nor waits: it must be entered again from its start.
    Enter(usize),
}

impl Work {
    pub fn position(self) -> usize {
        match self {
            Self::Begin(position) | Self::Enter(position) => position,
        }
    }
}
