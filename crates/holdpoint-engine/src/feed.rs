//! Tells somebody outside of every change, once it is on disk. Whoever listens must keep up: what does not fit into
//! the queue is dropped and counted, never waited for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};

use holdpoint_core::{Event, Run, RunRef, Timestamp};

/// What one commit did to one run.
#[derive(Clone, Debug)]
pub struct Committed {
    pub of: RunRef,
    /// The fold behind the events.
    pub run: Arc<Run>,
    pub events: Vec<Event>,
    pub at: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct Feed {
    listener: RwLock<Option<SyncSender<Committed>>>,
    dropped: AtomicU64,
}

impl Feed {
    pub(crate) fn open(&self, capacity: usize) -> Receiver<Committed> {
        let (sender, receiver) = sync_channel(capacity);
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }

    /// Ends what the listener hears.
    pub(crate) fn close(&self) {
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn tell(&self, committed: impl FnOnce() -> Committed) {
        let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = &*listener
            && listener.try_send(committed()).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
