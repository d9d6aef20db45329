//! Reading runs: folds that are remembered or loaded, and logs.

use std::sync::Arc;

use futures_util::future::try_join_all;
use holdpoint_core::{Event, Run, RunRef, TenantId};

use super::{Engine, PendingFilter};
use crate::asking::Sequence;
use crate::bus::Subscription;
use crate::error::Error;
use crate::store::events::{self, Recorded, Stored};
use crate::store::pending::{Pending, PendingCursor};
use crate::store::runs::{self, RunFilter, RunSummary};

/// A run as a read found it.
enum Found {
    Cached(Arc<Run>),
    Stored {
        log: Arc<Stored>,
        /// The commits that the cache had heard of before the log was read.
        commits: u64,
    },
}

impl Engine {
    /// The run as it was at the last commit that was acknowledged, or later. One of another tenant is not found.
    pub async fn run(&self, of: &RunRef) -> Result<Arc<Run>, Error> {
        self.run_since(of, 0).await
    }

    /// Returns runs in the order in which they are named, each as [`Engine::run`] does. All reads are asked for at once, so
    /// that they share queries.
    pub async fn run_each(&self, of: &[RunRef]) -> Result<Vec<Arc<Run>>, Error> {
        let found = try_join_all(of.iter().map(|of| self.find(of, 0))).await?;
        let mut runs = Vec::with_capacity(of.len());
        // One after another, so that a definition that several runs have is read once.
        for (of, found) in of.iter().zip(found) {
            runs.push(self.fold(of, found).await?);
        }
        Ok(runs)
    }

    /// The run as this node knows it; another may have carried it on. For those who find out when they use it.
    pub async fn known(&self, of: &RunRef) -> Result<Arc<Run>, Error> {
        match self.0.cache.get(of) {
            Some(run) => Ok(run),
            None => self.load(of).await,
        }
    }

    /// The run with at least `seq` events folded, for readers who have seen that many.
    pub async fn run_since(&self, of: &RunRef, seq: u64) -> Result<Arc<Run>, Error> {
        let found = self.find(of, seq).await?;
        self.fold(of, found).await
    }

    async fn find(&self, of: &RunRef, seq: u64) -> Result<Found, Error> {
        match self.0.cache.get(of) {
            Some(run) if run.seq >= seq && self.is_current(of, &run).await? => Ok(Found::Cached(run)),
            _ => self.read(of).await,
        }
    }

    /// How many events of a run are stored; nothing when there is no such run.
    pub(super) async fn sequence(&self, of: &RunRef) -> Result<Option<u64>, Error> {
        Ok(self.0.sequences.of(&self.0.db, of).await?.map(|Sequence(seq)| seq))
    }

    /// Whether a remembered run is still as it is stored. Alone we would know of any change; and an end is an end.
    async fn is_current(&self, of: &RunRef, run: &Run) -> Result<bool, Error> {
        if !self.is_shared() || run.finished() {
            return Ok(true);
        }
        Ok(self.sequence(of).await? == Some(run.seq))
    }

    /// The run as it is stored.
    pub(crate) async fn load(&self, of: &RunRef) -> Result<Arc<Run>, Error> {
        let found = self.read(of).await?;
        self.fold(of, found).await
    }

    async fn read(&self, of: &RunRef) -> Result<Found, Error> {
        let commits = self.0.cache.commits(of);
        let log = self.0.logs.of(&self.0.db, of).await?.ok_or(Error::NotFound("run"))?;
        Ok(Found::Stored { log, commits })
    }

    async fn fold(&self, of: &RunRef, found: Found) -> Result<Arc<Run>, Error> {
        let (stored, commits) = match found {
            Found::Cached(run) => return Ok(run),
            Found::Stored { log, commits } => (log, commits),
        };
        let (log, size) = stored.read()?;
        let Some(Event::RunStarted(started)) = log.first().map(|first| &first.event) else {
            return Err(Error::NotFound("run"));
        };
        let workflow = self.workflow_revision(&of.tenant, &started.workflow, started.revision).await?;
        let run = Run::replay(of.run.clone(), workflow, log.iter().map(|entry| (entry.at, &entry.event)));
        let run = Arc::new(run);
        self.0.cache.put_loaded(of, run.clone(), size, commits);
        Ok(run)
    }

    /// The log from sequence number `from` on; of a long log the first part. Nothing means that it ends there.
    pub async fn events(&self, of: &RunRef, from: u64) -> Result<Vec<Recorded>, Error> {
        Ok(events::from(&self.0.db, of, from).await?)
    }

    /// The same for those who follow a run: what was just committed here is not read from the store. It may come in parts
    /// however short it is, where several nodes have written it.
    pub async fn follow(&self, of: &RunRef, from: u64) -> Result<Vec<Recorded>, Error> {
        let recent = self.0.cache.recent.from(of, from);
        if recent.is_empty() { self.events(of, from).await } else { Ok(recent) }
    }

    /// How many events the run has, without folding them.
    pub async fn length(&self, of: &RunRef) -> Result<u64, Error> {
        match self.0.cache.get(of) {
            Some(run) if !self.is_shared() || run.finished() => Ok(run.seq),
            _ => self.sequence(of).await?.ok_or(Error::NotFound("run")),
        }
    }

    /// Wakes a reader whenever the run's log grows.
    pub fn subscribe(&self, of: &RunRef) -> Subscription {
        self.0.bus.subscribe(of)
    }

    pub async fn runs(&self, tenant: &TenantId, filter: RunFilter) -> Result<Vec<RunSummary>, Error> {
        Ok(runs::page(&self.0.db, tenant, filter).await?)
    }

    /// What waits, oldest first.
    pub async fn pending(
        &self,
        tenant: &TenantId,
        after: PendingCursor,
        limit: u64,
    ) -> Result<Vec<Pending>, Error> {
        let filter = PendingFilter { after: Some(after), ..PendingFilter::default() };
        Ok(self.pending_page(tenant, &filter, limit).await?.rows)
    }
}
