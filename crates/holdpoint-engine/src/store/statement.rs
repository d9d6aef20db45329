//! Statements, parameters and rows as plain values, the same for every driver.

use std::future::Future;
use std::sync::Arc;

use super::{Error, unreadable};

/// One SQL statement with its values. `$1`, `$2`, … appear in ascending order of first use, because SQLite numbers
/// named parameters in the order it meets them; the driver asserts it in debug builds.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub sql: &'static str,
    pub params: Arc<[Param]>,
}

/// A value, or none of that type: PostgreSQL must know the type of a parameter even when it is NULL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Param {
    Int(Option<i64>),
    Text(Option<String>),
}

/// One statement for one or for many sets of values. A database that can does them all at once; the order in which
/// the sets are treated must not matter, and rows that come back carry their own keys.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub sql: &'static str,
    pub sets: Vec<Arc<[Param]>>,
    pub lock: Option<Lock>,
}

/// What a selection locks until the end of the transaction, where rows are locked one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    /// The table's name in the statement.
    pub of: &'static str,
    /// The columns by which rows are locked in order, so that two transactions never wait for each other.
    pub order: Option<&'static str>,
    /// Rows that somebody else has locked are left out instead of waited for.
    pub skip: bool,
}

impl Query {
    pub(crate) fn one(sql: &'static str, params: Vec<Param>) -> Self {
        Self { sql, sets: vec![params.into()], lock: None }
    }

    pub(crate) fn each(sql: &'static str, sets: Vec<Vec<Param>>) -> Self {
        Self { sql, sets: sets.into_iter().map(Arc::from).collect(), lock: None }
    }

    /// Rows are locked in the order of the columns `order`.
    pub(crate) fn locking(mut self, of: &'static str, order: &'static str) -> Self {
        self.lock = Some(Lock { of, order: Some(order), skip: false });
        self
    }

    /// Locks rows of a thread that is locked already, so that the order does not matter.
    pub(crate) fn locking_within(mut self, of: &'static str) -> Self {
        self.lock = Some(Lock { of, order: None, skip: false });
        self
    }

    /// Locks what nobody else has locked, in the statement's own order.
    pub(crate) fn locking_free(mut self, of: &'static str) -> Self {
        self.lock = Some(Lock { of, order: None, skip: true });
        self
    }
}

/// What came back from a query, over all its sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub rows: Vec<Row>,
    pub touched: u64,
}

/// A connection in the middle of a transaction. SQLite is always ready at once; PostgreSQL sends everything of one
/// call in one go and waits once.
pub(crate) trait Tx {
    /// Whether what comes while a transaction is being made up may still join it. Not where rows are locked one by
    /// one: they would no longer be locked in order.
    const MAY_GROW: bool;

    fn begin(&self, first: &[Query]) -> impl Future<Output = Result<Vec<Answer>, Error>> + Send;
    fn all(&self, queries: &[Query]) -> impl Future<Output = Result<Vec<Answer>, Error>> + Send;
    /// Writes what is left and commits. These queries return nothing and do not see each other.
    fn commit(&self, last: &[Query]) -> impl Future<Output = Result<(), Error>> + Send;
    fn rollback(&self) -> impl Future<Output = ()> + Send;
    /// Called when there is nothing to write for a while.
    fn idle(&self) {}
}

impl Statement {
    pub(crate) fn new(sql: &'static str, params: Vec<Param>) -> Self {
        Self { sql, params: params.into() }
    }
}

/// `params![a, b]` converts each value.
macro_rules! params {
    ($($value:expr),* $(,)?) => { vec![$($crate::store::Param::from($value)),*] };
}
pub(crate) use params;

impl From<&str> for Param {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for Param {
    fn from(text: String) -> Self {
        // PostgreSQL takes no NUL. Ids have none and JSON escapes it; what is left are texts for people.
        Self::Text(Some(if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }))
    }
}

impl From<i64> for Param {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<u64> for Param {
    fn from(number: u64) -> Self {
        // Counters of ours never come near the end of an i64.
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<Option<&str>> for Param {
    fn from(value: Option<&str>) -> Self {
        value.map_or(Self::Text(None), Self::from)
    }
}

impl From<Option<i64>> for Param {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

/// One row of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row(pub Vec<Param>);

impl Row {
    pub(crate) fn text(&self, column: usize) -> Result<&str, Error> {
        match self.0.get(column) {
            Some(Param::Text(Some(text))) => Ok(text),
            other => Err(unreadable("column", format!("column {column} is {other:?}, not text"))),
        }
    }

    pub(crate) fn optional_text(&self, column: usize) -> Result<Option<&str>, Error> {
        match self.0.get(column) {
            Some(Param::Text(None) | Param::Int(None)) => Ok(None),
            _ => self.text(column).map(Some),
        }
    }

    pub(crate) fn int(&self, column: usize) -> Result<i64, Error> {
        match self.0.get(column) {
            Some(Param::Int(Some(number))) => Ok(*number),
            other => Err(unreadable("column", format!("column {column} is {other:?}, not an integer"))),
        }
    }

    pub(crate) fn count(&self, column: usize) -> Result<u64, Error> {
        self.small(column)
    }

    /// An integer of a narrower type.
    pub(crate) fn small<T: TryFrom<i64, Error: ToString>>(&self, column: usize) -> Result<T, Error> {
        T::try_from(self.int(column)?).map_err(|error| unreadable("column", error))
    }

    pub(crate) fn optional_int(&self, column: usize) -> Result<Option<i64>, Error> {
        match self.0.get(column) {
            Some(Param::Text(None) | Param::Int(None)) => Ok(None),
            _ => self.int(column).map(Some),
        }
    }
}
