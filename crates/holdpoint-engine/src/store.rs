//! The one data layer. A file per table holds its SQL and its row types; drivers only run statements.
//!
//! Writes are data: a change becomes a list of [`Statement`]s, and the committer has the driver run many changes in
//! one transaction. Reads are a statement and its parameters too. So a second database needs a driver, not a second
//! copy of these files.

use std::path::PathBuf;

use holdpoint_core::Timestamp;
use rusqlite::ErrorCode;

pub(crate) mod dispatches;
pub(crate) mod events;
pub(crate) mod keys;
mod migrations;
pub(crate) mod pending;
pub(crate) mod runs;
pub(crate) mod sqlite;
mod statement;
pub(crate) mod timers;
pub(crate) mod workflows;

pub(crate) use statement::{Guard, Param, Row, Statement, params};

/// Trouble with the database. None of these is an answer to a caller's question.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{path} is in use by another process; stop it first, or choose another data folder")]
    InUse { path: PathBuf },
    #[error(
        "{path} was written by a newer version (schema {found}; this version knows {known}); \
         nothing was changed; start the newer version, or restore a backup"
    )]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
    #[error("{path}: {message}")]
    Open { path: PathBuf, message: String },
    #[error("another program holds a lock on the database")]
    Busy,
    #[error("the database failed: {0}")]
    Failed(String),
    #[error("a stored {what} cannot be read: {message}")]
    Unreadable { what: &'static str, message: String },
    #[error("the store is closed")]
    Closed,
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Which database and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    Sqlite(PathBuf),
}

/// An open database. The variants share everything but the driver.
#[derive(Clone, Debug)]
pub(crate) enum Database {
    Sqlite(sqlite::Readers),
}

impl Database {
    pub(crate) async fn query(&self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>, Error> {
        match self {
            Self::Sqlite(readers) => readers.query(sql, params).await,
        }
    }

    pub(crate) async fn query_one(
        &self,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }
}

pub(crate) fn unreadable(what: &'static str, error: impl ToString) -> Error {
    Error::Unreadable { what, message: error.to_string() }
}

/// Columns hold instants as integers.
impl From<Timestamp> for Param {
    fn from(at: Timestamp) -> Self {
        Param::Int(at.0)
    }
}
