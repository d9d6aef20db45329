//! What a mailbox says instead of doing what it was asked.

use super::RunDispatchStatus;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MailboxError {
    #[error("{0}")]
    Validation(String),
    #[error("there is no {kind} {id:?}")]
    NotFound { kind: &'static str, id: String },
    #[error("there is already a dispatch {dispatch_id:?}")]
    DuplicateDispatch { dispatch_id: String },
    #[error("dispatch {existing_dispatch_id:?} is live under the key {dedupe_key:?}")]
    DuplicateKey { dedupe_key: String, existing_dispatch_id: String },
    #[error("dispatch {dispatch_id:?} is {} and not held with this token", .status.as_str())]
    StaleClaim { dispatch_id: String, status: RunDispatchStatus },
    #[error(
        "dispatch {dispatch_id:?} is of epoch {dispatch_epoch}, but its thread was interrupted and is at {current_epoch}"
    )]
    EpochConflict { dispatch_id: String, dispatch_epoch: u64, current_epoch: u64 },
    #[error("expected version {expected}, found {actual}")]
    VersionConflict { expected: u64, actual: u64 },
    /// The write may have landed. Read before trying again.
    #[error("the connection was lost while committing ({0}); the change may be stored or not")]
    CommitUnknown(String),
    #[error("the store is busy; try again")]
    Busy,
    #[error("the store failed: {0}")]
    Io(String),
    #[error("a stored row cannot be read: {0}")]
    Serialization(String),
}

impl MailboxError {
    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Busy | Self::Io(_) => true,
            Self::Validation(_)
            | Self::NotFound { .. }
            | Self::DuplicateDispatch { .. }
            | Self::DuplicateKey { .. }
            | Self::StaleClaim { .. }
            | Self::EpochConflict { .. }
            | Self::VersionConflict { .. }
            | Self::CommitUnknown(_)
            | Self::Serialization(_) => false,
        }
    }
}
