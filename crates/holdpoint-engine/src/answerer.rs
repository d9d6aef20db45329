//! Automatic answers to side questions of approvers. A worker calls the [`Answerer`] and retries after failures and
//! restarts. Only the first answer to a side question is recorded.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::{Interrupt, NodeId, Run, RunRef, Timestamp, WorkflowId};
use serde_json::Value;

/// Answers side questions of approvers. It can get the same question more than once; only one answer is recorded.
pub trait Answerer: Send + Sync + 'static {
    /// Returns the answer, or `None` if a person must answer the question. The worker retries after an error, a few
    /// times.
    fn answer(
        &self,
        question: &ApproverQuestion,
    ) -> impl Future<Output = Result<Option<String>, AnswererError>> + Send;
}

/// The reason why an answerer cannot answer now. The text is written to the log and must not contain secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnswererError(pub String);

/// A side question of an approver, with the interrupt that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct ApproverQuestion {
    /// The run of the interrupt.
    pub of: RunRef,
    /// The workflow of the run.
    pub workflow: WorkflowId,
    /// The node of the interrupt.
    pub node: NodeId,
    /// The id of the interrupt in the API.
    pub interrupt: String,
    /// The number of the question within the interrupt.
    pub ask: u32,
    /// The question.
    pub text: String,
    /// The name of the approver.
    pub asked_by: String,
    /// The time of the question.
    pub asked_at: Timestamp,
    /// The payload of the interrupt.
    pub data: Value,
}

impl ApproverQuestion {
    pub(crate) fn of(
        of: &RunRef,
        run: &Run,
        interrupt: &Interrupt,
        ask: &holdpoint_core::SideQuestion,
    ) -> Self {
        Self {
            of: of.clone(),
            workflow: run.workflow.id.clone(),
            node: interrupt.node.clone(),
            interrupt: run.interrupt_name(interrupt.id),
            ask: ask.id,
            text: ask.question.clone(),
            asked_by: ask.by.clone(),
            asked_at: ask.at,
            data: Value::clone(&interrupt.data),
        }
    }
}

type AnswererFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, AnswererError>> + Send + 'a>>;

/// Object-safe form of [`Answerer`].
trait DynAnswerer: Send + Sync {
    fn answer<'a>(&'a self, question: &'a ApproverQuestion) -> AnswererFuture<'a>;
}

impl<T: Answerer> DynAnswerer for T {
    fn answer<'a>(&'a self, question: &'a ApproverQuestion) -> AnswererFuture<'a> {
        Box::pin(Answerer::answer(self, question))
    }
}

#[derive(Clone)]
pub(crate) struct AnyAnswerer(Arc<dyn DynAnswerer>);

impl AnyAnswerer {
    pub(crate) fn new(answerer: impl Answerer) -> Self {
        Self(Arc::new(answerer))
    }

    pub(crate) async fn answer(&self, question: &ApproverQuestion) -> Result<Option<String>, AnswererError> {
        self.0.answer(question).await
    }
}

impl fmt::Debug for AnyAnswerer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyAnswerer")
    }
}
