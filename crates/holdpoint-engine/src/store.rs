//! The one data layer. A file per table holds its SQL and its row types; drivers only run statements.
//!
//! Writes are data: a change becomes a list of [`Statement`]s, and the committer has the driver run many changes in
//! one transaction. Reads are a statement and its parameters too. So a second database needs a driver, not a second
//! copy of these files.

use std::path::PathBuf;

use holdpoint_core::Timestamp;
use rusqlite::ErrorCode;

pub(crate) mod arrivals;
pub(crate) mod awaited;
mod ceiling;
pub(crate) mod deliveries;
pub(crate) mod dependence;
pub(crate) mod dispatches;
pub(crate) mod events;
pub(crate) mod facets;
pub(crate) mod grants;
pub(crate) mod handles;
pub(crate) mod keys;
pub(crate) mod messages;
mod migrations;
pub(crate) mod pending;
pub(crate) mod postgres;
pub(crate) mod receipts;
pub(crate) mod runs;
pub(crate) mod scopes;
pub(crate) mod seal;
pub(crate) mod secrets;
pub(crate) mod sessions;
pub(crate) mod sqlite;
mod statement;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod usage;
pub(crate) mod webhooks;
pub(crate) mod workflows;

pub use ceiling::ceiling;
pub(crate) use migrations::VERSION as ENGINE_VERSION;
pub(crate) use statement::{Answer, Lock, Param, Query, Row, Statement, Tx, params};

/// Trouble with the database. None of these is an answer to a caller's question.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{path} is in use by another process; stop it first, or choose another data folder")]
    InUse { path: PathBuf },
    #[error(
        "{place} was written by a newer version (schema {found}; this version knows {known}); \
         nothing was changed; start the newer version, or restore a backup"
    )]
    NewerSchema { place: String, found: i64, known: i64 },
    #[error("{path}: {message}")]
    Open { path: PathBuf, message: String },
    /// The text after the scheme is not repeated: it can hold a password.
    #[error("the address of the database cannot be used: {0}")]
    Address(String),
    /// PostgreSQL answered, but somebody has to change something before it can be used.
    #[error("PostgreSQL at {place}: {message}")]
    Connect { place: String, message: String },
    /// Trying again later can help; nothing is wrong with the question.
    #[error("{0}")]
    Unavailable(String),
    #[error("another program holds a lock on the database")]
    Busy,
    /// The connection broke while a commit was under way.
    #[error("the connection was lost while committing ({0}); the change may be stored or not")]
    Unknown(String),
    #[error("the database failed: {0}")]
    Failed(String),
    #[error("a stored {what} cannot be read: {message}")]
    Unreadable { what: &'static str, message: String },
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// The same error for another caller.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Busy => Self::Busy,
            Self::Closed => Self::Closed,
            Self::Unavailable(why) => Self::Unavailable(why.clone()),
            Self::Unknown(why) => Self::Unknown(why.clone()),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// An open database. The variants share everything but the driver.
#[derive(Clone, Debug)]
pub(crate) enum Database {
    Sqlite(sqlite::Readers),
    Postgres(postgres::Readers),
}

impl Database {
    pub(crate) async fn query(&self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>, Error> {
        match self {
            Self::Sqlite(readers) => readers.query(sql, vec![params]).await,
            Self::Postgres(readers) => readers.query(Query::one(sql, params)).await,
        }
    }

    /// How the database goes about a question. For tests.
    pub(crate) async fn plan(&self, sql: &'static str, params: Vec<Param>) -> Result<String, Error> {
        match self {
            Self::Sqlite(readers) => {
                // Statements are constants everywhere else; a test makes a handful of these.
                let rows = readers.query(format!("EXPLAIN QUERY PLAN {sql}").leak(), vec![params]).await?;
                let lines = rows.iter().map(|row| row.text(3)).collect::<Result<Vec<_>, _>>()?;
                Ok(lines.join("\n"))
            }
            Self::Postgres(readers) => readers.plan(Query::one(sql, params)).await,
        }
    }

    /// Asks the same for many sets of values.
    pub(crate) async fn query_each(
        &self,
        sql: &'static str,
        sets: Vec<Vec<Param>>,
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Sqlite(readers) => readers.query(sql, sets).await,
            Self::Postgres(readers) => readers.query(Query::each(sql, sets)).await,
        }
    }

    /// Whether others may write to it while we have it open.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
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
        Param::Int(Some(at.0))
    }
}

impl From<Option<Timestamp>> for Param {
    fn from(at: Option<Timestamp>) -> Self {
        Param::Int(at.map(|at| at.0))
    }
}
