//! What happened, in numbers: counted as it is committed, read by whoever exports it. Always on, because it costs a
//! few additions a commit. Labels come from closed lists only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use holdpoint_core::{End, Event, Interrupt, InterruptId, Kind, NodeId, Resolution, Run, Timestamp};

use crate::committer::Change;

/// Bounds in seconds, as the protocol recommends them.
const RUN_BOUNDS: [f64; 11] = [0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0];
const NODE_BOUNDS: [f64; 11] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0];
const ACTIVITY_BOUNDS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
const INTERRUPT_BOUNDS: [f64; 8] = [60.0, 300.0, 900.0, 1800.0, 3600.0, 14_400.0, 86_400.0, 604_800.0];

/// Node types that were not known when the engine was opened are counted together.
const OTHER: &str = "other";

#[derive(Debug)]
pub struct Histogram {
    pub bounds: &'static [f64],
    /// One more than there are bounds: the last is for what is above all of them.
    buckets: Vec<AtomicU64>,
    sum_ms: AtomicU64,
}

/// A histogram as it is at one moment; the counts are of each bucket alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    pub bounds: &'static [f64],
    pub counts: Vec<u64>,
    pub sum_seconds: f64,
}

impl Distribution {
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum_ms: AtomicU64::new(0) }
    }

    fn add(&self, ms: u64) {
        #[allow(clippy::cast_precision_loss)]
        let seconds = ms as f64 / 1000.0;
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ms.fetch_add(ms, Ordering::Relaxed);
    }

    #[allow(clippy::cast_precision_loss)]
    pub fn read(&self) -> Distribution {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let sum_seconds = self.sum_ms.load(Ordering::Relaxed) as f64 / 1000.0;
        Distribution { bounds: self.bounds, counts, sum_seconds }
    }
}

/// One histogram for each word of a closed list.
#[derive(Debug)]
pub struct Family<const N: usize> {
    pub words: [&'static str; N],
    histograms: [Histogram; N],
}

impl<const N: usize> Family<N> {
    fn new(words: [&'static str; N], bounds: &'static [f64]) -> Self {
        Self { words, histograms: words.map(|_| Histogram::new(bounds)) }
    }

    fn add(&self, word: &str, ms: u64) {
        if let Some(position) = self.words.iter().position(|known| *known == word) {
            self.histograms[position].add(ms);
        }
    }

    pub fn read(&self) -> impl Iterator<Item = (&'static str, Distribution)> {
        self.words.into_iter().zip(self.histograms.iter().map(Histogram::read))
    }
}

/// How many there were of each word of a closed list.
#[derive(Debug)]
pub struct Counts<const N: usize>([(&'static str, AtomicU64); N]);

impl<const N: usize> Counts<N> {
    fn new(words: [&'static str; N]) -> Self {
        Self(words.map(|word| (word, AtomicU64::new(0))))
    }

    fn add(&self, word: &str) {
        if let Some((_, count)) = self.0.iter().find(|(known, _)| *known == word) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn read(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(word, count)| (*word, count.load(Ordering::Relaxed)))
    }
}

const DELAYS: [&str; 2] = ["waiting", "given_up"];
const RUN_ENDS: [&str; 3] = ["completed", "failed", "cancelled"];

/// A fork is a run like any other that begins and ends; what it copied or replayed has been counted where it happened.
#[derive(Debug)]
pub struct Measures {
    pub runs_created: AtomicU64,
    /// By how they ended.
    pub runs_ended: Counts<3>,
    /// By how they ended. Forks are left out: their clock began with that of their source.
    pub runs: Family<3>,
    /// Attempts, by type, and by how they ended.
    pub nodes: BTreeMap<String, Family<3>>,
    /// Outside effects that were recorded, by the type of their node.
    pub activities: BTreeMap<String, Histogram>,
    /// By kind.
    pub interrupts_requested: Counts<{ Kind::ALL.len() }>,
    pub interrupts: Family<3>,
    /// Nodes that wait for a server that is away, and those that were given up until an operator lets them go on.
    pub delays: Counts<2>,
}

impl Measures {
    pub(crate) fn new(node_types: impl Iterator<Item = String>) -> Self {
        let types: Vec<String> = node_types.chain([OTHER.to_owned()]).collect();
        let node = |name: &String| (name.clone(), Family::new(RUN_ENDS, &NODE_BOUNDS));
        let activity = |name: &String| (name.clone(), Histogram::new(&ACTIVITY_BOUNDS));
        Self {
            runs_created: AtomicU64::new(0),
            runs_ended: Counts::new(RUN_ENDS),
            runs: Family::new(RUN_ENDS, &RUN_BOUNDS),
            nodes: types.iter().map(node).collect(),
            activities: types.iter().map(activity).collect(),
            interrupts_requested: Counts::new(Kind::ALL.map(Kind::as_str)),
            interrupts: Family::new(["resolved", "timeout", "cancelled"], &INTERRUPT_BOUNDS),
            delays: Counts::new(DELAYS),
        }
    }

    /// Counts what a commit did to a run.
    pub(crate) fn count(&self, change: &Change) {
        let run = &*change.after;
        if change.is_birth() {
            self.runs_created.fetch_add(1, Ordering::Relaxed);
            if change.from.as_ref().is_some_and(|copied| copied.finished()) {
                self.runs_ended.add(how_ended(run));
            }
        }
        for (at, event) in change.events.iter().enumerate() {
            match event {
                Event::NodeCompleted { node, .. } => self.node_ended(change, at, node, "completed"),
                Event::NodeFailed { node, .. } | Event::NodeRetried { node, .. } => {
                    self.node_ended(change, at, node, "failed");
                }
                Event::NodeDelayed { until, .. } => self.delays.add(DELAYS[usize::from(until.is_none())]),
                Event::InterruptRequested { kind, .. } => self.interrupts_requested.add(kind.as_str()),
                Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                    self.answered(run, *id);
                }
                // Without a time it was not done but taken over from another run.
                Event::StepRecorded { node, took_ms: Some(ms), .. } => {
                    of_type(&self.activities, run, node).into_iter().for_each(|taken| taken.add(*ms));
                }
                Event::RunCompleted | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                    self.run_ended(run, change.at);
                }
                _ => {}
            }
        }
    }

    fn node_ended(&self, change: &Change, event: usize, node: &NodeId, word: &str) {
        if let Some(family) = of_type(&self.nodes, &change.after, node) {
            family.add(word, between(tried_at(change, event, node), change.at));
        }
    }

    fn answered(&self, run: &Run, id: InterruptId) {
        let Some(interrupt) = run.interrupt(id) else { return };
        match &interrupt.resolution {
            Some(Resolution::Answered { at, .. }) => self.closed(interrupt, "resolved", *at),
            Some(Resolution::TimedOut { at }) => self.closed(interrupt, "timeout", *at),
            None => {}
        }
    }

    fn closed(&self, interrupt: &Interrupt, word: &str, at: Timestamp) {
        self.interrupts.add(word, between(interrupt.requested_at, at));
    }

    /// Questions that nobody will answer any more, and nodes that will not come to an end, end with their run.
    fn run_ended(&self, run: &Run, at: Timestamp) {
        let word = how_ended(run);
        self.runs_ended.add(word);
        if run.started.as_ref().is_some_and(|started| started.fork.is_none()) {
            self.runs.add(word, between(run.started_at, at));
        }
        run.open_interrupts().for_each(|interrupt| self.closed(interrupt, "cancelled", at));
        for (node, state) in run.workflow.nodes.iter().zip(&run.nodes) {
            if state.status.is_at_work()
                && !state.retrying
                && let Some(family) = of_type(&self.nodes, run, &node.id)
            {
                family.add("cancelled", between(state.tried_at.unwrap_or(at), at));
            }
        }
    }
}

fn how_ended(run: &Run) -> &'static str {
    match run.end {
        Some(End::Completed { .. }) => "completed",
        Some(End::Failed { .. }) => "failed",
        Some(End::Cancelled { .. }) | None => "cancelled",
    }
}

/// When the attempt began that ends with an event. The fold behind the change may be at another visit by then.
fn tried_at(change: &Change, event: usize, node: &NodeId) -> Timestamp {
    let begun = |earlier: &Event| matches!(earlier, Event::NodeStarted { node: begun, .. } if begun == node);
    let before = change.from.as_ref().and_then(|run| run.node_state(node));
    // One that was waiting to be tried again was woken in this change, or it could not have ended in it.
    let before = before.filter(|state| !state.retrying).and_then(|state| state.tried_at);
    before.filter(|_| !change.events[..event].iter().rev().any(begun)).unwrap_or(change.at)
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.0 - from.0).unwrap_or(0)
}

fn of_type<'a, T>(by_type: &'a BTreeMap<String, T>, run: &Run, node: &NodeId) -> Option<&'a T> {
    let name = run.workflow.node(node).map_or(OTHER, |node| node.type_id.as_str());
    by_type.get(name).or_else(|| by_type.get(OTHER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_into_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(&INTERRUPT_BOUNDS);
        for ms in [0, 60_000, 60_001, 604_800_001] {
            histogram.add(ms);
        }
        let read = histogram.read();
        assert_eq!(read.counts, [2, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(read.count(), 4);
        assert!((read.sum_seconds - 604_920.002).abs() < 1e-6, "{}", read.sum_seconds);
    }
}
