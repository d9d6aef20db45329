//! Which events the modes of a stream show.

use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::Event;

use crate::error::ApiError;

/// One mode or several together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes(u8);

impl Modes {
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

    /// A name, or several with commas between them. One that is unknown spoils them all, and snapshots do not mix
    /// with anything.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let named = |name: &str| Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode);
        let modes = text.split(',').map(|name| named(name.trim())).collect::<Option<Vec<Self>>>();
        let union = modes.map(|modes| Self(modes.iter().fold(0, |all, mode| all | mode.0)));
        match union {
            Some(union) if union == Self::VALUES || !union.meets(Self::VALUES) => Ok(union),
            _ => Err(unsupported()),
        }
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

fn unsupported() -> ApiError {
    let names = Modes::NAMES.map(|(name, _)| name);
    let message = format!(
        "streamMode must be one of {}, or several of them with commas between; values stands alone",
        names.join(", ")
    );
    ApiError::new(ErrorCode::UnsupportedStreamMode, message)
        .with(ErrorDetails { supported: Some(names.map(Into::into).to_vec()), ..Default::default() })
}

/// The modes that show an event. In `values` it is a snapshot that is shown.
pub(crate) fn modes_of(event: &Event) -> Modes {
    const DEBUG: Modes = Modes::DEBUG;
    const STATE: Modes = Modes::DEBUG.and(Modes::VALUES);
    const UPDATE: Modes = STATE.and(Modes::UPDATES);
    const MESSAGE: Modes = Modes::DEBUG.and(Modes::MESSAGES);
    match event {
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
        | Event::ChildChanged { .. }
        | Event::ChildEnded { .. }
        | Event::ReplayDiverged { .. } => DEBUG,
        Event::ToolCalled { .. }
        | Event::ToolSuspended { .. }
        | Event::ToolBegun { .. }
        | Event::ToolReturned { .. } => UPDATE,
        Event::MessageChunk { .. } | Event::MessageAdded { .. } | Event::ModelReplied { .. } => MESSAGE,
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

/// Whether a reader who gathers events wants to have this one at once: somebody may have to act, or all is over.
pub(crate) fn is_urgent(event: &Event) -> bool {
    matches!(
        event,
        Event::NodeSuspended { .. }
            | Event::RunCompleted
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_together_unless_one_is_unknown_or_values_is_among_them() {
        assert_eq!(Modes::parse("updates").unwrap(), Modes::UPDATES);
        assert_eq!(Modes::parse("values").unwrap(), Modes::VALUES);
        let both = Modes::parse("updates,messages").unwrap();
        assert!(both.meets(Modes::UPDATES) && both.meets(Modes::MESSAGES) && !both.meets(Modes::DEBUG));
        for bad in ["", "everything", "updates,", "updates,everything", "values,updates", "Updates"] {
            assert!(Modes::parse(bad).is_err(), "{bad}");
        }
    }
}
