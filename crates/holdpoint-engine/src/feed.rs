//! Tells those outside who listen of every change, once it is on disk. Whoever listens must keep up: what does not fit
//! into a queue is dropped and counted, never waited for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use holdpoint_core::{Event, Run, RunRef, Timestamp};

/// Bytes of runs that a queue may keep in memory, about.
const QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What a commit costs besides what is in its run.
const COMMIT_BYTES: usize = 4096;

/// What one commit did to one run.
#[derive(Clone, Debug)]
pub struct Committed {
    pub of: RunRef,
    /// The fold before the events; none when the run begins with them. A fork begins behind what it copied.
    pub from: Option<Arc<Run>>,
    /// The fold behind the events.
    pub run: Arc<Run>,
    /// None of a fork that is over where it begins.
    pub events: Vec<Event>,
    pub at: Timestamp,
}

impl Committed {
    fn bytes(&self) -> usize {
        COMMIT_BYTES + self.run.bytes
    }
}

/// The other end of the feed.
#[derive(Debug)]
pub struct Listener {
    commits: Receiver<Committed>,
    _listens: Arc<()>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Listener {
    /// Waits for a commit; `Disconnected` once the engine is closed and everything was heard.
    pub fn hear(&self, wait: Duration) -> Result<Committed, RecvTimeoutError> {
        let committed = self.commits.recv_timeout(wait)?;
        self.queued_bytes.fetch_sub(committed.bytes(), Ordering::Relaxed);
        Ok(committed)
    }
}

#[derive(Debug)]
struct Queue {
    commits: SyncSender<Committed>,
    /// The listener has the other half.
    listens: Weak<()>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Queue {
    /// Whether there was room. Nothing when nobody listens any more.
    fn take(&self, committed: Committed) -> Option<bool> {
        let bytes = committed.bytes();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        // One that is larger than the whole queue is still let in when there is nothing else.
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

#[derive(Debug, Default)]
pub(crate) struct Feed {
    queues: RwLock<Vec<Queue>>,
    dropped: AtomicU64,
}

impl Feed {
    pub(crate) fn open(&self, capacity: usize) -> Listener {
        let (sender, commits) = sync_channel(capacity);
        let queued_bytes = Arc::<AtomicUsize>::default();
        let listens = Arc::new(());
        let queue =
            Queue { commits: sender, listens: Arc::downgrade(&listens), queued_bytes: queued_bytes.clone() };
        self.queues.write().unwrap_or_else(PoisonError::into_inner).push(queue);
        Listener { commits, _listens: listens, queued_bytes }
    }

    /// Ends what the listeners hear.
    pub(crate) fn close(&self) {
        self.queues.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn tell(&self, committed: impl Fn() -> Committed) {
        let mut gone = false;
        for queue in self.queues.read().unwrap_or_else(PoisonError::into_inner).iter() {
            match queue.take(committed()) {
                Some(true) => {}
                Some(false) => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
                None => gone = true,
            }
        }
        if gone {
            let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
            queues.retain(|queue| queue.listens.strong_count() > 0);
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

    fn committed(bytes: usize) -> Committed {
        let definition = json!({
            "id": "w", "name": "w", "version": "1", "edges": [], "triggers": [], "variables": [],
            "metadata": {}, "settings": {},
            "nodes": [{"id": "a", "typeId": "core.noop", "name": "a", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}}],
        });
        let id = RunId::parse("run").unwrap();
        let mut run = Run::unborn(id.clone(), Arc::new(Workflow::parse(&definition, 1).unwrap()));
        run.bytes = bytes;
        let of = RunRef { tenant: TenantId::parse("t").unwrap(), run: id };
        Committed { of, from: None, run: Arc::new(run), events: Vec::new(), at: Timestamp(0) }
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted_and_room_is_made_by_listening() {
        let feed = Feed::default();
        feed.tell(|| unreachable!("nobody listens"));
        let listener = feed.open(2);
        (0..5).for_each(|_| feed.tell(|| committed(0)));
        assert_eq!(feed.dropped(), 3);
        assert!(listener.hear(Duration::ZERO).is_ok());
        feed.tell(|| committed(0));
        assert_eq!(feed.dropped(), 3);
    }

    #[test]
    fn everybody_who_listens_hears_everything_and_who_has_gone_misses_nothing() {
        let feed = Feed::default();
        let (one, two) = (feed.open(1), feed.open(2));
        (0..2).for_each(|_| feed.tell(|| committed(0)));
        assert_eq!(feed.dropped(), 1, "of the one with less room");
        assert!(one.hear(Duration::ZERO).is_ok() && one.hear(Duration::ZERO).is_err());
        (0..2).for_each(|_| assert!(two.hear(Duration::ZERO).is_ok()));
        drop(one);
        (0..2).for_each(|_| feed.tell(|| committed(0)));
        assert_eq!((feed.dropped(), feed.queues.read().unwrap().len()), (1, 1));
    }

    #[test]
    fn a_queue_is_full_by_bytes_too() {
        let feed = Feed::default();
        let listener = feed.open(100);
        feed.tell(|| committed(2 * QUEUE_BYTES_MAX));
        feed.tell(|| committed(0));
        assert_eq!(feed.dropped(), 1, "one giant fills it");
        assert!(listener.hear(Duration::ZERO).is_ok());
        (0..4).for_each(|_| feed.tell(|| committed(QUEUE_BYTES_MAX / 3)));
        assert_eq!(feed.dropped(), 3);
    }

    #[test]
    fn a_closed_feed_is_heard_to_its_end() {
        let feed = Feed::default();
        let listener = feed.open(2);
        feed.tell(|| committed(0));
        feed.close();
        assert!(listener.hear(Duration::ZERO).is_ok());
        assert!(matches!(listener.hear(Duration::ZERO), Err(RecvTimeoutError::Disconnected)));
    }
}
