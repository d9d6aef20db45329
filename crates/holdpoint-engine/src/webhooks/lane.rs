//! A delivery lane: the queued best-effort events, the running attempts and the backoff of one subscription. A slow
//! subscriber delays only its own lane.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdpoint_core::webhook::DeliveryResponse;
use holdpoint_core::{RunRef, TenantId, Timestamp};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::shared_read::SharedRead;
use crate::engine::Engine;
use crate::error::Error;
use crate::store::webhooks::Webhook;

/// The number of failures in a row after which durable deliveries back off.
const FAILURES_MAX: u32 = 4;
/// The minimum and the maximum number of claimed durable deliveries. To claim more than can be sent at once needs fewer
/// statements; to claim few lets other processes share the deliveries of a slow subscriber.
pub(super) const CLAIMS_MIN: usize = 16;
const CLAIMS_MAX: usize = 64;
/// A lane that needs more deliveries before this time has passed since its last claim claims more of them.
const FAST_CLAIM: Duration = Duration::from_millis(100);
/// The first backoff. It doubles with every further failure.
const BACKOFF_MS_MIN: u64 = 1000;
const BACKOFF_MS_MAX: u64 = 30_000;

/// An event in the queue of a best-effort subscription.
#[derive(Clone, Debug)]
pub(crate) struct BestEffortEvent {
    pub of: RunRef,
    pub seq: u64,
    pub event: &'static str,
    pub at: Timestamp,
}

/// The delivery lane of one subscription in this process.
#[derive(Debug)]
pub(crate) struct DeliveryLane {
    pub tenant: TenantId,
    pub webhook: String,
    pub permits: Arc<Semaphore>,
    width: usize,
    waiting: Mutex<VecDeque<BestEffortEvent>>,
    running: Mutex<Vec<AbortHandle>>,
    /// The number of claimed durable deliveries that have not ended.
    pub claimed: AtomicUsize,
    /// True if the store may have queued deliveries that are due.
    behind: AtomicBool,
    claims: Mutex<ClaimPace>,
    /// The reads of the subscription before its attempts.
    subscription: SharedRead<Option<Arc<Webhook>>>,
    /// The number of events that exceeded the queue limit.
    overflowed: AtomicU64,
    /// The number of events that were skipped because the circuit was open.
    skipped: AtomicU64,
    /// The circuit is open until this time. Events before it are not queued.
    circuit_open_until: AtomicI64,
    /// The number of durable deliveries that failed since the last success.
    failures_in_a_row: AtomicU32,
    /// No durable delivery is claimed before this time.
    backoff_until: AtomicI64,
}

/// The pace of the claims of durable deliveries.
#[derive(Debug)]
struct ClaimPace {
    /// The maximum number of claimed deliveries.
    most: usize,
    /// The time of the last claim.
    last: Instant,
}

impl DeliveryLane {
    pub(super) fn new(tenant: &TenantId, webhook: &str, width: usize) -> Self {
        let width = width.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            tenant: tenant.clone(),
            webhook: webhook.to_owned(),
            permits: Arc::new(Semaphore::new(width)),
            width,
            waiting: Mutex::default(),
            running: Mutex::default(),
            claimed: AtomicUsize::new(0),
            behind: AtomicBool::new(false),
            claims: Mutex::new(ClaimPace { most: CLAIMS_MIN, last: Instant::now() }),
            subscription: SharedRead::default(),
            overflowed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            circuit_open_until: AtomicI64::new(i64::MIN),
            failures_in_a_row: AtomicU32::new(0),
            backoff_until: AtomicI64::new(i64::MIN),
        }
    }

    /// Queues an event, or counts it as missed. Returns whether the delivery worker must be woken: for a queued event,
    /// and for the first missed one since the last record.
    pub(super) fn push(&self, notice: BestEffortEvent, most: usize) -> bool {
        if notice.at.0 < self.circuit_open_until.load(Ordering::SeqCst) {
            return self.count_skipped();
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < most {
            waiting.push_back(notice);
            return true;
        }
        self.overflowed.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Records the response to a durable delivery. After several failures in a row the lane backs off, and then tries a
    /// single delivery, so that the other deliveries do not use up their attempts.
    pub(super) fn record_durable(&self, response: DeliveryResponse, now: Timestamp) {
        if response.succeeded() {
            self.failures_in_a_row.store(0, Ordering::SeqCst);
            self.backoff_until.store(i64::MIN, Ordering::SeqCst);
            return;
        }
        let failures = self.failures_in_a_row.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        if failures >= FAILURES_MAX {
            let ms =
                BACKOFF_MS_MIN.saturating_mul(1 << (failures - FAILURES_MAX).min(10)).min(BACKOFF_MS_MAX);
            self.backoff_until.fetch_max(now.plus_ms(ms).0, Ordering::SeqCst);
        }
    }

    /// Reads the subscription. Concurrent attempts share a read.
    pub(super) async fn find_webhook(&self, engine: &Engine) -> Result<Option<Arc<Webhook>>, Error> {
        let find = async { Ok(engine.find_webhook(&self.tenant, &self.webhook).await?.map(Arc::new)) };
        self.subscription.read(find).await
    }

    /// Returns the number of further durable deliveries that may be claimed.
    pub(super) fn durable_room(&self, now: Timestamp) -> usize {
        if self.backoff_until.load(Ordering::SeqCst) > now.0 {
            return 0;
        }
        self.claims_max().saturating_sub(self.claimed.load(Ordering::SeqCst))
    }

    fn claims_max(&self) -> usize {
        let fails = self.failures_in_a_row.load(Ordering::SeqCst) >= FAILURES_MAX;
        if fails { 1 } else { self.claims.lock().unwrap_or_else(PoisonError::into_inner).most }
    }

    /// Records that the store may have queued deliveries that are due.
    pub(super) fn mark_behind(&self) {
        self.behind.store(true, Ordering::SeqCst);
    }

    /// Records that the queue of the lane is about to be read.
    pub(super) fn clear_behind(&self) {
        self.behind.store(false, Ordering::SeqCst);
    }

    /// Returns whether the delivery worker should claim now: there may be due deliveries, and at most half of the claimed
    /// ones are left.
    pub(super) fn needs_claims(&self, now: Timestamp) -> bool {
        self.behind.load(Ordering::SeqCst) && self.durable_room(now) > self.claims_max() / 2
    }

    /// Records that the delivery worker has looked at the queue of the lane, which had due deliveries. A fast subscriber
    /// gets more claims at a time, a slow one fewer.
    pub(super) fn record_claim(&self) {
        self.mark_behind();
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let most = if claims.last.elapsed() < FAST_CLAIM { claims.most * 2 } else { claims.most / 2 };
        *claims = ClaimPace { most: most.clamp(CLAIMS_MIN, CLAIMS_MAX), last: Instant::now() };
    }

    /// Returns the end of the backoff, if the lane backs off.
    pub(super) fn backoff_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = self.backoff_until.load(Ordering::SeqCst);
        (until > now.0).then_some(Timestamp(until))
    }

    /// Returns the next queued event.
    pub(super) fn pop(&self) -> Option<BestEffortEvent> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Counts an event that is skipped because the circuit is open. Returns whether it is the first since the last
    /// record.
    pub(super) fn count_skipped(&self) -> bool {
        self.skipped.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Opens the circuit until the given time and drops the queued events.
    pub(super) fn open_circuit_until(&self, until: Timestamp) {
        self.circuit_open_until.fetch_max(until.0, Ordering::SeqCst);
        let dropped = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.skipped.fetch_add(dropped.len() as u64, Ordering::Relaxed);
    }

    /// Closes the circuit and ends the backoff.
    pub(super) fn reset(&self) {
        self.circuit_open_until.store(i64::MIN, Ordering::SeqCst);
        self.failures_in_a_row.store(0, Ordering::SeqCst);
        self.backoff_until.store(i64::MIN, Ordering::SeqCst);
    }

    /// Returns whether the lane has no queued events, no missed events and no failures.
    pub(super) fn is_idle(&self) -> bool {
        let quiet = !self.has_waiting() && !self.has_missed();
        quiet
            && self.circuit_open_until.load(Ordering::SeqCst) == i64::MIN
            && self.failures_in_a_row.load(Ordering::SeqCst) == 0
    }

    /// Returns whether there are missed events that are not yet recorded.
    pub(super) fn has_missed(&self) -> bool {
        self.overflowed.load(Ordering::Relaxed) + self.skipped.load(Ordering::Relaxed) > 0
    }

    /// Returns and resets the number of missed events: those beyond the queue limit, and those skipped by the circuit.
    pub(super) fn take_missed(&self) -> (u64, u64) {
        (self.overflowed.swap(0, Ordering::Relaxed), self.skipped.swap(0, Ordering::Relaxed))
    }

    pub(super) fn add_running(&self, task: AbortHandle) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|task| !task.is_finished());
        running.push(task);
    }

    /// Aborts all attempts and waits until they have ended.
    pub(super) async fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        running.iter().for_each(AbortHandle::abort);
        // Every running attempt holds a permit; the semaphore is never closed.
        let all = u32::try_from(self.width).unwrap_or(u32::MAX);
        let _ = self.permits.acquire_many(all).await;
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::RunId;

    use super::*;

    #[test]
    fn the_delivery_worker_is_woken_for_queued_events_and_for_the_first_missed_one() {
        let tenant = TenantId::parse("t").unwrap();
        let lane = DeliveryLane::new(&tenant, "wh", 1);
        let of = RunRef { tenant, run: RunId::parse("r").unwrap() };
        let push = |at| {
            lane.push(BestEffortEvent { of: of.clone(), seq: 0, event: "run.started", at: Timestamp(at) }, 1)
        };
        assert!(push(1), "the event is queued");
        assert_eq!([push(1), push(1)], [true, false], "the queue holds one event");
        assert_eq!(lane.take_missed(), (2, 0));
        lane.open_circuit_until(Timestamp(9));
        assert_eq!(lane.take_missed(), (0, 1), "queued events are dropped");
        assert_eq!([push(2), push(3)], [true, false]);
        assert_eq!(lane.take_missed(), (0, 2));
        assert!(push(4), "the first missed event after a record wakes the worker again");
    }
}
