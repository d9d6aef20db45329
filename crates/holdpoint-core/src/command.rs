//! Commands: requests to change a run. `decide` turns a command into events or a refusal.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::agent::{AgentAction, Message, ResumePolicy};
use crate::event::{
    ChildInterruptChanges, ChildResult, Drain, Fork, Owner, Parent, Reducer, RunError, TriggerCause,
};
use crate::interrupt::{AgentDecision, Answer, ExternalEvent, InterruptRequest};
use crate::mailbox::DispatchOptions;
use crate::run::Status;
use crate::{InterruptId, NodeId, Principal, RequestSource, RunId, Timestamp, WorkflowId};

/// A request to change a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Starts the run.
    Start(Box<StartRequest>),
    /// Records what follows from the state of the run although nodes are ready or at work: unreachable nodes are skipped
    /// and back edges are taken, so that the nodes behind them can begin.
    Settle,
    /// A worker begins to execute a node that is ready.
    Begin {
        /// The node to execute.
        node: NodeId,
        /// The effects of the node.
        effect: Effect,
    },
    /// A worker reports the outcome of a node.
    Finish {
        /// The executed node.
        node: NodeId,
        /// The outcome of the execution.
        outcome: NodeOutcome,
    },
    /// An agent performed actions. They are recorded in this order, all or none.
    Act {
        /// The node of the agent.
        node: NodeId,
        /// The actions in their order.
        actions: Vec<AgentAction>,
    },
    /// A user sends messages to an agent. Calls and replies that wait for a decision are cancelled.
    SendMessages {
        /// The node of the agent.
        node: NodeId,
        /// The messages in their order.
        messages: Vec<Message>,
    },
    /// Adds messages that an agent reads at its next step. Open interrupts and suspended calls do not change.
    QueueMessages {
        /// The node of the agent.
        node: NodeId,
        /// The messages in their order.
        messages: Vec<Message>,
    },
    /// A node performed an effect. If the node is entered again, it uses the recorded result.
    Record {
        /// The node that performed the effect.
        node: NodeId,
        /// The name of the step.
        name: String,
        /// The result of the effect.
        result: Value,
        /// The duration of the effect.
        took_ms: Option<u64>,
    },
    /// Answers interrupts of the run: all or none.
    Resolve {
        /// The answers by interrupt.
        answers: BTreeMap<InterruptId, Answer>,
    },
    /// Answers the interrupt of a node.
    ResolveNode {
        /// The node that opened the interrupt.
        node: NodeId,
        /// The public id of the interrupt, from [`Run::interrupt_name`](crate::Run::interrupt_name). Required if the
        /// node has several open interrupts.
        interrupt: Option<String>,
        /// The answer.
        answer: Answer,
    },
    /// Delivers an external event to the interrupt that waits for it.
    Deliver {
        /// The interrupt that waits.
        interrupt: InterruptId,
        /// The external event.
        event: Box<ExternalEvent>,
        /// The principal that sent the event.
        by: Principal,
    },
    /// Answers a side question. The interrupt stays open.
    AnswerSideQuestion {
        /// The interrupt of the side question.
        interrupt: InterruptId,
        /// The number of the side question.
        ask: u32,
        /// The answer for the approver.
        answer: String,
        /// The principal that answers.
        by: Principal,
    },
    /// The deadline of an interrupt has passed.
    Expire {
        /// The interrupt to expire.
        interrupt: InterruptId,
    },
    /// The sleep of a node has ended.
    Wake {
        /// The sleeping node.
        node: NodeId,
    },
    /// Cancels the run.
    Cancel {
        /// The reason, if one was given.
        reason: Option<String>,
        /// The principal that cancels.
        by: Principal,
    },
    /// Cancels the run on behalf of its parent run.
    CancelWithParent,
    /// Pauses the run.
    Pause {
        /// The reason, if one was given.
        reason: Option<String>,
        /// The treatment of nodes that are executing.
        drain: Drain,
        /// The operator.
        by: Principal,
    },
    /// Resumes a paused run.
    Resume {
        /// The operator.
        by: Principal,
    },
    /// The time limit of the run has passed.
    TimeOut,
    /// The status of a child run has changed.
    Child {
        /// The child run.
        child: RunId,
        /// The new status of the child run.
        status: Status,
        /// The interrupts that were opened and closed.
        interrupts: ChildInterruptChanges,
        /// The result, if the child run has ended.
        result: Option<ChildResult>,
    },
    /// A server that a running node needs is unreachable. The node is retried until `until`. Without `until`, it waits
    /// for an operator.
    Delay {
        /// The node that needs the server.
        node: NodeId,
        /// The error of the last attempt.
        error: RunError,
        /// The time until which the node is retried.
        until: Option<Timestamp>,
    },
    /// The engine gives up on the run. The run fails.
    Abandon {
        /// The error of the run.
        error: RunError,
    },
}

/// The effects of a node outside of its own run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The node changes only its own run.
    None,
    /// The node acts outside of its run or starts other runs: it uses the grants of the gates before it.
    Outside,
}

/// The parameters of a new run.
#[derive(Clone, Debug, PartialEq)]
pub struct StartRequest {
    /// The owner of the run.
    pub owner: Owner,
    /// The input values of the workflow.
    pub inputs: Map<String, Value>,
    /// Options that override settings of the workflow.
    pub configurable: Map<String, Value>,
    /// Tags for filters and subscriptions.
    pub tags: Vec<String>,
    /// Metadata from the client.
    pub metadata: Map<String, Value>,
    /// The thread of the run, if it is shared with other runs. The caller must not start a run of an agent while
    /// another run of the thread is open: an agent assumes that the messages of earlier runs do not change.
    pub thread: Option<String>,
    /// Messages for an agent node at the start.
    pub messages: Option<Box<(NodeId, Vec<Message>)>>,
    /// See [`RunParameters::scope`](crate::RunParameters::scope).
    pub scope: Option<String>,
    /// The address that receives the result of the run.
    pub callback_url: Option<String>,
    /// See [`RunParameters::trace`](crate::RunParameters::trace).
    pub trace: Option<String>,
    /// See [`RunParameters::trace_state`](crate::RunParameters::trace_state).
    pub trace_state: Option<String>,
    /// See [`RunParameters::engine_version`](crate::RunParameters::engine_version).
    pub engine_version: Option<u64>,
    /// The run and the node that start this run.
    pub parent: Option<Parent>,
    /// The source of a fork.
    pub fork: Option<Fork>,
    /// See [`RunParameters::forked_by`](crate::RunParameters::forked_by).
    pub forked_by: Vec<String>,
    /// See [`RunParameters::grants`](crate::RunParameters::grants).
    pub grants: Vec<String>,
    /// See [`RunParameters::requested_by`](crate::RunParameters::requested_by).
    pub requested_by: Vec<String>,
    /// See [`RunParameters::credentials`](crate::RunParameters::credentials).
    pub credentials: Vec<String>,
    /// See [`RunParameters::callback_secret`](crate::RunParameters::callback_secret).
    pub callback_secret: Option<String>,
    /// See [`RunParameters::source`](crate::RunParameters::source).
    pub source: Option<RequestSource>,
    /// See [`RunParameters::branch_of`](crate::RunParameters::branch_of). The caller must have checked that the run is
    /// part of the thread.
    pub branch_of: Option<RunId>,
    /// See [`RunParameters::client_run`](crate::RunParameters::client_run).
    pub client_run: Option<String>,
    /// See [`RunParameters::dispatch`](crate::RunParameters::dispatch).
    pub dispatch: DispatchOptions,
    /// See [`RunParameters::trigger`](crate::RunParameters::trigger).
    pub trigger: Option<Box<TriggerCause>>,
}

impl StartRequest {
    /// Creates a request of the process itself, without inputs and options.
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
            source: Some(RequestSource::INTERNAL),
            branch_of: None,
            client_run: None,
            dispatch: DispatchOptions::default(),
            trigger: None,
        }
    }
}

/// The outcome of one execution of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeOutcome {
    /// The node completed.
    Completed(Box<Completion>),
    /// The node failed.
    Failed(RunError),
    /// The node opens an interrupt with a new key.
    Asked(Box<InterruptRequest>),
    /// The node waits for an open interrupt with the same key.
    Joined(InterruptId),
    /// The node sleeps until this time.
    Sleeping(Timestamp),
    /// An agent waits for decisions about its calls.
    Suspended {
        /// The rule for when the decisions are applied.
        policy: ResumePolicy,
    },
    /// The node starts a child run.
    ChildRequested(Box<ChildRunRequest>),
}

/// The result of a completed node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// Named values for later nodes and for the variables of the run.
    pub outputs: Map<String, Value>,
    /// The `sourceOutput` of the edges that the node chose. Edges with another `sourceOutput` are not taken.
    pub branch: Option<String>,
    /// Names of outputs that do not become variables.
    pub unmapped: Vec<String>,
    /// Variables of the run to set.
    pub variables: Vec<(String, Value)>,
    /// Writes to channels.
    pub channels: Vec<ChannelWrite>,
    /// Chunks of text that the node produced.
    pub chunks: Vec<TextChunk>,
    /// Decisions of agents that needed no ratification.
    pub decisions: Vec<AgentDecision>,
}

impl Completion {
    /// Creates a completion with these outputs.
    pub fn of(outputs: Map<String, Value>) -> Self {
        Self { outputs, ..Self::default() }
    }
}

/// A chunk of text from a model, with its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct TextChunk {
    /// The text of the chunk.
    pub text: String,
    /// The metadata of the chunk.
    pub meta: Map<String, Value>,
}

/// A write to a channel of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelWrite {
    /// The name of the channel.
    pub channel: String,
    /// The value before it is reduced.
    pub value: Value,
    /// The reducer of the channel.
    pub reducer: Reducer,
    /// The maximum age of earlier entries; this write removes older ones. Default: the value that the channel declares.
    pub ttl_ms: Option<u64>,
    /// The maximum number of entries after this write. Default: the value that the channel declares.
    pub max_size: Option<u64>,
}

/// A child run that a node starts.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildRunRequest {
    /// The workflow of the child run.
    pub workflow: WorkflowId,
    /// The inputs of the child run.
    pub inputs: Map<String, Value>,
    /// True if the node waits for the end of the child run.
    pub wait: bool,
    /// True if the child run is cancelled when this run fails or is cancelled.
    pub cascade: bool,
}
