//! Opens an engine on SQLite or PostgreSQL.

use std::sync::{Arc, Mutex};

use holdpoint_core::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::sealing::{ResolvedSealKey, SealSource};
use super::{Engine, EngineState, Options};
use crate::committer::{CommitObservers, Committer, CommitterOptions, MailboxOp, Work};
use crate::error::Error;
use crate::location::Location;
use crate::metrics::EngineMetrics;
use crate::nodes::NodeTypes;
use crate::outgoing::{Outgoing, OutgoingPolicy};
use crate::peers::Peers;
use crate::seal::Seal;
use crate::store::postgres::{self, PostgresSettings};
use crate::store::sqlite::FileAccess;
use crate::store::{self, Database, Statement};
use crate::store::{arrivals, awaited, deliveries, handles, params, seal, sqlite, timers};
use crate::webhooks::WebhookHub;
use crate::workflow_registry::WorkflowRegistry;

impl Engine {
    /// Opens an engine: with a path of an SQLite file, a [`Location`], or [`Options`]. Creates or migrates the database
    /// if necessary. Starts a worker in the background, unless the options say [`Options::manual_worker`]. Call
    /// [`Engine::close`] at the end: dropping the engine does not stop its worker.
    pub async fn open(options: impl Into<Options>) -> Result<Self, Error> {
        let options = options.into();
        let starts_worker = options.starts_worker;
        let engine = Self::open_without_worker(options).await?;
        engine.complete_earlier_interrupts().await?;
        if starts_worker {
            let worker = tokio::spawn(engine.worker().run(engine.0.closing.subscribe()));
            *engine.0.background.lock().await = Some(worker);
        }
        Ok(engine)
    }

    async fn open_without_worker(options: Options) -> Result<Self, Error> {
        let Options {
            location,
            invalid_location,
            clock,
            nodes,
            answerer,
            committer_options,
            exclusive,
            name,
            lease,
            backstop,
            retention,
            events_kept,
            events_kept_max,
            cascade_max,
            quotas,
            seal,
            outgoing,
            webhook_outgoing,
            webhooks,
            extensions,
            starts_worker: _,
        } = options;
        if let Some(why) = invalid_location {
            return Err(store::Error::Failed(format!("the address of the database is invalid: {why}")).into());
        }
        let outgoing = outgoing.unwrap_or_else(|| Outgoing::new(OutgoingPolicy::default()));
        let hooks = Arc::new(WebhookHub::new(webhooks, webhook_outgoing.unwrap_or_else(|| outgoing.clone())));
        let seal = SealSource::choose(seal, &location).await?;
        let observers = new_observers(hooks, &nodes);
        let (stop, stopping) = watch::channel(false);
        let config =
            StoreConfig { location, exclusive, committer_options, now: clock.now(), seal: seal.as_ref() };
        let (db, committer, seal_key) = config.open(observers.clone(), stopping).await?;
        let shared = EngineState {
            name,
            db,
            committer,
            cache: observers.cache,
            bus: observers.bus,
            local_handoff: Arc::default(),
            clock,
            nodes,
            answerer,
            registry: WorkflowRegistry::default(),
            seal: seal_key.as_ref().map(|seal_key| Seal::new(&seal_key.key)),
            sequences: Arc::default(),
            logs: Arc::default(),
            counters: observers.counters,
            measures: observers.measures,
            feed: observers.feed,
            hooks: observers.hooks,
            outgoing,
            extensions,
            lease_ms: millis(lease),
            backstop,
            retention_ms: millis(retention),
            events_kept_ms: millis(events_kept),
            events_kept_max,
            kept_event_room: Mutex::default(),
            cascade_max,
            quotas,
            admissions: super::quotas::Admissions::default(),
            stop,
            background: tokio::sync::Mutex::default(),
            closing: watch::Sender::new(false),
        };
        Self(Arc::new(shared)).verify_seal_key(seal_key.as_ref()).await
    }

    /// Checks that the committer is alive and that the store responds.
    pub async fn ping(&self) -> Result<(), Error> {
        if !self.is_alive() {
            return Err(store::Error::Closed.into());
        }
        self.keys().count().await.map(|_| ())
    }
}

/// Returns the components that are notified of commits. `StoreConfig::open` sets `outbox` and `callers`.
fn new_observers(hooks: Arc<WebhookHub>, nodes: &NodeTypes) -> CommitObservers {
    CommitObservers {
        measures: Arc::new(EngineMetrics::new(nodes.names())),
        feed: Arc::default(),
        hooks,
        cache: Arc::default(),
        bus: Arc::default(),
        counters: Arc::default(),
        outbox: None,
        callers: None,
    }
}

/// The parameters of the store.
struct StoreConfig<'s> {
    location: Location,
    exclusive: bool,
    committer_options: CommitterOptions,
    now: Timestamp,
    seal: Option<&'s SealSource>,
}

impl StoreConfig<'_> {
    async fn open(
        self,
        mut observers: CommitObservers,
        stopping: watch::Receiver<bool>,
    ) -> Result<(Database, Committer, Option<ResolvedSealKey>), Error> {
        match self.location {
            Location::Sqlite(path) => {
                observers.callers = Some(Handle::current());
                let access = if self.exclusive { FileAccess::Exclusive } else { FileAccess::Shared };
                let writer = sqlite::Writer::open(&path, access)?;
                let db = Database::Sqlite(sqlite::Readers::new(&path, observers.counters.clone()));
                let seal_key = resolve_seal_key(self.seal, &db).await?;
                let mut first = if self.exclusive { take_over(self.now) } else { Vec::new() };
                let name = seal_key.as_ref().map(|seal_key| seal_key.key.name());
                first.extend(name.map(|name| Work::Plain(vec![seal::remember(&name)])));
                Ok((
                    db,
                    Committer::on_thread(writer, observers, self.committer_options, first).await?,
                    seal_key,
                ))
            }
            Location::Postgres(url) => {
                let settings = Arc::new(PostgresSettings::parse(&url)?);
                postgres::prepare(&settings).await?;
                observers.outbox = settings.notify.then(|| observers.bus.outbox.clone());
                let db =
                    Database::Postgres(postgres::Readers::new(settings.clone(), observers.counters.clone()));
                let seal_key = resolve_seal_key(self.seal, &db).await?;
                let committer = on_postgres(&settings, &observers, self.committer_options);
                let peers = Peers {
                    db: db.clone(),
                    settings,
                    bus: observers.bus.clone(),
                    hooks: observers.hooks.clone(),
                };
                tokio::spawn(peers.run(stopping));
                Ok((db, committer, seal_key))
            }
        }
    }
}

async fn resolve_seal_key(
    seal: Option<&SealSource>,
    db: &Database,
) -> Result<Option<ResolvedSealKey>, Error> {
    match seal {
        Some(seal) => Ok(Some(seal.resolve(db).await?)),
        None => Ok(None),
    }
}

/// Returns the work that releases all claims. No other process uses the file, so that their holders have ended.
fn take_over(now: Timestamp) -> Vec<Work> {
    let release = [timers::RELEASE_ALL, awaited::SCHEDULE_NOW, arrivals::SCHEDULE_NOW, handles::RELEASE_ALL];
    let release = release.map(|sql| Statement::new(sql, Vec::new()));
    let take_back = Statement::new(deliveries::TAKE_BACK, params![i64::MAX]);
    vec![
        Work::Mail(MailboxOp::ReclaimAll { now }),
        Work::Plain(release.into_iter().chain([take_back]).collect()),
    ]
}

fn on_postgres(
    settings: &Arc<PostgresSettings>,
    observers: &CommitObservers,
    committer_options: CommitterOptions,
) -> Committer {
    // Faults are counted per commit, which needs a single committer.
    let count = if committer_options.fault.is_some() { 1 } else { settings.committers };
    let writer = || postgres::Writer::new(settings.clone(), observers.counters.clone());
    Committer::on_tasks((0..count).map(|_| writer()).collect(), observers, committer_options)
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
