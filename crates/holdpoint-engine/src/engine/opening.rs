//! Opening an engine on one of its databases.

use std::sync::{Arc, Mutex};

use holdpoint_core::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::sealing::{SealSource, Settled};
use super::{Engine, Options, Shared};
use crate::agent::Agents;
use crate::committer::{Audience, Committer, MailOp, Troubles, Work};
use crate::error::Error;
use crate::location::Location;
use crate::measures::Measures;
use crate::nodes::NodeTypes;
use crate::outgoing::{Outgoing, Policy};
use crate::peers::Peers;
use crate::providers::Providers;
use crate::registry::Registry;
use crate::seal::Seal;
use crate::store::postgres::{self, Settings};
use crate::store::{self, Database, Statement};
use crate::store::{arrivals, awaited, deliveries, handles, params, seal, sqlite, timers};
use crate::webhooks::Hooks;

impl Engine {
    pub async fn open(options: Options) -> Result<Self, Error> {
        let Options {
            location,
            clock,
            nodes,
            answerer,
            troubles,
            alone,
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
            agents,
            providers,
        } = options;
        let calls = webhook_outgoing.or(outgoing).unwrap_or_else(|| Outgoing::new(Policy::default()));
        let hooks = Arc::new(Hooks::new(webhooks, calls));
        let seal = SealSource::choose(seal, &location).await?;
        let audience = audience(hooks, &nodes);
        let (stop, stopping) = watch::channel(false);
        let ground = Ground { location, alone, troubles, now: clock.now(), seal: seal.as_ref() };
        let (db, committer, settled) = ground.open(audience.clone(), stopping).await?;
        let shared = Shared {
            name,
            db,
            committer,
            cache: audience.cache,
            bus: audience.bus,
            hands: Arc::default(),
            clock,
            nodes,
            answerer,
            registry: Registry::default(),
            seal: settled.as_ref().map(|settled| Seal::new(&settled.key)),
            sequences: Arc::default(),
            logs: Arc::default(),
            counters: audience.counters,
            measures: audience.measures,
            feed: audience.feed,
            hooks: audience.hooks,
            agents: Agents::new(agents),
            providers: Providers::new(providers)?,
            lease_ms: millis(lease),
            backstop,
            retention_ms: millis(retention),
            events_kept_ms: millis(events_kept),
            events_kept_max,
            rooms: Mutex::default(),
            cascade_max,
            quotas,
            admissions: super::quotas::Admissions::default(),
            stop,
        };
        Self(Arc::new(shared)).sealed_with(settled.as_ref()).await
    }

    /// Whether the store answers.
    pub async fn ping(&self) -> Result<(), Error> {
        if !self.is_alive() {
            return Err(store::Error::Closed.into());
        }
        self.key_count().await.map(|_| ())
    }
}

/// The parts that hear of commits, before the database is known.
fn audience(hooks: Arc<Hooks>, nodes: &NodeTypes) -> Audience {
    Audience {
        measures: Arc::new(Measures::new(nodes.names())),
        feed: Arc::default(),
        hooks,
        cache: Arc::default(),
        bus: Arc::default(),
        counters: Arc::default(),
        outbox: None,
        callers: None,
    }
}

/// What the store is opened on.
struct Ground<'s> {
    location: Location,
    alone: bool,
    troubles: Troubles,
    now: Timestamp,
    seal: Option<&'s SealSource>,
}

impl Ground<'_> {
    async fn open(
        self,
        mut audience: Audience,
        stopping: watch::Receiver<bool>,
    ) -> Result<(Database, Committer, Option<Settled>), Error> {
        match self.location {
            Location::Sqlite(path) => {
                audience.callers = Some(Handle::current());
                let writer = sqlite::Writer::open(&path, self.alone)?;
                let db = Database::Sqlite(sqlite::Readers::new(&path));
                let settled = settle(self.seal, &db).await?;
                let mut first = if self.alone { take_over(self.now) } else { Vec::new() };
                let name = settled.as_ref().map(|settled| settled.key.name());
                first.extend(name.map(|name| Work::Plain(vec![seal::remember(&name)])));
                Ok((db, Committer::on_thread(writer, audience, self.troubles, first).await?, settled))
            }
            Location::Postgres(url) => {
                let settings = Arc::new(Settings::parse(&url)?);
                postgres::prepare(&settings).await?;
                audience.outbox = settings.notify.then(|| audience.bus.outbox.clone());
                let db =
                    Database::Postgres(postgres::Readers::new(settings.clone(), audience.counters.clone()));
                let settled = settle(self.seal, &db).await?;
                let committer = on_postgres(&settings, &audience, self.troubles);
                let peers = Peers {
                    db: db.clone(),
                    settings,
                    bus: audience.bus.clone(),
                    hooks: audience.hooks.clone(),
                };
                tokio::spawn(peers.run(stopping));
                Ok((db, committer, settled))
            }
        }
    }
}

async fn settle(seal: Option<&SealSource>, db: &Database) -> Result<Option<Settled>, Error> {
    match seal {
        Some(seal) => Ok(Some(seal.settle(db).await?)),
        None => Ok(None),
    }
}

/// Nobody else can have this file open, so whoever held claims and timers in it is gone.
fn take_over(now: Timestamp) -> Vec<Work> {
    let release = [timers::RELEASE_ALL, awaited::LOOK_NOW, arrivals::LOOK_NOW, handles::RELEASE_ALL];
    let release = release.map(|sql| Statement::new(sql, Vec::new()));
    let take_back = Statement::new(deliveries::TAKE_BACK, params![i64::MAX]);
    vec![
        Work::Mail(MailOp::ReclaimAll { now }),
        Work::Plain(release.into_iter().chain([take_back]).collect()),
    ]
}

fn on_postgres(settings: &Arc<Settings>, audience: &Audience, troubles: Troubles) -> Committer {
    // Faults are counted commit by commit, which only one can do.
    let count = if troubles.fault.is_some() { 1 } else { settings.committers };
    let writer = || postgres::Writer::new(settings.clone(), audience.counters.clone());
    Committer::on_tasks((0..count).map(|_| writer()).collect(), audience, troubles)
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
