//! Payloads of the events of the log. Their members keep the order in which every version has written them.

mod agents;
mod interrupts;
mod nodes;
mod runs;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub use agents::*;
pub use interrupts::*;
pub use nodes::*;
pub use runs::*;

macro_rules! payloads {
    ($($name:ident($payload:ty),)*) => {
        /// The payload of an event. The type of the event determines the type of the payload.
        #[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
        #[serde(untagged)]
        #[allow(missing_docs, reason = "each payload is documented as a type")]
        pub enum EventPayload<'a> {
            $($name($payload),)*
            /// A payload without a type of its own.
            Other(Value),
        }

        $(impl<'a> From<$payload> for EventPayload<'a> {
            fn from(payload: $payload) -> Self {
                Self::$name(payload)
            }
        })*
    };
}

payloads! {
    RunStarted(RunStarted<'a>),
    RunCompleted(RunCompleted),
    RunFailed(RunFailed<'a>),
    RunCancelled(RunCancelled<'a>),
    PauseRequested(PauseRequested<'a>),
    RunPaused(RunPaused<'a>),
    RunResumed(RunResumed<'a>),
    CapBreached(CapBreached),
    ReplayDiverged(ReplayDiverged<'a>),
    NodeStarted(NodeStarted<'a>),
    NodeCompleted(NodeCompleted<'a>),
    NodeFailed(NodeFailed<'a>),
    NodeSkipped(NodeSkipped<'a>),
    NodeRetried(NodeRetried<'a>),
    NodeDelayed(NodeDelayed<'a>),
    NodeDispatched(NodeDispatched<'a>),
    NodeAwaiting(NodeAwaiting),
    ChildChanged(ChildChanged),
    SleepStarted(SleepStarted),
    SleepEnded(SleepEnded),
    StepRecorded(StepRecorded<'a>),
    VariableChanged(VariableChanged<'a>),
    ChannelWritten(ChannelWritten<'a>),
    MessageChunk(MessageChunk<'a>),
    ReasoningChunk(ReasoningChunk<'a>),
    ToolCallChunk(ToolCallChunk<'a>),
    ActivityReported(ActivityReported<'a>),
    ArtifactCreated(ArtifactCreated<'a>),
    LoopbackLimit(LoopbackLimit),
    LoopTurned(LoopTurned<'a>),
    NodeSuspended(NodeSuspended<'a>),
    NodeResumed(NodeResumed<'a>),
    InterruptRequested(InterruptRequested<'a>),
    ApprovalRequested(ApprovalRequested<'a>),
    ClarificationRequested(ClarificationRequested<'a>),
    InterruptResolved(InterruptResolved<'a>),
    ApprovalReceived(ApprovalReceived<'a>),
    ClarificationResolved(ClarificationResolved<'a>),
    AuthorizationDecided(AuthorizationDecided<'a>),
    GateDecided(GateDecided<'a>),
    VoteCast(VoteCast<'a>),
    VoteRepeated(VoteRepeated<'a>),
    AskRaised(AskRaised<'a>),
    AskAnswered(AskAnswered<'a>),
    AgentDecided(AgentDecided<'a>),
    ConversationOpened(ConversationOpened<'a>),
    ConversationExchanged(ConversationExchanged<'a>),
    ConversationClosed(ConversationClosed<'a>),
    MessageAdded(MessageAdded<'a>),
    ModelReplied(ModelReplied<'a>),
    ToolCalled(ToolCalled<'a>),
    ToolSuspended(ToolSuspended<'a>),
    ToolBegun(ToolBegun<'a>),
    ToolReturned(ToolReturned<'a>),
}
