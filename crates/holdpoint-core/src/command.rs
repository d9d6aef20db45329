//! What can be asked of a run. A command is judged by `decide`; it does nothing by itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::event::{Owner, RunError};
use crate::ids::{InterruptId, NodeId, Principal, Timestamp};
use crate::interrupt::{Answer, Request};

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Start(Start),
    /// A worker begins a node whose turn has come.
    Begin {
        node: NodeId,
    },
    /// A node ran and this is what came of it.
    Finish {
        node: NodeId,
        outcome: Outcome,
    },
    /// A node did something outside and the result must never be asked for again.
    Record {
        node: NodeId,
        name: String,
        result: Value,
    },
    /// People, machines or policies answer. All answers count or none does.
    Resolve {
        answers: BTreeMap<InterruptId, Answer>,
    },
    /// An answer to whatever a node asks.
    ResolveNode {
        node: NodeId,
        answer: Answer,
    },
    /// An interrupt's deadline has come.
    Expire {
        interrupt: InterruptId,
    },
    /// A sleeping node's time has come.
    Wake {
        node: NodeId,
    },
    Cancel {
        reason: Option<String>,
        by: Principal,
    },
    /// The machinery gave up on the run; the error is the run's end.
    Abandon {
        error: RunError,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub owner: Owner,
    pub inputs: Map<String, Value>,
    pub configurable: Map<String, Value>,
    pub tags: Vec<String>,
    pub metadata: Map<String, Value>,
}

/// How one execution of a node ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Completed(Map<String, Value>),
    Failed(RunError),
    /// The node asks under a key nobody asked under before.
    Asked(Box<Request>),
    /// The node asks under a key that is still open: it waits for the same answer.
    Joined(InterruptId),
    Sleeping(Timestamp),
}
