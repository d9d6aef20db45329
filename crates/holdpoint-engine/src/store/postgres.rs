//! The PostgreSQL driver: the connections that write, a few that read, and the migrations.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{Error, LockScope, Param, Query, QueryResult, Row, Tx, migrations};
use crate::committer::Counters;

pub(crate) mod address;
pub(crate) mod connect;
mod errors;
mod notifications;
mod session;
mod sets;
mod tls;
mod values;

pub(crate) use address::PostgresSettings;
pub(crate) use notifications::NotificationChannel;
use session::PostgresSession;

/// The time to wait for a response beyond the statement timeout of the server.
const RESPONSE_GRACE: Duration = Duration::from_secs(5);
/// Waits in milliseconds between tries of a read whose connection was lost.
const READ_WAITS: [u64; 3] = [50, 250, 700];
/// The advisory lock that keeps two processes from migrating at the same time. An arbitrary number.
const MIGRATION_LOCK: i64 = 0x_686f_6c64_706f_696e;

/// Begins a migration without the timeouts of the address: a migration may take long, and a process that waits for
/// another one to migrate blocks no other session.
const BEGIN_MIGRATION: &str = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";
/// Sets a timeout for the locks of the migration itself: other sessions queue behind such a wait.
const LIMIT_LOCK_WAITS: &str = "SET LOCAL lock_timeout = '15s'";
/// Selects whether the user may create tables. Checked only if tables are missing: an operator may create them for a
/// user without that right.
const MAY_CREATE: &str = "SELECT has_schema_privilege(current_schema(), 'CREATE') AS found";

/// Checks the server and migrates its tables to this version.
pub(crate) async fn prepare(settings: &PostgresSettings) -> Result<(), Error> {
    let client = connect::connect(settings, None).await?;
    connect::check(&client, settings).await?;
    let session = PostgresSession::new(client, settings);
    let found = version(&session).await?;
    if found == migrations::known() {
        return Ok(());
    }
    if found < migrations::known() && number(&session, MAY_CREATE).await? == 0 {
        return Err(errors::needs_change(settings, errors::NO_TABLES));
    }
    session.execute(Some(BEGIN_MIGRATION), &[], None).await?;
    let lock = Query::one("SELECT 1 FROM pg_advisory_xact_lock($1)", vec![Param::from(MIGRATION_LOCK)]);
    session.execute(None, &[lock], None).await?;
    session.execute(Some(LIMIT_LOCK_WAITS), &[], None).await?;
    // Executed before any lookup: a session uses its cached table definitions from before the wait until a
    // statement takes an ordinary lock.
    session.execute(Some(migrations::CREATE_VERSIONS), &[], None).await?;
    let (found, known) = (version(&session).await?, migrations::known());
    if found > known {
        return Err(Error::NewerSchema { place: settings.place(), found, known });
    }
    for (version, text) in migrations::missing(found)? {
        session.execute(Some(&migrations::for_postgres(text)), &[], None).await?;
        session
            .execute(None, &[Query::one(migrations::RECORD_VERSION, vec![Param::from(version)])], None)
            .await?;
    }
    session.execute(Some("COMMIT"), &[], None).await?;
    Ok(())
}

/// Returns the column `found` of a statement. For a read before [`prepare`] that changes no data. Returns None if
/// `has_table` finds no table, or if the statement fails; the caller reads again later.
pub(crate) async fn peek(
    settings: &PostgresSettings,
    has_table: &'static str,
    sql: &'static str,
) -> Result<Option<String>, Error> {
    let session = PostgresSession::open(settings).await?;
    if number(&session, has_table).await.unwrap_or_default() == 0 {
        return Ok(None);
    }
    let found = session.execute(None, &[Query::one(sql, Vec::new())], None).await;
    let row = found.into_iter().flatten().flat_map(|answer| answer.rows).next();
    Ok(row.and_then(|row| row.text("found").map(str::to_owned).ok()))
}

async fn version(session: &PostgresSession) -> Result<i64, Error> {
    match number(session, "SELECT to_regclass('schema_versions') IS NOT NULL AS found").await? {
        0 => Ok(0),
        _ => number(session, migrations::CURRENT_VERSION).await,
    }
}

/// Returns the column `found` of a statement without values as a number; 0 for no row and for `false`.
async fn number(session: &PostgresSession, sql: &'static str) -> Result<i64, Error> {
    let answers = session.execute(None, &[Query::one(sql, Vec::new())], None).await?;
    let row = answers.into_iter().flat_map(|answer| answer.rows).next();
    row.map_or(Ok(0), |row| row.int("found"))
}

/// A connection of the committer. If it is lost, the next transaction opens a new one.
#[derive(Debug)]
pub(crate) struct Writer {
    settings: Arc<PostgresSettings>,
    counters: Arc<Counters>,
    session: std::sync::Mutex<Option<Arc<PostgresSession>>>,
    begin: String,
}

impl Writer {
    pub(crate) fn new(settings: Arc<PostgresSettings>, counters: Arc<Counters>) -> Self {
        let begin = if settings.pooled {
            format!("BEGIN; {}", connect::local_session(&settings))
        } else {
            "BEGIN".to_owned()
        };
        Self { settings, counters, session: std::sync::Mutex::default(), begin }
    }

    fn current(&self) -> Option<Arc<PostgresSession>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().filter(|session| !session.is_closed()).cloned()
    }

    fn keep(&self, session: Option<Arc<PostgresSession>>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// Waits for a response with a timeout, counts the round trip, and drops the connection if it was lost.
    async fn round_trip<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.counters.round_trips.fetch_add(1, Ordering::Relaxed);
        let answered = in_time(&self.settings, request).await;
        if let Err(Error::Unavailable(_)) = &answered {
            self.keep(None);
        }
        answered
    }

    fn lost() -> Error {
        Error::Unavailable("the connection to PostgreSQL was lost".to_owned())
    }
}

impl Tx for Writer {
    const LOCK_SCOPE: LockScope = LockScope::Rows;

    async fn begin(&self, first: &[Query]) -> Result<Vec<QueryResult>, Error> {
        let session = match self.current() {
            Some(session) => session,
            None => {
                let session = Arc::new(PostgresSession::open(&self.settings).await?);
                self.keep(Some(session.clone()));
                session
            }
        };
        self.round_trip(session.execute(Some(&self.begin), first, None)).await
    }

    async fn all(&self, queries: &[Query]) -> Result<Vec<QueryResult>, Error> {
        let session = self.current().ok_or_else(Self::lost)?;
        self.round_trip(session.execute(None, queries, None)).await
    }

    /// Commits. If the connection is lost before the response, the outcome is unknown.
    async fn commit(&self, last: &[Query]) -> Result<(), Error> {
        let session = self.current().ok_or_else(Self::lost)?;
        let last: Vec<&Query> = last.iter().collect();
        match self.round_trip(session.write(&last, "COMMIT")).await {
            Err(Error::Unavailable(why)) => Err(Error::Unknown(why)),
            other => other,
        }
    }

    async fn rollback(&self) {
        if let Some(session) = self.current()
            && self.round_trip(session.execute(Some("ROLLBACK"), &[], None)).await.is_err()
        {
            self.keep(None);
        }
    }
}

/// The connections that read.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    settings: Arc<PostgresSettings>,
    counters: Arc<Counters>,
    idle: Arc<std::sync::Mutex<Vec<PostgresSession>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(settings: Arc<PostgresSettings>, counters: Arc<Counters>) -> Self {
        // The other connections are those of the writers and the one for notifications.
        let most = settings.connections.saturating_sub(settings.committers + 1).max(1);
        Self { settings, counters, idle: Arc::default(), permits: Arc::new(Semaphore::new(most)) }
    }

    pub(crate) async fn query(&self, query: Query) -> Result<Vec<Row>, Error> {
        let _permit = self.permits.acquire().await.map_err(|_| Error::Closed)?;
        let mut waits = READ_WAITS.iter();
        loop {
            match (self.try_query(&query).await, waits.next()) {
                (Err(Error::Unavailable(_)), Some(wait)) => {
                    tokio::time::sleep(Duration::from_millis(*wait)).await;
                }
                (answered, _) => return answered,
            }
        }
    }

    async fn try_query(&self, query: &Query) -> Result<Vec<Row>, Error> {
        let session = match self.take() {
            Some(session) => session,
            None => PostgresSession::open(&self.settings).await?,
        };
        self.counters.round_trips.fetch_add(1, Ordering::Relaxed);
        let answers =
            in_time(&self.settings, session.execute(None, std::slice::from_ref(query), None)).await?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        let rows: Vec<Row> = answers.into_iter().flat_map(|answer| answer.rows).collect();
        self.counters.rows_read.fetch_add(rows.len() as u64, Ordering::Relaxed);
        Ok(rows)
    }

    /// Returns the query plan of a statement, for tests.
    pub(crate) async fn plan(&self, query: Query) -> Result<String, Error> {
        PostgresSession::open(&self.settings).await?.plan(&query).await
    }

    fn take(&self) -> Option<PostgresSession> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| !session.is_closed());
        idle.pop()
    }
}

/// Treats a server that does not respond in time as unavailable.
async fn in_time<T>(
    settings: &PostgresSettings,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(settings.statement_timeout + RESPONSE_GRACE, request).await {
        Ok(answered) => answered,
        Err(_) => Err(Error::Unavailable("PostgreSQL does not respond".to_owned())),
    }
}
