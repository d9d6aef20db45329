//! What has happened to a run. The JSON of these values is the stored contract: variants and fields are only ever
//! added, and every variant has a golden line in `tests/golden_events.rs`.
//!
//! Names follow OpenWOP where it has one; `holdpoint.*` are ours. What can be computed from the fold is not stored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{InterruptId, NodeId, RunId, TenantId, Timestamp, WorkflowId};
use crate::interrupt::Kind;
use crate::run::Status;

mod names;
mod sources;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    #[serde(rename = "run.started")]
    RunStarted(Box<Started>),
    #[serde(rename = "node.started")]
    NodeStarted { node: NodeId },
    #[serde(rename = "node.completed")]
    NodeCompleted {
        node: NodeId,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        outputs: Map<String, Value>,
        /// The way it chose, of a node that chooses one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
    },
    #[serde(rename = "node.failed")]
    NodeFailed { node: NodeId, error: RunError },
    #[serde(rename = "node.skipped")]
    NodeSkipped { node: NodeId, reason: String },
    #[serde(rename = "node.suspended")]
    NodeSuspended { node: NodeId, interrupt: InterruptId },
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
    InterruptResolved { id: InterruptId, value: Value, by: String },
    /// Nobody answered before the deadline: silence, which is neither a grant nor a person's refusal.
    #[serde(rename = "interrupt.timed_out")]
    InterruptTimedOut { id: InterruptId },
    #[serde(rename = "approval.received")]
    ApprovalReceived { interrupt: InterruptId },
    #[serde(rename = "clarification.resolved")]
    ClarificationResolved { interrupt: InterruptId },
    /// One of several approvals that are needed. The deciding one is the resolution itself.
    #[serde(rename = "holdpoint.vote.cast")]
    VoteCast { interrupt: InterruptId, value: Value, by: String },
    /// Somebody voted again and said the same: it does not count, but it happened.
    #[serde(rename = "holdpoint.vote.repeated")]
    VoteRepeated {
        interrupt: InterruptId,
        action: String,
        by: String,
        /// Who spoke for them, if they did not themselves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        acted_by: Option<String>,
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
    },
    #[serde(rename = "holdpoint.ask.answered")]
    AskAnswered { interrupt: InterruptId, ask: u32, answer: String, by: String },
    /// A governed gate turned somebody away, or let somebody in.
    #[serde(rename = "authorization.decided")]
    AuthorizationDecided { interrupt: InterruptId, by: String, action: String, allowed: bool, reason: String },
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
    },
    #[serde(rename = "holdpoint.child.changed")]
    ChildChanged { child: RunId, status: Status },
    #[serde(rename = "holdpoint.child.ended")]
    ChildEnded { child: RunId, status: Status, result: ChildResult },
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

/// Everything a run was started with; it never changes afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub workflow: WorkflowId,
    pub revision: u64,
    pub owner: Owner,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub configurable: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// What the run works on; callers may ask that only one run does so at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The caller's `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    /// Who has made this run by a fork, or one that it comes from or was started by; the last of them at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forked_by: Vec<String>,
}

/// The run and the node that started this run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub run: RunId,
    pub workflow: WorkflowId,
    pub node: NodeId,
    /// How many runs are above this one.
    pub depth: u32,
}

/// Where a forked run comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    pub source: RunId,
    /// The first of a line of forks: keys of interrupts carry its name, so that they stay the same in each.
    pub origin: RunId,
    pub from_seq: u64,
    pub mode: ForkMode,
    /// When it was made: what is still open in the copy has its whole time again. Not known of forks made before this
    /// was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Of a replay: the run whose name artifacts carry, where that is not the first of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<RunId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkMode {
    Replay,
    Branch,
}

/// What becomes of a node that is at work when its run is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    Immediate,
    #[default]
    DrainCurrentNode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cap {
    NodeExecutions,
    RunDuration,
    LoopIterations,
}

/// How writes to a channel come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reducer {
    Replace,
    Append,
    Merge,
    Counter,
    Votes,
    Feedback,
    Message,
}

/// What a run leaves to the one that started it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildResult {
    /// Those of its variables that the parent asked for.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub tenant: TenantId,
    pub principal: String,
}

/// Why a node or a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    pub code: String,
    pub message: String,
    /// Trying again may help.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
}

impl RunError {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), retryable: false }
    }
}
