//! One connection: sends several statements in one go, prepared once where the way to the server allows it.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::Stream;
use futures_util::future::join_all;
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use tokio_postgres::{Client, RowStream};

use super::address::Settings;
use super::{connect, sets, trouble};
use crate::store::{Answer, Error, Lock, Param, Query, Row, unreadable};

#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    /// Nothing where statements cannot be kept: behind a proxy every transaction may meet another server process.
    prepared: Option<Mutex<HashMap<Arc<str>, tokio_postgres::Statement>>>,
    texts: Mutex<HashMap<Form, Arc<str>>>,
}

/// A statement, whether for many sets, and what it locks.
type Form = (&'static str, bool, Option<(&'static str, bool)>);

impl Session {
    pub(super) async fn open(settings: &Settings) -> Result<Self, Error> {
        Ok(Self::new(connect::connect(settings, None).await?, settings))
    }

    pub(super) fn new(client: Client, settings: &Settings) -> Self {
        let prepared = (!settings.pooled).then(Mutex::default);
        Self { client, prepared, texts: Mutex::default() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends `before`, the queries and `after` in this order and then waits for all answers. Those of the queries
    /// come back; the first thing that went wrong is what went wrong.
    pub(super) async fn ask(
        &self,
        before: Option<&str>,
        queries: &[Query<'_>],
        after: Option<&str>,
    ) -> Result<Vec<Answer>, Error> {
        let mut ready = Vec::with_capacity(queries.len());
        for query in queries {
            ready.push(self.prepare(query).await?);
        }
        let begun = before.map(|text| self.client.batch_execute(text));
        let asked = ready.iter().zip(queries).map(|(ready, query)| self.run(ready.as_ref(), query));
        let ended = after.map(|text| self.client.batch_execute(text));
        // Polled in this order the first time, and so sent in this order.
        let (begun, asked, ended) = tokio::join!(biased; maybe(begun), join_all(asked), maybe(ended));
        begun?;
        let answers = asked.into_iter().collect::<Result<Vec<_>, Error>>()?;
        ended?;
        Ok(answers)
    }

    /// The text of a query, and the statement where one is kept; nothing where there is nothing to ask.
    async fn prepare(&self, query: &Query<'_>) -> Result<Option<Ready>, Error> {
        let Some(sample) = query.sets.first() else { return Ok(None) };
        let text = self.text(query, sample);
        let Some(prepared) = &self.prepared else { return Ok(Some(Ready { text, statement: None })) };
        let known = prepared.lock().unwrap_or_else(PoisonError::into_inner).get(&text).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let types: Vec<Type> = sample.iter().map(|param| kind(param, query.sets.len() > 1)).collect();
                let statement = self.client.prepare_typed(&text, &types).await;
                let statement = statement.map_err(|error| trouble::running(&error))?;
                let mut prepared = prepared.lock().unwrap_or_else(PoisonError::into_inner);
                prepared.insert(text.clone(), statement.clone());
                statement
            }
        };
        Ok(Some(Ready { text, statement: Some(statement) }))
    }

    fn text(&self, query: &Query<'_>, sample: &[Param]) -> Arc<str> {
        let many = query.sets.len() > 1;
        let form = (query.sql, many, query.lock.map(|Lock { of, skip, .. }| (of, skip)));
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = texts.entry(form).or_insert_with(|| {
            let text = if many {
                sets::many(query.sql, sample, query.lock)
            } else {
                sets::single(query.sql, query.lock)
            };
            text.into()
        });
        text.clone()
    }

    async fn run(&self, ready: Option<&Ready>, query: &Query<'_>) -> Result<Answer, Error> {
        let Some(ready) = ready else { return Ok(Answer::default()) };
        let values = bind(query);
        let stream = match &ready.statement {
            Some(statement) => self.client.query_raw(statement, values).await,
            None => {
                let types: Vec<Type> = match query.sets.first() {
                    Some(sample) => sample.iter().map(|param| kind(param, query.sets.len() > 1)).collect(),
                    None => Vec::new(),
                };
                self.client.query_typed_raw(&ready.text, values.into_iter().zip(types)).await
            }
        };
        collect(stream.map_err(|error| trouble::running(&error))?).await
    }
}

#[derive(Debug)]
struct Ready {
    text: Arc<str>,
    statement: Option<tokio_postgres::Statement>,
}

async fn maybe(
    command: Option<impl Future<Output = Result<(), tokio_postgres::Error>>>,
) -> Result<(), Error> {
    match command {
        Some(command) => command.await.map_err(|error| trouble::running(&error)),
        None => Ok(()),
    }
}

async fn collect(stream: RowStream) -> Result<Answer, Error> {
    let mut stream = pin!(stream);
    let mut answer = Answer::default();
    while let Some(row) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        let row = row.map_err(|error| trouble::running(&error))?;
        answer.rows.push(read(&row)?);
    }
    answer.touched = stream.rows_affected().unwrap_or(0);
    Ok(answer)
}

fn read(row: &tokio_postgres::Row) -> Result<Row, Error> {
    let bad = |error: tokio_postgres::Error| unreadable("column", error);
    let cell = |at: usize| {
        Ok(match *row.columns()[at].type_() {
            Type::INT8 => Param::Int(row.try_get(at).map_err(bad)?),
            Type::INT4 => Param::Int(row.try_get::<_, Option<i32>>(at).map_err(bad)?.map(i64::from)),
            Type::BOOL => Param::Int(row.try_get::<_, Option<bool>>(at).map_err(bad)?.map(i64::from)),
            _ => Param::Text(row.try_get(at).map_err(bad)?),
        })
    };
    Ok(Row((0..row.len()).map(cell).collect::<Result<_, Error>>()?))
}

fn kind(param: &Param, many: bool) -> Type {
    match (param, many) {
        (Param::Int(_), false) => Type::INT8,
        (Param::Int(_), true) => Type::INT8_ARRAY,
        (Param::Text(_), false) => Type::TEXT,
        (Param::Text(_), true) => Type::TEXT_ARRAY,
    }
}

/// The values of a query: one for each parameter, or one array for each.
#[derive(Debug)]
enum Value<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
    Ints(Vec<Option<i64>>),
    Texts(Vec<Option<&'a str>>),
}

fn bind<'a>(query: &'a Query<'_>) -> Vec<Value<'a>> {
    let Some(sample) = query.sets.first() else { return Vec::new() };
    if let [only] = &query.sets[..] {
        return only.iter().map(value).collect();
    }
    let column = |at: usize| match &sample[at] {
        Param::Int(_) => Value::Ints(
            query
                .sets
                .iter()
                .map(|set| if let Param::Int(number) = &set[at] { *number } else { None })
                .collect(),
        ),
        Param::Text(_) => Value::Texts(
            query
                .sets
                .iter()
                .map(|set| if let Param::Text(text) = &set[at] { text.as_deref() } else { None })
                .collect(),
        ),
    };
    (0..sample.len()).map(column).collect()
}

fn value(param: &Param) -> Value<'_> {
    match param {
        Param::Int(number) => Value::Int(*number),
        Param::Text(text) => Value::Text(text.as_deref()),
    }
}

impl ToSql for Value<'_> {
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
