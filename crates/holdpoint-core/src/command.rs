//! What can be asked of a run. A command is judged by `decide`; it does nothing by itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::agent::{Act, Message, ResumePolicy};
use crate::event::{ChildResult, Drain, Fork, Owner, Parent, Reducer, RunError};
use crate::interrupt::{Answer, Decision, ExternalEvent, Request};
use crate::run::Status;
use crate::{InterruptId, NodeId, Principal, RunId, Timestamp, WorkflowId};

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Start(Box<Start>),
    /// A worker begins a node whose turn has come.
    Begin {
        node: NodeId,
        effect: Effect,
    },
    /// A node ran and this is what came of it.
    Finish {
        node: NodeId,
        outcome: Outcome,
    },
    /// An agent did something, in this order. All of it is written down or nothing is.
    Act {
        node: NodeId,
        acts: Vec<Act>,
    },
    /// Somebody says something to an agent at work. What waits for a decision is taken back.
    Say {
        node: NodeId,
        messages: Vec<Message>,
    },
    /// Messages are added that an agent reads with its next step. Interrupts and calls stay as they are.
    Queue {
        node: NodeId,
        messages: Vec<Message>,
    },
    /// A node did something outside and the result must never be asked for again.
    Record {
        node: NodeId,
        name: String,
        result: Value,
        took_ms: Option<u64>,
    },
    /// People, machines or policies answer. All answers count or none does.
    Resolve {
        answers: BTreeMap<InterruptId, Answer>,
    },
    /// An answer to the interrupt of a node.
    ResolveNode {
        node: NodeId,
        /// The name of the interrupt, as [`Run::interrupt_name`](crate::Run::interrupt_name) has it. Required if the
        /// node has several open interrupts.
        interrupt: Option<String>,
        answer: Answer,
    },
    /// Something happened outside that an interrupt waits for.
    Deliver {
        interrupt: InterruptId,
        event: Box<ExternalEvent>,
        by: Principal,
    },
    /// What an approver wanted to know is answered; the decision is still theirs.
    AnswerAsk {
        interrupt: InterruptId,
        ask: u32,
        answer: String,
        by: Principal,
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
    /// The run that started this one was cancelled.
    CancelWithParent,
    Pause {
        reason: Option<String>,
        drain: Drain,
        by: Principal,
    },
    Resume {
        by: Principal,
    },
    /// The run has taken as long as it may.
    TimeOut,
    /// A run that this one started is in another state now.
    Child {
        child: RunId,
        status: Status,
        /// With the end of the child.
        result: Option<ChildResult>,
    },
    /// A server outside that a running node needs is away. The node is entered again until then; without a time it waits
    /// for an operator.
    Delay {
        node: NodeId,
        error: RunError,
        until: Option<Timestamp>,
    },
    /// The machinery gave up on the run; the error is the run's end.
    Abandon {
        error: RunError,
    },
}

/// The reach of a node: its own run, or systems and runs outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The node changes only its own run.
    None,
    /// The node acts outside of its run or starts other runs: it uses the grants of the gates before it.
    Outside,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub owner: Owner,
    pub inputs: Map<String, Value>,
    pub configurable: Map<String, Value>,
    pub tags: Vec<String>,
    pub metadata: Map<String, Value>,
    /// The thread it belongs to, where that is not one of its own. Whoever starts runs of agents there lets none begin
    /// while another is open: an agent is shown what was said before its run began, and takes that for settled.
    pub thread: Option<String>,
    /// What is said to an agent at the start.
    pub messages: Option<Box<(NodeId, Vec<Message>)>>,
    pub scope: Option<String>,
    pub callback_url: Option<String>,
    pub trace: Option<String>,
    /// As [`Started::trace_state`](crate::Started::trace_state).
    pub trace_state: Option<String>,
    /// As [`Started::engine_version`](crate::Started::engine_version).
    pub engine_version: Option<u64>,
    pub parent: Option<Parent>,
    pub fork: Option<Fork>,
    /// As [`Started::forked_by`](crate::Started::forked_by).
    pub forked_by: Vec<String>,
    /// As [`Started::grants`](crate::Started::grants).
    pub grants: Vec<String>,
    /// As [`Started::requested_by`](crate::Started::requested_by).
    pub requested_by: Vec<String>,
    /// As [`Started::credentials`](crate::Started::credentials).
    pub credentials: Vec<String>,
    /// As [`Started::callback_secret`](crate::Started::callback_secret).
    pub callback_secret: Option<String>,
}

impl Start {
    /// Without inputs and options.
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            inputs: Map::new(),
            configurable: Map::new(),
            tags: Vec::new(),
            metadata: Map::new(),
            thread: None,
            messages: None,
            scope: None,
            callback_url: None,
            trace: None,
            trace_state: None,
            engine_version: None,
            parent: None,
            fork: None,
            forked_by: Vec::new(),
            grants: Vec::new(),
            requested_by: Vec::new(),
            credentials: Vec::new(),
            callback_secret: None,
        }
    }
}

/// How one execution of a node ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Completed(Box<Completion>),
    Failed(RunError),
    /// The node asks under a key nobody asked under before.
    Asked(Box<Request>),
    /// The node asks under a key that is still open: it waits for the same answer.
    Joined(InterruptId),
    Sleeping(Timestamp),
    /// An agent has nothing to do until somebody decides about its calls.
    Suspended {
        policy: ResumePolicy,
    },
    /// The node starts a run of its own.
    Dispatched(Box<Dispatch>),
}

/// What a completed node leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// Named values that later nodes and the run's variables can see.
    pub outputs: Map<String, Value>,
    /// Of a node that chooses a way: the `sourceOutput` of the edges to take. Other named ways are not taken.
    pub branch: Option<String>,
    /// Names of outputs that do not become variables.
    pub unmapped: Vec<String>,
    pub variables: Vec<(String, Value)>,
    pub channels: Vec<ChannelWrite>,
    pub chunks: Vec<Chunk>,
    /// What agents decided in it, sure enough of themselves.
    pub decisions: Vec<Decision>,
}

impl Completion {
    pub fn of(outputs: Map<String, Value>) -> Self {
        Self { outputs, ..Self::default() }
    }
}

/// A piece of what a model says, and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    pub text: String,
    pub meta: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ChannelWrite {
    pub channel: String,
    pub value: Value,
    pub reducer: Reducer,
    pub ttl_ms: Option<u64>,
    pub max_size: Option<u64>,
}

/// A run that a node wants to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    pub workflow: WorkflowId,
    pub inputs: Map<String, Value>,
    /// The node goes on when the run has ended.
    pub wait: bool,
    /// The run is cancelled when this one is, or fails.
    pub cascade: bool,
}
