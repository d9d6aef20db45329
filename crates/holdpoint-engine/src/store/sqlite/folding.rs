//! Copies the log into the database while others go on writing to it. Whoever writes then has little left to copy.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;

use super::Error;

/// As much of the log as nobody reads any more, without waiting for anybody.
const FOLD: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// What is left to whoever writes, where the disk keeps up; and how often that is tried.
const FEW_PAGES: i64 = 200;
const ROUNDS_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Folding {
    path: PathBuf,
    /// Of the thread that folds; there is one as soon as it is needed.
    bell: OnceLock<Option<SyncSender<()>>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    under_way: AtomicBool,
    done: AtomicBool,
}

impl Folding {
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), bell: OnceLock::new(), state: Arc::default() }
    }

    /// Asks for it; not again while it is under way. Nobody can be asked where there is no thread to be had.
    pub(super) fn begin(&self) -> bool {
        let bell = self.bell.get_or_init(|| start(&self.path, self.state.clone()));
        let Some(bell) = bell else { return false };
        if self.state.under_way.swap(true, Ordering::SeqCst) {
            return true;
        }
        bell.try_send(()).is_ok()
    }

    /// Whether the log was copied since this was last asked, but for what came meanwhile.
    pub(super) fn is_done(&self) -> bool {
        self.state.done.swap(false, Ordering::SeqCst)
    }
}

/// How many pages the log had then, and how many of them are in the database now.
pub(super) fn fold(connection: &Connection) -> Result<(i64, i64), Error> {
    Ok(connection.prepare_cached(FOLD)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?)
}

fn start(path: &Path, state: Arc<State>) -> Option<SyncSender<()>> {
    let (bell, rung) = sync_channel(1);
    let path = path.to_owned();
    let thread = std::thread::Builder::new().name("holdpoint-fold".to_owned());
    match thread.spawn(move || work(&path, &rung, &state)) {
        Ok(_) => Some(bell),
        Err(error) => {
            tracing::warn!(%error, "no thread to fold the log into the database; whoever writes does it");
            None
        }
    }
}

/// Until nobody can ask any more.
fn work(path: &Path, rung: &Receiver<()>, state: &State) {
    let mut connection = None;
    while rung.recv().is_ok() {
        if let Err(error) = fold_with(path, &mut connection) {
            connection = None;
            tracing::warn!(%error, "the log could not be folded into the database; it will be tried again");
        }
        state.done.store(true, Ordering::SeqCst);
        state.under_way.store(false, Ordering::SeqCst);
    }
}

fn fold_with(path: &Path, connection: &mut Option<Connection>) -> Result<(), Error> {
    let open = match connection.take() {
        Some(open) => open,
        None => {
            let open = Connection::open(path)?;
            open.pragma_update(None, "synchronous", "FULL")?;
            open
        }
    };
    // While much is copied, much is added; while that is copied, less is.
    let mut copied = 0;
    for _ in 0..ROUNDS_MAX {
        let (_, now) = fold(&open)?;
        let few = now - copied < FEW_PAGES;
        copied = now;
        if few {
            break;
        }
    }
    *connection = Some(open);
    Ok(())
}
