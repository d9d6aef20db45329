//! A cache of folded runs. Only an optimisation: the committer checks the sequence number of every change, and a run
//! that is not cached is folded from its events.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::{Run, RunRef};

use crate::recent_commits::RecentCommits;

/// The maximum number of entries.
const ENTRIES_MAX: usize = 256;
/// The maximum number of bytes of the stored events of all cached runs.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The cache of folded runs and of their latest commits.
#[derive(Debug, Default)]
pub(crate) struct RunCache {
    /// The latest commits of all runs.
    pub recent: RecentCommits,
    entries: Mutex<Entries>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Entries {
    by_run: HashMap<RunRef, Entry>,
    /// The runs in the order of eviction. A run that was used since it was queued is skipped once.
    order: VecDeque<RunRef>,
    bytes: usize,
    /// The number of commits for each group of runs. If it changes during a read, the result may be outdated.
    commits: Vec<u64>,
}

/// The number of groups.
const GROUPS: usize = 256;

#[derive(Debug)]
struct Entry {
    run: Arc<Run>,
    bytes: usize,
    used: bool,
}

impl RunCache {
    pub(crate) fn get(&self, of: &RunRef) -> Option<Arc<Run>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.by_run.get_mut(of)?;
        entry.used = true;
        Some(entry.run.clone())
    }

    /// Returns the number of commits of the group of a run. Read it before a run is loaded, and pass it to
    /// `put_loaded`.
    pub(crate) fn commits(&self, of: &RunRef) -> u64 {
        let group = self.group(of);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        *entries.count(group)
    }

    fn group(&self, of: &RunRef) -> usize {
        usize::try_from(self.hasher.hash_one(of) % GROUPS as u64).unwrap_or(0)
    }

    /// Caches the run after a commit. `grown` is the number of bytes of its new events.
    pub(crate) fn put(&self, of: &RunRef, run: Arc<Run>, grown: usize) {
        let group = self.group(of);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        *entries.count(group) += 1;
        match entries.by_run.get_mut(of) {
            // A reader has already loaded this commit from the store.
            Some(entry) if entry.run.seq >= run.seq => {}
            Some(entry) => {
                entry.run = run;
                entry.bytes += grown;
                entries.bytes += grown;
                entries.shrink();
            }
            None => entries.insert(of, run, grown),
        }
    }

    /// Caches a run that was loaded from the store, unless it may be outdated. `bytes` is the size of its whole log.
    pub(crate) fn put_loaded(&self, of: &RunRef, run: Arc<Run>, bytes: usize, commits: u64) {
        let group = self.group(of);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.by_run.get(of).map(|entry| entry.run.seq);
        if *entries.count(group) == commits && known.is_none_or(|known| known < run.seq) {
            entries.remove(of);
            entries.insert(of, run, bytes);
        }
    }

    pub(crate) fn forget(&self, of: &RunRef) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(of);
    }
}

impl Entries {
    fn count(&mut self, group: usize) -> &mut u64 {
        self.commits.resize(GROUPS, 0);
        &mut self.commits[group]
    }

    fn insert(&mut self, of: &RunRef, run: Arc<Run>, bytes: usize) {
        self.bytes += bytes;
        self.by_run.insert(of.clone(), Entry { run, bytes, used: false });
        self.order.push_back(of.clone());
        self.shrink();
    }

    fn remove(&mut self, of: &RunRef) {
        if let Some(entry) = self.by_run.remove(of) {
            self.bytes -= entry.bytes;
        }
    }

    fn shrink(&mut self) {
        while self.by_run.len() > ENTRIES_MAX || self.bytes > BYTES_MAX || self.order.len() > 2 * ENTRIES_MAX
        {
            let Some(oldest) = self.order.pop_front() else { return };
            match self.by_run.get_mut(&oldest) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    self.order.push_back(oldest);
                }
                Some(_) => self.remove(&oldest),
                None => {}
            }
        }
    }
}
