//! The PostgreSQL driver: connections that write, a few that read, and the migrations. Knows statements, not what
//! they mean.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{Answer, Error, Param, Query, Row, Tx, migrations};
use crate::committer::Counters;

pub(crate) mod address;
pub(crate) mod connect;
mod ear;
mod session;
mod sets;
mod tls;
mod trouble;
mod values;

pub(crate) use address::Settings;
pub(crate) use ear::Ear;
use session::Session;

/// How long we wait for an answer beyond the time the server gives a statement.
const PATIENCE: Duration = Duration::from_secs(5);
/// Waits between the tries of a read whose connection was lost.
const READ_WAITS: [u64; 3] = [50, 250, 700];
/// Any number, as long as all nodes take the same: it keeps them from migrating at the same time.
const MIGRATION_LOCK: i64 = 0x_686f_6c64_706f_696e;

/// The limits of the address are for answering callers. A migration takes as long as it takes, and whoever waits for
/// the one who migrates holds up nobody.
const BEGIN_MIGRATION: &str = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";
/// From here on waiting for a lock does hold up others, who wait behind us.
const OUR_TURN: &str = "SET LOCAL lock_timeout = '15s'";
/// Asked only where tables are missing: whoever made them before us may have made them for a user that may not.
const MAY_CREATE: &str = "SELECT has_schema_privilege(current_schema(), 'CREATE')";

/// Looks the server over and brings its tables to this version.
pub(crate) async fn prepare(settings: &Settings) -> Result<(), Error> {
    let client = connect::connect(settings, None).await?;
    connect::check(&client, settings).await?;
    let session = Session::new(client, settings);
    let found = version(&session).await?;
    if found == migrations::known() {
        return Ok(());
    }
    if found < migrations::known() && number(&session, MAY_CREATE).await? == 0 {
        return Err(trouble::needs_change(settings, trouble::NO_TABLES));
    }
    session.ask(Some(BEGIN_MIGRATION), &[], None).await?;
    let lock = Query::one("SELECT 1 FROM pg_advisory_xact_lock($1)", vec![Param::from(MIGRATION_LOCK)]);
    session.ask(None, &[lock], None).await?;
    session.ask(Some(OUR_TURN), &[], None).await?;
    // Before anything is looked up: a server process believes what it knew about tables before it waited, until a
    // statement takes a lock of the ordinary kind.
    session.ask(Some(migrations::CREATE_VERSIONS), &[], None).await?;
    let (found, known) = (version(&session).await?, migrations::known());
    if found > known {
        return Err(Error::NewerSchema { place: settings.place(), found, known });
    }
    for (version, text) in migrations::missing(found)? {
        session.ask(Some(&migrations::for_postgres(text)), &[], None).await?;
        session
            .ask(None, &[Query::one(migrations::RECORD_VERSION, vec![Param::from(version)])], None)
            .await?;
    }
    session.ask(Some("COMMIT"), &[], None).await?;
    Ok(())
}

/// Returns the text that a statement finds, without changing anything: for a look before [`prepare`]. None if the
/// table that `has_table` looks for does not exist, or if the statement fails; the caller looks again later.
pub(crate) async fn peek(
    settings: &Settings,
    has_table: &'static str,
    sql: &'static str,
) -> Result<Option<String>, Error> {
    let session = Session::open(settings).await?;
    if number(&session, has_table).await.unwrap_or_default() == 0 {
        return Ok(None);
    }
    let found = session.ask(None, &[Query::one(sql, Vec::new())], None).await;
    let row = found.into_iter().flatten().flat_map(|answer| answer.rows).next();
    Ok(row.and_then(|row| row.text(0).map(str::to_owned).ok()))
}

async fn version(session: &Session) -> Result<i64, Error> {
    match number(session, "SELECT to_regclass('schema_versions') IS NOT NULL").await? {
        0 => Ok(0),
        _ => number(session, migrations::CURRENT_VERSION).await,
    }
}

/// The number that a statement without values returns; 0 for no row, and for what is not true.
async fn number(session: &Session, sql: &'static str) -> Result<i64, Error> {
    let answers = session.ask(None, &[Query::one(sql, Vec::new())], None).await?;
    let row = answers.into_iter().flat_map(|answer| answer.rows).next();
    row.map_or(Ok(0), |row| row.int(0))
}

/// A connection of the committer's. Broken, it is made anew by the next transaction.
#[derive(Debug)]
pub(crate) struct Writer {
    settings: Arc<Settings>,
    counters: Arc<Counters>,
    session: std::sync::Mutex<Option<Arc<Session>>>,
    begin: String,
}

impl Writer {
    pub(crate) fn new(settings: Arc<Settings>, counters: Arc<Counters>) -> Self {
        let begin = if settings.pooled {
            format!("BEGIN; {}", connect::local_session(&settings))
        } else {
            "BEGIN".to_owned()
        };
        Self { settings, counters, session: std::sync::Mutex::default(), begin }
    }

    fn current(&self) -> Option<Arc<Session>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().filter(|session| !session.is_closed()).cloned()
    }

    fn keep(&self, session: Option<Arc<Session>>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// Counts a question, limits its time, and lets go of a connection that broke over it.
    async fn answered<T>(&self, asking: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.counters.round_trips.fetch_add(1, Ordering::Relaxed);
        let answered = in_time(&self.settings, asking).await;
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
    const MAY_GROW: bool = false;

    async fn begin(&self, first: &[Query]) -> Result<Vec<Answer>, Error> {
        let session = match self.current() {
            Some(session) => session,
            None => {
                let session = Arc::new(Session::open(&self.settings).await?);
                self.keep(Some(session.clone()));
                session
            }
        };
        self.answered(session.ask(Some(&self.begin), first, None)).await
    }

    async fn all(&self, queries: &[Query]) -> Result<Vec<Answer>, Error> {
        let session = self.current().ok_or_else(Self::lost)?;
        self.answered(session.ask(None, queries, None)).await
    }

    /// Once this is on its way nobody knows what became of it, unless the server says so.
    async fn commit(&self, last: &[Query]) -> Result<(), Error> {
        let session = self.current().ok_or_else(Self::lost)?;
        let last: Vec<&Query> = last.iter().collect();
        match self.answered(session.write(&last, "COMMIT")).await {
            Err(Error::Unavailable(why)) => Err(Error::Unknown(why)),
            other => other,
        }
    }

    async fn rollback(&self) {
        if let Some(session) = self.current()
            && self.answered(session.ask(Some("ROLLBACK"), &[], None)).await.is_err()
        {
            self.keep(None);
        }
    }
}

/// Connections for reading.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    settings: Arc<Settings>,
    counters: Arc<Counters>,
    idle: Arc<std::sync::Mutex<Vec<Session>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(settings: Arc<Settings>, counters: Arc<Counters>) -> Self {
        // The committers have theirs, and one listens.
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
            None => Session::open(&self.settings).await?,
        };
        self.counters.round_trips.fetch_add(1, Ordering::Relaxed);
        let answers = in_time(&self.settings, session.ask(None, std::slice::from_ref(query), None)).await?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        Ok(answers.into_iter().flat_map(|answer| answer.rows).collect())
    }

    /// How a statement is gone about. For tests.
    pub(crate) async fn plan(&self, query: Query) -> Result<String, Error> {
        Session::open(&self.settings).await?.plan(&query).await
    }

    fn take(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| !session.is_closed());
        idle.pop()
    }
}

/// A server that does not answer at all is as good as gone.
async fn in_time<T>(settings: &Settings, asking: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(settings.statement_timeout + PATIENCE, asking).await {
        Ok(answered) => answered,
        Err(_) => Err(Error::Unavailable("PostgreSQL does not answer".to_owned())),
    }
}
