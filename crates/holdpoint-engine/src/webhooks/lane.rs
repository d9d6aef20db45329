//! One subscription's own way out: what waits for it with best effort, how much of its is under way, and whether its
//! circuit is open. Nobody else waits in it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::{RunRef, TenantId, Timestamp};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// After so many failures in a row a subscriber is left alone: first for so long, then for twice as long, up to this.
const STRIKES_MAX: u32 = 4;
const REST_MS_MIN: u64 = 1000;
const REST_MS_MAX: u64 = 30_000;

/// An event that a best-effort subscription is to be told of.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub of: RunRef,
    pub seq: u64,
    pub event: &'static str,
    pub at: Timestamp,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub tenant: TenantId,
    pub webhook: String,
    pub turns: Arc<Semaphore>,
    width: usize,
    waiting: Mutex<VecDeque<Notice>>,
    running: Mutex<Vec<AbortHandle>>,
    /// Durable deliveries that were claimed and have not ended.
    pub claimed: AtomicUsize,
    /// Events that found no room, and those that came while the circuit was open.
    crowded_out: AtomicU64,
    skipped: AtomicU64,
    /// Nothing is tried before; what comes until then is not kept.
    closed_until: AtomicI64,
    /// Durable deliveries that failed since one was taken; none is tried before then.
    strikes: AtomicU32,
    rests_until: AtomicI64,
}

impl Lane {
    pub(super) fn new(tenant: &TenantId, webhook: &str, width: usize) -> Self {
        let width = width.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            tenant: tenant.clone(),
            webhook: webhook.to_owned(),
            turns: Arc::new(Semaphore::new(width)),
            width,
            waiting: Mutex::default(),
            running: Mutex::default(),
            claimed: AtomicUsize::new(0),
            crowded_out: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            closed_until: AtomicI64::new(i64::MIN),
            strikes: AtomicU32::new(0),
            rests_until: AtomicI64::new(i64::MIN),
        }
    }

    /// Whether that is news to the courier: something waits, or something is only counted and nothing was before.
    pub(super) fn push(&self, notice: Notice, most: usize) -> bool {
        if notice.at.0 < self.closed_until.load(Ordering::SeqCst) {
            return self.skip();
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < most {
            waiting.push_back(notice);
            return true;
        }
        self.crowded_out.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// How a durable delivery went. A subscriber that takes none is left alone for a while, and then tried with one:
    /// first attempts of all the others would only cost.
    pub(super) fn note_durable(&self, taken: bool, now: Timestamp) {
        if taken {
            self.strikes.store(0, Ordering::SeqCst);
            self.rests_until.store(i64::MIN, Ordering::SeqCst);
            return;
        }
        let strikes = self.strikes.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        if strikes >= STRIKES_MAX {
            let ms = REST_MS_MIN.saturating_mul(1 << (strikes - STRIKES_MAX).min(10)).min(REST_MS_MAX);
            self.rests_until.fetch_max(now.plus_ms(ms).0, Ordering::SeqCst);
        }
    }

    /// How many of its durable deliveries may be claimed beside those that are.
    pub(super) fn durable_room(&self, ahead: usize, now: Timestamp) -> usize {
        let claimed = self.claimed.load(Ordering::SeqCst);
        if self.rests_until.load(Ordering::SeqCst) > now.0 {
            return 0;
        }
        let most = if self.strikes.load(Ordering::SeqCst) < STRIKES_MAX { ahead } else { 1 };
        most.saturating_sub(claimed)
    }

    /// When it is tried again, if it is left alone now.
    pub(super) fn rests_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = self.rests_until.load(Ordering::SeqCst);
        (until > now.0).then_some(Timestamp(until))
    }

    pub(super) fn pop(&self) -> Option<Notice> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// An event that is not tried because the circuit is open. Whether it is the first of which nothing is written down yet.
    pub(super) fn skip(&self) -> bool {
        self.skipped.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// The circuit is open until then; what waits is not tried any more.
    pub(super) fn close_until(&self, until: Timestamp) {
        self.closed_until.fetch_max(until.0, Ordering::SeqCst);
        let given_up = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.skipped.fetch_add(given_up.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn open(&self) {
        self.closed_until.store(i64::MIN, Ordering::SeqCst);
        self.strikes.store(0, Ordering::SeqCst);
        self.rests_until.store(i64::MIN, Ordering::SeqCst);
    }

    /// Nothing waits, runs or is still to be told of.
    pub(super) fn is_idle(&self) -> bool {
        let quiet = !self.has_waiting() && !self.has_missed();
        quiet
            && self.closed_until.load(Ordering::SeqCst) == i64::MIN
            && self.strikes.load(Ordering::SeqCst) == 0
    }

    /// Whether something is still to be told of that was not tried.
    pub(super) fn has_missed(&self) -> bool {
        self.crowded_out.load(Ordering::Relaxed) + self.skipped.load(Ordering::Relaxed) > 0
    }

    /// What was missed since the last time: for lack of room, and because the circuit was open.
    pub(super) fn take_missed(&self) -> (u64, u64) {
        (self.crowded_out.swap(0, Ordering::Relaxed), self.skipped.swap(0, Ordering::Relaxed))
    }

    pub(super) fn add_running(&self, task: AbortHandle) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|task| !task.is_finished());
        running.push(task);
    }

    /// Ends everything that is under way, and returns when it has ended.
    pub(super) async fn shut(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        running.iter().for_each(AbortHandle::abort);
        // Whoever is at it holds one of the turns; nobody closes them.
        let turns = u32::try_from(self.width).unwrap_or(u32::MAX);
        let _ = self.turns.acquire_many(turns).await;
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::RunId;

    use super::*;

    #[test]
    fn the_courier_hears_of_what_waits_and_of_the_first_that_was_missed() {
        let tenant = TenantId::parse("t").unwrap();
        let lane = Lane::new(&tenant, "wh", 1);
        let of = RunRef { tenant, run: RunId::parse("r").unwrap() };
        let push =
            |at| lane.push(Notice { of: of.clone(), seq: 0, event: "run.started", at: Timestamp(at) }, 1);
        assert!(push(1), "it waits");
        assert_eq!([push(1), push(1)], [true, false], "there is room for one");
        assert_eq!(lane.take_missed(), (2, 0));
        lane.close_until(Timestamp(9));
        assert_eq!(lane.take_missed(), (0, 1), "what waited is given up");
        assert_eq!([push(2), push(3)], [true, false]);
        assert_eq!(lane.take_missed(), (0, 2));
        assert!(push(4), "and so it is each time that it was written down");
    }
}
