//! Statements, parameters and rows as values, the same for every driver.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use holdpoint_core::{NodeId, RunId, TenantId, WorkflowId};

use super::{Error, unreadable};

/// One SQL statement with its values. `$1`, `$2`, … appear in ascending order of first use, because SQLite numbers
/// named parameters in the order it meets them; the driver asserts it in debug builds.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub sql: &'static str,
    pub params: Arc<[Param]>,
}

/// A value of a parameter or a column. NULL has a type: PostgreSQL must know the type of every parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Param {
    Int(Option<i64>),
    Text(Option<Text>),
}

/// A text of a parameter or a column. The text of an id or of a word is not copied.
#[derive(Clone)]
pub(crate) enum Text {
    Own(String),
    Id(Arc<str>),
    Word(&'static str),
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Id(text) => text,
            Self::Word(text) => text,
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// One statement for one or many sets of values. PostgreSQL executes all sets at once, so that the order of the sets
/// must not matter, and returned rows must contain their keys.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub sql: &'static str,
    pub sets: Vec<Arc<[Param]>>,
    pub lock: Option<Lock>,
}

/// The row locks of a SELECT, held until the end of the transaction. SQLite ignores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    /// The alias of the table in the statement.
    pub of: &'static str,
    /// The columns that order the rows, so that two transactions cannot deadlock.
    pub order: Option<&'static str>,
    /// Skips rows that another transaction has locked, instead of waiting for them.
    pub skip: bool,
}

impl Query {
    pub(crate) fn one(sql: &'static str, params: Vec<Param>) -> Self {
        Self { sql, sets: vec![params.into()], lock: None }
    }

    pub(crate) fn each(sql: &'static str, sets: Vec<Vec<Param>>) -> Self {
        Self { sql, sets: sets.into_iter().map(Arc::from).collect(), lock: None }
    }

    /// Locks rows in the order of the columns `order`.
    pub(crate) fn locking(mut self, of: &'static str, order: &'static str) -> Self {
        self.lock = Some(Lock { of, order: Some(order), skip: false });
        self
    }

    /// Locks rows of a thread that is locked already, so that the order does not matter.
    pub(crate) fn locking_within(mut self, of: &'static str) -> Self {
        self.lock = Some(Lock { of, order: None, skip: false });
        self
    }

    /// Locks the rows that no other transaction has locked, in the order of the statement.
    pub(crate) fn locking_free(mut self, of: &'static str) -> Self {
        self.lock = Some(Lock { of, order: None, skip: true });
        self
    }
}

/// The result of a query over all its sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryResult {
    pub rows: Vec<Row>,
    /// The number of rows that were returned or changed.
    pub touched: u64,
}

/// The extent of the locks of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockScope {
    /// A transaction locks the whole database. Jobs that arrive meanwhile may join it.
    Database,
    /// A transaction locks rows. No job may join it: its rows would not be locked in order.
    Rows,
}

/// A connection of a writer. SQLite executes a call at once; PostgreSQL needs one round trip for each call.
pub(crate) trait Tx {
    const LOCK_SCOPE: LockScope;

    /// Begins a transaction and executes its first queries.
    fn begin(&self, first: &[Query]) -> impl Future<Output = Result<Vec<QueryResult>, Error>> + Send;
    /// Executes queries in the transaction.
    fn all(&self, queries: &[Query]) -> impl Future<Output = Result<Vec<QueryResult>, Error>> + Send;
    /// Executes the last queries and commits. These queries return no rows and do not see the writes of each other.
    fn commit(&self, last: &[Query]) -> impl Future<Output = Result<(), Error>> + Send;
    /// Rolls the transaction back, if there is one.
    fn rollback(&self) -> impl Future<Output = ()> + Send;
    /// Lets the database do maintenance, after a while without writes and when the writer stops.
    fn idle(&self) {}
}

impl Statement {
    pub(crate) fn new(sql: &'static str, params: Vec<Param>) -> Self {
        Self { sql, params: params.into() }
    }
}

/// Builds a list of parameters: `params![a, b]` converts each value.
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
        // PostgreSQL rejects NUL. Ids contain none and JSON escapes it; only texts for people can contain one.
        Self::Text(Some(Text::Own(if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text })))
    }
}

impl Param {
    /// Returns a parameter for a word of the program.
    pub(crate) fn word(word: &'static str) -> Self {
        Self::Text(Some(Text::Word(word)))
    }
}

macro_rules! from_id {
    ($($id:ty),*) => {
        $(impl From<&$id> for Param {
            fn from(id: &$id) -> Self {
                Self::Text(Some(Text::Id(id.shared())))
            }
        })*
    };
}
from_id!(TenantId, RunId, WorkflowId, NodeId);

impl From<i64> for Param {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<u64> for Param {
    fn from(number: u64) -> Self {
        // The counters never reach the limit of an i64.
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<Option<&str>> for Param {
    fn from(value: Option<&str>) -> Self {
        value.map_or(Self::Text(None), Self::from)
    }
}

impl From<Option<String>> for Param {
    fn from(value: Option<String>) -> Self {
        value.map_or(Self::Text(None), Self::from)
    }
}

impl From<Option<i64>> for Param {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

/// The names of the columns of a statement, shared by its rows.
pub(crate) type ColumnNames = Arc<[Box<str>]>;

/// One row of a result. Columns are read by name: that of the column, or the alias of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    names: ColumnNames,
    cells: Vec<Param>,
}

impl Row {
    /// `cells` has one value for each name.
    pub(crate) fn new(names: &ColumnNames, cells: Vec<Param>) -> Self {
        Self { names: names.clone(), cells }
    }

    pub(crate) fn text(&self, column: &str) -> Result<&str, Error> {
        match self.cell(column)? {
            Param::Text(Some(text)) => Ok(text),
            other => Err(unreadable("column", format!("column {column} is {other:?}, not text"))),
        }
    }

    pub(crate) fn optional_text(&self, column: &str) -> Result<Option<&str>, Error> {
        match self.cell(column)? {
            Param::Text(None) | Param::Int(None) => Ok(None),
            _ => self.text(column).map(Some),
        }
    }

    pub(crate) fn int(&self, column: &str) -> Result<i64, Error> {
        match self.cell(column)? {
            Param::Int(Some(number)) => Ok(*number),
            other => Err(unreadable("column", format!("column {column} is {other:?}, not an integer"))),
        }
    }

    pub(crate) fn count(&self, column: &str) -> Result<u64, Error> {
        self.small(column)
    }

    /// Returns an integer as a narrower type.
    pub(crate) fn small<T: TryFrom<i64, Error: ToString>>(&self, column: &str) -> Result<T, Error> {
        T::try_from(self.int(column)?).map_err(|error| unreadable("column", error))
    }

    pub(crate) fn optional_int(&self, column: &str) -> Result<Option<i64>, Error> {
        match self.cell(column)? {
            Param::Text(None) | Param::Int(None) => Ok(None),
            _ => self.int(column).map(Some),
        }
    }

    fn cell(&self, column: &str) -> Result<&Param, Error> {
        let at = self.names.iter().position(|name| **name == *column);
        let cell = at.and_then(|at| self.cells.get(at));
        cell.ok_or_else(|| unreadable("column", format!("the row has no column {column}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let names: ColumnNames = ["run_id", "seq", "scope_id"].map(Box::from).into();
        Row::new(&names, vec![Param::from("r1"), Param::from(-7_i64), Param::Text(None)])
    }

    fn error<T: std::fmt::Debug>(read: Result<T, Error>) -> String {
        read.expect_err("the column cannot be read").to_string()
    }

    #[test]
    fn columns_are_read_by_name() {
        let row = row();
        assert_eq!(row.text("run_id").unwrap(), "r1");
        assert_eq!(row.int("seq").unwrap(), -7);
        assert_eq!(row.optional_text("run_id").unwrap(), Some("r1"));
        assert_eq!(row.optional_int("seq").unwrap(), Some(-7));
        assert_eq!(row.small::<i8>("seq").unwrap(), -7);
    }

    #[test]
    fn the_error_for_an_unknown_column_has_its_name() {
        let expected = "a stored column cannot be read: the row has no column run";
        assert_eq!(error(row().text("run")), expected);
        assert_eq!(error(row().optional_text("run")), expected);
        assert_eq!(error(row().int("run")), expected);
        assert_eq!(error(row().optional_int("run")), expected);
        assert_eq!(error(row().count("run")), expected);
    }

    #[test]
    fn only_an_optional_column_may_be_null() {
        let row = row();
        assert_eq!(row.optional_text("scope_id").unwrap(), None);
        assert_eq!(row.optional_int("scope_id").unwrap(), None);
        let expected = "a stored column cannot be read: column scope_id is Text(None), not";
        assert_eq!(error(row.text("scope_id")), format!("{expected} text"));
        assert_eq!(error(row.int("scope_id")), format!("{expected} an integer"));
    }

    #[test]
    fn a_value_of_another_type_is_an_error() {
        let row = row();
        assert!(error(row.text("seq")).ends_with("column seq is Int(Some(-7)), not text"));
        assert!(error(row.optional_text("seq")).ends_with("column seq is Int(Some(-7)), not text"));
        assert!(error(row.int("run_id")).ends_with("column run_id is Text(Some(\"r1\")), not an integer"));
        assert!(row.count("seq").is_err() && row.small::<u8>("seq").is_err());
    }
}
