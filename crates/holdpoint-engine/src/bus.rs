//! Notifies subscribers in this process about changes. A notification is only a hint: subscribers read the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::{RunRef, TenantId};
use tokio::sync::watch;

use crate::peers::HintOutbox;
use crate::store::threads::ThreadKey;
use crate::work_signal::WorkSignal;

/// The subject of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Topic {
    /// New events of a run.
    Run(RunRef),
    /// New runs in a thread.
    ThreadRuns(ThreadKey),
    /// Changes of the pending interrupts of a tenant.
    Pending(TenantId),
}

/// The subscriptions of this process.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    readers: Mutex<HashMap<Topic, watch::Sender<u64>>>,
    /// Wakes the worker.
    pub(crate) work: Arc<WorkSignal>,
    /// Hints for other nodes that share the database.
    pub(crate) outbox: Arc<HintOutbox>,
}

impl Bus {
    /// Reports that a run has `seq` events.
    pub(crate) fn publish(&self, of: &RunRef, seq: u64) {
        self.notify(|| Topic::Run(of.clone()), seq);
    }

    /// Reports that a run started in a thread.
    pub(crate) fn publish_thread(&self, thread: &ThreadKey) {
        self.notify(|| Topic::ThreadRuns(thread.clone()), 0);
    }

    /// Reports that the pending interrupts of a tenant may have changed.
    pub(crate) fn publish_pending(&self, tenant: &TenantId) {
        self.notify(|| Topic::Pending(tenant.clone()), 0);
    }

    fn notify(&self, topic: impl FnOnce() -> Topic, number: u64) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.is_empty() {
            return;
        }
        let topic = topic();
        if let Some(sender) = readers.get(&topic)
            && sender.send(number).is_err()
        {
            // The last subscriber is gone.
            readers.remove(&topic);
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>, of: &RunRef) -> Subscription {
        self.subscribe_to(Topic::Run(of.clone()))
    }

    pub(crate) fn subscribe_thread(self: &Arc<Self>, thread: ThreadKey) -> Subscription {
        self.subscribe_to(Topic::ThreadRuns(thread))
    }

    pub(crate) fn subscribe_pending(self: &Arc<Self>, tenant: &TenantId) -> Subscription {
        self.subscribe_to(Topic::Pending(tenant.clone()))
    }

    fn subscribe_to(self: &Arc<Self>, of: Topic) -> Subscription {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = readers.entry(of.clone()).or_insert_with(|| watch::channel(0).0).subscribe();
        Subscription { receiver: Some(receiver), of, bus: self.clone() }
    }

    fn unsubscribe(&self, of: &Topic, receiver: Option<watch::Receiver<u64>>) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropped under the lock, so that the last of several concurrent subscribers removes the topic.
        drop(receiver);
        if readers.get(of).is_some_and(|sender| sender.receiver_count() == 0) {
            readers.remove(of);
        }
    }

    /// Returns the runs that have subscribers in this process, with the number of events last reported for each.
    pub(crate) fn watched_runs(&self) -> Vec<(RunRef, u64)> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let run = |(topic, sender): (&Topic, &watch::Sender<u64>)| match topic {
            Topic::Run(of) => Some((of.clone(), *sender.borrow())),
            Topic::ThreadRuns(_) | Topic::Pending(_) => None,
        };
        readers.iter().filter_map(run).collect()
    }

    /// Returns the threads that have subscribers in this process.
    pub(crate) fn watched_threads(&self) -> Vec<ThreadKey> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = |topic: &Topic| match topic {
            Topic::ThreadRuns(thread) => Some(thread.clone()),
            Topic::Run(_) | Topic::Pending(_) => None,
        };
        readers.keys().filter_map(thread).collect()
    }

    /// Returns the tenants whose pending interrupts have subscribers in this process.
    pub(crate) fn watched_tenants(&self) -> Vec<TenantId> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = |topic: &Topic| match topic {
            Topic::Pending(tenant) => Some(tenant.clone()),
            Topic::Run(_) | Topic::ThreadRuns(_) => None,
        };
        readers.keys().filter_map(tenant).collect()
    }
}

/// A subscription to the events of a run, the runs of a thread or the pending interrupts of a tenant.
#[derive(Debug)]
pub struct Subscription {
    /// `None` only while the subscription is dropped.
    receiver: Option<watch::Receiver<u64>>,
    of: Topic,
    bus: Arc<Bus>,
}

impl Subscription {
    /// Waits until there is a notification since the last call.
    pub async fn changed(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            // Cannot fail: the bus removes the sender of a topic only after its last receiver.
            let _ = receiver.changed().await;
        }
    }

    /// Returns the number of events last reported for the run. The run can have more.
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
    fn a_topic_is_removed_with_its_last_subscriber() {
        let bus = Arc::new(Bus::default());
        let of = RunRef { tenant: TenantId::parse("t").unwrap(), run: RunId::parse("r").unwrap() };
        let (one, two) = (bus.subscribe(&of), bus.subscribe(&of));
        drop(one);
        assert_eq!(bus.readers.lock().unwrap().len(), 1);
        drop(two);
        assert_eq!(bus.readers.lock().unwrap().len(), 0);
    }
}
