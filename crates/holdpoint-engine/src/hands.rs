//! The way from a change to a worker of this process that has a hand free: the dispatch is claimed in the change that
//! makes it, so that nobody has to look for it. Where nobody is free, or the thread is busy, it is queued for any node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::mailbox::{Fenced, RunDispatch};
use holdpoint_core::{Run, RunRef, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::committer::Claim;
use crate::work_signal::WorkSignal;

/// Hands of a worker: one is taken for each dispatch in flight.
#[derive(Clone, Debug)]
pub(crate) struct HandPool {
    free: Arc<Semaphore>,
    signal: Arc<WorkSignal>,
}

impl HandPool {
    pub(crate) fn new(hands: usize, signal: Arc<WorkSignal>) -> Self {
        Self { free: Arc::new(Semaphore::new(hands)), signal }
    }

    pub(crate) fn free(&self) -> usize {
        self.free.available_permits()
    }

    pub(crate) fn take(&self) -> Option<Hand> {
        let permit = self.free.clone().try_acquire_owned().ok()?;
        Some(Hand { permit: Some(permit), signal: self.signal.clone() })
    }
}

/// A hand that is taken. Dropping it frees it and tells the worker, which may have work for it.
#[derive(Debug)]
pub(crate) struct Hand {
    permit: Option<OwnedSemaphorePermit>,
    signal: Arc<WorkSignal>,
}

impl Drop for Hand {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.signal.hand_freed();
    }
}

/// Whoever works here, if anybody does.
#[derive(Debug, Default)]
pub(crate) struct Hands(Mutex<Option<Open>>);

#[derive(Debug)]
struct Open {
    consumer: String,
    pool: HandPool,
    to_worker: UnboundedSender<Handed>,
}

/// Work that is claimed already.
#[derive(Debug)]
pub(crate) struct Handed {
    pub claim: Arc<Claim>,
    pub lease_until: Timestamp,
    /// The run as it was when it was claimed.
    pub run: Arc<Run>,
    pub hand: Option<Hand>,
}

/// A dispatch that is claimed when it is made, if its thread is free.
#[derive(Debug)]
pub(crate) struct Taking {
    pub dispatch_id: String,
    consumer: String,
    lease_until: Timestamp,
    claim: Arc<Claim>,
    /// Whether the thread was free when it was last judged.
    taken: AtomicBool,
    hand: Mutex<Option<Hand>>,
    /// A worker that goes down waits for what was taken in its name.
    to_worker: UnboundedSender<Handed>,
}

impl Hands {
    /// From here on work is handed over, until [`Hands::close`] is called.
    pub(crate) fn open(&self, consumer: &str, pool: HandPool) -> UnboundedReceiver<Handed> {
        let (to_worker, handed) = unbounded_channel();
        *self.lock() = Some(Open { consumer: consumer.to_owned(), pool, to_worker });
        handed
    }

    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    /// A hand for this dispatch, if one is free.
    pub(crate) fn take(&self, of: &RunRef, dispatch_id: &str, lease_until: Timestamp) -> Option<Taking> {
        let open = self.lock();
        let Open { consumer, pool, to_worker } = open.as_ref()?;
        let hand = pool.take()?;
        let row = RunDispatch::queued(&of.tenant, dispatch_id, "", of.run.as_str(), lease_until);
        let claim = Arc::new(Claim {
            run: of.clone(),
            dispatch_id: dispatch_id.to_owned(),
            token: Uuid::now_v7().to_string(),
            instance: Uuid::now_v7().to_string(),
            attempts: row.attempt_count,
            max_attempts: row.max_attempts,
        });
        Some(Taking {
            dispatch_id: dispatch_id.to_owned(),
            consumer: consumer.clone(),
            lease_until,
            claim,
            taken: AtomicBool::new(false),
            hand: Mutex::new(Some(hand)),
            to_worker: to_worker.clone(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taking {
    /// The row as it is made: claimed and begun, or queued where the thread has something else to do first.
    pub(crate) fn row(&self, queued: RunDispatch, free: bool, now: Timestamp) -> RunDispatch {
        self.taken.store(free, Ordering::SeqCst);
        if !free {
            return queued;
        }
        let token = &self.claim.token;
        let claimed = queued.claimed(token.clone(), &self.consumer, self.lease_until, now);
        let begin = Fenced::RecordStart { instance_id: self.claim.instance.clone() };
        // Nobody else can have taken what is made here.
        claimed.fenced(token, &begin, claimed.dispatch_epoch, now).unwrap_or(claimed)
    }

    /// Hands the work over, once it is on disk. A worker that has gone leaves it to whoever takes lapsed claims back.
    pub(crate) fn give(&self, run: &Arc<Run>) {
        let hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner).take();
        let handed =
            Handed { claim: self.claim.clone(), lease_until: self.lease_until, run: run.clone(), hand };
        // Told that nobody listens, there is nothing else to be done.
        let _ = self.to_worker.send(handed);
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }
}
