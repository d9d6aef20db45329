//! The state of a run and the reason for the end of an activation, as a dispatch records them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The state of a run in its dispatch.
    RunStatus {
        Created = "created",
        Running = "running",
        Waiting = "waiting",
        Done = "done",
    }
}

/// The reason for the end of an activation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum TerminationReason {
    NaturalEnd,
    BehaviorRequested,
    Stopped {
        code: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    Cancelled,
    Blocked(String),
    Suspended,
    Error(String),
}

impl TerminationReason {
    /// Returns the state of the run. Only a suspended run continues.
    pub fn run_status(&self) -> RunStatus {
        match self {
            Self::Suspended => RunStatus::Waiting,
            Self::NaturalEnd
            | Self::BehaviorRequested
            | Self::Stopped { .. }
            | Self::Cancelled
            | Self::Blocked(_)
            | Self::Error(_) => RunStatus::Done,
        }
    }
}

impl fmt::Display for TerminationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NaturalEnd => f.write_str("natural_end"),
            Self::BehaviorRequested => f.write_str("behavior_requested"),
            Self::Stopped { code, detail: None } => write!(f, "stopped: {code}"),
            Self::Stopped { code, detail: Some(detail) } => write!(f, "stopped: {code}: {detail}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Blocked(reason) => write!(f, "blocked: {reason}"),
            Self::Suspended => f.write_str("suspended"),
            Self::Error(message) => write!(f, "error: {message}"),
        }
    }
}
