//! Where events come from: from outside, from an execution of a node, or from the run itself.

use super::{Cap, Event};
use crate::NodeId;
use crate::agent::Told;
use crate::interrupt::Kind;
use crate::refusal::Refusal;

impl Event {
    /// Whether it happened because of somebody or something outside. To everything else a run comes by itself.
    pub fn is_fact(&self) -> bool {
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
            // Given up by the machinery, or out of time.
            | Self::RunFailed { node: None, .. } => true,
            // What a model said to an agent came from outside; what other nodes say, they say by themselves.
            Self::MessageChunk { meta, .. } => Told::with(meta).is_some(),
            // So did what a model decided with its reply, and that it was not sure.
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

    /// Of an event that tells of a refusal: what whoever asked is told.
    pub fn denial(&self) -> Option<Refusal> {
        if let Self::AuthorizationDecided { allowed: false, reason, .. } = self {
            return Some(Refusal::NotAuthorized(reason.clone()));
        }
        None
    }

    /// The node whose execution came to this.
    pub fn outcome_of(&self) -> Option<&NodeId> {
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
