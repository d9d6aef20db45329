//! The result of an activation.

pub use holdpoint_ids::mailbox::{RunStatus, TerminationReason};

/// The result of an activation, as the worker reports it before it releases the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDispatchResult {
    /// The activated run.
    pub run_id: String,
    /// The id of the attempt.
    pub dispatch_instance_id: Option<String>,
    /// The status of the run.
    pub status: RunStatus,
    /// The reason why the run ended.
    pub termination: Option<TerminationReason>,
    /// The response of the run.
    pub response: Option<String>,
    /// The error of the run.
    pub error: Option<String>,
}
