//! A thread that checkpoints the WAL while the writer continues, so that the writer itself has few pages to copy.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;

use super::Error;

/// Copies the pages that no reader needs any more, without waiting.
const PASSIVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// The thread stops when a checkpoint copies fewer pages than this, and leaves the rest to the writer.
const FEW_PAGES: i64 = 200;
/// The maximum number of checkpoints for one request.
const ROUNDS_MAX: usize = 4;

/// The handle of the checkpoint thread.
#[derive(Debug)]
pub(super) struct Checkpointer {
    path: PathBuf,
    /// The requests to the thread, which is started at the first one. None if it could not be started.
    requests: OnceLock<Option<SyncSender<()>>>,
    state: Arc<CheckpointState>,
}

#[derive(Debug, Default)]
struct CheckpointState {
    running: AtomicBool,
    done: AtomicBool,
}

impl Checkpointer {
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), requests: OnceLock::new(), state: Arc::default() }
    }

    /// Requests a checkpoint, unless one is running. Returns false if there is no thread.
    pub(super) fn start(&self) -> bool {
        let requests = self.requests.get_or_init(|| spawn(&self.path, self.state.clone()));
        let Some(requests) = requests else { return false };
        if self.state.running.swap(true, Ordering::SeqCst) {
            return true;
        }
        requests.try_send(()).is_ok()
    }

    /// Returns true if a checkpoint has finished since the last call.
    pub(super) fn take_done(&self) -> bool {
        self.state.done.swap(false, Ordering::SeqCst)
    }
}

/// Checkpoints the WAL. Returns its number of pages, and how many of them are copied into the database.
pub(super) fn checkpoint_passive(connection: &Connection) -> Result<(i64, i64), Error> {
    Ok(connection.prepare_cached(PASSIVE)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?)
}

fn spawn(path: &Path, state: Arc<CheckpointState>) -> Option<SyncSender<()>> {
    let (requests, received) = sync_channel(1);
    let path = path.to_owned();
    let thread = std::thread::Builder::new().name("holdpoint-checkpoint".to_owned());
    match thread.spawn(move || serve(&path, &received, &state)) {
        Ok(_) => Some(requests),
        Err(error) => {
            tracing::warn!(%error, "cannot start the checkpoint thread; the writer checkpoints");
            None
        }
    }
}

/// Serves the requests until the handle is dropped.
fn serve(path: &Path, received: &Receiver<()>, state: &CheckpointState) {
    let mut connection = None;
    while received.recv().is_ok() {
        if let Err(error) = checkpoint_with(path, &mut connection) {
            connection = None;
            tracing::warn!(%error, "cannot checkpoint the WAL; trying again later");
        }
        state.done.store(true, Ordering::SeqCst);
        state.running.store(false, Ordering::SeqCst);
    }
}

fn checkpoint_with(path: &Path, connection: &mut Option<Connection>) -> Result<(), Error> {
    let open = match connection.take() {
        Some(open) => open,
        None => {
            let open = Connection::open(path)?;
            open.pragma_update(None, "synchronous", "FULL")?;
            open
        }
    };
    // The writer adds pages during a checkpoint; the next checkpoint is shorter.
    let mut copied = 0;
    for _ in 0..ROUNDS_MAX {
        let (_, now) = checkpoint_passive(&open)?;
        let few = now - copied < FEW_PAGES;
        copied = now;
        if few {
            break;
        }
    }
    *connection = Some(open);
    Ok(())
}
