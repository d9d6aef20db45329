//! How the core says no. Each refusal is part of the contract: a stable code for machines, a sentence for people.

use holdpoint_ids::ErrorCode;
use serde::Serialize;

use crate::Timestamp;
use crate::agent::CallFlaw;
use crate::run::{Status, UnusableGrant};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the run was already started")]
    AlreadyStarted,
    #[error("the run is {status} and takes no further commands", status = .0.as_str())]
    RunFinished(Status),
    #[error("{field}: {message}")]
    InvalidRequest { field: String, message: String },
    #[error("{what} is {bytes} bytes; at most {max} are accepted")]
    TooLarge { what: &'static str, bytes: usize, max: usize },
    #[error("there is no such interrupt")]
    InterruptNotFound,
    #[error("interruptId: the node has several open interrupts; name one of {}", .0.join(", "))]
    InterruptAmbiguous(Vec<String>),
    #[error("the interrupt was already resolved")]
    AlreadyResolved,
    #[error("the interrupt's deadline has passed")]
    Expired,
    #[error("the run was cancelled while the interrupt was pending")]
    InterruptCancelled,
    #[error("the run was cancelled with the run that started it; its interrupt is gone")]
    InterruptGone,
    #[error("the deadline has not come yet")]
    NotDue,
    #[error("{0} may not answer this interrupt: it names its approvers")]
    NotAnApprover(String),
    #[error("{0}")]
    NotAuthorized(String),
    #[error(
        "{0} requested this and may not answer it: another principal must answer, unless the hold or gate is made \
         with requesterMayNotApprove: false"
    )]
    OwnRequest(String),
    #[error("this caller may not answer in the name of {0}")]
    MayNotActFor(String),
    #[error(
        "{0} may not answer this question: whoever started the run may, and another of those who may decide"
    )]
    MayNotReply(String),
    #[error(
        "{0} is listed here and could be a role, and no key has it as its principal: make a key for {0}, or \
         list the role as role:{0}"
    )]
    UnknownName(String),
    #[error("this interrupt is answered with a key; a link is not enough")]
    KeyRequired,
    #[error("{0} has voted, and a vote that was counted does not change")]
    AlreadyVoted(String),
    #[error("digest does not match the payload that was shown")]
    PayloadMismatch,
    #[error("nobody asked that question here")]
    AskNotFound,
    #[error("the question was already answered")]
    AskAnswered,
    #[error("{0} questions were asked here, and no more may be")]
    TooManyAsks(usize),
    #[error("decision {0:?} was made before, and said something else")]
    DecisionConflict(String),
    #[error("{0}")]
    BadCall(#[from] CallFlaw),
    #[error("the event does not match: {0} differs from what the interrupt waits for")]
    CorrelationMismatch(String),
    #[error("the run is {status}, and that cannot be done to it now", status = .0.as_str())]
    WrongState(Status),
    #[error("this run has not started that one")]
    ChildNotFound,
    #[error("the node is not at a point where it could do that")]
    NodeNotRunning,
    #[error("{by} used the grant at {at}; ask for another approval to act again")]
    GrantUsed { by: String, at: Timestamp },
    #[error("{0}")]
    UnusableGrant(#[from] UnusableGrant),
}

impl Refusal {
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::InvalidRequest { field: field.into(), message: message.into() }
    }

    /// The code that callers may rely on. Never changes for a released variant.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::AlreadyStarted => ErrorCode::RunAlreadyStarted,
            Self::RunFinished(_) => ErrorCode::RunFinished,
            Self::InvalidRequest { .. } => ErrorCode::ValidationError,
            Self::TooLarge { .. } => ErrorCode::PayloadTooLarge,
            Self::InterruptNotFound => ErrorCode::InterruptNotFound,
            Self::InterruptAmbiguous(_) => ErrorCode::InterruptAmbiguous,
            Self::AlreadyResolved | Self::Expired => ErrorCode::InterruptAlreadyResolved,
            Self::InterruptCancelled => ErrorCode::InterruptCancelled,
            Self::InterruptGone => ErrorCode::InterruptGone,
            Self::NotDue => ErrorCode::NotDue,
            Self::NotAnApprover(_)
            | Self::NotAuthorized(_)
            | Self::OwnRequest(_)
            | Self::MayNotActFor(_)
            | Self::MayNotReply(_)
            | Self::UnknownName(_) => ErrorCode::Forbidden,
            Self::KeyRequired => ErrorCode::Unauthenticated,
            Self::AlreadyVoted(_) => ErrorCode::AlreadyVoted,
            Self::PayloadMismatch => ErrorCode::PayloadMismatch,
            Self::AskNotFound => ErrorCode::AskNotFound,
            Self::AskAnswered => ErrorCode::AskAlreadyAnswered,
            Self::TooManyAsks(_) => ErrorCode::TooManyAsks,
            Self::DecisionConflict(_) => ErrorCode::DecisionConflict,
            Self::BadCall(_) => ErrorCode::BadToolCall,
            Self::CorrelationMismatch(_) => ErrorCode::CorrelationMismatch,
            Self::WrongState(_) => ErrorCode::WrongState,
            Self::ChildNotFound => ErrorCode::ChildNotFound,
            Self::NodeNotRunning => ErrorCode::NodeNotRunning,
            Self::GrantUsed { .. } => ErrorCode::GrantUsed,
            Self::UnusableGrant(grant) => grant.code(),
        }
    }
}

/// Refuses a value whose compact JSON is larger than a limit.
pub(crate) fn check_size(what: &'static str, value: &impl Serialize, max: usize) -> Result<(), Refusal> {
    let bytes = json_bytes(value);
    if bytes > max { Err(Refusal::TooLarge { what, bytes, max }) } else { Ok(()) }
}

/// Measures compact JSON without building it.
pub(crate) fn json_bytes(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // A value that cannot be written is as unwelcome as one that is too large.
        Err(_) => usize::MAX / 2,
    }
}
