//! One connection. Sends several statements in one round trip, and prepares each once unless a pooler is used.

use std::future::poll_fn;
use std::pin::pin;

use futures_util::Stream;
use futures_util::future::join_all;
use tokio_postgres::{Client, RowStream, SimpleQueryMessage};

use super::address::PostgresSettings;
use super::values::{Bound, CachedSql, SqlCache};
use super::{connect, errors};
use crate::store::{Error, Query, QueryResult};

/// A connection to PostgreSQL with its prepared statements.
#[derive(Debug)]
pub(super) struct PostgresSession {
    client: Client,
    /// True behind a transaction pooler: there, every transaction may use another server connection, so that no
    /// statement is prepared.
    pooled: bool,
    statements: SqlCache,
}

impl PostgresSession {
    pub(super) async fn open(settings: &PostgresSettings) -> Result<Self, Error> {
        Ok(Self::new(connect::connect(settings, None).await?, settings))
    }

    pub(super) fn new(client: Client, settings: &PostgresSettings) -> Self {
        Self { client, pooled: settings.pooled, statements: SqlCache::default() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends `before`, the queries and `after` in this order and then waits for all responses. Returns the results of
    /// the queries, or the first error.
    pub(super) async fn execute(
        &self,
        before: Option<&str>,
        queries: &[Query],
        after: Option<&str>,
    ) -> Result<Vec<QueryResult>, Error> {
        let bound = queries.iter().map(|query| self.statements.bind(query)).collect();
        self.send(before, bound, after).await
    }

    /// Sends queries that only write as one statement, without their row counts.
    pub(super) async fn write(&self, queries: &[&Query], after: &str) -> Result<(), Error> {
        self.send(None, vec![self.statements.bind_together(queries)], Some(after)).await.map(|_| ())
    }

    async fn send(
        &self,
        before: Option<&str>,
        bound: Vec<Option<Bound<'_>>>,
        after: Option<&str>,
    ) -> Result<Vec<QueryResult>, Error> {
        let mut ready = Vec::with_capacity(bound.len());
        for bound in bound {
            let statement = match &bound {
                Some(bound) => self.prepare(bound).await?,
                None => None,
            };
            ready.push((bound, statement));
        }
        let begun = before.map(|text| self.client.batch_execute(text));
        let asked = ready.into_iter().map(|(bound, statement)| self.run(bound, statement));
        let ended = after.map(|text| self.client.batch_execute(text));
        // The first poll sends the statements in this order.
        let (begun, asked, ended) = tokio::join!(biased; maybe(begun), join_all(asked), maybe(ended));
        begun?;
        let answers = asked.into_iter().collect::<Result<Vec<_>, Error>>()?;
        ended?;
        Ok(answers)
    }

    /// Returns the prepared statement of the SQL; None behind a transaction pooler.
    async fn prepare(&self, bound: &Bound<'_>) -> Result<Option<tokio_postgres::Statement>, Error> {
        if self.pooled {
            return Ok(None);
        }
        let sql = &bound.sql;
        if let Some(known) = sql.prepared.get() {
            return Ok(Some(known.clone()));
        }
        let statement = self.client.prepare_typed(&sql.text, &bound.types()).await;
        let statement = statement.map_err(|error| errors::statement_error(&error))?;
        Ok(Some(sql.prepared.get_or_init(|| statement).clone()))
    }

    /// Returns the generic plan of a statement, which does not depend on the values. For tests.
    pub(super) async fn plan(&self, query: &Query) -> Result<String, Error> {
        let Some(bound) = self.statements.bind(query) else { return Ok(String::new()) };
        let kinds = bound.types();
        let kinds: Vec<&str> = kinds.iter().map(tokio_postgres::types::Type::name).collect();
        let (values, kinds) = (vec!["NULL"; kinds.len()].join(", "), kinds.join(", "));
        let text = &bound.sql.text;
        let text =
            format!("PREPARE kept ({kinds}) AS {text}; EXPLAIN EXECUTE kept ({values}); DEALLOCATE kept");
        let answer =
            self.client.simple_query(&text).await.map_err(|error| errors::statement_error(&error))?;
        let line = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get("QUERY PLAN").map(str::to_owned),
            _ => None,
        };
        Ok(answer.iter().filter_map(line).collect::<Vec<_>>().join("\n"))
    }

    async fn run(
        &self,
        bound: Option<Bound<'_>>,
        statement: Option<tokio_postgres::Statement>,
    ) -> Result<QueryResult, Error> {
        let Some(bound) = bound else { return Ok(QueryResult::default()) };
        let types = if statement.is_none() { bound.types() } else { Vec::new() };
        let Bound { sql, values } = bound;
        let stream = match &statement {
            Some(statement) => self.client.query_raw(statement, values).await,
            None => self.client.query_typed_raw(&sql.text, values.into_iter().zip(types)).await,
        };
        collect(stream.map_err(|error| errors::statement_error(&error))?, &sql).await
    }
}

async fn maybe(
    command: Option<impl Future<Output = Result<(), tokio_postgres::Error>>>,
) -> Result<(), Error> {
    match command {
        Some(command) => command.await.map_err(|error| errors::statement_error(&error)),
        None => Ok(()),
    }
}

async fn collect(stream: RowStream, sql: &CachedSql) -> Result<QueryResult, Error> {
    let mut stream = pin!(stream);
    let mut answer = QueryResult::default();
    while let Some(row) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        let row = row.map_err(|error| errors::statement_error(&error))?;
        answer.rows.push(sql.read(&row)?);
    }
    answer.touched = stream.rows_affected().unwrap_or(0);
    Ok(answer)
}
