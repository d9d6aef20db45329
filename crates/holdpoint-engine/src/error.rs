//! What can come back instead of a result. Refusals are part of the contract; the rest is trouble.

use holdpoint_core::Refusal;
use holdpoint_core::mailbox::MailboxError;
use holdpoint_core::workflow::Flaw;

use crate::store;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{0} not found")]
    NotFound(&'static str),
    #[error("the workflow has {} flaw(s); the first: {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    InvalidWorkflow(Vec<Flaw>),
    /// Too much is waiting to be written, or others keep changing the run. Trying again later helps.
    #[error("the engine is busy; try again")]
    Busy,
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
    #[error(transparent)]
    Store(#[from] store::Error),
}
