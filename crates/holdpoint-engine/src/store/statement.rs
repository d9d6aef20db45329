//! Statements, parameters and rows as plain values, the same for every driver.

use super::{Error, unreadable};

/// One SQL statement with its values. `$1`, `$2`, … appear in ascending order of first use, because SQLite numbers
/// named parameters in the order it meets them; the driver asserts it in debug builds.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub sql: &'static str,
    pub params: Vec<Param>,
    pub guard: Option<Guard>,
}

/// A guarded statement must touch exactly one row; otherwise the whole change it belongs to does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The run is at the sequence number the change was decided on.
    Sequence,
    /// The dispatch is still claimed with the token the worker holds.
    Claim,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Param {
    Null,
    Int(i64),
    Text(String),
}

impl Statement {
    pub(crate) fn new(sql: &'static str, params: Vec<Param>) -> Self {
        Self { sql, params, guard: None }
    }

    pub(crate) fn guarded(sql: &'static str, params: Vec<Param>, guard: Guard) -> Self {
        Self { sql, params, guard: Some(guard) }
    }
}

/// `params![a, b]` converts each value.
macro_rules! params {
    ($($value:expr),* $(,)?) => { vec![$($crate::store::Param::from($value)),*] };
}
pub(crate) use params;

impl From<&str> for Param {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Param {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Param {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u64> for Param {
    fn from(number: u64) -> Self {
        // Counters of ours never come near the end of an i64.
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl<T: Into<Param>> From<Option<T>> for Param {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One row of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row(pub Vec<Param>);

impl Row {
    pub(crate) fn text(&self, column: usize) -> Result<&str, Error> {
        match self.0.get(column) {
            Some(Param::Text(text)) => Ok(text),
            other => Err(unreadable("column", format!("column {column} is {other:?}, not text"))),
        }
    }

    pub(crate) fn int(&self, column: usize) -> Result<i64, Error> {
        match self.0.get(column) {
            Some(Param::Int(number)) => Ok(*number),
            other => Err(unreadable("column", format!("column {column} is {other:?}, not an integer"))),
        }
    }

    pub(crate) fn count(&self, column: usize) -> Result<u64, Error> {
        u64::try_from(self.int(column)?).map_err(|error| unreadable("column", error))
    }

    pub(crate) fn optional_int(&self, column: usize) -> Result<Option<i64>, Error> {
        match self.0.get(column) {
            Some(Param::Null) => Ok(None),
            _ => self.int(column).map(Some),
        }
    }
}
