//! Ends `ask` before there is an answer: on a signal, or at the deadline of a hook. Either this module or the command
//! reports the outcome, never both.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The longest wait for the id of a hold that is being created, after a signal.
const ID_WAIT_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cause {
    Signal,
    Deadline,
}

#[derive(Debug, PartialEq)]
enum Progress {
    /// No request was sent.
    Preparing,
    Creating,
    Waiting(String),
    Finished,
}

pub(super) struct EarlyExit {
    shared: Arc<Shared>,
}

struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl EarlyExit {
    /// Starts the watch. At the first cause, `report` receives the id of the hold, if there is one, and returns the
    /// exit code.
    pub(super) fn watch(
        deadline: Option<Duration>,
        report: impl FnOnce(Cause, Option<&str>) -> u8 + Send + 'static,
    ) -> Result<Self, Failure> {
        let shared = Arc::new(Shared { progress: Mutex::new(Progress::Preparing), changed: Condvar::new() });
        let watched = shared.clone();
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            // Signals are registered before this function returns, so that none is missed.
            let signals = runtime.block_on(async { register_signals() })?;
            let watch = move || {
                let cause = runtime.block_on(next_cause(signals, deadline));
                // The lock is held until the process has ended, so that the command cannot report an outcome.
                let progress = watched.wait_for_id();
                match &*progress {
                    Progress::Finished => {}
                    Progress::Preparing | Progress::Creating => {
                        std::process::exit(report(cause, None).into())
                    }
                    Progress::Waiting(id) => std::process::exit(report(cause, Some(id)).into()),
                }
            };
            std::thread::Builder::new().spawn(watch).map(drop)
        };
        start().map_err(|error: io::Error| Failure::broken(format!("cannot watch for signals: {error}")))?;
        Ok(Self { shared })
    }

    /// Records that the request for a hold is sent. Does not return if an early exit has begun.
    pub(super) fn record_request(&self) {
        self.shared.set(Progress::Creating);
    }

    /// Records the id of the hold, which an early exit then cancels.
    pub(super) fn record_hold(&self, id: &str) {
        self.shared.set(Progress::Waiting(id.to_owned()));
    }

    /// Ends the watch: the command reports the outcome. Does not return if an early exit has begun.
    pub(super) fn finish(&self) {
        self.shared.set(Progress::Finished);
    }
}

impl Shared {
    fn set(&self, progress: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
        self.changed.notify_all();
    }

    fn wait_for_id(&self) -> MutexGuard<'_, Progress> {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let is_creating = |progress: &mut Progress| *progress == Progress::Creating;
        let waited = self.changed.wait_timeout_while(progress, ID_WAIT_MAX, is_creating);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Registers the signals that end the command.
fn register_signals() -> io::Result<Vec<Signal>> {
    [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].into_iter().map(signal).collect()
}

/// Waits for a signal or the deadline.
async fn next_cause(mut signals: Vec<Signal>, deadline: Option<Duration>) -> Cause {
    let received = poll_fn(|context| {
        let is_received = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
        if is_received { Poll::Ready(Cause::Signal) } else { Poll::Pending }
    });
    match deadline {
        Some(deadline) => tokio::time::timeout(deadline, received).await.unwrap_or(Cause::Deadline),
        None => received.await,
    }
}
