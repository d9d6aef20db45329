//! Wakes those who wait for something to happen in this process. Only a hint: everybody reads the store again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::mailbox::Fenced;
use holdpoint_core::{Obligation, RunRef, TenantId, Timestamp};
use tokio::sync::{Notify, watch};

use crate::committer::Mail;
use crate::store::threads::Thread;

/// What somebody wants to hear of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Topic {
    /// A run has grown.
    Run(RunRef),
    /// A run has begun in a thread.
    Begun(Thread),
    /// What waits for somebody in a tenant is not what it was.
    Waiting(TenantId),
}

#[derive(Debug)]
pub(crate) struct Bus {
    readers: Mutex<HashMap<Topic, watch::Sender<u64>>>,
    work: Notify,
    /// When the worker means to look again by itself.
    next_look: AtomicI64,
}

impl Default for Bus {
    fn default() -> Self {
        Self { readers: Mutex::default(), work: Notify::new(), next_look: AtomicI64::new(i64::MAX) }
    }
}

impl Bus {
    pub(crate) fn publish(&self, of: &RunRef, seq: u64) {
        self.tell(|| Topic::Run(of.clone()), seq);
    }

    /// Tells those who follow a thread that a run has begun in it.
    pub(crate) fn publish_begun(&self, thread: &Thread) {
        self.tell(|| Topic::Begun(thread.clone()), 0);
    }

    /// Tells those who watch what waits in a tenant that it has changed, or may have.
    pub(crate) fn publish_waiting(&self, tenant: &TenantId) {
        self.tell(|| Topic::Waiting(tenant.clone()), 0);
    }

    fn tell(&self, topic: impl FnOnce() -> Topic, number: u64) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.is_empty() {
            return;
        }
        let topic = topic();
        if let Some(sender) = readers.get(&topic)
            && sender.send(number).is_err()
        {
            // The last reader has gone.
            readers.remove(&topic);
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>, of: &RunRef) -> Subscription {
        self.listen(Topic::Run(of.clone()))
    }

    pub(crate) fn subscribe_begun(self: &Arc<Self>, thread: Thread) -> Subscription {
        self.listen(Topic::Begun(thread))
    }

    pub(crate) fn subscribe_waiting(self: &Arc<Self>, tenant: &TenantId) -> Subscription {
        self.listen(Topic::Waiting(tenant.clone()))
    }

    fn listen(self: &Arc<Self>, of: Topic) -> Subscription {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = readers.entry(of.clone()).or_insert_with(|| watch::channel(0).0).subscribe();
        Subscription { receiver: Some(receiver), of, bus: self.clone() }
    }

    fn unsubscribe(&self, of: &Topic, receiver: Option<watch::Receiver<u64>>) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropped under the lock, so that of several that go together the last one knows that it is the last.
        drop(receiver);
        if readers.get(of).is_some_and(|sender| sender.receiver_count() == 0) {
            readers.remove(of);
        }
    }

    /// Wakes the worker when a change gave it something to do sooner than it knows.
    /// True when there is a dispatch that any node may take.
    pub(crate) fn remind(&self, mail: &Mail, obligations: &[Obligation]) -> bool {
        let queued = match mail {
            Mail::Enqueue(_) => true,
            Mail::Take(taking) => !taking.is_taken(),
            Mail::Held { what, .. } => matches!(what, Fenced::Nack { .. } | Fenced::Postpone { .. }),
            Mail::None | Mail::Performed(_) | Mail::Reclaim(_) | Mail::Cancel(_) | Mail::Reconcile(_) => {
                false
            }
        };
        let sooner = obligations.iter().any(|obligation| match obligation {
            Obligation::SetTimer { due, .. } => due.0 < self.next_look.load(Ordering::SeqCst),
            Obligation::Activate
            | Obligation::ClearTimer { .. }
            | Obligation::StartChild { .. }
            | Obligation::CancelChild { .. } => false,
        });
        if queued || sooner {
            self.wake_worker();
        }
        queued
    }

    pub(crate) fn wake_worker(&self) {
        self.work.notify_one();
    }

    /// The runs somebody reads here, and what the readers have been told of each.
    pub(crate) fn watched(&self) -> Vec<(RunRef, u64)> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let run = |(topic, sender): (&Topic, &watch::Sender<u64>)| match topic {
            Topic::Run(of) => Some((of.clone(), *sender.borrow())),
            Topic::Begun(_) | Topic::Waiting(_) => None,
        };
        readers.iter().filter_map(run).collect()
    }

    /// The threads somebody follows here.
    pub(crate) fn followed(&self) -> Vec<Thread> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = |topic: &Topic| match topic {
            Topic::Begun(thread) => Some(thread.clone()),
            Topic::Run(_) | Topic::Waiting(_) => None,
        };
        readers.keys().filter_map(thread).collect()
    }

    /// The tenants in which somebody watches what waits.
    pub(crate) fn waited_in(&self) -> Vec<TenantId> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = |topic: &Topic| match topic {
            Topic::Waiting(tenant) => Some(tenant.clone()),
            Topic::Run(_) | Topic::Begun(_) => None,
        };
        readers.keys().filter_map(tenant).collect()
    }

    /// Nothing means that the worker wants to hear of everything.
    pub(crate) fn set_next_look(&self, at: Option<Timestamp>) {
        self.next_look.store(at.map_or(i64::MAX, |at| at.0), Ordering::SeqCst);
    }

    pub(crate) async fn work(&self) {
        self.work.notified().await;
    }
}

/// Tells a reader that its run has new events, its thread a new run, or its tenant something else that waits.
#[derive(Debug)]
pub struct Subscription {
    /// Taken when the subscription is dropped.
    receiver: Option<watch::Receiver<u64>>,
    of: Topic,
    bus: Arc<Bus>,
}

impl Subscription {
    /// Returns when something was appended since the last call, or when nothing ever will be.
    pub async fn changed(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            // An error means that the bus has gone; the reader will find out from the store.
            let _ = receiver.changed().await;
        }
    }

    /// How many events the run has, as far as readers were told; it may have more.
    pub fn seq(&self) -> u64 {
        self.receiver.as_ref().map_or(0, |receiver| *receiver.borrow())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.bus.unsubscribe(&self.of, self.receiver.take());
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{RunId, TenantId};

    use super::*;

    #[test]
    fn readers_that_have_gone_leave_nothing_behind() {
        let bus = Arc::new(Bus::default());
        let of = RunRef { tenant: TenantId::parse("t").unwrap(), run: RunId::parse("r").unwrap() };
        let (one, two) = (bus.subscribe(&of), bus.subscribe(&of));
        drop(one);
        assert_eq!(bus.readers.lock().unwrap().len(), 1);
        drop(two);
        assert_eq!(bus.readers.lock().unwrap().len(), 0);
    }
}
