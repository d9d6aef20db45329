//! One connection to a SQLite file. Executes statements and reads their rows.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql, params_from_iter};

use crate::store::{ColumnNames, Error, Param, QueryResult, Row, Text, unreadable};

/// A connection with the column names of its statements, which SQLite would otherwise copy for every query.
#[derive(Debug)]
pub(super) struct SqliteSession {
    pub(super) connection: Connection,
    names: RefCell<HashMap<&'static str, ColumnNames>>,
}

impl SqliteSession {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, names: RefCell::default() }
    }

    /// Executes a statement for each set of values.
    pub(super) fn execute(
        &self,
        sql: &'static str,
        sets: &[impl AsRef<[Param]>],
    ) -> Result<QueryResult, Error> {
        let mut answer = QueryResult::default();
        if sets.is_empty() {
            return Ok(answer);
        }
        let mut prepared = self.connection.prepare_cached(sql)?;
        assert_order(&prepared, sql);
        if prepared.column_count() == 0 {
            for set in sets {
                answer.touched += prepared.execute(params_from_iter(set.as_ref()))? as u64;
            }
            return Ok(answer);
        }
        let names = self.names(sql, &prepared);
        for set in sets {
            fetch(&mut prepared, &names, set.as_ref(), &mut answer.rows)?;
        }
        answer.touched = answer.rows.len() as u64;
        Ok(answer)
    }

    fn names(&self, sql: &'static str, prepared: &CachedStatement<'_>) -> ColumnNames {
        let mut known = self.names.borrow_mut();
        let names = known.entry(sql).or_insert_with(|| {
            let names: ColumnNames = prepared.column_names().map(Box::from).collect();
            assert_names(&names, sql);
            names
        });
        names.clone()
    }
}

fn fetch(
    prepared: &mut CachedStatement<'_>,
    names: &ColumnNames,
    params: &[Param],
    rows: &mut Vec<Row>,
) -> Result<(), Error> {
    let mut found = prepared.query(params_from_iter(params))?;
    while let Some(row) = found.next()? {
        let mut cells = Vec::with_capacity(names.len());
        for column in 0..names.len() {
            cells.push(cell(row.get_ref(column)?)?);
        }
        rows.push(Row::new(names, cells));
    }
    Ok(())
}

fn cell(value: ValueRef<'_>) -> Result<Param, Error> {
    match value {
        ValueRef::Null => Ok(Param::Text(None)),
        ValueRef::Integer(number) => Ok(Param::Int(Some(number))),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Param::Text(Some(Text::Own(text.to_owned())))),
            Err(error) => Err(unreadable("text", error)),
        },
        ValueRef::Real(_) | ValueRef::Blob(_) => Err(unreadable("column", "neither text nor integer")),
    }
}

impl ToSql for Param {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Param::Int(None) | Param::Text(None) => ValueRef::Null,
            Param::Int(Some(number)) => ValueRef::Integer(*number),
            Param::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

/// Checks the order of the parameters: `$2` before `$1` would silently swap two values.
fn assert_order(prepared: &CachedStatement<'_>, sql: &str) {
    if cfg!(debug_assertions) {
        for index in 1..=prepared.parameter_count() {
            let expected = format!("${index}");
            assert_eq!(
                prepared.parameter_name(index),
                Some(expected.as_str()),
                "parameters out of order: {sql}"
            );
        }
    }
}

/// Checks the names of the columns. SQLite names an expression without an alias by its text, PostgreSQL by another
/// name; of two columns with the same name, only the first could be read.
fn assert_names(names: &[Box<str>], sql: &str) {
    if cfg!(debug_assertions) {
        for (at, name) in names.iter().enumerate() {
            let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(is_name && !names[..at].contains(name), "column `{name}` needs another alias: {sql}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_row(sql: &'static str) -> Row {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a TEXT, b BIGINT); INSERT INTO t VALUES ('x', 7)").unwrap();
        let session = SqliteSession::new(connection);
        session.execute(sql, &[Vec::new()]).unwrap().rows.remove(0)
    }

    #[test]
    fn the_names_of_a_row_are_those_of_its_columns_and_aliases() {
        let joined = first_row("SELECT t.a, COUNT(*) AS total, MAX(o.b) AS b FROM t JOIN t o ON o.a = t.a");
        assert_eq!(joined.text("a").unwrap(), "x");
        assert_eq!((joined.int("total").unwrap(), joined.int("b").unwrap()), (1, 7));
        let returned = first_row("UPDATE t SET b = b + 1 WHERE t.a = 'x' RETURNING a, b");
        assert_eq!((returned.text("a").unwrap(), returned.int("b").unwrap()), ("x", 8));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "column `COUNT(*)` needs another alias")]
    fn an_expression_needs_an_alias() {
        first_row("SELECT COUNT(*) FROM t");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "column `a` needs another alias")]
    fn two_columns_need_two_names() {
        first_row("SELECT t.a, o.a FROM t JOIN t o ON o.a = t.a");
    }
}
