//! The report of a run about an activation, as its dispatch shows it.

pub use holdpoint_ids::mailbox::{RunStatus, TerminationReason};

/// The report of the holder of a claim before it lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDispatchResult {
    pub run_id: String,
    pub dispatch_instance_id: Option<String>,
    pub status: RunStatus,
    pub termination: Option<TerminationReason>,
    pub response: Option<String>,
    pub error: Option<String>,
}
