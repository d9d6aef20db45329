//! Conversion of values to and from PostgreSQL, and a cache of the SQL for one or many sets of values.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use super::sets;
use crate::store::statement::Lock;
use crate::store::{ColumnNames, Error, Param, Query, Row, Text, unreadable};

/// The generated SQL of a statement, with the rest that a session needs to know of it only once.
#[derive(Debug)]
pub(super) struct CachedSql {
    pub text: String,
    /// Empty behind a transaction pooler: there, every transaction may use another server connection.
    pub prepared: OnceLock<tokio_postgres::Statement>,
    /// The names of its columns, known from its first row on.
    names: OnceLock<ColumnNames>,
}

impl From<String> for CachedSql {
    fn from(text: String) -> Self {
        Self { text, prepared: OnceLock::new(), names: OnceLock::new() }
    }
}

/// The SQL of a statement with its values.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    pub sql: Arc<CachedSql>,
    pub values: Vec<SqlValue<'a>>,
}

impl Bound<'_> {
    pub(super) fn types(&self) -> Vec<Type> {
        self.values.iter().map(SqlValue::kind).collect()
    }
}

/// A cache of the generated SQL of one session.
#[derive(Debug, Default)]
pub(super) struct SqlCache {
    plain: Mutex<HashMap<StatementForm, Arc<CachedSql>>>,
    together: Mutex<HashMap<Vec<&'static str>, Arc<CachedSql>>>,
}

/// A statement, for one or many sets, with its lock.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StatementForm {
    sql: &'static str,
    many: bool,
    lock: Option<Lock>,
}

impl SqlCache {
    /// Returns the SQL and the values of a query; None if it has no sets.
    pub(super) fn bind<'q>(&self, query: &'q Query) -> Option<Bound<'q>> {
        let sample = query.sets.first()?;
        let many = query.sets.len() > 1;
        let form = StatementForm { sql: query.sql, many, lock: query.lock };
        let mut known = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = known.entry(form).or_insert_with(|| {
            let text = if many {
                sets::many(query.sql, sample, query.lock)
            } else {
                sets::single(query.sql, query.lock)
            };
            Arc::new(CachedSql::from(text))
        });
        let values = if many { columns(query) } else { sample.iter().map(SqlValue::one).collect() };
        Some(Bound { sql: sql.clone(), values })
    }

    /// Returns all queries as one statement, in the order of their SQL, so that the same queries give the same
    /// statement.
    pub(super) fn bind_together<'q>(&self, queries: &[&'q Query]) -> Option<Bound<'q>> {
        let mut queries: Vec<&Query> =
            queries.iter().copied().filter(|query| !query.sets.is_empty()).collect();
        if queries.is_empty() {
            return None;
        }
        queries.sort_by_key(|query| query.sql);
        let form: Vec<&'static str> = queries.iter().map(|query| query.sql).collect();
        let mut known = self.together.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = known.entry(form).or_insert_with(|| {
            let statements = queries.iter().map(|query| (query.sql, &*query.sets[0]));
            Arc::new(CachedSql::from(sets::joined(statements)))
        });
        let values = queries.iter().flat_map(|query| columns(query)).collect();
        Some(Bound { sql: sql.clone(), values })
    }
}

/// The value of a parameter, or its values in many sets.
#[derive(Debug)]
pub(super) enum SqlValue<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
    Ints(Vec<Option<i64>>),
    Texts(Vec<Option<&'a str>>),
}

impl<'a> SqlValue<'a> {
    fn one(param: &'a Param) -> Self {
        match param {
            Param::Int(number) => Self::Int(*number),
            Param::Text(text) => Self::Text(text.as_deref()),
        }
    }

    fn kind(&self) -> Type {
        match self {
            Self::Int(_) => Type::INT8,
            Self::Text(_) => Type::TEXT,
            Self::Ints(_) => Type::INT8_ARRAY,
            Self::Texts(_) => Type::TEXT_ARRAY,
        }
    }
}

fn columns<'q>(query: &'q Query) -> Vec<SqlValue<'q>> {
    let Some(sample) = query.sets.first() else { return Vec::new() };
    let number = |param: &Param| if let Param::Int(number) = param { *number } else { None };
    let text = |param: &'q Param| if let Param::Text(text) = param { text.as_deref() } else { None };
    let column = |at: usize| match &sample[at] {
        Param::Int(_) => SqlValue::Ints(query.sets.iter().map(|set| number(&set[at])).collect()),
        Param::Text(_) => SqlValue::Texts(query.sets.iter().map(|set| text(&set[at])).collect()),
    };
    (0..sample.len()).map(column).collect()
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Int(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Ints(numbers) => numbers.to_sql(kind, out),
            Self::Texts(texts) => texts.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::INT8_ARRAY, Type::TEXT_ARRAY].contains(kind)
    }

    to_sql_checked!();
}

impl CachedSql {
    /// Reads a row that the statement has returned.
    pub(super) fn read(&self, row: &tokio_postgres::Row) -> Result<Row, Error> {
        let names =
            self.names.get_or_init(|| row.columns().iter().map(|column| Box::from(column.name())).collect());
        let bad = |error: tokio_postgres::Error| unreadable("column", error);
        let cell = |at: usize| {
            Ok(match *row.columns()[at].type_() {
                Type::INT8 => Param::Int(row.try_get(at).map_err(bad)?),
                Type::INT4 => Param::Int(row.try_get::<_, Option<i32>>(at).map_err(bad)?.map(i64::from)),
                Type::BOOL => Param::Int(row.try_get::<_, Option<bool>>(at).map_err(bad)?.map(i64::from)),
                _ => Param::Text(row.try_get::<_, Option<String>>(at).map_err(bad)?.map(Text::Own)),
            })
        };
        Ok(Row::new(names, (0..row.len()).map(cell).collect::<Result<_, Error>>()?))
    }
}
