//! The stream modes and the events that each mode shows.

use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::Event;

use crate::error::ApiError;

/// A set of stream modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamModes(u8);

impl StreamModes {
    pub(crate) const UPDATES: Self = Self(1);
    pub(crate) const VALUES: Self = Self(2);
    pub(crate) const MESSAGES: Self = Self(4);
    pub(crate) const DEBUG: Self = Self(8);

    const NAMES: [(&str, Self); 4] = [
        ("values", Self::VALUES),
        ("updates", Self::UPDATES),
        ("messages", Self::MESSAGES),
        ("debug", Self::DEBUG),
    ];

    /// Parses one or more names, separated by commas. Rejects unknown names, and `values` together with other modes:
    /// snapshots and events cannot be mixed.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let named = |name: &str| Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode);
        let modes = text.split(',').map(|name| named(name.trim())).collect::<Option<Vec<Self>>>();
        let union = modes.map(|modes| Self(modes.iter().fold(0, |all, mode| all | mode.0)));
        match union {
            Some(union) if union == Self::VALUES || !union.overlaps(Self::VALUES) => Ok(union),
            _ => Err(unsupported()),
        }
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

fn unsupported() -> ApiError {
    let names = StreamModes::NAMES.map(|(name, _)| name);
    let message = format!(
        "streamMode must be one or more of {}, separated by commas; values cannot be combined with others",
        names.join(", ")
    );
    ApiError::new(ErrorCode::UnsupportedStreamMode, message)
        .with(ErrorDetails { supported: Some(names.map(Into::into).to_vec()), ..Default::default() })
}

/// Returns the modes that show an event. The mode `values` shows a snapshot instead of the event.
pub(crate) fn modes_of(event: &Event) -> StreamModes {
    const DEBUG: StreamModes = StreamModes::DEBUG;
    const STATE: StreamModes = StreamModes::DEBUG.union(StreamModes::VALUES);
    const UPDATE: StreamModes = STATE.union(StreamModes::UPDATES);
    const MESSAGE: StreamModes = StreamModes::DEBUG.union(StreamModes::MESSAGES);
    match event {
        Event::ChildChanged { .. } | Event::ChildEnded { .. } if changes_child_interrupts(event) => UPDATE,
        Event::ChildChanged { .. } | Event::ChildEnded { .. } => DEBUG,
        Event::NodeResumed { .. }
        | Event::AuthorizationDecided { .. }
        | Event::VoteCast { .. }
        | Event::VoteRepeated { .. }
        | Event::AskRaised { .. }
        | Event::AskAnswered { .. }
        | Event::ConversationOpened { .. }
        | Event::ConversationExchanged { .. }
        | Event::ConversationClosed { .. }
        | Event::AgentDecided { .. }
        | Event::StepRecorded { .. }
        | Event::SleepStarted { .. }
        | Event::PauseRequested { .. }
        | Event::SleepEnded { .. }
        | Event::NodeRetried { .. }
        | Event::VariableChanged { .. }
        | Event::ChannelWritten { .. }
        | Event::LoopTurned { .. }
        | Event::LoopbackLimit { .. }
        | Event::CapBreached { .. }
        | Event::NodeAwaiting { .. }
        | Event::ReplayDiverged { .. } => DEBUG,
        Event::ToolCalled { .. }
        | Event::ToolSuspended { .. }
        | Event::ToolBegun { .. }
        | Event::ToolReturned { .. } => UPDATE,
        Event::MessageChunk { .. }
        | Event::ReasoningChunk { .. }
        | Event::ToolCallChunk { .. }
        | Event::ActivityReported { .. }
        | Event::MessageAdded { .. }
        | Event::ModelReplied { .. } => MESSAGE,
        Event::NodeStarted { .. } => STATE,
        Event::RunStarted(_)
        | Event::NodeCompleted { .. }
        | Event::NodeFailed { .. }
        | Event::NodeSkipped { .. }
        | Event::NodeDelayed { .. }
        | Event::NodeSuspended { .. }
        | Event::InterruptRequested { .. }
        | Event::ApprovalRequested { .. }
        | Event::ClarificationRequested { .. }
        | Event::InterruptResolved { .. }
        | Event::InterruptTimedOut { .. }
        | Event::ApprovalReceived { .. }
        | Event::ApprovalGranted { .. }
        | Event::ApprovalRejected { .. }
        | Event::ApprovalOverridden { .. }
        | Event::ClarificationResolved { .. }
        | Event::ArtifactCreated { .. }
        | Event::NodeDispatched { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed { .. }
        | Event::RunCompleted
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => UPDATE,
    }
}

/// Returns whether a batch is sent at once with this event: an approver may have to act, or the run has ended.
pub(crate) fn is_urgent(event: &Event) -> bool {
    let is_own = matches!(
        event,
        Event::NodeSuspended { .. }
            | Event::RunCompleted
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. }
    );
    is_own || changes_child_interrupts(event)
}

/// Returns whether an interrupt of a child run, or of a run below it, was opened or closed.
fn changes_child_interrupts(event: &Event) -> bool {
    match event {
        Event::ChildChanged { interrupts, .. } => !interrupts.is_empty(),
        Event::ChildEnded { closed, .. } => !closed.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_child_runs_are_updates_if_they_open_or_close_interrupts() {
        let changed = |more: &str| {
            let text = format!(
                r#"{{"type":"holdpoint.child.changed","child":"r.1","status":"waiting-approval"{more}}}"#
            );
            serde_json::from_str::<Event>(&text).unwrap()
        };
        let opened = changed(r#","interrupts":{"opened":[{"id":1,"node":"a","kind":"approval"}]}"#);
        let closed = changed(r#","interrupts":{"closed":[{"run":"r.1","id":1}]}"#);
        for event in [opened, closed] {
            assert!(modes_of(&event).overlaps(StreamModes::UPDATES) && is_urgent(&event));
            assert!(modes_of(&event).overlaps(StreamModes::VALUES), "with a snapshot");
        }
        let quiet = changed("");
        assert!(modes_of(&quiet) == StreamModes::DEBUG && !is_urgent(&quiet));
    }

    #[test]
    fn modes_combine_unless_one_is_unknown_or_values_is_among_them() {
        assert_eq!(StreamModes::parse("updates").unwrap(), StreamModes::UPDATES);
        assert_eq!(StreamModes::parse("values").unwrap(), StreamModes::VALUES);
        let both = StreamModes::parse("updates,messages").unwrap();
        assert!(
            both.overlaps(StreamModes::UPDATES)
                && both.overlaps(StreamModes::MESSAGES)
                && !both.overlaps(StreamModes::DEBUG)
        );
        for bad in ["", "everything", "updates,", "updates,everything", "values,updates", "Updates"] {
            assert!(StreamModes::parse(bad).is_err(), "{bad}");
        }
    }
}
