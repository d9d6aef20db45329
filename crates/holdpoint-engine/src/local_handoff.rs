//! Hands new dispatches to the worker of this process: the change that creates a dispatch also claims it, so that the
//! worker need not read the queue. If the worker has no free slot or the dispatch thread is busy, the dispatch is
//! queued.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::mailbox::{ClaimAction, RunDispatch};
use holdpoint_core::{Run, RunId, RunRef, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::committer::Claim;
use crate::work_signal::WorkSignal;

/// The slots of a worker. Each dispatch in flight occupies one.
#[derive(Clone, Debug)]
pub(crate) struct FreeSlots {
    free: Arc<Semaphore>,
    signal: Arc<WorkSignal>,
}

impl FreeSlots {
    pub(crate) fn new(slots: usize, signal: Arc<WorkSignal>) -> Self {
        Self { free: Arc::new(Semaphore::new(slots)), signal }
    }

    pub(crate) fn available(&self) -> usize {
        self.free.available_permits()
    }

    pub(crate) fn acquire(&self) -> Option<WorkerSlot> {
        let permit = self.free.clone().try_acquire_owned().ok()?;
        Some(WorkerSlot { permit: Some(permit), signal: self.signal.clone() })
    }
}

/// An occupied slot. Dropping it frees the slot and wakes the worker.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    permit: Option<OwnedSemaphorePermit>,
    signal: Arc<WorkSignal>,
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.signal.slot_freed();
    }
}

/// The worker of this process, if one runs.
#[derive(Debug, Default)]
pub(crate) struct LocalHandoff(Mutex<Option<WorkerEndpoint>>);

#[derive(Debug)]
struct WorkerEndpoint {
    consumer: String,
    pool: FreeSlots,
    to_worker: UnboundedSender<Handoff>,
}

/// A claimed dispatch for the worker.
#[derive(Debug)]
pub(crate) struct Handoff {
    pub claim: Arc<Claim>,
    pub lease_until: Timestamp,
    /// The run at the time of the claim.
    pub run: Arc<Run>,
    pub slot: Option<WorkerSlot>,
}

/// A claim that the commit of a new dispatch makes if the dispatch thread is free.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    pub dispatch_id: String,
    consumer: String,
    lease_until: Timestamp,
    claim: Arc<Claim>,
    /// True if the dispatch thread was free at the last check.
    claimed: AtomicBool,
    slot: Mutex<Option<WorkerSlot>>,
    /// Keeps the channel open: a worker that shuts down waits for pending claims in its name.
    to_worker: UnboundedSender<Handoff>,
}

impl LocalHandoff {
    /// Enables the handoff to this worker until [`LocalHandoff::close`] is called.
    pub(crate) fn open(&self, consumer: &str, pool: FreeSlots) -> UnboundedReceiver<Handoff> {
        let (to_worker, handoffs) = unbounded_channel();
        *self.lock() = Some(WorkerEndpoint { consumer: consumer.to_owned(), pool, to_worker });
        handoffs
    }

    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    /// Reserves a slot for a new dispatch, and then builds its row. Returns `None` if no worker runs or no slot is free.
    pub(crate) fn reserve(
        &self,
        queued: impl FnOnce() -> RunDispatch,
        lease_until: Timestamp,
    ) -> Option<PendingClaim> {
        let open = self.lock();
        let WorkerEndpoint { consumer, pool, to_worker } = open.as_ref()?;
        let slot = pool.acquire()?;
        let row = queued();
        let run = RunId::parse(&row.run_id).ok()?;
        let claim = Arc::new(Claim {
            run: RunRef { tenant: row.tenant, run },
            dispatch_id: row.dispatch_id.clone(),
            token: Uuid::now_v7().to_string(),
            instance: Uuid::now_v7().to_string(),
            attempts: row.attempt_count,
            max_attempts: row.max_attempts,
        });
        Some(PendingClaim {
            dispatch_id: row.dispatch_id,
            consumer: consumer.clone(),
            lease_until,
            claim,
            claimed: AtomicBool::new(false),
            slot: Mutex::new(Some(slot)),
            to_worker: to_worker.clone(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<WorkerEndpoint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingClaim {
    /// Returns the row of the dispatch, claimed and started. Called if the dispatch thread is free.
    pub(crate) fn claim_row(&self, queued: RunDispatch, now: Timestamp) -> RunDispatch {
        self.claimed.store(true, Ordering::SeqCst);
        let token = &self.claim.token;
        let claimed = queued.claimed(token.clone(), &self.consumer, self.lease_until, now);
        let begin = ClaimAction::RecordStart { instance_id: self.claim.instance.clone() };
        // The row is new, so that no other worker can have claimed it.
        claimed.apply_claim_action(token, &begin, claimed.dispatch_epoch, now).unwrap_or(claimed)
    }

    /// Leaves the dispatch in the queue, because the dispatch thread is busy.
    pub(crate) fn leave_queued(&self) {
        self.claimed.store(false, Ordering::SeqCst);
    }

    /// Sends the dispatch to the worker after its commit. If the worker is gone, the claim lapses and another worker
    /// takes the dispatch over.
    pub(crate) fn send(&self, run: &Arc<Run>) {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let handoff =
            Handoff { claim: self.claim.clone(), lease_until: self.lease_until, run: run.clone(), slot };
        // An error means that the worker is gone.
        let _ = self.to_worker.send(handoff);
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed.load(Ordering::SeqCst)
    }
}
