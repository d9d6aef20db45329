//! Reads of runs, from the cache or the store, and of their logs.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::try_join_all;
use holdpoint_core::{Event, Run, RunRef, TenantId};

use super::{Engine, Events, Interrupts, PendingFilter, Runs};
use crate::batched_reads::EventCount;
use crate::bus::Subscription;
use crate::error::Error;
use crate::store::events::{self, RecordedEvent, StoredLog};
use crate::store::pending::{PendingCursor, PendingRow};
use crate::store::runs::{self, RunFilter, RunSummary};

/// The source of a run: the cache, or the stored log that must be folded.
enum LoadedRun {
    Cached(Arc<Run>),
    Stored {
        log: Arc<StoredLog>,
        /// The number of commits that the cache knew before the log was read.
        commits: u64,
    },
}

impl Runs<'_> {
    /// Returns the run as of the last acknowledged commit or later. A run of another tenant is not found.
    pub async fn get(self, of: &RunRef) -> Result<Arc<Run>, Error> {
        self.get_since(of, 0).await
    }

    /// Returns runs in the given order, each as [`Runs::get`] does. The reads run concurrently, so that they
    /// share queries.
    pub async fn get_each(self, of: &[RunRef]) -> Result<Vec<Arc<Run>>, Error> {
        let found = try_join_all(of.iter().map(|of| self.engine.find(of, 0))).await?;
        let mut runs = Vec::with_capacity(of.len());
        // One run after the other, so that a definition of several runs is read once.
        for (of, found) in of.iter().zip(found) {
            runs.push(self.engine.fold(of, found).await?);
        }
        Ok(runs)
    }

    /// Returns the run with at least `seq` events, for callers that have already read that many.
    pub async fn get_since(self, of: &RunRef, seq: u64) -> Result<Arc<Run>, Error> {
        let found = self.engine.find(of, seq).await?;
        self.engine.fold(of, found).await
    }

    /// Loads the run from the store.
    pub async fn get_stored(self, of: &RunRef) -> Result<Arc<Run>, Error> {
        let found = self.engine.read(of).await?;
        self.engine.fold(of, found).await
    }

    /// Returns a page of the runs of a tenant.
    pub async fn list(self, tenant: &TenantId, filter: RunFilter) -> Result<Vec<RunSummary>, Error> {
        Ok(runs::page(&self.engine.0.db, tenant, filter).await?)
    }
}

impl Events<'_> {
    /// Returns the cached run, or loads it. The cached run can be outdated if another node changed it; for callers
    /// whose commit detects that.
    pub async fn cached_run(self, of: &RunRef) -> Result<Arc<Run>, Error> {
        match self.cached(of) {
            Some(run) => Ok(run),
            None => self.engine.runs().get_stored(of).await,
        }
    }

    /// Returns the run if it is cached. It can be outdated like that of [`Self::cached_run`].
    pub(crate) fn cached(self, of: &RunRef) -> Option<Arc<Run>> {
        self.engine.0.cache.get(of)
    }

    /// Returns the whole log of a run, and the sequence numbers of the first events of its commits.
    pub async fn list_with_commits(self, of: &RunRef) -> Result<(Vec<RecordedEvent>, BTreeSet<u64>), Error> {
        Ok(events::with_starts(self.engine.db(), of).await?)
    }

    /// Returns events from sequence `from` on. A long log is returned in parts; an empty result means that the log
    /// ends.
    pub async fn list(self, of: &RunRef, from: u64) -> Result<Vec<RecordedEvent>, Error> {
        Ok(events::from(&self.engine.0.db, of, from).await?)
    }

    /// Returns events like [`Events::list`], for followers of a run: events that this node committed recently come
    /// from memory. Even a short log can be returned in parts if several nodes wrote it.
    pub async fn follow(self, of: &RunRef, from: u64) -> Result<Vec<RecordedEvent>, Error> {
        let recent = self.engine.0.cache.recent.from(of, from);
        if recent.is_empty() { self.list(of, from).await } else { Ok(recent) }
    }

    /// Returns the number of events of a run without folding them.
    pub async fn count(self, of: &RunRef) -> Result<u64, Error> {
        match self.engine.0.cache.get(of) {
            Some(run) if !self.engine.is_shared() || run.finished() => Ok(run.seq),
            _ => self.engine.stored_event_count(of).await?.ok_or(Error::NotFound("run")),
        }
    }

    /// Subscribes to new events of a run.
    pub fn subscribe(self, of: &RunRef) -> Subscription {
        self.engine.0.bus.subscribe(of)
    }
}

impl Interrupts<'_> {
    /// Returns pending interrupts, oldest first.
    pub async fn open(
        self,
        tenant: &TenantId,
        after: PendingCursor,
        limit: u64,
    ) -> Result<Vec<PendingRow>, Error> {
        let filter = PendingFilter { after: Some(after), ..PendingFilter::default() };
        Ok(self.page(tenant, &filter, limit).await?.rows)
    }
}

impl Engine {
    async fn find(&self, of: &RunRef, seq: u64) -> Result<LoadedRun, Error> {
        match self.0.cache.get(of) {
            Some(run) if run.seq >= seq && self.is_current(of, &run).await? => Ok(LoadedRun::Cached(run)),
            _ => self.read(of).await,
        }
    }

    /// Returns the number of stored events of a run, or `None` if the run does not exist.
    pub(super) async fn stored_event_count(&self, of: &RunRef) -> Result<Option<u64>, Error> {
        Ok(self.0.sequences.read(&self.0.db, of).await?.map(|EventCount(seq)| seq))
    }

    /// Returns whether a cached run is up to date. It always is on a database of one node, and after the run has ended.
    async fn is_current(&self, of: &RunRef, run: &Run) -> Result<bool, Error> {
        if !self.is_shared() || run.finished() {
            return Ok(true);
        }
        Ok(self.stored_event_count(of).await? == Some(run.seq))
    }

    async fn read(&self, of: &RunRef) -> Result<LoadedRun, Error> {
        let commits = self.0.cache.commits(of);
        let log = self.0.logs.read(&self.0.db, of).await?.ok_or(Error::NotFound("run"))?;
        Ok(LoadedRun::Stored { log, commits })
    }

    async fn fold(&self, of: &RunRef, found: LoadedRun) -> Result<Arc<Run>, Error> {
        let (stored, commits) = match found {
            LoadedRun::Cached(run) => return Ok(run),
            LoadedRun::Stored { log, commits } => (log, commits),
        };
        let (log, size) = stored.read(of)?;
        let Some(Event::RunStarted(started)) = log.first().map(|first| &first.event) else {
            return Err(Error::NotFound("run"));
        };
        let workflow = self.workflows().revision(&of.tenant, &started.workflow, started.revision).await?;
        let run = Run::replay(of.run.clone(), workflow, log.iter().map(|entry| (entry.at, &entry.event)));
        let run = Arc::new(run);
        self.0.cache.put_loaded(of, run.clone(), size, commits);
        Ok(run)
    }
}
