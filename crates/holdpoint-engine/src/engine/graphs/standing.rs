//! Where a graph stands, read off its run; also where it stood after an answer, which the log still knows.

use holdpoint_core::{End, Interrupt, Run, RunError, RunRef, Status};
use serde_json::{Value, json};

use super::NODE;
use super::expiry::EXPIRED_BY;
use crate::engine::Engine;
use crate::error::Error;
use crate::providers::asking;
use crate::store::events;
use crate::store::handles::NODE_TYPE;

/// Where a graph stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It is at work.
    Running,
    /// Somebody must answer.
    Waiting {
        kind: String,
        data: Value,
        /// Why the answer before did not get through: it can be given again.
        trouble: Option<Value>,
    },
    Completed(Value),
    Failed(RunError),
    Cancelled {
        reason: Option<String>,
        /// Nobody answered in time.
        expired: bool,
    },
}

impl Standing {
    pub fn of(run: &Run) -> Self {
        match run.status() {
            Status::Completed => Self::Completed(output(run)),
            Status::Failed => Self::Failed(failure(run)),
            Status::Cancelled => cancelled(run),
            Status::Pending
            | Status::Running
            | Status::Paused
            | Status::WaitingApproval
            | Status::WaitingInput
            | Status::WaitingExternal => waiting(run).unwrap_or(Self::Running),
        }
    }
}

fn failure(run: &Run) -> RunError {
    match &run.end {
        Some(End::Failed { error, .. }) => error.clone(),
        _ => RunError::new("run_failed", "the run failed and did not say why"),
    }
}

fn cancelled(run: &Run) -> Standing {
    match &run.end {
        Some(End::Cancelled { reason, by, .. }) => {
            Standing::Cancelled { reason: reason.clone(), expired: by == EXPIRED_BY }
        }
        _ => Standing::Cancelled { reason: None, expired: false },
    }
}

/// What is asked, when nothing goes on before it is answered.
fn waiting(run: &Run) -> Option<Standing> {
    if run.next_work().is_some() {
        return None;
    }
    let open: Vec<_> = run.open_interrupts().collect();
    let first = open.first()?;
    let trouble = asking::trouble(first).cloned();
    if let [only] = open.as_slice() {
        let (kind, data) = asking::envelope(only);
        return Some(Standing::Waiting { kind, data, trouble });
    }
    let items = open.iter().map(|asked| {
        let (kind, data) = asking::envelope(asked);
        json!({ "key": key(asked), "kind": kind, "data": data })
    });
    let items: Vec<Value> = items.collect();
    Some(Standing::Waiting { kind: "multi".to_owned(), data: json!({ "items": items }), trouble })
}

/// What a question is called among several; the same as long as it is open.
pub(super) fn key(asked: &Interrupt) -> String {
    format!("i{}", asked.id.0.saturating_sub(1))
}

/// A graph of a provider leaves what that said; one of ours what its last nodes did.
fn output(run: &Run) -> Value {
    let mut outputs = run.outputs();
    match run.workflow.nodes.as_slice() {
        [only] if only.type_id == NODE_TYPE && only.id.as_str() == NODE => {
            outputs.shift_remove("output").unwrap_or_default()
        }
        _ => Value::Object(outputs),
    }
}

impl Engine {
    /// Where the graph of a run stood when it first stood still after a decision; at work if it still is.
    async fn standing_after(&self, of: &RunRef, decision: &str) -> Result<Standing, Error> {
        let now = self.run(of).await?;
        let (log, starts) = events::with_starts(self.db(), of).await?;
        let mut run = Run::unborn(of.run.clone(), now.workflow.clone());
        let mut decided = false;
        // Where a commit begins, the one before it is whole: only then does a run stand still.
        for recorded in &log {
            if decided && starts.contains(&recorded.seq) {
                let standing = Standing::of(&run);
                if standing != Standing::Running {
                    return Ok(standing);
                }
            }
            run.apply(&recorded.event, recorded.at);
            decided = decided || has_decided(&run, decision);
        }
        Ok(Standing::of(&run))
    }

    /// Where the graph of a run stands once it stands still, or when the time is up. After a resume it is where the graph
    /// stood first: others may have answered since.
    pub async fn graph_settled(
        &self,
        of: &RunRef,
        after: Option<&str>,
        until: tokio::time::Instant,
    ) -> Result<Standing, Error> {
        let mut news = self.subscribe(of);
        loop {
            let standing = match after {
                Some(decision) => self.standing_after(of, decision).await?,
                None => Standing::of(&*self.run(of).await?),
            };
            if standing != Standing::Running {
                return Ok(standing);
            }
            if tokio::time::timeout_at(until, news.changed()).await.is_err() {
                return Ok(Standing::Running);
            }
        }
    }

    /// Where a graph stands now.
    pub async fn graph_standing(&self, of: &RunRef) -> Result<Standing, Error> {
        Ok(Standing::of(&*self.run(of).await?))
    }
}

fn has_decided(run: &Run, name: &str) -> bool {
    run.interrupts.iter().any(|asked| asked.decisions().any(|(decision, _)| decision == name))
}
