//! Who answers what approvers want to know beside a decision, when nobody does so by hand. A worker asks, again where
//! that fails and after a restart; an answer is recorded once, whoever gives it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::{Interrupt, NodeId, Run, RunRef, Timestamp, WorkflowId};
use serde_json::Value;

/// Answers questions of approvers. It may be asked the same more than once; only one answer is kept.
pub trait Answerer: Send + Sync + 'static {
    /// The answer; nothing where this question is for people. An error is tried again later, a few times.
    fn answer(
        &self,
        question: &Question,
    ) -> impl Future<Output = Result<Option<String>, Unanswerable>> + Send;
}

/// Why there is no answer now. The text is for the log: it must hold no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unanswerable(pub String);

/// What an approver wants to know, and what they were shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub of: RunRef,
    pub workflow: WorkflowId,
    pub node: NodeId,
    /// The interrupt, as clients call it.
    pub interrupt: String,
    /// Tells the questions of one interrupt apart.
    pub ask: u32,
    pub text: String,
    pub asked_by: String,
    pub asked_at: Timestamp,
    /// What is to be decided.
    pub data: Value,
}

impl Question {
    pub(crate) fn of(of: &RunRef, run: &Run, interrupt: &Interrupt, ask: &holdpoint_core::Ask) -> Self {
        Self {
            of: of.clone(),
            workflow: run.workflow.id.clone(),
            node: interrupt.node.clone(),
            interrupt: run.interrupt_name(interrupt.id),
            ask: ask.id,
            text: ask.question.clone(),
            asked_by: ask.by.clone(),
            asked_at: ask.at,
            data: interrupt.data.clone(),
        }
    }
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, Unanswerable>> + Send + 'a>>;

/// `Answerer` behind a pointer.
trait Erased: Send + Sync {
    fn answer<'a>(&'a self, question: &'a Question) -> Answering<'a>;
}

impl<T: Answerer> Erased for T {
    fn answer<'a>(&'a self, question: &'a Question) -> Answering<'a> {
        Box::pin(Answerer::answer(self, question))
    }
}

#[derive(Clone)]
pub(crate) struct AnyAnswerer(Arc<dyn Erased>);

impl AnyAnswerer {
    pub(crate) fn new(answerer: impl Answerer) -> Self {
        Self(Arc::new(answerer))
    }

    pub(crate) async fn answer(&self, question: &Question) -> Result<Option<String>, Unanswerable> {
        self.0.answer(question).await
    }
}

impl fmt::Debug for AnyAnswerer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyAnswerer")
    }
}
