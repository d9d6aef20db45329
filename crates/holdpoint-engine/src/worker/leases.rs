//! The claims of this node and how long they are good for. One statement renews all of them; one that is lost, or
//! that can no longer be renewed in time, ends the work under it and nothing else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdpoint_core::Timestamp;
use tokio::task::AbortHandle;

use crate::committer::Claim;
use crate::engine::Engine;

/// Until when a claim is ours without asking.
#[derive(Debug)]
pub(crate) struct Lease {
    until: AtomicI64,
    /// An effect is done and not yet on record. The token decides whether it may be; to give up would repeat it.
    recording: AtomicBool,
}

impl Lease {
    pub(super) fn new(until: Timestamp) -> Self {
        Self { until: AtomicI64::new(until.0), recording: AtomicBool::new(false) }
    }

    pub(super) fn ends(&self) -> Timestamp {
        Timestamp(self.until.load(Ordering::SeqCst))
    }

    pub(super) fn holds(&self, now: Timestamp) -> bool {
        now < self.ends()
    }

    pub(super) fn renew(&self, until: Timestamp) {
        self.until.store(until.0, Ordering::SeqCst);
    }

    /// As long as it is kept, and not longer: what writes may itself be given up.
    pub(super) fn record(&self) -> Recording<'_> {
        self.recording.store(true, Ordering::SeqCst);
        Recording(self)
    }
}

#[derive(Debug)]
pub(super) struct Recording<'a>(&'a Lease);

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        self.0.recording.store(false, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub(super) struct Leases {
    engine: Engine,
    held: Mutex<HashMap<String, Held>>,
}

#[derive(Debug)]
struct Held {
    token: String,
    lease: Arc<Lease>,
    work: AbortHandle,
}

impl Leases {
    pub(super) fn new(engine: Engine) -> Self {
        Self { engine, held: Mutex::default() }
    }

    pub(super) fn add(&self, claim: &Claim, lease: Arc<Lease>, work: AbortHandle) {
        let held = Held { token: claim.token.clone(), lease, work };
        self.lock().insert(claim.dispatch_id.clone(), held);
    }

    pub(super) fn remove(&self, claim: &Claim) {
        let mut held = self.lock();
        if held.get(&claim.dispatch_id).is_some_and(|held| held.token == claim.token) {
            held.remove(&claim.dispatch_id);
        }
    }

    /// Renews for ever, three times in every lease; when the store is in trouble, more often.
    pub(super) async fn keep(self: Arc<Self>) {
        let beat = Duration::from_millis((self.engine.lease_ms() / 3).max(1));
        let mut wait = beat;
        loop {
            tokio::time::sleep(wait).await;
            wait = if self.beat(beat).await { beat } else { beat / 10 };
        }
    }

    /// False when the store could not be asked.
    async fn beat(&self, beat: Duration) -> bool {
        let left = self.stop_overdue();
        let claims: Vec<(String, String)> =
            self.lock().iter().map(|(id, held)| (id.clone(), held.token.clone())).collect();
        if claims.is_empty() {
            return true;
        }
        let (now, lease_ms) = (self.engine.now(), self.engine.lease_ms());
        let until = now.plus_ms(lease_ms);
        let renewing = self.engine.extend_leases(None, claims.clone(), until, now);
        let Ok(Ok(kept)) = tokio::time::timeout(beat.min(left), renewing).await else {
            self.stop_overdue();
            return false;
        };
        for ((id, _), kept) in claims.iter().zip(kept) {
            if kept {
                self.renew(id, until);
            } else {
                self.stop(id, "it was taken away");
            }
        }
        true
    }

    /// Stops what may soon be somebody else's. A sixth of the lease is left for the work to notice and for clocks
    /// that differ. How long there is until the next has to be stopped.
    fn stop_overdue(&self) -> Duration {
        let end = self.engine.now().plus_ms(self.engine.lease_ms() / 6);
        let mut left = i64::MAX;
        let mut overdue = Vec::new();
        for (id, held) in self.lock().iter() {
            let over = held.lease.ends().0.saturating_sub(end.0);
            match held.lease.recording.load(Ordering::SeqCst) {
                true => {}
                false if over <= 0 => overdue.push(id.clone()),
                false => left = left.min(over),
            }
        }
        overdue.iter().for_each(|id| self.stop(id, "the lease could not be renewed"));
        Duration::from_millis(left.unsigned_abs())
    }

    fn renew(&self, id: &str, until: Timestamp) {
        if let Some(held) = self.lock().get(id) {
            held.lease.renew(until);
        }
    }

    fn stop(&self, id: &str, why: &str) {
        // Work that has ended gave its claim back by itself; only nobody has looked after it yet.
        if let Some(held) = self.lock().remove(id).filter(|held| !held.work.is_finished()) {
            tracing::warn!(dispatch = id, why, "a claim is lost; the work under it is stopped");
            held.lease.renew(Timestamp(i64::MIN));
            held.work.abort();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
