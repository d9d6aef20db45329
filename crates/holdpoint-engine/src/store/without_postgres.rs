//! Takes the place of the PostgreSQL driver in a build without the feature `postgres`. An engine on PostgreSQL cannot be
//! opened, so that no other function is called.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::statement::{LockScope, Query, QueryResult, Tx};
use super::{Error, Row};
use crate::committer::Counters;

/// The settings of a connection. They never exist: `parse` always fails.
#[derive(Debug)]
pub(crate) struct PostgresSettings {
    pub(crate) committers: usize,
    pub(crate) notify: bool,
    none: Infallible,
}

impl PostgresSettings {
    pub(crate) fn parse(_url: &str) -> Result<Self, Error> {
        let message =
            "this program was built without PostgreSQL; enable the feature postgres of holdpoint-engine";
        Err(Error::Failed(message.to_owned()))
    }
}

pub(crate) async fn prepare(settings: &PostgresSettings) -> Result<(), Error> {
    match settings.none {}
}

pub(crate) async fn peek(
    settings: &PostgresSettings,
    _has_table: &'static str,
    _sql: &'static str,
) -> Result<Option<String>, Error> {
    match settings.none {}
}

#[derive(Debug)]
pub(crate) struct Writer(Arc<PostgresSettings>);

impl Writer {
    pub(crate) fn new(settings: Arc<PostgresSettings>, _counters: Arc<Counters>) -> Self {
        Self(settings)
    }
}

impl Tx for Writer {
    const LOCK_SCOPE: LockScope = LockScope::Rows;

    async fn begin(&self, _first: &[Query]) -> Result<Vec<QueryResult>, Error> {
        match self.0.none {}
    }

    async fn all(&self, _queries: &[Query]) -> Result<Vec<QueryResult>, Error> {
        match self.0.none {}
    }

    async fn commit(&self, _last: &[Query]) -> Result<(), Error> {
        match self.0.none {}
    }

    async fn rollback(&self) {
        match self.0.none {}
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Readers(Arc<PostgresSettings>);

impl Readers {
    pub(crate) fn new(settings: Arc<PostgresSettings>, _counters: Arc<Counters>) -> Self {
        Self(settings)
    }

    pub(crate) async fn query(&self, _query: Query) -> Result<Vec<Row>, Error> {
        match self.0.none {}
    }

    pub(crate) async fn plan(&self, _query: Query) -> Result<String, Error> {
        match self.0.none {}
    }
}

#[derive(Debug)]
pub(crate) struct NotificationChannel(Infallible);

impl NotificationChannel {
    pub(crate) async fn open(settings: &PostgresSettings) -> Result<(Self, mpsc::Receiver<String>), Error> {
        match settings.none {}
    }

    pub(crate) async fn send(&self, _text: &str) -> Result<(), Error> {
        match self.0 {}
    }
}
