//! The status of a graph, computed from its run. The status after an earlier answer is computed from the log.

use std::sync::Arc;

use holdpoint_core::{Run, RunEnd, RunError, RunRef, Status, TenantId};
use holdpoint_engine::{Error, OpenInterrupt, SiblingsWait};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Graphs;
use super::NODE;
use super::expiry::EXPIRED_BY;
use crate::{NODE_TYPE, conversion};

/// The status of a graph.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphStatus {
    /// The graph is executing.
    Running,
    /// The graph waits for an answer.
    Waiting {
        /// The kind of the interrupt, or `multi` for several.
        kind: String,
        /// The payload.
        data: Value,
        /// The error of the previous answer. The graph accepts another answer.
        previous_error: Option<Value>,
    },
    /// The graph completed with this output.
    Completed(Value),
    /// The graph failed.
    Failed(RunError),
    /// The graph was cancelled.
    Cancelled {
        /// The reason.
        reason: Option<String>,
        /// True if the graph was cancelled because it was not answered in time.
        expired: bool,
    },
}

/// The status of a graph for a caller that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphProgress {
    /// The status.
    pub status: GraphStatus,
    /// The instant until which child runs may add interrupts to the status.
    pub siblings_until: Option<Instant>,
}

impl GraphProgress {
    /// Returns the instant at which the caller stops waiting: `until` for a running graph, or the end of the wait for
    /// child runs if that is earlier. Returns None if the caller does not wait.
    pub fn wait_until(&self, until: Instant) -> Option<Instant> {
        match &self.status {
            GraphStatus::Running => Some(until),
            GraphStatus::Waiting { .. } => self.siblings_until.map(|siblings| siblings.min(until)),
            GraphStatus::Completed(_) | GraphStatus::Failed(_) | GraphStatus::Cancelled { .. } => None,
        }
    }
}

impl GraphStatus {
    /// Returns the status of a run. `open` are its open interrupts and those of its child runs.
    pub(super) fn of(run: &Run, open: &[OpenInterrupt]) -> Self {
        match run.status() {
            Status::Completed => Self::Completed(output(run)),
            Status::Failed => Self::Failed(failure(run)),
            Status::Cancelled => cancelled(run),
            Status::Pending
            | Status::Running
            | Status::Paused
            | Status::WaitingApproval
            | Status::WaitingInput
            | Status::WaitingExternal => waiting(run, open).unwrap_or(Self::Running),
        }
    }
}

fn failure(run: &Run) -> RunError {
    match &run.end {
        Some(RunEnd::Failed { error, .. }) => error.clone(),
        _ => RunError::new("run_failed", "the run failed without an error"),
    }
}

fn cancelled(run: &Run) -> GraphStatus {
    match &run.end {
        Some(RunEnd::Cancelled { reason, by, .. }) => {
            GraphStatus::Cancelled { reason: reason.clone(), expired: by == EXPIRED_BY }
        }
        _ => GraphStatus::Cancelled { reason: None, expired: false },
    }
}

/// Returns the open interrupts as a status, or `None` if the run has other work.
fn waiting(run: &Run, open: &[OpenInterrupt]) -> Option<GraphStatus> {
    if run.next_work().is_some() {
        return None;
    }
    let open: Vec<_> = open.iter().filter_map(|one| Some((key(run, one), one.interrupt()?))).collect();
    let (_, first) = open.first()?;
    let previous_error = conversion::previous_error(first).cloned();
    if let [(_, only)] = open.as_slice() {
        let (kind, data) = conversion::envelope(only);
        return Some(GraphStatus::Waiting { kind, data, previous_error });
    }
    let items = open.iter().map(|(key, asked)| {
        let (kind, data) = conversion::envelope(asked);
        json!({ "key": key, "kind": kind, "data": data })
    });
    let items: Vec<Value> = items.collect();
    Some(GraphStatus::Waiting { kind: "multi".to_owned(), data: json!({ "items": items }), previous_error })
}

/// Returns the key of an interrupt among several. It is stable while the interrupt is open. The key of an interrupt of
/// a child run begins with the part of the id of the child run that follows the id of the run.
pub(super) fn key(run: &Run, open: &OpenInterrupt) -> String {
    let own = format!("i{}", open.id.0.saturating_sub(1));
    if open.run.id == run.id {
        return own;
    }
    let child = open.run.id.as_str();
    let below = child.strip_prefix(run.id.as_str()).and_then(|rest| rest.strip_prefix('.'));
    format!("{}.{own}", below.unwrap_or(child))
}

/// Returns the output of a graph: that of the provider, or the outputs of the last nodes of a workflow.
fn output(run: &Run) -> Value {
    let mut outputs = run.outputs();
    match run.workflow.nodes.as_slice() {
        [only] if only.type_id == NODE_TYPE && only.id.as_str() == NODE => {
            outputs.shift_remove("output").unwrap_or_default()
        }
        _ => Value::Object(outputs),
    }
}

impl Graphs<'_> {
    /// Returns the first status other than `Running` after a decision, or `Running`.
    async fn status_after(self, of: &RunRef, decision: &str) -> Result<GraphStatus, Error> {
        let now = self.engine.runs().get(of).await?;
        let (log, starts) = self.engine.events().list_with_commits(of).await?;
        let mut run = Run::new(of.run.clone(), now.workflow.clone());
        let mut decided = false;
        // The status is evaluated only where a commit begins, because the state within a commit is incomplete.
        for recorded in &log {
            if decided && starts.contains(&recorded.seq) {
                let status = self.status_of(&of.tenant, &Arc::new(run.clone())).await?;
                if status != GraphStatus::Running {
                    return Ok(status);
                }
            }
            run.apply(&recorded.event, recorded.at);
            decided = decided || has_decided(&run, decision);
        }
        self.status_of(&of.tenant, &Arc::new(run)).await
    }

    /// Waits until a graph no longer runs, at most until `until`, and returns its status. With the decision id of a
    /// resume in `after`, returns the first status after that resume, because other answers may follow. Without it, waits
    /// a moment for child runs that are executing, so that the caller gets their interrupts together.
    pub async fn wait(self, of: &RunRef, after: Option<&str>, until: Instant) -> Result<GraphStatus, Error> {
        let mut news = self.engine.events().subscribe(of);
        let mut siblings = SiblingsWait::default();
        loop {
            let seen = self.progress(of, after, &mut siblings).await?;
            let Some(wait_until) = seen.wait_until(until) else { return Ok(seen.status) };
            if tokio::time::timeout_at(wait_until, news.changed()).await.is_err() && wait_until == until {
                return Ok(seen.status);
            }
        }
    }

    /// Returns the current status of a graph, or with the decision id of a resume in `after` the first status after that
    /// resume. `siblings` is the wait of the caller for child runs that are executing.
    pub async fn progress(
        self,
        of: &RunRef,
        after: Option<&str>,
        siblings: &mut SiblingsWait,
    ) -> Result<GraphProgress, Error> {
        if let Some(decision) = after {
            let status = self.status_after(of, decision).await?;
            return Ok(GraphProgress { status, siblings_until: None });
        }
        let run = self.engine.runs().get(of).await?;
        let status = self.status_of(&of.tenant, &run).await?;
        let siblings_until = match &status {
            GraphStatus::Waiting { .. } => siblings.deadline(&run),
            GraphStatus::Running
            | GraphStatus::Completed(_)
            | GraphStatus::Failed(_)
            | GraphStatus::Cancelled { .. } => {
                siblings.reset();
                None
            }
        };
        Ok(GraphProgress { status, siblings_until })
    }

    /// Returns the current status of a graph.
    pub async fn status(self, of: &RunRef) -> Result<GraphStatus, Error> {
        self.status_of(&of.tenant, &self.engine.runs().get(of).await?).await
    }

    async fn status_of(self, tenant: &TenantId, run: &Arc<Run>) -> Result<GraphStatus, Error> {
        let open = match run.next_work() {
            Some(_) => Vec::new(),
            None => self.engine.interrupts().of_family(tenant, run).await?,
        };
        Ok(GraphStatus::of(run, &open))
    }
}

fn has_decided(run: &Run, name: &str) -> bool {
    decisions(run).any(|decision| decision == name)
}

/// Returns the ids of the decisions on the interrupts of a run, and of those that closed interrupts of its child runs.
pub(super) fn decisions(run: &Run) -> impl Iterator<Item = &str> {
    let own = run.interrupts.iter().flat_map(|asked| asked.decisions()).map(|(decision, _)| decision);
    let closed = run.children.iter().flat_map(|child| &child.decisions);
    own.chain(closed.filter_map(|closed| closed.decision.as_deref()))
}
