//! The reasons why node code stops.

use holdpoint_core::agent::ResumePolicy;
use holdpoint_core::{
    ChildRunRequest, InterruptId, InterruptRequest, NodeId, NodeOutcome, Run, RunEnd, RunError, Timestamp,
};

use crate::error::Error;

/// The reason why node code stops before it has outputs. Node code returns it with `?`; it can handle `Failed` and
/// `TimedOut`.
#[derive(Debug, PartialEq)]
pub enum Stop {
    /// The node fails.
    Failed(RunError),
    /// The interrupt expired without an answer.
    TimedOut,
    /// The node opens an interrupt. The engine executes the node again after the answer.
    #[doc(hidden)]
    Asked(Box<InterruptRequest>),
    /// The node waits for an interrupt that is already open.
    #[doc(hidden)]
    Joined(InterruptId),
    /// The node sleeps until this time.
    #[doc(hidden)]
    Sleeping(Timestamp),
    /// An agent waits for decisions about its tool calls.
    #[doc(hidden)]
    Suspended(ResumePolicy),
    /// The node starts a child run. The engine executes the node again, at once or after the child run has ended.
    #[doc(hidden)]
    Dispatched(Box<ChildRunRequest>),
    /// The run was cancelled. The node can release what it holds outside of the run, and then returns. The engine
    /// refuses further steps and discards the outcome; another node is not executed.
    Cancelled,
    /// Another worker has taken the run over, or the run has failed. The engine discards further results of this node.
    /// The node returns at once: another worker may execute it at the same time.
    Lost,
    /// A server that the node depends on is unavailable. The engine executes the node again with growing delays, until
    /// the server is back or the run waits for an operator. Recorded steps are not repeated.
    Unavailable {
        /// The message for the log and for operators.
        why: String,
        /// The time in milliseconds after which the run waits for an operator.
        outage_ms: u64,
    },
    /// The store failed, or the state of the run is inconsistent. The worker retries the dispatch.
    #[doc(hidden)]
    Broken(String),
}

impl Stop {
    /// Returns a failure of the node with this error code and message.
    pub fn failed(code: &str, message: impl Into<String>) -> Self {
        Self::Failed(RunError::new(code, message))
    }

    /// Returns the reason to stop work for a run that cannot continue.
    pub(crate) fn of_run(run: &Run) -> Self {
        match run.end {
            Some(RunEnd::Cancelled { .. }) => Self::Cancelled,
            Some(RunEnd::Completed { .. } | RunEnd::Failed { .. }) | None => Self::Lost,
        }
    }

    /// Returns the outcome of the node for the run, or an error if the node must be executed again.
    pub(crate) fn outcome(self, node: &NodeId) -> Result<NodeOutcome, Error> {
        Ok(match self {
            Self::Failed(error) => NodeOutcome::Failed(error),
            Self::TimedOut => {
                let message = "the interrupt was not answered before its deadline";
                NodeOutcome::Failed(RunError::timed_out("interrupt_timeout", message))
            }
            Self::Asked(request) => NodeOutcome::Asked(request),
            Self::Joined(id) => NodeOutcome::Joined(id),
            Self::Sleeping(until) => NodeOutcome::Sleeping(until),
            Self::Suspended(policy) => NodeOutcome::Suspended { policy },
            Self::Dispatched(request) => NodeOutcome::ChildRequested(request),
            // If the run was cancelled or is lost, the core rejects these outcomes.
            Self::Cancelled => NodeOutcome::Failed(RunError::new(
                "run_cancelled",
                "the node reported that its run was cancelled",
            )),
            Self::Lost => {
                NodeOutcome::Failed(RunError::new("run_lost", "the node reported that it lost its run"))
            }
            Self::Unavailable { why, outage_ms } => {
                return Err(Error::Unavailable { node: node.clone(), why, outage_ms });
            }
            Self::Broken(why) => return Err(Error::Unfinished(why)),
        })
    }
}
