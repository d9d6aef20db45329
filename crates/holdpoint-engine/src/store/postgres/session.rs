//! One connection: sends several statements in one go, prepared once where the way to the server allows it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::Stream;
use futures_util::future::join_all;
use tokio_postgres::{Client, RowStream, SimpleQueryMessage};

use super::address::Settings;
use super::values::{Bound, read};
use super::{connect, trouble};
use crate::store::{Answer, Error, Query};

#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    /// Nothing where statements cannot be kept: behind a proxy every transaction may meet another server process.
    prepared: Option<Mutex<HashMap<Arc<str>, tokio_postgres::Statement>>>,
    texts: super::values::Texts,
}

impl Session {
    pub(super) async fn open(settings: &Settings) -> Result<Self, Error> {
        Ok(Self::new(connect::connect(settings, None).await?, settings))
    }

    pub(super) fn new(client: Client, settings: &Settings) -> Self {
        let prepared = (!settings.pooled).then(Mutex::default);
        Self { client, prepared, texts: super::values::Texts::default() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends `before`, the queries and `after` in this order and then waits for all answers. Those of the queries
    /// come back; the first thing that went wrong is what went wrong.
    pub(super) async fn ask(
        &self,
        before: Option<&str>,
        queries: &[Query],
        after: Option<&str>,
    ) -> Result<Vec<Answer>, Error> {
        let bound = queries.iter().map(|query| self.texts.bind(query)).collect();
        self.send(before, bound, after).await
    }

    /// The same for queries that only write: they go as one statement, and what each of them touched is not told.
    pub(super) async fn write(&self, queries: &[&Query], after: &str) -> Result<(), Error> {
        self.send(None, vec![self.texts.bind_together(queries)], Some(after)).await.map(|_| ())
    }

    async fn send(
        &self,
        before: Option<&str>,
        bound: Vec<Option<Bound<'_>>>,
        after: Option<&str>,
    ) -> Result<Vec<Answer>, Error> {
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
        // Polled in this order the first time, and so sent in this order.
        let (begun, asked, ended) = tokio::join!(biased; maybe(begun), join_all(asked), maybe(ended));
        begun?;
        let answers = asked.into_iter().collect::<Result<Vec<_>, Error>>()?;
        ended?;
        Ok(answers)
    }

    /// The kept statement of a text; nothing where none are kept.
    async fn prepare(&self, bound: &Bound<'_>) -> Result<Option<tokio_postgres::Statement>, Error> {
        let Some(prepared) = &self.prepared else { return Ok(None) };
        let known = prepared.lock().unwrap_or_else(PoisonError::into_inner).get(&bound.text).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let statement = self.client.prepare_typed(&bound.text, &bound.types()).await;
        let statement = statement.map_err(|error| trouble::running(&error))?;
        let mut prepared = prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.insert(bound.text.clone(), statement.clone());
        Ok(Some(statement))
    }

    /// The plan that the server keeps for a statement, which is not the one that it makes for these values. For tests.
    pub(super) async fn plan(&self, query: &Query) -> Result<String, Error> {
        let Some(bound) = self.texts.bind(query) else { return Ok(String::new()) };
        let kinds = bound.types();
        let kinds: Vec<&str> = kinds.iter().map(tokio_postgres::types::Type::name).collect();
        let (values, kinds) = (vec!["NULL"; kinds.len()].join(", "), kinds.join(", "));
        let text = &bound.text;
        let text =
            format!("PREPARE kept ({kinds}) AS {text}; EXPLAIN EXECUTE kept ({values}); DEALLOCATE kept");
        let answer = self.client.simple_query(&text).await.map_err(|error| trouble::running(&error))?;
        let line = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        Ok(answer.iter().filter_map(line).collect::<Vec<_>>().join("\n"))
    }

    async fn run(
        &self,
        bound: Option<Bound<'_>>,
        statement: Option<tokio_postgres::Statement>,
    ) -> Result<Answer, Error> {
        let Some(bound) = bound else { return Ok(Answer::default()) };
        let types = if statement.is_none() { bound.types() } else { Vec::new() };
        let Bound { text, values } = bound;
        let stream = match &statement {
            Some(statement) => self.client.query_raw(statement, values).await,
            None => self.client.query_typed_raw(&text, values.into_iter().zip(types)).await,
        };
        collect(stream.map_err(|error| trouble::running(&error))?).await
    }
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
