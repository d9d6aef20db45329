//! What a run did with an activation, as its dispatch shows it.

use serde::{Deserialize, Serialize};

/// Where a run stands, in the mailbox's four words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Created,
    Running,
    Waiting,
    Done,
}

impl RunStatus {
    pub const ALL: [Self; 4] = [Self::Created, Self::Running, Self::Waiting, Self::Done];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Why an activation ended.
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
    /// Only a suspended run goes on.
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

/// What the holder of a claim reports before it lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDispatchResult {
    pub run_id: String,
    pub dispatch_instance_id: Option<String>,
    pub status: RunStatus,
    pub termination: Option<TerminationReason>,
    pub response: Option<String>,
    pub error: Option<String>,
}
