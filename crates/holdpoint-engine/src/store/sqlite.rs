//! The SQLite driver: one connection that writes, a few that read, and the migrations.

use std::fs::{File, TryLockError};
use std::future::{Future, ready};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

mod checkpoint;
mod peek;
mod session;

use self::checkpoint::Checkpointer;
pub(crate) use self::peek::peek;
use self::session::SqliteSession;
use super::migrations;
use super::{Error, LockScope, Param, Query, QueryResult, Row, Tx};
use crate::committer::Counters;

/// Older versions can corrupt a WAL database when several connections checkpoint at once.
const VERSION_MIN: i32 = 3_051_003;
const READERS_MAX: usize = 4;
/// The time to wait for the lock of another program before the file is reported as in use.
const BUSY: Duration = Duration::from_millis(1000);
/// The page cache of the writer: a negative number is a size in KiB.
const CACHE_SIZE: i32 = -2000;
/// The number of pages of the WAL from which on it is checkpointed. It is also checkpointed when the writer is idle.
const WAL_PAGES_MAX: u32 = 2000;
/// The number of pages of the WAL from which on the writer itself checkpoints before it continues.
const WAL_PAGES_BACKSTOP: u32 = 10 * WAL_PAGES_MAX;

/// The access of other processes to the file while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// No other process may have the file open.
    Exclusive,
    Shared,
}

/// The connection that writes. The thread of the committer owns it.
#[derive(Debug)]
pub(crate) struct Writer {
    session: SqliteSession,
    path: PathBuf,
    /// The number of pages of the WAL after the last commit.
    wal_pages: Arc<AtomicU32>,
    checkpointer: Checkpointer,
    /// Locked for as long as the database is open, so that no other server opens it.
    _lock: Option<File>,
}

impl Writer {
    /// Opens the file and migrates it.
    pub(crate) fn open(path: &Path, access: FileAccess) -> Result<Self, Error> {
        let open = |message: String| Error::Open { path: path.to_owned(), message };
        if rusqlite::version_number() < VERSION_MIN {
            return Err(open(format!(
                "SQLite {} is too old; 3.51.3 or newer is needed",
                rusqlite::version()
            )));
        }
        let lock = match access {
            FileAccess::Exclusive => Some(lock(path)?),
            FileAccess::Shared => None,
        };
        let mut connection = Connection::open(path).map_err(|error| open(error.to_string()))?;
        connection.busy_timeout(BUSY)?;
        let wal_pages = Arc::new(AtomicU32::new(0));
        let seen = wal_pages.clone();
        connection.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            seen.store(u32::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            Ok(())
        }))?;
        connection.set_prepared_statement_cache_capacity(64);
        keep_plans(&connection)?;
        let checkpointer = Checkpointer::of(path);
        let session = SqliteSession::new(connection);
        let mut writer = Self { session, path: path.to_owned(), wal_pages, checkpointer, _lock: lock };
        writer.migrate().map_err(|error| writer.explain(error))?;
        Ok(writer)
    }

    /// Migrates the file. Checks the version before any write, so that a file of a newer version is not changed.
    fn migrate(&mut self) -> Result<(), Error> {
        let known = migrations::known();
        let found = self.version()?;
        if found > known {
            return Err(Error::NewerSchema { place: self.path.display().to_string(), found, known });
        }
        let connection = &self.session.connection;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            let message = format!("the file system does not support WAL (journal mode is {mode})");
            return Err(Error::Open { path: self.path.clone(), message });
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.pragma_update(None, "cache_size", CACHE_SIZE)?;
        self.begin_now()?;
        connection.execute_batch(migrations::CREATE_VERSIONS)?;
        for (version, text) in migrations::missing(found)? {
            connection.execute_batch(&migrations::for_sqlite(text))?;
            connection.execute(migrations::RECORD_VERSION, [version])?;
        }
        self.commit_now()
    }

    fn version(&self) -> Result<i64, Error> {
        let connection = &self.session.connection;
        if !connection.table_exists(None, "schema_versions")? {
            return Ok(0);
        }
        Ok(connection.query_row(migrations::CURRENT_VERSION, [], |row| row.get("found"))?)
    }

    fn explain(&self, error: Error) -> Error {
        match error {
            Error::Busy => Error::InUse { path: self.path.clone() },
            Error::Failed(message) => Error::Open { path: self.path.clone(), message },
            other => other,
        }
    }

    fn begin_now(&self) -> Result<(), Error> {
        self.run("BEGIN IMMEDIATE")
    }

    fn commit_now(&self) -> Result<(), Error> {
        self.run("COMMIT")?;
        self.limit_wal();
        Ok(())
    }

    /// Keeps the WAL short. After the checkpoint thread has copied most of it, the writer copies the rest, so that no
    /// commit adds pages meanwhile and the next commit starts the WAL from the beginning.
    fn limit_wal(&self) {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        if pages < WAL_PAGES_MAX {
            return;
        }
        let in_background =
            pages < WAL_PAGES_BACKSTOP && !self.checkpointer.take_done() && self.checkpointer.start();
        if !in_background && let Err(error) = checkpoint::checkpoint_passive(&self.session.connection) {
            tracing::warn!(%error, "cannot checkpoint the WAL; trying again later");
        }
    }

    fn run(&self, sql: &str) -> Result<(), Error> {
        self.session.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Executes queries. Ignores their locks: the writer has locked the whole database.
    fn execute_all(&self, queries: &[Query]) -> Result<Vec<QueryResult>, Error> {
        queries.iter().map(|query| self.session.execute(query.sql, &query.sets)).collect()
    }

    /// Copies the WAL into the database and truncates it. Called when the writer is idle.
    fn checkpoint(&self) -> Result<(), Error> {
        let connection = &self.session.connection;
        // Does not wait for readers, which would delay the next change. The WAL is then truncated later.
        connection.busy_timeout(Duration::ZERO)?;
        let result = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        connection.busy_timeout(BUSY)?;
        Ok(result?)
    }
}

impl Tx for Writer {
    const LOCK_SCOPE: LockScope = LockScope::Database;

    fn begin(&self, first: &[Query]) -> impl Future<Output = Result<Vec<QueryResult>, Error>> + Send {
        ready(self.begin_now().and_then(|()| self.execute_all(first)))
    }

    fn all(&self, queries: &[Query]) -> impl Future<Output = Result<Vec<QueryResult>, Error>> + Send {
        ready(self.execute_all(queries))
    }

    fn commit(&self, last: &[Query]) -> impl Future<Output = Result<(), Error>> + Send {
        ready(self.execute_all(last).and_then(|_| self.commit_now()))
    }

    fn rollback(&self) -> impl Future<Output = ()> + Send {
        if !self.session.connection.is_autocommit()
            && let Err(error) = self.run("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back the transaction");
        }
        ready(())
    }

    fn idle(&self) {
        if let Err(error) = self.checkpoint() {
            tracing::warn!(%error, "cannot checkpoint the WAL; trying again later");
        }
    }
}

/// Locks the database file. Two paths of one file have the same lock.
fn lock(path: &Path) -> Result<File, Error> {
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let open = |error: std::io::Error| Error::Open { path: path.to_owned(), message: error.to_string() };
    let file = File::options().create(true).truncate(false).write(true).open(&name).map_err(open)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(open(error)),
    }
}

/// The connections that read, used on threads that may block.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    counters: Arc<Counters>,
    idle: Arc<Mutex<Vec<SqliteSession>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(path: &Path, counters: Arc<Counters>) -> Self {
        let permits = Arc::new(Semaphore::new(READERS_MAX));
        Self { path: path.to_owned(), counters, idle: Arc::default(), permits }
    }

    pub(crate) async fn query(&self, sql: &'static str, sets: Vec<Vec<Param>>) -> Result<Vec<Row>, Error> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let readers = self.clone();
        tokio::task::spawn_blocking(move || {
            // The query holds the permit: its caller may be cancelled before it ends.
            let _permit = permit;
            let session = readers.take()?;
            let answer = session.execute(sql, &sets);
            readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
            let rows = answer?.rows;
            readers.counters.rows_read.fetch_add(rows.len() as u64, Ordering::Relaxed);
            Ok(rows)
        })
        .await
        .map_err(|error| Error::Failed(error.to_string()))?
    }

    fn take(&self) -> Result<SqliteSession, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(session) = idle {
            return Ok(session);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(32);
        keep_plans(&connection)?;
        Ok(SqliteSession::new(connection))
    }
}

/// Plans each statement once. Otherwise SQLite would plan a statement again for every value of a parameter that
/// occurs in the condition of an index.
fn keep_plans(connection: &Connection) -> Result<(), Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_of_the_writer_is_synced_in_full() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::open(&folder.path().join("holdpoint.db"), FileAccess::Exclusive).unwrap();
        let pragma = |name: &str| -> i64 {
            writer.session.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
        };
        const FULL: i64 = 2;
        assert_eq!((pragma("synchronous"), pragma("foreign_keys")), (FULL, 1));
    }
}
