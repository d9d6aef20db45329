//! The source of an event: outside the run, an execution of a node, or the run itself.

use super::{Cap, Event};
use crate::NodeId;
use crate::agent::StreamProgress;
use crate::interrupt::Kind;
use crate::refusal::Refusal;

impl Event {
    /// Returns true if the event was caused from outside the run. A replay computes all other events again.
    pub fn is_external(&self) -> bool {
        match self {
            Self::InterruptResolved { .. }
            | Self::InterruptTimedOut { .. }
            | Self::ApprovalReceived { .. }
            | Self::ClarificationResolved { .. }
            | Self::NodeResumed { .. }
            | Self::VoteCast { .. }
            | Self::VoteRepeated { .. }
            | Self::AskRaised { .. }
            | Self::AskAnswered { .. }
            | Self::AuthorizationDecided { .. }
            | Self::ApprovalGranted { .. }
            | Self::ApprovalRejected { .. }
            | Self::ApprovalOverridden { .. }
            | Self::ConversationExchanged { .. }
            | Self::StepRecorded { .. }
            | Self::ReasoningChunk { .. }
            | Self::ToolCallChunk { .. }
            | Self::ActivityReported { .. }
            | Self::MessageAdded { .. }
            | Self::ModelReplied { .. }
            | Self::ToolCalled { .. }
            | Self::ToolSuspended { .. }
            | Self::ToolBegun { .. }
            | Self::ToolReturned { .. }
            | Self::NodeDispatched { call: Some(_), .. }
            | Self::NodeDelayed { .. }
            | Self::SleepEnded { .. }
            | Self::PauseRequested { .. }
            | Self::RunPaused { .. }
            | Self::RunResumed { .. }
            | Self::RunCancelled { .. }
            | Self::ChildChanged { .. }
            | Self::ChildEnded { .. }
            | Self::ReplayDiverged { .. }
            | Self::CapBreached { cap: Cap::RunDuration, .. }
            // The engine gave up on the run, or its time limit passed.
            | Self::RunFailed { node: None, .. } => true,
            // A chunk from the model of an agent is external. Chunks of other nodes are computed again.
            Self::MessageChunk { meta, .. } => StreamProgress::from_meta(meta).is_some(),
            // The decision in a model reply and its low confidence are external.
            Self::AgentDecided { message, .. } => message.is_some(),
            Self::InterruptRequested { kind: Kind::LowConfidence, data, .. } => data.get("messageId").is_some(),
            Self::RunStarted(_)
            | Self::ConversationOpened { .. }
            | Self::ConversationClosed { .. }
            | Self::NodeStarted { .. }
            | Self::NodeCompleted { .. }
            | Self::NodeFailed { .. }
            | Self::NodeSkipped { .. }
            | Self::NodeSuspended { .. }
            | Self::NodeRetried { .. }
            | Self::InterruptRequested { .. }
            | Self::ApprovalRequested { .. }
            | Self::ClarificationRequested { .. }
            | Self::SleepStarted { .. }
            | Self::VariableChanged { .. }
            | Self::ChannelWritten { .. }
            | Self::ArtifactCreated { .. }
            | Self::LoopTurned { .. }
            | Self::LoopbackLimit { .. }
            | Self::CapBreached { cap: Cap::NodeExecutions | Cap::LoopIterations, .. }
            | Self::NodeDispatched { call: None, .. }
            | Self::NodeAwaiting { .. }
            | Self::RunCompleted
            | Self::RunFailed { node: Some(_), .. } => false,
        }
    }

    /// Returns the refusal for the caller, if the event records a denied answer.
    pub fn denial(&self) -> Option<Refusal> {
        if let Self::AuthorizationDecided { allowed: false, reason, .. } = self {
            return Some(Refusal::NotAuthorized(reason.clone()));
        }
        None
    }

    /// Returns the node whose execution produced the event.
    pub fn executed_node(&self) -> Option<&NodeId> {
        match self {
            Self::NodeCompleted { node, .. }
            | Self::NodeFailed { node, .. }
            | Self::NodeSuspended { node, .. }
            | Self::InterruptRequested { node, .. }
            | Self::AgentDecided { node, .. }
            | Self::SleepStarted { node, .. }
            | Self::NodeRetried { node, .. }
            | Self::VariableChanged { node, .. }
            | Self::ChannelWritten { node, .. }
            | Self::MessageChunk { node, .. }
            | Self::NodeAwaiting { node, .. }
            | Self::NodeDispatched { node, .. } => Some(node),
            Self::RunStarted(_)
            | Self::VoteCast { .. }
            | Self::VoteRepeated { .. }
            | Self::AskRaised { .. }
            | Self::AskAnswered { .. }
            | Self::AuthorizationDecided { .. }
            | Self::ApprovalGranted { .. }
            | Self::ApprovalRejected { .. }
            | Self::ApprovalOverridden { .. }
            | Self::ConversationOpened { .. }
            | Self::ConversationExchanged { .. }
            | Self::ConversationClosed { .. }
            | Self::NodeStarted { .. }
            | Self::NodeSkipped { .. }
            | Self::NodeResumed { .. }
            | Self::ApprovalRequested { .. }
            | Self::ClarificationRequested { .. }
            | Self::InterruptResolved { .. }
            | Self::InterruptTimedOut { .. }
            | Self::ApprovalReceived { .. }
            | Self::ClarificationResolved { .. }
            | Self::StepRecorded { .. }
            | Self::ReasoningChunk { .. }
            | Self::ToolCallChunk { .. }
            | Self::ActivityReported { .. }
            | Self::MessageAdded { .. }
            | Self::ModelReplied { .. }
            | Self::ToolCalled { .. }
            | Self::ToolSuspended { .. }
            | Self::ToolBegun { .. }
            | Self::ToolReturned { .. }
            | Self::SleepEnded { .. }
            | Self::NodeDelayed { .. }
            | Self::ArtifactCreated { .. }
            | Self::LoopTurned { .. }
            | Self::LoopbackLimit { .. }
            | Self::CapBreached { .. }
            | Self::ChildChanged { .. }
            | Self::ChildEnded { .. }
            | Self::PauseRequested { .. }
            | Self::RunPaused { .. }
            | Self::RunResumed { .. }
            | Self::ReplayDiverged { .. }
            | Self::RunCompleted
            | Self::RunFailed { .. }
            | Self::RunCancelled { .. } => None,
        }
    }
}
