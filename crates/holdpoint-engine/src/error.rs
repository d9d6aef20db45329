//! What can come back instead of a result. Refusals are part of the contract; the rest is trouble.

use std::path::PathBuf;

use holdpoint_core::mailbox::MailboxError;
use holdpoint_core::workflow::Flaw;
use holdpoint_core::{NodeId, Refusal, RunId};

use crate::engine::QuotaExceeded;
use crate::outgoing;
use crate::providers::BadProviders;
use crate::seal::Unopenable;
use crate::store;
use crate::store::receipts::Receipt;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{0} not found")]
    NotFound(&'static str),
    #[error("the workflow has {} flaw(s); the first: {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    InvalidWorkflow(Vec<Flaw>),
    /// Something was done under this key before; nothing was done now. Whether it was the same tells the body's hash.
    #[error("a request with this key was answered before")]
    Duplicate(Box<Receipt>),
    /// An event with this id arrived before, and it was another one.
    #[error("another event was sent under this id")]
    EventConflict,
    /// The scope was asked for as a whole, and a run is at work in it.
    #[error("run {active_run} is at work in this scope")]
    ScopeBusy { active_run: RunId },
    /// A fork was to begin behind the end of the log.
    #[error("the log has {events} events, and no copy can begin behind them")]
    BeyondLog { events: u64 },
    /// Another key was used first; what it sealed would not open.
    #[error(
        "the secrets in this database are sealed with the key {wanted}, and this is the key {given}; give every node the \
         same one, and restore it together with the database"
    )]
    WrongSealKey { given: String, wanted: String },
    /// The file of the key that sealed the database is gone. It is not replaced: what was sealed would not open.
    #[error(
        "the secrets in this database are sealed with the key {wanted}, and there is no key file {}; restore it from the \
         backup that the database belongs to. Nothing was changed", .path.display()
    )]
    MissingSealKey { path: PathBuf, wanted: String },
    #[error(transparent)]
    Sealed(#[from] Unopenable),
    /// Secrets cannot be kept on a server of databases unless somebody chooses the key that all nodes share.
    #[error("there is no key to seal secrets with; choose one with Options::seal_key")]
    NoSealKey,
    /// What the operator says about providers cannot be used.
    #[error("providers: {0}")]
    Providers(#[from] BadProviders),
    /// A URL was given that must not be called.
    #[error(transparent)]
    Target(outgoing::Error),
    /// A quota of the tenant is used up; nothing was written.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    /// The tenant has as many of these as it may have.
    #[error("there are too many {0}")]
    TooMany(&'static str),
    /// Too much is waiting to be written, or others keep changing the run. Trying again later helps.
    #[error("the engine is busy; try again")]
    Busy,
    /// A server outside that a node of a run needs is away.
    #[error("{why}")]
    Unavailable { node: NodeId, why: String },
    /// A node could not be executed to an end; its dispatch is tried again.
    #[error("{0}")]
    Unfinished(String),
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
    #[error(transparent)]
    Store(#[from] store::Error),
}
