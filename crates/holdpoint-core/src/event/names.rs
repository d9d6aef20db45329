//! Names of events.

use super::Event;

impl Event {
    /// All names, in the order of the variants.
    pub const NAMES: &'static [&'static str] = holdpoint_ids::EVENT_NAMES;

    /// Returns the name under which protocols show the event. They show a timeout as a resolved interrupt.
    pub fn public_name(&self) -> &'static str {
        if matches!(self, Self::InterruptTimedOut { .. }) { "interrupt.resolved" } else { self.name() }
    }

    /// Returns the `type` of the JSON of the event.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run.started",
            Self::NodeStarted { .. } => "node.started",
            Self::NodeCompleted { .. } => "node.completed",
            Self::NodeFailed { .. } => "node.failed",
            Self::NodeDelayed { .. } => "holdpoint.node.delayed",
            Self::NodeSkipped { .. } => "node.skipped",
            Self::NodeSuspended { .. } => "node.suspended",
            Self::NodeResumed { .. } => "node.resumed",
            Self::InterruptRequested { .. } => "interrupt.requested",
            Self::ApprovalRequested { .. } => "approval.requested",
            Self::ClarificationRequested { .. } => "clarification.requested",
            Self::InterruptResolved { .. } => "interrupt.resolved",
            Self::InterruptTimedOut { .. } => "interrupt.timed_out",
            Self::ApprovalReceived { .. } => "approval.received",
            Self::ClarificationResolved { .. } => "clarification.resolved",
            Self::VoteCast { .. } => "holdpoint.vote.cast",
            Self::VoteRepeated { .. } => "holdpoint.vote.repeated",
            Self::AskRaised { .. } => "holdpoint.ask.raised",
            Self::AskAnswered { .. } => "holdpoint.ask.answered",
            Self::AuthorizationDecided { .. } => "authorization.decided",
            Self::ApprovalGranted { .. } => "approval.granted",
            Self::ApprovalRejected { .. } => "approval.rejected",
            Self::ApprovalOverridden { .. } => "approval.overridden",
            Self::ConversationOpened { .. } => "conversation.opened",
            Self::ConversationExchanged { .. } => "conversation.exchanged",
            Self::ConversationClosed { .. } => "conversation.closed",
            Self::AgentDecided { .. } => "agent.decided",
            Self::StepRecorded { .. } => "holdpoint.step.recorded",
            Self::SleepStarted { .. } => "holdpoint.sleep.started",
            Self::SleepEnded { .. } => "holdpoint.sleep.ended",
            Self::NodeRetried { .. } => "node.retried",
            Self::VariableChanged { .. } => "variable.changed",
            Self::ChannelWritten { .. } => "channel.written",
            Self::MessageChunk { .. } => "ai.message.chunk",
            Self::ReasoningChunk { .. } => "holdpoint.reasoning.chunk",
            Self::ToolCallChunk { .. } => "holdpoint.tool.chunk",
            Self::ActivityReported { .. } => "holdpoint.activity.reported",
            Self::MessageAdded { .. } => "holdpoint.message.added",
            Self::ModelReplied { .. } => "holdpoint.model.replied",
            Self::ToolCalled { .. } => "agent.toolCalled",
            Self::ToolSuspended { .. } => "holdpoint.tool.suspended",
            Self::ToolBegun { .. } => "holdpoint.tool.begun",
            Self::ToolReturned { .. } => "agent.toolReturned",
            Self::ArtifactCreated { .. } => "artifact.created",
            Self::LoopTurned { .. } => "holdpoint.loop.turned",
            Self::LoopbackLimit { .. } => "workflow.loopback-limit",
            Self::CapBreached { .. } => "cap.breached",
            Self::NodeDispatched { .. } => "node.dispatched",
            Self::NodeAwaiting { .. } => "holdpoint.node.awaiting",
            Self::ChildChanged { .. } => "holdpoint.child.changed",
            Self::ChildEnded { .. } => "holdpoint.child.ended",
            Self::PauseRequested { .. } => "holdpoint.pause.requested",
            Self::RunPaused { .. } => "run.paused",
            Self::RunResumed { .. } => "run.resumed",
            Self::ReplayDiverged { .. } => "replay.diverged",
            Self::RunCompleted => "run.completed",
            Self::RunFailed { .. } => "run.failed",
            Self::RunCancelled { .. } => "run.cancelled",
        }
    }
}
