//! One subscription's own way out: what waits for it with best effort, how much of its is under way, and whether its
//! circuit is open. Nobody else waits in it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::{RunRef, TenantId, Timestamp};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

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
        }
    }

    pub(super) fn push(&self, notice: Notice, most: usize) {
        if notice.at.0 < self.closed_until.load(Ordering::SeqCst) {
            return self.skip();
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < most {
            waiting.push_back(notice);
        } else {
            self.crowded_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn pop(&self) -> Option<Notice> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// An event that is not tried because the circuit is open.
    pub(super) fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// The circuit is open until then; what waits is not tried any more.
    pub(super) fn close_until(&self, until: Timestamp) {
        self.closed_until.fetch_max(until.0, Ordering::SeqCst);
        let given_up = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.skipped.fetch_add(given_up.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn open(&self) {
        self.closed_until.store(i64::MIN, Ordering::SeqCst);
    }

    /// Nothing waits, runs or is still to be told of.
    pub(super) fn is_idle(&self) -> bool {
        !self.has_waiting() && !self.has_missed() && self.closed_until.load(Ordering::SeqCst) == i64::MIN
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
