//! Folded runs that were used lately. Only an optimisation: every change is checked by sequence number when it is
//! written, and a run that is not here is folded from its events.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::{Run, RunRef};

use crate::recent::Recent;

/// Bounds on entries and on bytes of event JSON behind them, so that parked runs do not pile up in memory.
const ENTRIES_MAX: usize = 1024;
const BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct RunCache {
    /// The commits that led to them.
    pub recent: Recent,
    entries: Mutex<Entries>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Entries {
    by_run: HashMap<RunRef, Entry>,
    /// Oldest first; a run that was used again since it was queued is passed over once.
    order: VecDeque<RunRef>,
    bytes: usize,
    /// Commits so far, counted for groups of runs: tells a reader that what it read may be old by now.
    commits: Vec<u64>,
}

/// How many groups runs are divided into for that.
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

    /// To be taken before a run is read from the store, and handed to `put_loaded` with it.
    pub(crate) fn commits(&self, of: &RunRef) -> u64 {
        let group = self.group(of);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        *entries.count(group)
    }

    fn group(&self, of: &RunRef) -> usize {
        usize::try_from(self.hasher.hash_one(of) % GROUPS as u64).unwrap_or(0)
    }

    /// Keeps the newest fold; `grown` is how many bytes of events came with it.
    pub(crate) fn put(&self, of: &RunRef, run: Arc<Run>, grown: usize) {
        let group = self.group(of);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        *entries.count(group) += 1;
        match entries.by_run.get_mut(of) {
            // A reader was faster and has read this very commit from the store.
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

    /// Keeps a fold that was read from the store, unless it may have become old meanwhile; `bytes` is its whole log.
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
