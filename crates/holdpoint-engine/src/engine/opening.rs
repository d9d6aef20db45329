//! Opening an engine on one of its databases.

use std::sync::Arc;

use holdpoint_core::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::{Engine, Options, Shared};
use crate::bus::Bus;
use crate::committer::{Audience, Committer, Counters, MailOp, Troubles, Work};
use crate::error::Error;
use crate::feed::Feed;
use crate::measures::Measures;
use crate::peers::{Outbox, Peers};
use crate::registry::Registry;
use crate::run_cache::RunCache;
use crate::store::postgres::{self, Settings};
use crate::store::{self, Database, Location, Statement, sqlite, timers};

impl Engine {
    pub async fn open(options: Options) -> Result<Self, Error> {
        let Options { location, clock, nodes, troubles, alone, name, lease, retention, cascade_max } =
            options;
        let (cache, bus) = (Arc::new(RunCache::default()), Arc::new(Bus::default()));
        let counters = Arc::new(Counters::default());
        let measures = Arc::new(Measures::new(nodes.names()));
        let feed = Arc::new(Feed::default());
        let mut audience = Audience {
            measures: measures.clone(),
            feed: feed.clone(),
            cache: cache.clone(),
            bus: bus.clone(),
            counters: counters.clone(),
            outbox: None,
            callers: None,
        };
        let (stop, stopping) = watch::channel(false);
        let (db, committer) = match location {
            Location::Sqlite(path) => {
                audience.callers = Some(Handle::current());
                let writer = sqlite::Writer::open(&path, alone)?;
                let db = Database::Sqlite(sqlite::Readers::new(&path));
                let first = if alone { take_over(clock.now()) } else { Vec::new() };
                (db, Committer::on_thread(writer, audience, troubles, first).await?)
            }
            Location::Postgres(url) => {
                let settings = Arc::new(Settings::parse(&url)?);
                postgres::prepare(&settings).await?;
                let outbox = Arc::new(Outbox::default());
                audience.outbox = settings.notify.then(|| outbox.clone());
                let db = Database::Postgres(postgres::Readers::new(settings.clone(), counters.clone()));
                let committer = on_postgres(&settings, &audience, troubles);
                let peers = Peers { db: db.clone(), settings, bus: bus.clone(), outbox };
                tokio::spawn(peers.run(stopping));
                (db, committer)
            }
        };
        let (registry, lease_ms, retention_ms) = (Registry::default(), millis(lease), millis(retention));
        let shared = Shared {
            name,
            db,
            committer,
            cache,
            bus,
            clock,
            nodes,
            registry,
            sequences: Arc::default(),
            logs: Arc::default(),
            counters,
            measures,
            feed,
            lease_ms,
            retention_ms,
            cascade_max,
            stop,
        };
        Ok(Self(Arc::new(shared), None))
    }

    /// Whether the store answers.
    pub async fn ping(&self) -> Result<(), Error> {
        if !self.is_alive() {
            return Err(store::Error::Closed.into());
        }
        self.key_count().await.map(|_| ())
    }
}

/// Nobody else can have this file open, so whoever held claims and timers in it is gone.
fn take_over(now: Timestamp) -> Vec<Work> {
    let release = Statement::new(timers::RELEASE_ALL, Vec::new());
    vec![Work::Mail(MailOp::ReclaimAll { now }), Work::Plain(vec![release])]
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
