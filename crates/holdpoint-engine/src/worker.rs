//! The worker: fires timers, claims dispatches and executes their runs. Its state is in the store: after a crash,
//! another worker continues its work.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::{Run, Timestamp};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

use crate::engine::{Engine, SearchPositions};
use crate::error::Error;
use crate::local_handoff::{FreeSlots, Handoff, WorkerSlot};
use crate::work_signal::{Shortage, WorkSignal};

mod leases;
mod node_execution;
mod nodes_at_work;
mod return_claim;
mod run_executor;
mod side_questions;
mod timers;
mod upkeep;

use leases::{Lease, LeaseKeeper};
pub(crate) use node_execution::{DryPurpose, DryResult, NodeExecution, NodeResult, execute_dry};
use return_claim::{ReturnReason, return_claim};
use run_executor::RunExecutor;

use crate::committer::{Claim, ClaimOrder};

/// The maximum number of dispatches in flight. Most of them wait for an external service, such as a model.
const IN_FLIGHT_MAX: usize = 512;
/// The maximum number of dispatches per claim, so that other processes get some.
const CLAIM_MAX: usize = 64;
/// Wait after a claim that other processes won. It doubles with every such claim in a row.
const CONTENTION_DELAY: Duration = Duration::from_millis(10);
/// Wait after an error of the store.
const ERROR_DELAY: Duration = Duration::from_secs(1);
/// Interval between two deletions of expired rows.
const PURGE_EVERY: Duration = Duration::from_secs(60);

/// Fires timers and executes the runs of claimed dispatches.
#[derive(Debug)]
pub struct Worker {
    engine: Engine,
    consumer: String,
    in_flight: JoinSet<Result<(), Error>>,
    claims: HashMap<Id, (Arc<Claim>, Option<WorkerSlot>)>,
    slots: FreeSlots,
    leases: Arc<LeaseKeeper>,
    side_questions: side_questions::SideQuestionTasks,
    positions: SearchPositions,
    signal: Arc<WorkSignal>,
    /// Start of the last check for work. Work that became due later may be unseen.
    checked_at: Timestamp,
    /// Checks in a row that found ready dispatches, had a free slot and could not claim any.
    contended: u32,
    /// Claims that could not be returned, and the reasons for the return. Retried at every check.
    unreturned: Vec<(Arc<Claim>, ReturnReason)>,
}

type TaskEnd = Result<(Id, Result<(), Error>), tokio::task::JoinError>;

impl Worker {
    pub(crate) fn new(engine: Engine) -> Self {
        let consumer = format!("{}-{}", engine.name(), Uuid::now_v7());
        let leases = Arc::new(LeaseKeeper::new(engine.clone()));
        let (in_flight, claims) = (JoinSet::new(), HashMap::new());
        let (side_questions, positions) =
            (side_questions::SideQuestionTasks::default(), SearchPositions::default());
        let signal = engine.bus().work.clone();
        Self {
            checked_at: engine.now(),
            engine,
            consumer,
            in_flight,
            claims,
            slots: FreeSlots::new(IN_FLIGHT_MAX, signal.clone()),
            leases,
            side_questions,
            positions,
            signal,
            contended: 0,
            unreturned: Vec::new(),
        }
    }

    /// Does all work that is due now and returns the number of dispatches and timers. Reports an error only after all
    /// other work is done.
    pub async fn drain(&mut self) -> Result<usize, Error> {
        let (mut done, mut failure) = (0, None);
        loop {
            let (begun, more) = self.check_for_work().await?;
            while let Some(ended) = self.in_flight.join_next_with_id().await {
                self.close(ended).await?;
            }
            while self.side_questions.join_next().await {}
            done += begun;
            failure = failure.or(more);
            if begun == 0 {
                return failure.map_or(Ok(done), Err);
            }
        }
    }

    /// Works until `stop` is true, then waits for the dispatches in flight. Drops `stop` after its last check for work,
    /// before this wait.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let renewal = tokio::spawn(self.leases.clone().renew_forever());
        let mut handoffs = self.engine.local_handoff().open(&self.consumer, self.slots.clone());
        let mut purged = Instant::now();
        let mut expiring: Option<JoinHandle<()>> = None;
        while !*stop.borrow() {
            if purged.elapsed() >= PURGE_EVERY {
                purged = Instant::now();
                upkeep::purge(&self.engine).await;
                if expiring.as_ref().is_none_or(JoinHandle::is_finished) {
                    expiring = Some(tokio::spawn(upkeep::maintain_extensions(self.engine.clone())));
                }
            }
            // Usually `wait` receives handoffs and ended tasks, but a busy worker does not reach it.
            while let Ok(handoff) = handoffs.try_recv() {
                self.start_handoff(handoff);
            }
            while let Some(ended) = self.in_flight.try_join_next_with_id() {
                self.close_or_log(ended).await;
            }
            let next = match self.check_for_work().await {
                Ok((0, None)) => self.wait_time().await,
                Ok((_, None)) => continue,
                Ok((_, Some(error))) | Err(error) => {
                    tracing::error!(%error, "the worker failed; retrying");
                    ERROR_DELAY
                }
            };
            self.wait(next, &mut stop, &mut handoffs).await;
        }
        self.engine.local_handoff().close();
        self.signal.stop_polling();
        // Tells other processes to check for work that this one leaves.
        self.engine.bus().outbox.note_work();
        drop(stop);
        while let Some(handoff) = handoffs.recv().await {
            self.start_handoff(handoff);
        }
        while let Some(ended) = self.in_flight.join_next_with_id().await {
            self.close_or_log(ended).await;
        }
        renewal.abort();
    }

    /// Waits until there may be work. Handoffs are started without a check for work.
    async fn wait(
        &mut self,
        most: Duration,
        stop: &mut watch::Receiver<bool>,
        handoffs: &mut UnboundedReceiver<Handoff>,
    ) {
        let signal = self.signal.clone();
        let deadline = tokio::time::sleep(most);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                () = signal.wait() => return,
                () = &mut deadline => return,
                _ = stop.changed() => return,
                Some(handoff) = handoffs.recv() => self.start_handoff(handoff),
                Some(ended) = self.in_flight.join_next_with_id() => {
                    // If a row waits for this slot, releasing it raises the signal.
                    self.close_or_log(ended).await;
                    if !self.unreturned.is_empty() {
                        return;
                    }
                }
                true = self.side_questions.join_next() => return,
            }
        }
    }

    /// Deletes expired rows and does the upkeep of extensions. `run` does this at intervals.
    pub async fn tidy(&self) {
        upkeep::purge(&self.engine).await;
        upkeep::maintain_extensions(self.engine.clone()).await;
    }

    /// Starts due work. Returns the number of started items, and the error of an item that could not start.
    async fn check_for_work(&mut self) -> Result<(usize, Option<Error>), Error> {
        let mark = self.signal.begin_poll();
        self.checked_at = self.engine.now();
        let mut failure = None;
        for (claim, why) in std::mem::take(&mut self.unreturned) {
            failure = self.return_claim(claim, why).await.err().or(failure);
        }
        let mut done = add_result(timers::fire_all(&self.engine).await, &mut failure);
        let mut available = self.engine.doable().await?;
        if available.lapsed {
            failure = failure.or(upkeep::reclaim(&self.engine).await.unwrap_or_else(Some));
            available = self.engine.doable().await?;
        }
        done += add_result(
            self.side_questions.start_due(&self.engine).await.map(|begun| (begun, None)),
            &mut failure,
        );
        if available.unreconciled {
            done += add_result(upkeep::reconcile(&self.engine).await, &mut failure);
        }
        if available.unmatched_events {
            done += add_result(self.engine.match_waiting_interrupts(&mut self.positions).await, &mut failure);
        }
        let free = self.slots.available();
        let claimed = if free > 0 && available.ready { self.claim(free.min(CLAIM_MAX)).await? } else { 0 };
        let contended = available.ready && free > 0 && claimed == 0;
        self.contended = if contended { self.contended.saturating_add(1) } else { 0 };
        self.signal.end_poll(mark, Shortage::of(&available, free));
        done += claimed;
        Ok((done, failure))
    }

    async fn claim(&mut self, limit: usize) -> Result<usize, Error> {
        let now = self.engine.now();
        let lease_until = now.plus_ms(self.engine.lease_ms());
        let order = ClaimOrder { consumer: self.consumer.clone(), lease_until, now, limit };
        let rows = self.engine.claim_ready(order).await?;
        let count = rows.len();
        for row in rows {
            let Some(claim) = Claim::of(&row).map(Arc::new) else {
                // If this fails, the lease of the row expires. The other rows are started now.
                if let Err(error) = upkeep::reject_dispatch(&self.engine, &row).await {
                    tracing::warn!(%error, dispatch = row.dispatch_id, "cannot close a dispatch with an invalid run id");
                }
                continue;
            };
            let slot = self.slots.acquire();
            self.start_activation(claim, lease_until, None, slot);
        }
        Ok(count)
    }

    fn start_handoff(&mut self, handoff: Handoff) {
        let Handoff { claim, lease_until, run, slot } = handoff;
        self.start_activation(claim, lease_until, Some(run), slot);
    }

    fn start_activation(
        &mut self,
        claim: Arc<Claim>,
        lease_until: Timestamp,
        run: Option<Arc<Run>>,
        slot: Option<WorkerSlot>,
    ) {
        let lease = Arc::new(Lease::new(lease_until));
        let executor = RunExecutor::new(self.engine.clone(), claim.clone(), lease.clone());
        let handle = self.in_flight.spawn(executor.execute_run(run));
        self.leases.add(&claim, lease, handle.clone());
        self.claims.insert(handle.id(), (claim, slot));
    }

    async fn wait_time(&self) -> Duration {
        let next = match self.next_wakeup().await {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(%error, "cannot read the time of the next timer");
                None
            }
        };
        self.signal.sleep_until(next);
        let now = self.engine.now();
        let ms = next.map_or(u64::MAX, |at| u64::try_from(at.0 - now.0).unwrap_or(0));
        let again = match self.contended.checked_sub(1) {
            Some(times) => CONTENTION_DELAY.saturating_mul(1 << times.min(16)),
            None => Duration::MAX,
        };
        Duration::from_millis(ms).min(again).min(self.engine.backstop())
    }

    /// Returns the next time at which work becomes due that the last check has not seen.
    async fn next_wakeup(&self) -> Result<Option<Timestamp>, Error> {
        let since = self.checked_at;
        let side_question =
            if self.side_questions.has_room() { self.engine.next_side_question_due().await? } else { None };
        let (timer, dispatch) =
            (self.engine.next_timer(since).await?, self.engine.next_dispatch(since).await?);
        Ok([side_question, timer, dispatch].into_iter().flatten().min())
    }

    async fn close_or_log(&mut self, ended: TaskEnd) {
        if let Err(error) = self.close(ended).await {
            tracing::error!(%error, "cannot return a claim; retrying");
        }
    }

    /// Handles the end of a task. Returns the claim of a task that failed or panicked. An aborted task has lost its
    /// claim.
    async fn close(&mut self, ended: TaskEnd) -> Result<(), Error> {
        let (id, why) = match ended {
            Ok((id, Ok(()))) => (id, None),
            Ok((id, Err(error))) => (id, Some(ReturnReason::from(error))),
            Err(error) if error.is_cancelled() => (error.id(), None),
            Err(error) => (error.id(), Some(ReturnReason::Failed(format!("the worker panicked: {error}")))),
        };
        let Some((claim, _)) = self.claims.remove(&id) else { return Ok(()) };
        self.leases.remove(&claim);
        match why {
            Some(why) => self.return_claim(claim, why).await,
            None => Ok(()),
        }
    }

    async fn return_claim(&mut self, claim: Arc<Claim>, why: ReturnReason) -> Result<(), Error> {
        let returned = return_claim(&self.engine, claim.clone(), why.clone()).await;
        if returned.is_err() {
            self.unreturned.push((claim, why));
        }
        returned
    }
}

/// Returns the number of items done and keeps the first error. An error in one kind of work must not stop the others.
fn add_result(done: Result<(usize, Option<Error>), Error>, failure: &mut Option<Error>) -> usize {
    let (done, error) = done.unwrap_or_else(|error| (0, Some(error)));
    *failure = failure.take().or(error);
    done
}
