//! The data layer. One file for each table contains its SQL and its row types; the drivers only execute statements.
//!
//! Writes are data: a change becomes a list of [`Statement`]s, and the committer executes those of many changes in
//! one transaction. A read is a statement with parameters too. A database therefore needs only a driver.

use std::path::PathBuf;

use holdpoint_core::Timestamp;
use rusqlite::ErrorCode;

pub(crate) mod arrivals;
pub(crate) mod awaited;
mod ceiling;
pub(crate) mod deliveries;
pub(crate) mod dependence;
pub(crate) mod dispatches;
mod event_text;
pub(crate) mod events;
pub(crate) mod facets;
pub(crate) mod grants;
pub(crate) mod handles;
pub(crate) mod keys;
pub(crate) mod messages;
mod migrations;
pub(crate) mod pending;
#[cfg_attr(not(feature = "postgres"), path = "store/without_postgres.rs")]
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
pub(crate) mod tokens;
pub(crate) mod trigger_deliveries;
pub(crate) mod triggers;
pub(crate) mod usage;
pub(crate) mod webhooks;
pub(crate) mod workflows;

pub use ceiling::ceiling;
pub(crate) use migrations::VERSION as ENGINE_VERSION;
pub(crate) use statement::{
    ColumnNames, LockScope, Param, Query, QueryResult, Row, Statement, Text, Tx, params,
};

/// A failure of the database. A refusal of a command is never one of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has the SQLite file open.
    #[error("{path} is in use by another process; stop it first, or choose another data folder")]
    InUse {
        /// The database file.
        path: PathBuf,
    },
    /// The database has a newer schema than this version.
    #[error(
        "{place} was written by a newer version (schema {found}; this version knows {known}); \
         the database was not changed; start the newer version, or restore a backup"
    )]
    NewerSchema {
        /// The file, or the host and the name of the database.
        place: String,
        /// The schema version of the database.
        found: i64,
        /// The schema version of this build.
        known: i64,
    },
    /// The SQLite file cannot be opened.
    #[error("{path}: {message}")]
    Open {
        /// The database file.
        path: PathBuf,
        /// The reason.
        message: String,
    },
    /// The address of the database is invalid. The error does not repeat the address: it can contain a password.
    #[error("invalid database address: {0}")]
    Address(String),
    /// PostgreSQL responds, but the operator must change its configuration or the address first.
    #[error("PostgreSQL at {place}: {message}")]
    Connect {
        /// The host and the name of the database.
        place: String,
        /// The reason and the change that is needed.
        message: String,
    },
    /// The database cannot be reached at the moment. A retry can succeed.
    #[error("{0}")]
    Unavailable(String),
    /// The transaction lost a lock conflict.
    #[error("another program holds a lock on the database")]
    Busy,
    /// The connection was lost during a commit, so that its outcome is unknown.
    #[error("the connection was lost while committing ({0}); the change may be stored or not")]
    Unknown(String),
    /// The database returned an error.
    #[error("the database failed: {0}")]
    Failed(String),
    /// A stored value is invalid.
    #[error("a stored {what} cannot be read: {message}")]
    Unreadable {
        /// The kind of the value.
        what: &'static str,
        /// The reason.
        message: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// Returns a copy of the error for another caller.
    pub(crate) fn copied(&self) -> Self {
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

/// The connections of an open database that read. The variants differ only in the driver.
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

    /// Returns the query plan of a statement, for tests.
    pub(crate) async fn plan(&self, sql: &'static str, params: Vec<Param>) -> Result<String, Error> {
        match self {
            Self::Sqlite(readers) => {
                // Statements have a static lifetime. A test leaks only a few texts.
                let rows = readers.query(format!("EXPLAIN QUERY PLAN {sql}").leak(), vec![params]).await?;
                let lines = rows.iter().map(|row| row.text("detail")).collect::<Result<Vec<_>, _>>()?;
                Ok(lines.join("\n"))
            }
            Self::Postgres(readers) => readers.plan(Query::one(sql, params)).await,
        }
    }

    /// Executes one query for many sets of values.
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

    /// Returns true if other processes may write to the database while it is open.
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

/// Columns store timestamps as integers.
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
