//! What was committed here lately, so that those who follow a run need not read from the store what was just written to
//! it. Only an optimisation: a commit that is not here is in the store.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use holdpoint_core::{Event, RunRef, Timestamp};

use crate::committer::Change;
use crate::store::events::Recorded;

/// Bytes of event JSON that are kept, and commits: small ones cost more than their text.
const BYTES_MAX: usize = 2 * 1024 * 1024;
const COMMITS_MAX: usize = 2048;

#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_run: HashMap<RunRef, VecDeque<Commit>>,
    /// Oldest first: one entry for each commit.
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

impl Recent {
    /// `bytes` is the size of the events in the store.
    pub(crate) fn put(&self, change: &Change, bytes: usize) {
        // A run that begins as a copy has a past that was not committed as it is read.
        if change.history.is_empty() {
            let first = change.after.seq - change.events.len() as u64;
            self.keep(&change.of, Commit { first, at: change.at, events: change.events.clone(), bytes });
        }
    }

    fn keep(&self, of: &RunRef, commit: Commit) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += commit.bytes;
        kept.order.push_back(of.clone());
        match kept.by_run.get_mut(of) {
            Some(commits) => commits.push_back(commit),
            None => drop(kept.by_run.insert(of.clone(), VecDeque::from([commit]))),
        }
        kept.shrink();
    }

    /// The events from `from` on, as far as one commit follows the other here. Nothing means that the store must be asked.
    pub(crate) fn from(&self, of: &RunRef, from: u64) -> Vec<Recorded> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut recorded, mut next) = (Vec::new(), from);
        for commit in kept.by_run.get(of).into_iter().flatten() {
            let end = commit.first + commit.events.len() as u64;
            if commit.first > next || end <= next {
                continue;
            }
            let numbered = (commit.first..).zip(commit.events.iter()).filter(|(seq, _)| *seq >= next);
            recorded.extend(numbered.map(|(seq, event)| Recorded {
                seq,
                at: commit.at,
                event: event.clone(),
            }));
            next = end;
        }
        recorded
    }
}

impl Kept {
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

    fn numbers(recent: &Recent, of: &RunRef, from: u64) -> Vec<u64> {
        recent.from(of, from).iter().map(|one| one.seq).collect()
    }

    #[test]
    fn commits_that_follow_one_another_are_one_log() {
        let recent = Recent::default();
        recent.keep(&run("a"), commit(0, 3, 10));
        recent.keep(&run("b"), commit(0, 1, 10));
        recent.keep(&run("a"), commit(3, 2, 10));
        assert_eq!(numbers(&recent, &run("a"), 0), [0, 1, 2, 3, 4]);
        assert_eq!(numbers(&recent, &run("a"), 2), [2, 3, 4], "from the middle of a commit");
        assert_eq!(numbers(&recent, &run("a"), 5), [] as [u64; 0]);
        assert_eq!(numbers(&recent, &run("c"), 0), [] as [u64; 0]);
    }

    #[test]
    fn what_others_have_written_in_between_is_not_passed_over() {
        let recent = Recent::default();
        recent.keep(&run("a"), commit(0, 2, 10));
        recent.keep(&run("a"), commit(4, 2, 10));
        assert_eq!(numbers(&recent, &run("a"), 0), [0, 1]);
        assert_eq!(numbers(&recent, &run("a"), 2), [] as [u64; 0], "the store has it");
        assert_eq!(numbers(&recent, &run("a"), 4), [4, 5]);
    }

    #[test]
    fn the_oldest_make_room_for_new_ones() {
        let recent = Recent::default();
        recent.keep(&run("a"), commit(0, 1, BYTES_MAX - 10));
        recent.keep(&run("a"), commit(1, 1, 10));
        assert_eq!(numbers(&recent, &run("a"), 0), [0, 1]);
        recent.keep(&run("b"), commit(0, 1, 1));
        assert_eq!(numbers(&recent, &run("a"), 0), [] as [u64; 0]);
        assert_eq!(numbers(&recent, &run("a"), 1), [1]);
        recent.keep(&run("c"), commit(0, 1, BYTES_MAX + 1));
        let kept = recent.0.lock().unwrap();
        assert_eq!((kept.bytes, kept.order.len(), kept.by_run.len()), (0, 0, 0), "too much for itself, too");
    }

    #[test]
    fn many_small_ones_are_bounded_by_their_number() {
        let recent = Recent::default();
        for at in 0..2 * COMMITS_MAX as u64 {
            recent.keep(&run("a"), commit(at, 1, 1));
        }
        assert_eq!(recent.0.lock().unwrap().order.len(), COMMITS_MAX);
        assert_eq!(numbers(&recent, &run("a"), 0), [] as [u64; 0]);
    }
}
