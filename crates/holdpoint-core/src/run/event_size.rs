//! Computes the bytes of JSON that an event adds to its run.

use serde_json::{Map, Value};

use crate::event::Event;
use crate::refusal::json_bytes;

/// The bytes that a pause and its resumption add to the size of the run.
const PAUSE_BYTES: usize = 256;

fn metadata_bytes(metadata: &Map<String, Value>) -> usize {
    if metadata.is_empty() { 0 } else { json_bytes(metadata) }
}

/// Returns the bytes that an event adds to the size of its run.
pub(super) fn stored_bytes(event: &Event) -> usize {
    match event {
        Event::NodeCompleted { outputs, .. } if !outputs.is_empty() => json_bytes(outputs),
        Event::StepRecorded { result, .. } => json_bytes(result),
        Event::InterruptRequested { data, .. } => json_bytes(data),
        Event::InterruptResolved { value, vote, client_metadata, .. } => {
            json_bytes(value) + vote.as_ref().map_or(0, json_bytes) + metadata_bytes(client_metadata)
        }
        Event::VoteCast { value, client_metadata, .. } => json_bytes(value) + metadata_bytes(client_metadata),
        // The text is stored twice: in the interrupt and in a variable.
        Event::AskRaised { question: text, .. } | Event::AskAnswered { answer: text, .. } => 2 * text.len(),
        Event::AuthorizationDecided { by, reason, .. } => by.len() + reason.len(),
        Event::AgentDecided { decision, .. } => json_bytes(decision),
        Event::VariableChanged { next, .. } => json_bytes(next),
        Event::ChannelWritten { value, .. } => json_bytes(value),
        Event::ChildEnded { result, .. } => json_bytes(&result.outputs),
        Event::NodeDispatched { inputs, .. } => json_bytes(inputs),
        Event::MessageAdded { message, .. } | Event::ModelReplied { message, .. } => json_bytes(message),
        Event::ToolBegun { arguments: Some(arguments), .. } => json_bytes(arguments),
        Event::ToolReturned { content, .. } => json_bytes(content),
        Event::MessageChunk { chunk, meta, .. }
        | Event::ReasoningChunk { chunk, meta, .. }
        | Event::ToolCallChunk { chunk, meta, .. } => chunk.len() + json_bytes(meta),
        Event::ActivityReported { activity, kind, content, .. } => {
            activity.len() + kind.len() + json_bytes(content)
        }
        Event::PauseRequested { reason, .. } | Event::RunPaused { reason, .. } => {
            PAUSE_BYTES + reason.as_ref().map_or(0, String::len)
        }
        Event::NodeCompleted { .. }
        | Event::NodeRetried { .. }
        | Event::ToolCalled { .. }
        | Event::ToolSuspended { .. }
        | Event::ToolBegun { arguments: None, .. }
        | Event::ArtifactCreated { .. }
        | Event::LoopTurned { .. }
        | Event::LoopbackLimit { .. }
        | Event::CapBreached { .. }
        | Event::NodeAwaiting { .. }
        | Event::ChildChanged { .. }
        | Event::RunResumed { .. }
        | Event::ReplayDiverged { .. }
        | Event::RunStarted(_)
        | Event::NodeStarted { .. }
        | Event::NodeFailed { .. }
        | Event::NodeSkipped { .. }
        | Event::NodeDelayed { .. }
        | Event::NodeSuspended { .. }
        | Event::NodeResumed { .. }
        | Event::ApprovalRequested { .. }
        | Event::ClarificationRequested { .. }
        | Event::InterruptTimedOut { .. }
        | Event::ApprovalReceived { .. }
        | Event::ClarificationResolved { .. }
        | Event::VoteRepeated { .. }
        | Event::ApprovalGranted { .. }
        | Event::ApprovalRejected { .. }
        | Event::ApprovalOverridden { .. }
        | Event::ConversationOpened { .. }
        | Event::ConversationExchanged { .. }
        | Event::ConversationClosed { .. }
        | Event::SleepStarted { .. }
        | Event::SleepEnded { .. }
        | Event::RunCompleted
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => 0,
    }
}
