//! Feed of committed changes for subscribers such as the trace exporter. The feed never waits for a subscriber: it
//! drops and counts commits that do not fit into the subscriber's queue.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use holdpoint_core::{Event, Run, RunRef, Timestamp};

/// The approximate number of bytes of runs that a queue keeps in memory.
const QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The estimated size of a commit without its run.
const COMMIT_BYTES: usize = 4096;

/// The change of one run by one commit.
#[derive(Clone, Debug)]
pub struct RunCommit {
    /// The run.
    pub of: RunRef,
    /// The state before the events. `None` if the run starts with them. For a fork, the state after the copied events.
    pub from: Option<Arc<Run>>,
    /// The state after the events.
    pub run: Arc<Run>,
    /// The events of the commit, without the events that a fork copied. Can be empty for a fork.
    pub events: Vec<Event>,
    /// The time of the commit.
    pub at: Timestamp,
}

impl RunCommit {
    fn bytes(&self) -> usize {
        COMMIT_BYTES + self.run.bytes
    }
}

/// The receiving end of a subscription to the feed.
#[derive(Debug)]
pub struct CommitReceiver {
    commits: Receiver<RunCommit>,
    _alive: Arc<()>,
    queued_bytes: Arc<AtomicUsize>,
}

impl CommitReceiver {
    /// Waits for a commit. Returns `Disconnected` after the engine was closed and all commits were received.
    pub fn recv(&self, wait: Duration) -> Result<RunCommit, RecvTimeoutError> {
        let committed = self.commits.recv_timeout(wait)?;
        self.queued_bytes.fetch_sub(committed.bytes(), Ordering::Relaxed);
        Ok(committed)
    }
}

#[derive(Debug)]
struct CommitQueue {
    commits: SyncSender<RunCommit>,
    /// The receiver holds the strong reference.
    receiver_alive: Weak<()>,
    queued_bytes: Arc<AtomicUsize>,
}

impl CommitQueue {
    /// Returns whether the queue had room, or `None` if the receiver is gone.
    fn push(&self, committed: RunCommit) -> Option<bool> {
        let bytes = committed.bytes();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        // A commit that is larger than the whole queue is accepted if the queue is empty.
        let fits = before == 0 || before + bytes <= QUEUE_BYTES_MAX;
        let sent = if fits { self.commits.try_send(committed) } else { Err(TrySendError::Full(committed)) };
        if sent.is_err() {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        match sent {
            Ok(()) => Some(true),
            Err(TrySendError::Full(_)) => Some(false),
            Err(TrySendError::Disconnected(_)) => None,
        }
    }
}

/// The subscribers to commits, and the number of commits that were dropped.
#[derive(Debug, Default)]
pub(crate) struct CommitFeed {
    queues: RwLock<Vec<CommitQueue>>,
    dropped: AtomicU64,
}

impl CommitFeed {
    pub(crate) fn subscribe(&self, capacity: usize) -> CommitReceiver {
        let (sender, commits) = sync_channel(capacity);
        let queued_bytes = Arc::<AtomicUsize>::default();
        let receiver_alive = Arc::new(());
        let queue = CommitQueue {
            commits: sender,
            receiver_alive: Arc::downgrade(&receiver_alive),
            queued_bytes: queued_bytes.clone(),
        };
        self.queues.write().unwrap_or_else(PoisonError::into_inner).push(queue);
        CommitReceiver { commits, _alive: receiver_alive, queued_bytes }
    }

    /// Ends all subscriptions.
    pub(crate) fn close(&self) {
        self.queues.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn publish(&self, committed: impl Fn() -> RunCommit) {
        let mut gone = false;
        for queue in self.queues.read().unwrap_or_else(PoisonError::into_inner).iter() {
            match queue.push(committed()) {
                Some(true) => {}
                Some(false) => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
                None => gone = true,
            }
        }
        if gone {
            let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
            queues.retain(|queue| queue.receiver_alive.strong_count() > 0);
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_core::workflow::Workflow;
    use holdpoint_core::{RunId, TenantId};
    use serde_json::json;

    fn committed(bytes: usize) -> RunCommit {
        let definition = json!({
            "id": "w", "name": "w", "version": "1", "edges": [], "triggers": [], "variables": [],
            "metadata": {}, "settings": {},
            "nodes": [{"id": "a", "typeId": "core.noop", "name": "a", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}}],
        });
        let id = RunId::parse("run").unwrap();
        let mut run = Run::new(id.clone(), Arc::new(Workflow::parse(&definition, 1).unwrap()));
        run.bytes = bytes;
        let of = RunRef { tenant: TenantId::parse("t").unwrap(), run: id };
        RunCommit { of, from: None, run: Arc::new(run), events: Vec::new(), at: Timestamp(0) }
    }

    #[test]
    fn commits_that_do_not_fit_are_dropped_and_counted_until_the_receiver_makes_room() {
        let feed = CommitFeed::default();
        feed.publish(|| unreachable!("there is no subscriber"));
        let receiver = feed.subscribe(2);
        (0..5).for_each(|_| feed.publish(|| committed(0)));
        assert_eq!(feed.dropped(), 3);
        assert!(receiver.recv(Duration::ZERO).is_ok());
        feed.publish(|| committed(0));
        assert_eq!(feed.dropped(), 3);
    }

    #[test]
    fn every_receiver_gets_every_commit_and_a_dropped_receiver_is_removed() {
        let feed = CommitFeed::default();
        let (one, two) = (feed.subscribe(1), feed.subscribe(2));
        (0..2).for_each(|_| feed.publish(|| committed(0)));
        assert_eq!(feed.dropped(), 1, "dropped for the receiver with less room");
        assert!(one.recv(Duration::ZERO).is_ok() && one.recv(Duration::ZERO).is_err());
        (0..2).for_each(|_| assert!(two.recv(Duration::ZERO).is_ok()));
        drop(one);
        (0..2).for_each(|_| feed.publish(|| committed(0)));
        assert_eq!((feed.dropped(), feed.queues.read().unwrap().len()), (1, 1));
    }

    #[test]
    fn the_bytes_of_a_queue_are_limited() {
        let feed = CommitFeed::default();
        let receiver = feed.subscribe(100);
        feed.publish(|| committed(2 * QUEUE_BYTES_MAX));
        feed.publish(|| committed(0));
        assert_eq!(feed.dropped(), 1, "one large commit fills the queue");
        assert!(receiver.recv(Duration::ZERO).is_ok());
        (0..4).for_each(|_| feed.publish(|| committed(QUEUE_BYTES_MAX / 3)));
        assert_eq!(feed.dropped(), 3);
    }

    #[test]
    fn a_receiver_gets_all_commits_of_a_closed_feed() {
        let feed = CommitFeed::default();
        let receiver = feed.subscribe(2);
        feed.publish(|| committed(0));
        feed.close();
        assert!(receiver.recv(Duration::ZERO).is_ok());
        assert!(matches!(receiver.recv(Duration::ZERO), Err(RecvTimeoutError::Disconnected)));
    }
}
