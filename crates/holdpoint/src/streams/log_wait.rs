//! The wait of a reader for a change of a run or a thread.

use std::time::Duration;

use holdpoint_engine::Subscription;
use tokio::sync::watch;

/// Time after which a reader checks the store without a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Waits for changes of a run or a thread.
#[derive(Debug)]
pub(crate) struct LogWait {
    subscription: Subscription,
    stopping: watch::Receiver<bool>,
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// A change was reported, for a run with the number of its events.
    Changed(u64),
    /// No change was reported for a while. The reader must check the store.
    Poll,
    /// The server shuts down.
    Stopping,
}

impl LogWait {
    pub(crate) fn new(subscription: Subscription, stopping: &watch::Receiver<bool>) -> Self {
        Self { subscription, stopping: stopping.clone() }
    }

    /// Returns whether the server shuts down.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits for the next change, the poll interval or the shutdown. Cancel safe.
    pub(crate) async fn next(&mut self) -> Wakeup {
        tokio::select! {
            // Changes that were reported before the shutdown are still read.
            biased;
            () = self.subscription.changed() => Wakeup::Changed(self.subscription.seq()),
            // An error means that the sender was dropped: the server has stopped.
            _ = self.stopping.wait_for(|stopping| *stopping) => Wakeup::Stopping,
            () = tokio::time::sleep(POLL_INTERVAL) => Wakeup::Poll,
        }
    }
}
