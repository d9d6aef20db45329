//! The leases of the claims of this process. One statement renews all of them. A claim that is lost, or that cannot be
//! renewed in time, aborts its own work only.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdpoint_core::Timestamp;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::committer::{Claim, ClaimToken};
use crate::engine::Engine;

/// The time until which a claim is valid without a check.
#[derive(Debug)]
pub(crate) struct Lease {
    until: AtomicI64,
    /// The number of nodes whose effect is done and not yet recorded. The work is then not aborted, because that would
    /// repeat the effect; the fencing token protects the write.
    recording: AtomicUsize,
    /// Notified when the lease is about to expire while a node records.
    overdue: Notify,
}

impl Lease {
    pub(super) fn new(until: Timestamp) -> Self {
        Self { until: AtomicI64::new(until.0), recording: AtomicUsize::new(0), overdue: Notify::new() }
    }

    pub(super) fn ends(&self) -> Timestamp {
        Timestamp(self.until.load(Ordering::SeqCst))
    }

    pub(super) fn holds(&self, now: Timestamp) -> bool {
        now < self.ends()
    }

    /// Waits until the lease is about to expire while a node records. The other nodes of the run must then stop.
    pub(super) async fn wait_until_overdue(&self, engine: &Engine) {
        loop {
            self.overdue.notified().await;
            // The lease may have been renewed since the notification.
            if self.ends() <= overdue_at(engine) {
                return;
            }
        }
    }

    pub(super) fn renew(&self, until: Timestamp) {
        self.until.store(until.0, Ordering::SeqCst);
    }

    /// Marks the lease as recording until the guard is dropped. An aborted task drops it, too.
    pub(super) fn begin_recording(&self) -> RecordingGuard<'_> {
        self.recording.fetch_add(1, Ordering::SeqCst);
        RecordingGuard(self)
    }
}

/// Returns the time up to which a lease is about to expire. A sixth of the lease is reserved for the abort and for clock
/// differences.
fn overdue_at(engine: &Engine) -> Timestamp {
    engine.now().plus_ms(engine.lease_ms() / 6)
}

#[derive(Debug)]
pub(super) struct RecordingGuard<'a>(&'a Lease);

impl Drop for RecordingGuard<'_> {
    fn drop(&mut self) {
        self.0.recording.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub(super) struct LeaseKeeper {
    engine: Engine,
    held: Mutex<HashMap<String, ActiveClaim>>,
}

#[derive(Debug)]
struct ActiveClaim {
    token: String,
    lease: Arc<Lease>,
    work: AbortHandle,
}

impl LeaseKeeper {
    pub(super) fn new(engine: Engine) -> Self {
        Self { engine, held: Mutex::default() }
    }

    pub(super) fn add(&self, claim: &Claim, lease: Arc<Lease>, work: AbortHandle) {
        let held = ActiveClaim { token: claim.token.clone(), lease, work };
        self.lock().insert(claim.dispatch_id.clone(), held);
    }

    pub(super) fn remove(&self, claim: &Claim) {
        let mut held = self.lock();
        if held.get(&claim.dispatch_id).is_some_and(|held| held.token == claim.token) {
            held.remove(&claim.dispatch_id);
        }
    }

    /// Renews all leases forever, three times per lease period, and more often after an error of the store.
    pub(super) async fn renew_forever(self: Arc<Self>) {
        let interval = Duration::from_millis((self.engine.lease_ms() / 3).max(1));
        let mut wait = interval;
        loop {
            tokio::time::sleep(wait).await;
            wait = if self.renew_all(interval).await { interval } else { interval / 10 };
        }
    }

    /// Renews all leases. Returns false if the store did not respond.
    async fn renew_all(&self, interval: Duration) -> bool {
        let left = self.stop_overdue();
        let claim = |(id, held): (&String, &ActiveClaim)| ClaimToken {
            dispatch_id: id.clone(),
            token: held.token.clone(),
        };
        let claims: Vec<ClaimToken> = self.lock().iter().map(claim).collect();
        if claims.is_empty() {
            return true;
        }
        let (now, lease_ms) = (self.engine.now(), self.engine.lease_ms());
        let until = now.plus_ms(lease_ms);
        let renewing = self.engine.extend_leases(None, claims.clone(), until, now);
        let Ok(Ok(renewed)) = tokio::time::timeout(interval.min(left), renewing).await else {
            self.stop_overdue();
            return false;
        };
        for (ClaimToken { dispatch_id, .. }, renewed) in claims.iter().zip(renewed) {
            if renewed {
                self.renew(dispatch_id, until);
            } else {
                self.stop(dispatch_id, "another worker has claimed the dispatch");
            }
        }
        true
    }

    /// Aborts work whose lease is about to expire, except nodes that record. Returns the time until the next lease must be aborted.
    fn stop_overdue(&self) -> Duration {
        let end = overdue_at(&self.engine);
        let mut left = i64::MAX;
        let mut overdue = Vec::new();
        for (id, held) in self.lock().iter() {
            let over = held.lease.ends().0.saturating_sub(end.0);
            match held.lease.recording.load(Ordering::SeqCst) {
                1.. if over <= 0 => held.lease.overdue.notify_one(),
                1.. => {}
                0 if over <= 0 => overdue.push(id.clone()),
                0 => left = left.min(over),
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
        // Finished work has returned its claim; the worker has not yet joined the task.
        if let Some(held) = self.lock().remove(id).filter(|held| !held.work.is_finished()) {
            tracing::warn!(dispatch = id, why, "a claim is lost; aborting its work");
            held.lease.renew(Timestamp(i64::MIN));
            held.work.abort();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, ActiveClaim>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
