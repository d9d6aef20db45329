//! A cache of the latest commits of this process, so that the followers of a run need not read them from the store.
//! Only an optimisation: commits that are not cached are in the store.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::{Event, RunRef, Timestamp};

use crate::committer::Change;
use crate::store::events::RecordedEvent;

/// The maximum number of bytes of stored event text.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// The maximum number of commits: small ones need more memory than their JSON.
const COMMITS_MAX: usize = 256;

/// The latest commits of this process.
#[derive(Debug, Default)]
pub(crate) struct RecentCommits(Mutex<CommitBuffer>);

#[derive(Debug, Default)]
struct CommitBuffer {
    by_run: HashMap<RunRef, VecDeque<Commit>>,
    /// The run of each commit, the oldest first.
    order: VecDeque<RunRef>,
    bytes: usize,
}

#[derive(Debug)]
struct Commit {
    first: u64,
    at: Timestamp,
    events: Arc<[Event]>,
    bytes: usize,
}

impl RecentCommits {
    /// Adds a committed change. `bytes` is the size of its events in the store.
    pub(crate) fn put(&self, change: &Change, bytes: usize) {
        // A fork writes its history as several rows with their own times.
        if change.history.is_empty() {
            let first = change.after.seq - change.events.len() as u64;
            self.add(&change.of, Commit { first, at: change.at, events: change.events.clone(), bytes });
        }
    }

    fn add(&self, of: &RunRef, commit: Commit) {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.bytes += commit.bytes;
        buffer.order.push_back(of.clone());
        match buffer.by_run.get_mut(of) {
            Some(commits) => commits.push_back(commit),
            None => drop(buffer.by_run.insert(of.clone(), VecDeque::from([commit]))),
        }
        buffer.shrink();
    }

    /// Returns the events from `from` on, up to the first gap. If it returns none, the caller must read the store.
    pub(crate) fn from(&self, of: &RunRef, from: u64) -> Vec<RecordedEvent> {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut recorded, mut next) = (Vec::new(), from);
        for commit in buffer.by_run.get(of).into_iter().flatten() {
            let end = commit.first + commit.events.len() as u64;
            if commit.first > next || end <= next {
                continue;
            }
            let numbered = (commit.first..).zip(commit.events.iter()).filter(|(seq, _)| *seq >= next);
            recorded.extend(numbered.map(|(seq, event)| RecordedEvent {
                seq,
                at: commit.at,
                event: event.clone(),
            }));
            next = end;
        }
        recorded
    }
}

impl CommitBuffer {
    fn shrink(&mut self) {
        while self.bytes > BYTES_MAX || self.order.len() > COMMITS_MAX {
            let Some(of) = self.order.pop_front() else { return };
            let Some(commits) = self.by_run.get_mut(&of) else { continue };
            self.bytes -= commits.pop_front().map_or(0, |oldest| oldest.bytes);
            if commits.is_empty() {
                self.by_run.remove(&of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{InterruptId, RunId, TenantId};

    use super::*;

    fn run(name: &str) -> RunRef {
        RunRef { tenant: TenantId::parse("t").unwrap(), run: RunId::parse(name).unwrap() }
    }

    fn commit(first: u64, count: u32, bytes: usize) -> Commit {
        let event = |at| Event::InterruptTimedOut { id: InterruptId(at) };
        Commit { first, at: Timestamp(1), events: (0..count).map(event).collect(), bytes }
    }

    fn numbers(recent: &RecentCommits, of: &RunRef, from: u64) -> Vec<u64> {
        recent.from(of, from).iter().map(|one| one.seq).collect()
    }

    #[test]
    fn consecutive_commits_are_returned_as_one_log() {
        let recent = RecentCommits::default();
        recent.add(&run("a"), commit(0, 3, 10));
        recent.add(&run("b"), commit(0, 1, 10));
        recent.add(&run("a"), commit(3, 2, 10));
        assert_eq!(numbers(&recent, &run("a"), 0), [0, 1, 2, 3, 4]);
        assert_eq!(numbers(&recent, &run("a"), 2), [2, 3, 4], "from the middle of a commit");
        assert_eq!(numbers(&recent, &run("a"), 5), [] as [u64; 0]);
        assert_eq!(numbers(&recent, &run("c"), 0), [] as [u64; 0]);
    }

    #[test]
    fn events_after_a_gap_are_not_returned() {
        let recent = RecentCommits::default();
        recent.add(&run("a"), commit(0, 2, 10));
        recent.add(&run("a"), commit(4, 2, 10));
        assert_eq!(numbers(&recent, &run("a"), 0), [0, 1]);
        assert_eq!(numbers(&recent, &run("a"), 2), [] as [u64; 0], "it is only in the store");
        assert_eq!(numbers(&recent, &run("a"), 4), [4, 5]);
    }

    #[test]
    fn the_oldest_commits_are_evicted_first() {
        let recent = RecentCommits::default();
        recent.add(&run("a"), commit(0, 1, BYTES_MAX - 10));
        recent.add(&run("a"), commit(1, 1, 10));
        assert_eq!(numbers(&recent, &run("a"), 0), [0, 1]);
        recent.add(&run("b"), commit(0, 1, 1));
        assert_eq!(numbers(&recent, &run("a"), 0), [] as [u64; 0]);
        assert_eq!(numbers(&recent, &run("a"), 1), [1]);
        recent.add(&run("c"), commit(0, 1, BYTES_MAX + 1));
        let buffer = recent.0.lock().unwrap();
        assert_eq!(
            (buffer.bytes, buffer.order.len(), buffer.by_run.len()),
            (0, 0, 0),
            "a commit above the limit is evicted too"
        );
    }

    #[test]
    fn the_number_of_small_commits_is_limited() {
        let recent = RecentCommits::default();
        for at in 0..2 * COMMITS_MAX as u64 {
            recent.add(&run("a"), commit(at, 1, 1));
        }
        assert_eq!(recent.0.lock().unwrap().order.len(), COMMITS_MAX);
        assert_eq!(numbers(&recent, &run("a"), 0), [] as [u64; 0]);
    }
}
