//! What has happened to a run. The JSON of these values is the stored contract: variants and fields are only ever
//! added, and every variant has a golden line in `tests/golden_events`.
//!
//! Names follow OpenWOP where it has one; `holdpoint.*` are ours. What can be computed from the fold is not stored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Via;
use crate::agent::{Behaviour, CallStatus, Message, ToolCallResumeMode, Usage};
use crate::interrupt::Kind;
use crate::run::Status;
use crate::{InterruptId, NodeId, RunId, Timestamp, WorkflowId};

mod names;
mod sources;
mod started;
mod values;

pub use holdpoint_ids::{Cap, Drain, ForkMode, Owner, Reducer};
pub use started::{Fork, Parent, Started};
pub use values::{ChildResult, RunError, TIMED_OUT};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    #[serde(rename = "run.started")]
    RunStarted(Box<Started>),
    #[serde(rename = "node.started")]
    NodeStarted {
        node: NodeId,
        /// The grants that the effect of the node uses: interrupts of this run whose decisions permit it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uses: Vec<InterruptId>,
    },
    #[serde(rename = "node.completed")]
    NodeCompleted {
        node: NodeId,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        outputs: Map<String, Value>,
        /// The way it chose, of a node that chooses one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// Names of outputs that do not become variables: members of an answer that the definition does not map.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unmapped: Vec<String>,
    },
    #[serde(rename = "node.failed")]
    NodeFailed { node: NodeId, error: RunError },
    /// A server outside that the node needs is away. The node is entered again until then; without a time it waits for an
    /// operator.
    #[serde(rename = "holdpoint.node.delayed")]
    NodeDelayed {
        node: NodeId,
        error: RunError,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    #[serde(rename = "node.skipped")]
    NodeSkipped { node: NodeId, reason: String },
    #[serde(rename = "node.suspended")]
    NodeSuspended {
        node: NodeId,
        interrupt: InterruptId,
        /// Of an agent with several calls that wait: it goes on with the last answer, and not with the first.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    #[serde(rename = "node.resumed")]
    NodeResumed { node: NodeId, interrupt: InterruptId },
    #[serde(rename = "interrupt.requested")]
    InterruptRequested {
        id: InterruptId,
        node: NodeId,
        kind: Kind,
        key: String,
        data: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume_schema: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// Of the data, in its canonical form: what was shown can be told from what was not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    #[serde(rename = "approval.requested")]
    ApprovalRequested { interrupt: InterruptId },
    #[serde(rename = "clarification.requested")]
    ClarificationRequested { interrupt: InterruptId },
    #[serde(rename = "interrupt.resolved")]
    InterruptResolved {
        id: InterruptId,
        value: Value,
        by: String,
        /// What whoever decided calls the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<String>,
        /// The answer is repeated by a replay from the record of its source. It gives this run no grant.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copied: bool,
        /// The vote that ended a quorum, if the outcome of all votes differs from it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vote: Option<Value>,
        /// The credential of the answer. Answers of the host and of older versions have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<Via>,
    },
    /// Nobody answered before the deadline: silence, which is neither a grant nor a person's refusal.
    #[serde(rename = "interrupt.timed_out")]
    InterruptTimedOut { id: InterruptId },
    #[serde(rename = "approval.received")]
    ApprovalReceived { interrupt: InterruptId },
    #[serde(rename = "clarification.resolved")]
    ClarificationResolved { interrupt: InterruptId },
    /// One of several approvals that are needed. The deciding one is the resolution itself.
    #[serde(rename = "holdpoint.vote.cast")]
    VoteCast {
        interrupt: InterruptId,
        value: Value,
        by: String,
        /// What whoever voted calls it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<String>,
        /// The vote is repeated by a replay from the record of its source.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copied: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<Via>,
    },
    /// Somebody voted again and said the same: it does not count, but it happened.
    #[serde(rename = "holdpoint.vote.repeated")]
    VoteRepeated {
        interrupt: InterruptId,
        action: String,
        by: String,
        /// Who spoke for them, if they did not themselves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        acted_by: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<Via>,
    },
    /// An approver wants to know something before deciding.
    #[serde(rename = "holdpoint.ask.raised")]
    AskRaised {
        interrupt: InterruptId,
        ask: u32,
        question: String,
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        acted_by: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<Via>,
    },
    #[serde(rename = "holdpoint.ask.answered")]
    AskAnswered { interrupt: InterruptId, ask: u32, answer: String, by: String },
    /// A governed gate turned somebody away, or let somebody in.
    #[serde(rename = "authorization.decided")]
    AuthorizationDecided {
        interrupt: InterruptId,
        by: String,
        action: String,
        allowed: bool,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<Via>,
    },
    /// What somebody says at a governed gate. Who, and why, is in the vote or the resolution right before it.
    #[serde(rename = "approval.granted")]
    ApprovalGranted { interrupt: InterruptId },
    #[serde(rename = "approval.rejected")]
    ApprovalRejected { interrupt: InterruptId },
    #[serde(rename = "approval.overridden")]
    ApprovalOverridden { interrupt: InterruptId },
    /// The request has the conversation's id; `name` is what the workflow calls it.
    #[serde(rename = "conversation.opened")]
    ConversationOpened {
        interrupt: InterruptId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    #[serde(rename = "conversation.exchanged")]
    ConversationExchanged { interrupt: InterruptId },
    #[serde(rename = "conversation.closed")]
    ConversationClosed { interrupt: InterruptId },
    #[serde(rename = "agent.decided")]
    AgentDecided {
        node: NodeId,
        agent: String,
        decision: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confidence: Option<f64>,
        /// Why the agent's confidence says nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flaw: Option<String>,
        /// The reply of a model that decided it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    #[serde(rename = "holdpoint.step.recorded")]
    StepRecorded {
        node: NodeId,
        name: String,
        result: Value,
        /// How long the effect took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_ms: Option<u64>,
    },
    #[serde(rename = "holdpoint.sleep.started")]
    SleepStarted { node: NodeId, until: Timestamp },
    #[serde(rename = "holdpoint.sleep.ended")]
    SleepEnded { node: NodeId },
    /// The node fails for now; it is entered again after the delay.
    #[serde(rename = "node.retried")]
    NodeRetried { node: NodeId, attempt: u32, delay_ms: u64, error: RunError },
    #[serde(rename = "variable.changed")]
    VariableChanged {
        node: NodeId,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous: Option<Value>,
        next: Value,
    },
    /// `value` is the write, before it is reduced. Reducer and limits are those in force at the time.
    #[serde(rename = "channel.written")]
    ChannelWritten {
        node: NodeId,
        channel: String,
        value: Value,
        reducer: Reducer,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_size: Option<u64>,
    },
    /// A piece of what a model says.
    #[serde(rename = "ai.message.chunk")]
    MessageChunk {
        node: NodeId,
        chunk: String,
        last: bool,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        meta: Map<String, Value>,
    },
    /// Somebody says something to an agent.
    #[serde(rename = "holdpoint.message.added")]
    MessageAdded { node: NodeId, message: Box<Message> },
    /// An agent's model replied. `seen` is how many messages of this run it was shown.
    #[serde(rename = "holdpoint.model.replied")]
    ModelReplied {
        node: NodeId,
        message: Box<Message>,
        seen: usize,
        usage: Usage,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_ms: Option<u64>,
    },
    /// The model wants a call that is in its reply, and this is what the rules say of it.
    #[serde(rename = "agent.toolCalled")]
    ToolCalled {
        node: NodeId,
        call: String,
        behaviour: Behaviour,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        idempotent: bool,
        /// The front end carries it out.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        client: bool,
    },
    /// The call waits for an answer to the interrupt that was requested right before.
    #[serde(rename = "holdpoint.tool.suspended")]
    ToolSuspended { node: NodeId, call: String, interrupt: InterruptId, mode: ToolCallResumeMode },
    /// From here on nobody can say without a result that the call was not made.
    #[serde(rename = "holdpoint.tool.begun")]
    ToolBegun {
        node: NodeId,
        call: String,
        /// Where they are not those that the model gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
        /// The grants that the call uses.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uses: Vec<InterruptId>,
    },
    #[serde(rename = "agent.toolReturned")]
    ToolReturned { node: NodeId, call: String, status: CallStatus, content: Value },
    /// A node's outputs are an artifact; they are kept in its completion.
    #[serde(rename = "artifact.created")]
    ArtifactCreated { node: NodeId, artifact: String, version: u32 },
    /// A back edge was taken: its target and everything behind it begin anew.
    #[serde(rename = "holdpoint.loop.turned")]
    LoopTurned { edge: String, iteration: u32 },
    #[serde(rename = "workflow.loopback-limit")]
    LoopbackLimit { node: NodeId, iterations: u32, limit: u32 },
    #[serde(rename = "cap.breached")]
    CapBreached {
        cap: Cap,
        limit: u64,
        observed: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
    },
    /// A node starts a run of its own. Whether it waits for it, and whether that run is cancelled with this one.
    #[serde(rename = "node.dispatched")]
    NodeDispatched {
        node: NodeId,
        child: RunId,
        workflow: WorkflowId,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        inputs: Map<String, Value>,
        wait: bool,
        cascade: bool,
        /// Of an agent: the call that the run carries out. The agent goes on with its other calls meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// An agent has nothing to do before one of the runs ends that carry out its calls; this is the oldest of them.
    #[serde(rename = "holdpoint.node.awaiting")]
    NodeAwaiting { node: NodeId, child: RunId },
    #[serde(rename = "holdpoint.child.changed")]
    ChildChanged { child: RunId, status: Status },
    #[serde(rename = "holdpoint.child.ended")]
    ChildEnded { child: RunId, status: Status, result: ChildResult },
    /// The run pauses once the nodes at work have ended.
    #[serde(rename = "holdpoint.pause.requested")]
    PauseRequested {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        by: String,
    },
    #[serde(rename = "run.paused")]
    RunPaused {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        drain: Drain,
        by: String,
    },
    #[serde(rename = "run.resumed")]
    RunResumed { by: String },
    /// A replay came to something else than what is recorded.
    #[serde(rename = "replay.diverged")]
    ReplayDiverged { source: RunId, at_sequence: u64, expected: String, found: String },
    #[serde(rename = "run.completed")]
    RunCompleted,
    #[serde(rename = "run.failed")]
    RunFailed {
        error: RunError,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
    },
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        by: String,
        /// The run whose cancellation took this one with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<RunId>,
    },
}
