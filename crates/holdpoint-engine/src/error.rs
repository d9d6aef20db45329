//! The errors of the engine. A refusal is an expected rejection with a stable code; most other errors are failures.

use std::path::PathBuf;

use holdpoint_core::mailbox::MailboxError;
use holdpoint_core::workflow::DefinitionFlaw;
use holdpoint_core::{NodeId, Refusal, RunId};

use crate::engine::QuotaExceeded;
use crate::outgoing;
use crate::seal::UnsealError;
use crate::store;
use crate::store::receipts::Receipt;

/// An error of an operation of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The core rejected a command.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// An object of the named kind does not exist, or it belongs to another tenant.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// A workflow definition was rejected. The list has every flaw.
    #[error("the workflow has {} flaw(s); the first: {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    InvalidWorkflow(Vec<DefinitionFlaw>),
    /// A request with this idempotency key was executed before; this one had no effect. The hash in the receipt shows
    /// whether both requests have the same body.
    #[error("a request with this idempotency key was executed before")]
    Duplicate(Box<Receipt>),
    /// A different event with the same id was received before.
    #[error("a different event with this id was received before")]
    EventConflict,
    /// An exclusive start was rejected because another run of the scope has not ended.
    #[error("run {active_run} is active in this scope")]
    ScopeBusy {
        /// The run that has not ended.
        active_run: RunId,
    },
    /// A fork was requested from a sequence beyond the end of the log.
    #[error("the fork begins beyond the end of the log, which has {events} events")]
    BeyondLog {
        /// The number of events in the log.
        events: u64,
    },
    /// The database was sealed with another key. Its sealed values cannot be opened with this key.
    #[error(
        "wrong seal key: the database is sealed with the key {wanted}, and the configured key is {given}; configure the \
         same key on every node, and restore it together with the database"
    )]
    WrongSealKey {
        /// The name of the configured key.
        given: String,
        /// The name of the key that the database is sealed with.
        wanted: String,
    },
    /// The key file is missing. The engine does not create a new key, because it could not open the sealed values.
    #[error(
        "missing seal key: the database is sealed with the key {wanted}, and the key file {} does not exist; restore the \
         file from the backup of the database. The database was not changed", .path.display()
    )]
    MissingSealKey {
        /// The path of the missing file.
        path: PathBuf,
        /// The name of the key that the database is sealed with.
        wanted: String,
    },
    /// A sealed value cannot be opened.
    #[error(transparent)]
    Sealed(#[from] UnsealError),
    /// No seal key is configured. An engine on PostgreSQL has no default key, because all nodes must share one.
    #[error("no seal key is configured; set one with Options::seal_key")]
    NoSealKey,
    /// The outgoing policy forbids a URL.
    #[error(transparent)]
    Target(outgoing::Error),
    /// A quota of the tenant is used up. The operation had no effect.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    /// The tenant has reached the limit for the named kind of object.
    #[error("there are too many {0}")]
    TooMany(&'static str),
    /// The queue of the committer is full, or concurrent changes of the run won every attempt. The caller can retry.
    #[error("the engine is busy; try again")]
    Busy,
    /// A server that a node of a run depends on is unavailable.
    #[error("{why}")]
    Unavailable {
        /// The node.
        node: NodeId,
        /// The message for the log.
        why: String,
        /// The time in milliseconds after which the run waits for an operator.
        outage_ms: u64,
    },
    /// The execution of a node did not finish. The worker retries the dispatch.
    #[error("{0}")]
    Unfinished(String),
    /// The mailbox rejected an operation.
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// Returns the error for stored content that cannot be read.
    pub fn unreadable(what: &'static str, why: impl ToString) -> Self {
        store::unreadable(what, why).into()
    }
}
