//! Errors of the mailbox.

use super::RunDispatchStatus;

/// An error of the mailbox.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MailboxError {
    /// The arguments or a row violate a rule.
    #[error("{0}")]
    Validation(String),
    /// The row does not exist.
    #[error("{kind} {id:?} not found")]
    NotFound {
        /// The kind of the row.
        kind: &'static str,
        /// The id of the row.
        id: String,
    },
    /// The id of a new dispatch is in use.
    #[error("dispatch {dispatch_id:?} already exists")]
    DuplicateDispatch {
        /// The id of the dispatch.
        dispatch_id: String,
    },
    /// The deduplication key of a new dispatch is in use.
    #[error("dispatch {existing_dispatch_id:?} with the key {dedupe_key:?} is queued or claimed")]
    DuplicateKey {
        /// The deduplication key.
        dedupe_key: String,
        /// The dispatch that uses the key.
        existing_dispatch_id: String,
    },
    /// The fencing token does not match the claim.
    #[error("dispatch {dispatch_id:?} is {} and not claimed with this token", .status.as_str())]
    StaleClaim {
        /// The id of the dispatch.
        dispatch_id: String,
        /// The state of the dispatch.
        status: RunDispatchStatus,
    },
    /// The thread was interrupted after the dispatch was enqueued.
    #[error(
        "dispatch {dispatch_id:?} has the epoch {dispatch_epoch}; its thread was interrupted and has the epoch {current_epoch}"
    )]
    EpochConflict {
        /// The id of the dispatch.
        dispatch_id: String,
        /// The epoch of the dispatch.
        dispatch_epoch: u64,
        /// The epoch of the thread.
        current_epoch: u64,
    },
    /// The row was changed since it was read.
    #[error("expected version {expected}, found {actual}")]
    VersionConflict {
        /// The version that the caller has.
        expected: u64,
        /// The stored version.
        actual: u64,
    },
    /// The change may be stored. The caller must read the row before a retry.
    #[error("the connection was lost while committing ({0}); the change may or may not be stored")]
    CommitUnknown(String),
    /// The store is overloaded or locked.
    #[error("the store is busy; try again")]
    Busy,
    /// The store failed.
    #[error("the store failed: {0}")]
    Io(String),
    /// A stored row is invalid.
    #[error("a stored row cannot be read: {0}")]
    Serialization(String),
}

impl MailboxError {
    /// Returns true if a retry may succeed.
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
