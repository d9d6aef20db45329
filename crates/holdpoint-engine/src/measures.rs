//! What happened, in numbers: counted as it is committed, read by whoever exports it. Always on, because it costs a
//! few additions a commit. Labels come from closed lists only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use holdpoint_core::{End, Event, Interrupt, InterruptId, Kind, NodeId, Resolution, Run, Timestamp};

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

#[derive(Debug)]
pub struct Measures {
    pub runs_created: AtomicU64,
    /// By how they ended.
    pub runs: Family<3>,
    /// By type, and by how they ended.
    pub nodes: BTreeMap<String, Family<2>>,
    /// Outside effects that were recorded, by the type of their node.
    pub activities: BTreeMap<String, Histogram>,
    /// By kind.
    pub interrupts_requested: Vec<(&'static str, AtomicU64)>,
    pub interrupts: Family<3>,
}

impl Measures {
    pub(crate) fn new(node_types: impl Iterator<Item = String>) -> Self {
        let types: Vec<String> = node_types.chain([OTHER.to_owned()]).collect();
        let node = |name: &String| (name.clone(), Family::new(["completed", "failed"], &NODE_BOUNDS));
        let activity = |name: &String| (name.clone(), Histogram::new(&ACTIVITY_BOUNDS));
        Self {
            runs_created: AtomicU64::new(0),
            runs: Family::new(["completed", "failed", "cancelled"], &RUN_BOUNDS),
            nodes: types.iter().map(node).collect(),
            activities: types.iter().map(activity).collect(),
            interrupts_requested: Kind::ALL.iter().map(|kind| (kind.as_str(), AtomicU64::new(0))).collect(),
            interrupts: Family::new(["resolved", "timeout", "cancelled"], &INTERRUPT_BOUNDS),
        }
    }

    /// Counts what a commit did to a run; `run` is the fold behind the events.
    pub(crate) fn count(&self, run: &Run, events: &[Event], at: Timestamp) {
        for event in events {
            match event {
                Event::RunStarted(_) => {
                    self.runs_created.fetch_add(1, Ordering::Relaxed);
                }
                Event::NodeCompleted { node, .. } => self.node_ended(run, node, "completed", at),
                Event::NodeFailed { node, .. } => self.node_ended(run, node, "failed", at),
                Event::InterruptRequested { kind, .. } => self.asked(*kind),
                Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                    self.answered(run, *id);
                }
                Event::StepRecorded { node, took_ms, .. } => {
                    let histogram = of_type(&self.activities, run, node);
                    histogram.into_iter().for_each(|histogram| histogram.add(took_ms.unwrap_or(0)));
                }
                Event::RunCompleted | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                    self.run_ended(run, at);
                }
                _ => {}
            }
        }
    }

    fn node_ended(&self, run: &Run, node: &NodeId, word: &str, at: Timestamp) {
        let began = run.node_state(node).and_then(|state| state.started_at).unwrap_or(at);
        if let Some(family) = of_type(&self.nodes, run, node) {
            family.add(word, between(began, at));
        }
    }

    fn asked(&self, kind: Kind) {
        let counter = self.interrupts_requested.iter().find(|(name, _)| *name == kind.as_str());
        if let Some((_, counter)) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
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

    /// Questions that nobody will answer any more end with their run.
    fn run_ended(&self, run: &Run, at: Timestamp) {
        let word = match run.end {
            Some(End::Completed { .. }) => "completed",
            Some(End::Failed { .. }) => "failed",
            Some(End::Cancelled { .. }) | None => "cancelled",
        };
        self.runs.add(word, between(run.started_at, at));
        run.open_interrupts().for_each(|interrupt| self.closed(interrupt, "cancelled", at));
    }
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
