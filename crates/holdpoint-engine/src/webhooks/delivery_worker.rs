//! The delivery worker: sends best-effort events from the lanes, claims due durable deliveries from the store, and
//! limits the number of concurrent attempts. All processes of a cluster share the deliveries in the store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdpoint_core::Timestamp;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

use super::DeliveryLane;
use super::attempt::DeliverySender;
use super::courier::Courier;
use crate::committer::{CommitReply, Work};
use crate::engine::Engine;
use crate::error::Error;
use crate::store::deliveries::queues::{self, QueueSummary};
use crate::store::deliveries::{self, Delivery, attempts};
use crate::store::{Statement, params};

/// The maximum number of claimed durable deliveries of this worker.
const CLAIMED_MAX: usize = 256;
/// Wait after a failure of the store.
const ERROR_DELAY: Duration = Duration::from_secs(1);
/// Interval at which skipped events are recorded.
const MISSED_INTERVAL: Duration = Duration::from_secs(1);

/// Sends webhook deliveries.
pub struct DeliveryWorker {
    sender: Arc<DeliverySender>,
    engine: Engine,
    name: String,
    /// Attempts in flight.
    in_flight: JoinSet<AttemptEnd>,
    overall: Arc<Semaphore>,
    /// The next time at which a delivery becomes due, a lease expires or a backoff ends.
    next_due: Option<Timestamp>,
    /// True if the last look at the queues left deliveries unclaimed because of [`CLAIMED_MAX`].
    is_full: bool,
    /// The stop signal of `run`.
    stop: Option<watch::Receiver<bool>>,
}

/// The end of an attempt.
enum AttemptEnd {
    BestEffort,
    /// A durable delivery was delivered. The lane may need more deliveries.
    Delivered(Arc<DeliveryLane>),
    /// A durable delivery is queued again or was given up.
    Undelivered,
}

impl fmt::Debug for DeliveryWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryWorker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DeliveryWorker {
    pub(crate) fn new(engine: Engine, courier: Arc<Courier>) -> Self {
        engine.hooks().workers.fetch_add(1, Ordering::SeqCst);
        let overall = engine.hooks().settings.overall.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            sender: Arc::new(DeliverySender { engine: engine.clone(), courier }),
            name: format!("{}-{}", engine.name(), Uuid::now_v7().simple()),
            next_due: None,
            is_full: false,
            engine,
            in_flight: JoinSet::new(),
            overall: Arc::new(Semaphore::new(overall)),
            stop: None,
        }
    }

    /// Sends all deliveries that are due now and returns their number.
    pub async fn drain(&mut self) -> Result<usize, Error> {
        let mut done = 0;
        loop {
            let started = self.start_due().await?;
            self.join_all().await;
            self.record_missed().await?;
            done += started;
            if started == 0 {
                return Ok(done);
            }
        }
    }

    /// Sends deliveries until `stop` is true. Then waits for running attempts and releases claims that have not
    /// started.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        self.stop = Some(stop.clone());
        let engine = self.engine.clone();
        let hooks = engine.hooks();
        let (mut recorded_at, mut claimed_at) = (Instant::now(), None::<Instant>);
        while !*stop.borrow() {
            let mut wait = self.time_to_next_check(claimed_at);
            if hooks.durable_due.swap(false, Ordering::SeqCst) || wait.is_zero() {
                claimed_at = Some(Instant::now());
                wait = match self.start_due().await {
                    Ok(_) => self.time_to_next_check(claimed_at),
                    Err(error) => {
                        tracing::error!(%error, "the delivery worker failed; retrying");
                        claimed_at = None;
                        ERROR_DELAY
                    }
                };
            } else {
                self.start_best_effort();
            }
            if recorded_at.elapsed() >= MISSED_INTERVAL {
                recorded_at = Instant::now();
                self.record_missed().await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "cannot record skipped events");
                });
            }
            if hooks.has_missed() {
                wait = wait.min(MISSED_INTERVAL);
            }
            if claimed_at.is_some() && hooks.durable_due.load(Ordering::SeqCst) {
                // An attempt that ended meanwhile.
                continue;
            }
            hooks.asleep.store(true, Ordering::SeqCst);
            tokio::select! {
                () = hooks.wakeup.notified() => {}
                () = tokio::time::sleep(wait) => {}
                _ = stop.changed() => {}
                Some(ended) = self.in_flight.join_next() => self.record_end(ended),
            }
            hooks.asleep.store(false, Ordering::SeqCst);
        }
        self.join_all().await;
        self.engine.bus().outbox.note_deliveries();
        if let Err(error) = self.record_missed().await {
            tracing::warn!(%error, "cannot record skipped events");
        }
    }

    async fn join_all(&mut self) {
        while let Some(ended) = self.in_flight.join_next().await {
            self.record_end(ended);
        }
    }

    /// Handles the end of an attempt. Wakes the worker if deliveries may be claimed: those of a lane that has sent most of
    /// its claims, the next one of an ordered subscription, and those of a lane that fails or backs off.
    fn record_end(&self, ended: Result<AttemptEnd, JoinError>) {
        let may_claim = match ended {
            Ok(AttemptEnd::BestEffort) => false,
            Ok(AttemptEnd::Delivered(lane)) => lane.needs_claims(self.engine.now()),
            Ok(AttemptEnd::Undelivered) => true,
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "an attempt panicked; a durable delivery is retried");
                }
                true
            }
        };
        if may_claim || (self.is_full && self.in_flight.len() <= CLAIMED_MAX / 2) {
            self.engine.hooks().durable_due.store(true, Ordering::SeqCst);
        }
    }

    /// Starts due deliveries of both modes and returns their number.
    async fn start_due(&mut self) -> Result<usize, Error> {
        Ok(self.start_best_effort() + self.claim_due().await?)
    }

    /// Handles ended attempts. Then starts one best-effort event per lane in turn while there are free slots, and
    /// returns the number of started attempts.
    fn start_best_effort(&mut self) -> usize {
        while let Some(ended) = self.in_flight.try_join_next() {
            self.record_end(ended);
        }
        let (lanes, mut started) = (self.engine.hooks().lanes(), 0);
        loop {
            let before = started;
            for lane in &lanes {
                if !lane.has_waiting() {
                    continue;
                }
                let Ok(lane_permit) = lane.permits.clone().try_acquire_owned() else { continue };
                let Ok(permit) = self.overall.clone().try_acquire_owned() else { return started };
                let Some(notice) = lane.pop() else { continue };
                let (sender, own) = (self.sender.clone(), lane.clone());
                let task = self.in_flight.spawn(async move {
                    let _permits = (lane_permit, permit);
                    if let Err(error) = sender.deliver_best_effort(&own, notice).await {
                        tracing::warn!(%error, webhook = own.webhook, "cannot process a best-effort event");
                    }
                    AttemptEnd::BestEffort
                });
                lane.add_running(task);
                started += 1;
            }
            if started == before {
                return started;
            }
        }
    }

    async fn claim_due(&mut self) -> Result<usize, Error> {
        let (db, hooks, now) = (self.engine.db(), self.engine.hooks(), self.engine.now());
        // Before the read, so that a delivery that is written meanwhile is not missed.
        hooks.lanes().iter().for_each(|lane| lane.clear_behind());
        let mut queues = queues::read(db, now).await?;
        if queues.lease.is_some_and(|lease| lease <= now) {
            tracing::warn!("taking over deliveries of a process whose leases expired");
            self.engine.write(vec![Statement::new(deliveries::TAKE_BACK, params![now])]).await?;
            queues = queues::read(db, now).await?;
        }
        self.is_full = false;
        let mut room = CLAIMED_MAX.saturating_sub(self.in_flight.len());
        let mut due_ids = Vec::new();
        for QueueSummary { webhook, .. } in queues.webhooks.iter().filter(|queue| queue.due <= now) {
            let limit = hooks.durable_room(webhook, now);
            self.is_full |= limit > room;
            if limit.min(room) > 0 {
                let found = queues::candidates(db, webhook, now, limit.min(room) as u64).await?;
                room -= found.len();
                due_ids.extend(found);
            }
        }
        let claimed = if due_ids.is_empty() { 0 } else { self.claim(due_ids, now).await? };
        // A queue that was due may have more deliveries. Its lane exists now.
        let due = queues.webhooks.iter().filter(|queue| queue.due <= now);
        due.for_each(|queue| self.engine.hooks().record_claim(&queue.webhook));
        let backoff = self.engine.hooks().lanes().into_iter().filter_map(|lane| lane.backoff_until(now));
        self.next_due = backoff.chain(queues.next()).min();
        Ok(claimed)
    }

    /// Claims deliveries and starts their attempts. Returns the number of claimed deliveries.
    async fn claim(&mut self, mut due_ids: Vec<String>, now: Timestamp) -> Result<usize, Error> {
        // All processes claim in the same order, which avoids deadlocks.
        due_ids.sort();
        let lease = now.plus_ms(self.engine.hooks().settings.lease_ms());
        // Unique per claim, so that an attempt cannot settle a delivery that was claimed again.
        let holder = format!("{}/{}", self.name, Uuid::now_v7().simple());
        let set = |id: &String| params![holder.as_str(), lease, id.as_str()];
        let claim = Work::Each(deliveries::CLAIM, due_ids.iter().map(set).collect());
        let CommitReply::Table(rows) = self.engine.submit_work(claim).await? else { return Ok(0) };
        let mut claimed = rows.iter().map(deliveries::read).collect::<Result<Vec<_>, _>>()?;
        claimed.sort_by_key(|delivery| delivery.seq);
        let count = claimed.len();
        claimed.into_iter().for_each(|delivery| self.start_delivery(delivery));
        Ok(count)
    }

    fn start_delivery(&mut self, delivery: Delivery) {
        let lane = self.engine.hooks().lane(&delivery.of.tenant, &delivery.webhook);
        let count = ClaimCount::new(lane.clone());
        let (sender, overall, stop) = (self.sender.clone(), self.overall.clone(), self.stop.clone());
        let task = self.in_flight.spawn(async move {
            let lane = count.0.clone();
            // The semaphores are never closed.
            let permits = (lane.permits.acquire().await, overall.acquire().await);
            let (Ok(_lane_permit), Ok(_permit)) = permits else { return AttemptEnd::Undelivered };
            let id = delivery.id.clone();
            let stopped = stop.is_some_and(|stop| *stop.borrow());
            // Releases a claim whose lease would expire during the attempt. Otherwise two processes could send it.
            let engine = &sender.engine;
            let done_by = engine.now().plus_ms(engine.hooks().settings.attempt_timeout_ms());
            let result = if stopped || delivery.lease.is_none_or(|lease| lease < done_by) {
                sender.engine.write_rows(vec![delivery.give_back()]).await.map(|()| None)
            } else {
                sender.deliver(&lane, delivery).await
            };
            match result {
                Ok(Some(response)) => {
                    lane.record_durable(response, sender.engine.now());
                    if response.succeeded() {
                        return AttemptEnd::Delivered(lane.clone());
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, delivery = id, "a delivery failed; it is claimed again after its lease expires");
                }
            }
            AttemptEnd::Undelivered
        });
        lane.add_running(task);
    }

    /// Returns the time until the next look at the queues, `last` being the time of the last one.
    fn time_to_next_check(&self, last: Option<Instant>) -> Duration {
        let now = self.engine.now();
        let backstop = last.map_or(Duration::ZERO, |at| self.engine.backstop().saturating_sub(at.elapsed()));
        let until = |at: Timestamp| u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0);
        self.next_due.map_or(backstop, |at| Duration::from_millis(until(at)).min(backstop))
    }

    /// Records the number of events that were not sent.
    async fn record_missed(&self) -> Result<(), Error> {
        let now = self.engine.now();
        let mut rows = Vec::new();
        for lane in self.engine.hooks().lanes() {
            let (overflowed, skipped) = lane.take_missed();
            let counts = [(overflowed, "too many events were waiting"), (skipped, "the circuit was open")];
            for (times, why) in counts.into_iter().filter(|(times, _)| *times > 0) {
                rows.push(attempts::insert_dropped(&lane.tenant, &lane.webhook, now, times, why));
            }
        }
        if rows.is_empty() { Ok(()) } else { self.engine.write_rows(rows).await }
    }
}

impl Drop for DeliveryWorker {
    fn drop(&mut self) {
        self.engine.hooks().workers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts a claimed delivery of a lane until drop, so that aborted tasks are covered.
struct ClaimCount(Arc<DeliveryLane>);

impl ClaimCount {
    fn new(lane: Arc<DeliveryLane>) -> Self {
        lane.claimed.fetch_add(1, Ordering::SeqCst);
        Self(lane)
    }
}

impl Drop for ClaimCount {
    fn drop(&mut self) {
        self.0.claimed.fetch_sub(1, Ordering::SeqCst);
    }
}
