//! Events of a run. Their JSON is the stored contract: variants and fields are only ever added, and every variant has a
//! golden line in `tests/golden_events`.
//!
//! Names follow OpenWOP if it defines one; `holdpoint.*` are our own. Values that the fold can compute are not stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Via;
use crate::agent::{Behaviour, CallStatus, Message, ToolCallResumeMode, Usage};
use crate::interrupt::Kind;
use crate::run::Status;
use crate::{InterruptId, NodeId, RunId, Timestamp, WorkflowId};

mod child_interrupts;
mod names;
mod run_parameters;
mod sources;
mod values;

pub use child_interrupts::{ChildInterrupt, ChildInterruptChanges, ClosedChildInterrupt, Descendant};
pub use holdpoint_ids::{Cap, Drain, ForkMode, Owner, Reducer};
pub use run_parameters::{Ancestor, Fork, Parent, RunParameters, TriggerCause};
pub use values::{ChildResult, RunError, TIMED_OUT};

/// One fact in the log of a run.
#[allow(missing_docs, reason = "a doc line on each field would double the file; unclear fields have one")]
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    /// The run started.
    #[serde(rename = "run.started")]
    RunStarted(Arc<RunParameters>),
    /// A worker began to execute a node.
    #[serde(rename = "node.started")]
    NodeStarted {
        node: NodeId,
        /// The grants that the effect of the node uses: interrupts of this run whose decisions permit it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uses: Vec<InterruptId>,
    },
    /// A node completed.
    #[serde(rename = "node.completed")]
    NodeCompleted {
        node: NodeId,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        outputs: Map<String, Value>,
        /// The `sourceOutput` of the edges that the node chose.
        branch: Option<String>,
        /// Names of outputs that do not become variables: members of an answer that the definition does not map.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unmapped: Vec<String>,
    },
    /// A node failed. It is not retried.
    #[serde(rename = "node.failed")]
    NodeFailed { node: NodeId, error: RunError },
    /// A server that the node needs is unreachable. The node is retried until `until`. Without `until`, it waits for an
    /// operator.
    #[serde(rename = "holdpoint.node.delayed")]
    NodeDelayed { node: NodeId, error: RunError, until: Option<Timestamp> },
    /// A node is not executed.
    #[serde(rename = "node.skipped")]
    NodeSkipped { node: NodeId, reason: String },
    /// A node waits for an interrupt.
    #[serde(rename = "node.suspended")]
    NodeSuspended {
        node: NodeId,
        interrupt: InterruptId,
        /// True if an agent with several suspended calls continues after the last answer, not after the first.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// The interrupt of a node was resolved, and the node continues.
    #[serde(rename = "node.resumed")]
    NodeResumed { node: NodeId, interrupt: InterruptId },
    /// A node opened an interrupt.
    #[serde(rename = "interrupt.requested")]
    InterruptRequested {
        id: InterruptId,
        node: NodeId,
        kind: Kind,
        key: String,
        /// Shared with the folded run.
        data: Arc<Value>,
        resume_schema: Option<Arc<Value>>,
        timeout_ms: Option<u64>,
        /// The digest of the canonical data. An answer with a digest proves which payload was shown.
        digest: Option<String>,
    },
    /// The interrupt that was just opened is an approval.
    #[serde(rename = "approval.requested")]
    ApprovalRequested { interrupt: InterruptId },
    /// The interrupt that was just opened is a clarification.
    #[serde(rename = "clarification.requested")]
    ClarificationRequested { interrupt: InterruptId },
    /// An answer resolved the interrupt.
    #[serde(rename = "interrupt.resolved")]
    InterruptResolved {
        id: InterruptId,
        value: Value,
        by: String,
        /// Client-chosen id of the decision, for idempotency.
        decision: Option<String>,
        /// True if a replay repeats the answer from the record of its source. It gives this run no grant.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copied: bool,
        /// The vote that ended a quorum, if the outcome of all votes differs from it.
        vote: Option<Value>,
        /// The credential of the answer. Answers of the host and of older versions have none.
        via: Option<Via>,
        /// Data that the client sent with the answer. The engine does not verify it.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        client_metadata: Map<String, Value>,
    },
    /// The deadline passed without an answer. This is neither a grant nor a rejection.
    #[serde(rename = "interrupt.timed_out")]
    InterruptTimedOut { id: InterruptId },
    /// The interrupt that was just resolved is an approval.
    #[serde(rename = "approval.received")]
    ApprovalReceived { interrupt: InterruptId },
    /// The interrupt that was just resolved is a clarification.
    #[serde(rename = "clarification.resolved")]
    ClarificationResolved { interrupt: InterruptId },
    /// One of several votes of a quorum. The deciding vote is recorded as the resolution.
    #[serde(rename = "holdpoint.vote.cast")]
    VoteCast {
        interrupt: InterruptId,
        value: Value,
        by: String,
        /// Client-chosen id of the vote, for idempotency.
        decision: Option<String>,
        /// True if a replay repeats the vote from the record of its source.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        copied: bool,
        via: Option<Via>,
        /// Data that the client sent with the vote. The engine does not verify it.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        client_metadata: Map<String, Value>,
    },
    /// An approver repeated its vote. The repetition does not count.
    #[serde(rename = "holdpoint.vote.repeated")]
    VoteRepeated {
        interrupt: InterruptId,
        action: String,
        by: String,
        /// The principal that acted on behalf of the approver.
        acted_by: Option<String>,
        via: Option<Via>,
    },
    /// An approver asked a side question.
    #[serde(rename = "holdpoint.ask.raised")]
    AskRaised {
        interrupt: InterruptId,
        ask: u32,
        question: String,
        by: String,
        acted_by: Option<String>,
        via: Option<Via>,
    },
    /// A side question was answered.
    #[serde(rename = "holdpoint.ask.answered")]
    AskAnswered { interrupt: InterruptId, ask: u32, answer: String, by: String },
    /// A governed gate denied an answer. `allowed` is always false: accepted answers have the three events below.
    #[serde(rename = "authorization.decided")]
    AuthorizationDecided {
        interrupt: InterruptId,
        by: String,
        action: String,
        allowed: bool,
        reason: String,
        via: Option<Via>,
    },
    /// An approver accepted at a governed gate. The event before it, a vote or a resolution, has the details.
    #[serde(rename = "approval.granted")]
    ApprovalGranted { interrupt: InterruptId },
    /// An approver rejected at a governed gate. The event before it has the details.
    #[serde(rename = "approval.rejected")]
    ApprovalRejected { interrupt: InterruptId },
    /// An approver overrode a governed gate. The event before it has the details.
    #[serde(rename = "approval.overridden")]
    ApprovalOverridden { interrupt: InterruptId },
    /// A conversation started. The interrupt data contains its id; `name` is its name in the workflow.
    #[serde(rename = "conversation.opened")]
    ConversationOpened { interrupt: InterruptId, name: Option<String> },
    /// A turn of a conversation was answered.
    #[serde(rename = "conversation.exchanged")]
    ConversationExchanged { interrupt: InterruptId },
    /// A conversation ended.
    #[serde(rename = "conversation.closed")]
    ConversationClosed { interrupt: InterruptId },
    /// An agent made a decision.
    #[serde(rename = "agent.decided")]
    AgentDecided {
        node: NodeId,
        agent: String,
        decision: Value,
        confidence: Option<f64>,
        /// The reason why the confidence is invalid.
        flaw: Option<String>,
        /// The id of the model reply that contains the decision.
        message: Option<String>,
    },
    /// A node performed an effect. If the node is entered again, it uses the recorded result.
    #[serde(rename = "holdpoint.step.recorded")]
    StepRecorded {
        node: NodeId,
        name: String,
        result: Value,
        /// The duration of the effect.
        took_ms: Option<u64>,
    },
    /// A node sleeps until this time.
    #[serde(rename = "holdpoint.sleep.started")]
    SleepStarted { node: NodeId, until: Timestamp },
    /// The sleep of a node ended.
    #[serde(rename = "holdpoint.sleep.ended")]
    SleepEnded { node: NodeId },
    /// An attempt of the node failed. The node is retried after the delay.
    #[serde(rename = "node.retried")]
    NodeRetried { node: NodeId, attempt: u32, delay_ms: u64, error: RunError },
    /// A node changed a variable of the run.
    #[serde(rename = "variable.changed")]
    VariableChanged { node: NodeId, name: String, previous: Option<Value>, next: Value },
    /// A node wrote to a channel. `value` is not yet reduced. Reducer and limits are those at the time of the write.
    #[serde(rename = "channel.written")]
    ChannelWritten {
        node: NodeId,
        channel: String,
        value: Value,
        reducer: Reducer,
        ttl_ms: Option<u64>,
        max_size: Option<u64>,
    },
    /// A chunk of text from a model.
    #[serde(rename = "ai.message.chunk")]
    MessageChunk {
        node: NodeId,
        chunk: String,
        last: bool,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        meta: Map<String, Value>,
    },
    /// A chunk of the reasoning of a model.
    #[serde(rename = "holdpoint.reasoning.chunk")]
    ReasoningChunk {
        node: NodeId,
        chunk: String,
        /// True for the last chunk of a part of the reasoning.
        last: bool,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        meta: Map<String, Value>,
    },
    /// A chunk of the arguments of a tool call that the model generates. The recorded reply has the call that counts.
    #[serde(rename = "holdpoint.tool.chunk")]
    ToolCallChunk {
        node: NodeId,
        call: String,
        /// The name of the tool, in the first chunk of a call.
        name: Option<String>,
        chunk: String,
        /// True for the last chunk of a call without a recorded reply.
        last: bool,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        meta: Map<String, Value>,
    },
    /// A node or a tool call reported its activity. The content replaces the earlier content of this activity.
    #[serde(rename = "holdpoint.activity.reported")]
    ActivityReported {
        node: NodeId,
        /// The id of the activity, unique in its node.
        activity: String,
        kind: String,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        content: Map<String, Value>,
        /// The tool call that reported the activity.
        call: Option<String>,
    },
    /// A message was added to an agent.
    #[serde(rename = "holdpoint.message.added")]
    MessageAdded { node: NodeId, message: Box<Message> },
    /// The model of an agent replied. `seen` is the number of messages of this run in the prompt.
    #[serde(rename = "holdpoint.model.replied")]
    ModelReplied {
        node: NodeId,
        message: Box<Message>,
        seen: usize,
        usage: Usage,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
        took_ms: Option<u64>,
        /// True if a provider executes the agent. The engine only shows its messages and calls.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        provider: bool,
    },
    /// The permission rules decided about a call in the reply of the model.
    #[serde(rename = "agent.toolCalled")]
    ToolCalled {
        node: NodeId,
        call: String,
        behaviour: Behaviour,
        why: Option<String>,
        idempotent: bool,
        /// True if the front end performs the call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        client: bool,
    },
    /// The call waits for the interrupt that was just opened.
    #[serde(rename = "holdpoint.tool.suspended")]
    ToolSuspended { node: NodeId, call: String, interrupt: InterruptId, mode: ToolCallResumeMode },
    /// The call began. Without a recorded result, its outcome is unknown from here on.
    #[serde(rename = "holdpoint.tool.begun")]
    ToolBegun {
        node: NodeId,
        call: String,
        /// The arguments, if they differ from those of the model.
        arguments: Option<Value>,
        /// The grants that the call uses.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        uses: Vec<InterruptId>,
    },
    /// A tool call ended.
    #[serde(rename = "agent.toolReturned")]
    ToolReturned { node: NodeId, call: String, status: CallStatus, content: Value },
    /// The outputs of a node are an artifact. They are stored in its completion.
    #[serde(rename = "artifact.created")]
    ArtifactCreated { node: NodeId, artifact: String, version: u32 },
    /// A back edge was taken. Its target and all nodes after it are reset.
    #[serde(rename = "holdpoint.loop.turned")]
    LoopTurned { edge: String, iteration: u32 },
    /// A back edge reached its limit of iterations.
    #[serde(rename = "workflow.loopback-limit")]
    LoopbackLimit { node: NodeId, iterations: u32, limit: u32 },
    /// The run exceeded a limit.
    #[serde(rename = "cap.breached")]
    CapBreached { cap: Cap, limit: u64, observed: u64, node: Option<NodeId> },
    /// A node started a child run. `wait`: the node waits for its end. `cascade`: it is cancelled with this run.
    #[serde(rename = "node.dispatched")]
    NodeDispatched {
        node: NodeId,
        child: RunId,
        workflow: WorkflowId,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        inputs: Map<String, Value>,
        wait: bool,
        cascade: bool,
        /// The call of an agent that the child run performs. The agent continues with its other calls.
        call: Option<String>,
    },
    /// An agent waits for the child runs that perform its calls. `child` is the oldest of them.
    #[serde(rename = "holdpoint.node.awaiting")]
    NodeAwaiting { node: NodeId, child: RunId },
    /// The status of a child run changed, or interrupts of it or of runs below it were opened or closed.
    #[serde(rename = "holdpoint.child.changed")]
    ChildChanged {
        child: RunId,
        status: Status,
        #[serde(default, skip_serializing_if = "ChildInterruptChanges::is_empty")]
        interrupts: ChildInterruptChanges,
    },
    /// A child run ended.
    #[serde(rename = "holdpoint.child.ended")]
    ChildEnded {
        child: RunId,
        status: Status,
        result: ChildResult,
        /// The interrupts that were closed in the last change of the child run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        closed: Vec<ClosedChildInterrupt>,
    },
    /// The run pauses when the nodes that are executing have ended.
    #[serde(rename = "holdpoint.pause.requested")]
    PauseRequested { reason: Option<String>, by: String },
    /// The run is paused.
    #[serde(rename = "run.paused")]
    RunPaused { reason: Option<String>, drain: Drain, by: String },
    /// An operator resumed the run.
    #[serde(rename = "run.resumed")]
    RunResumed { by: String },
    /// A replay produced an event that differs from the record.
    #[serde(rename = "replay.diverged")]
    ReplayDiverged { source: RunId, at_sequence: u64, expected: String, found: String },
    /// The run completed.
    #[serde(rename = "run.completed")]
    RunCompleted,
    /// The run failed.
    #[serde(rename = "run.failed")]
    RunFailed { error: RunError, node: Option<NodeId> },
    /// The run was cancelled.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        reason: Option<String>,
        by: String,
        /// The parent run that cancelled this run.
        parent: Option<RunId>,
    },
}
