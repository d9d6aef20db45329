//! Refusals: expected rejections of commands. Each has a stable error code and a message; both are part of the API.

use holdpoint_ids::ErrorCode;
use serde::Serialize;

use crate::Timestamp;
use crate::agent::ToolCallError;
use crate::run::{Status, UnusableGrant};

/// An expected rejection of a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run was already started.
    #[error("the run was already started")]
    AlreadyStarted,
    /// The run has ended with this status.
    #[error("the run is {status} and accepts no further commands", status = .0.as_str())]
    RunFinished(Status),
    /// A field of the request is invalid.
    #[error("{field}: {message}")]
    InvalidRequest {
        /// The path of the field.
        field: String,
        /// The rule that the field violates.
        message: String,
    },
    /// A value exceeds its size limit.
    #[error("{what} is {bytes} bytes; at most {max} are accepted")]
    TooLarge {
        /// The name of the value.
        what: &'static str,
        /// The size of the value.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The run has no interrupt with this id or key.
    #[error("interrupt not found")]
    InterruptNotFound,
    /// The node has several open interrupts, and the request names none of them.
    #[error("interruptId: the node has several open interrupts; use one of {}", .0.join(", "))]
    InterruptAmbiguous(Vec<String>),
    /// The interrupt is closed, or its run has completed or failed.
    #[error("the interrupt was already resolved")]
    AlreadyResolved,
    /// The deadline of the interrupt has passed.
    #[error("the interrupt has expired")]
    Expired,
    /// The run was cancelled while the interrupt was open.
    #[error("the run was cancelled while the interrupt was open")]
    InterruptCancelled,
    /// The run was cancelled together with its parent.
    #[error("the run was cancelled with its parent run; the interrupt is closed")]
    InterruptGone,
    /// The deadline or the wake-up time is in the future.
    #[error("the deadline has not been reached")]
    NotDue,
    /// The interrupt restricts its approvers, and this principal is none of them.
    #[error("{0} is not an approver of this interrupt")]
    NotAnApprover(String),
    /// A governed gate denies the answer, or an event cannot resolve the interrupt, for this reason.
    #[error("{0}")]
    NotAuthorized(String),
    /// The requester may not answer its own request.
    #[error(
        "{0} requested this and may not answer it; another principal must answer, or the hold or gate must be created \
         with requesterMayNotApprove: false"
    )]
    OwnRequest(String),
    /// The caller may not act for this principal.
    #[error("the caller may not answer on behalf of {0}")]
    MayNotActFor(String),
    /// This principal may not answer a side question.
    #[error(
        "{0} may not answer this side question; the principal that started the run or another approver can"
    )]
    MayNotAnswerSideQuestion(String),
    /// No principal has this name, and the entry of the approver list without a prefix may be the name of a role.
    #[error(
        "{0} is not the principal of an API key and may be the name of a role; create a key for {0}, or list the role \
         as role:{0}"
    )]
    UnknownName(String),
    /// The interrupt does not accept answers by signed link.
    #[error("this interrupt requires an answer with an API key; a signed link is not accepted")]
    KeyRequired,
    /// This principal has voted for another action, or has repeated its vote too often.
    #[error("{0} has already voted; a vote cannot be changed")]
    AlreadyVoted(String),
    /// The digest is not that of the payload.
    #[error("digest does not match the payload that was shown")]
    PayloadMismatch,
    /// The interrupt has no side question with this number.
    #[error("side question not found")]
    SideQuestionNotFound,
    /// The side question has an answer.
    #[error("the side question was already answered")]
    SideQuestionAnswered,
    /// The interrupt has the maximum number of side questions.
    #[error("the interrupt has {0} side questions; no more are accepted")]
    TooManySideQuestions(usize),
    /// The id of the decision was used for a different decision.
    #[error("decision {0:?} was already made with different content")]
    DecisionConflict(String),
    /// The command does not fit the tool call.
    #[error("{0}")]
    BadCall(#[from] ToolCallError),
    /// A member of the external event does not match.
    #[error("the event does not match: {0} differs from the value that the interrupt expects")]
    CorrelationMismatch(String),
    /// The status of the run does not allow the command.
    #[error("the run is {status}; this operation is not possible in this state", status = .0.as_str())]
    WrongState(Status),
    /// The run has no child run with this id.
    #[error("child run not found")]
    ChildNotFound,
    /// The state of the node does not allow the command.
    #[error("the node is not in a state that allows this operation")]
    NodeNotRunning,
    /// The grant was used.
    #[error("{by} used the grant at {at}; request another approval to act again")]
    GrantUsed {
        /// The principal or node that used the grant.
        by: String,
        /// The time of the use.
        at: Timestamp,
    },
    /// The grant cannot be used.
    #[error("{0}")]
    UnusableGrant(#[from] UnusableGrant),
}

impl Refusal {
    /// Creates the refusal of an invalid field.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::InvalidRequest { field: field.into(), message: message.into() }
    }

    /// Returns the error code. It never changes for a released variant.
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
            | Self::MayNotAnswerSideQuestion(_)
            | Self::UnknownName(_) => ErrorCode::Forbidden,
            Self::KeyRequired => ErrorCode::Unauthenticated,
            Self::AlreadyVoted(_) => ErrorCode::AlreadyVoted,
            Self::PayloadMismatch => ErrorCode::PayloadMismatch,
            Self::SideQuestionNotFound => ErrorCode::AskNotFound,
            Self::SideQuestionAnswered => ErrorCode::AskAlreadyAnswered,
            Self::TooManySideQuestions(_) => ErrorCode::TooManyAsks,
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

/// Rejects a value whose compact JSON is larger than a limit.
pub(crate) fn check_size(what: &'static str, value: &impl Serialize, max: usize) -> Result<(), Refusal> {
    let bytes = json_bytes(value);
    if bytes > max { Err(Refusal::TooLarge { what, bytes, max }) } else { Ok(()) }
}

/// Returns the size of the compact JSON of a value without building it.
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
        // A value that cannot be serialized is treated as too large.
        Err(_) => usize::MAX / 2,
    }
}
