//! Metrics of the engine. They are updated at every commit and read by exporters. Label values come from closed lists
//! only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use holdpoint_core::{Event, Interrupt, InterruptId, Kind, NodeId, Resolution, Run, RunEnd, Timestamp};

use crate::committer::Change;

/// Bucket bounds in seconds, as recommended by the OpenWOP protocol.
const RUN_BOUNDS: [f64; 11] = [0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0];
const NODE_BOUNDS: [f64; 11] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0];
const ACTIVITY_BOUNDS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
const INTERRUPT_BOUNDS: [f64; 8] = [60.0, 300.0, 900.0, 1800.0, 3600.0, 14_400.0, 86_400.0, 604_800.0];

/// Label for node types that were unknown when the engine was opened.
const OTHER: &str = "other";

/// A histogram of durations.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds of the buckets, in seconds.
    pub bounds: &'static [f64],
    /// One more than there are bounds: the last bucket has no upper bound.
    buckets: Vec<AtomicU64>,
    sum_ms: AtomicU64,
}

/// The values of a histogram at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Upper bounds of the buckets, in seconds.
    pub bounds: &'static [f64],
    /// The count of each bucket, not cumulative.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum_seconds: f64,
}

impl Distribution {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Histogram {
    /// Creates a histogram with these upper bounds, in seconds.
    pub fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum_ms: AtomicU64::new(0) }
    }

    /// Adds a value.
    pub fn add(&self, ms: u64) {
        #[allow(clippy::cast_precision_loss)]
        let seconds = ms as f64 / 1000.0;
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Returns the current values.
    #[allow(clippy::cast_precision_loss)]
    pub fn read(&self) -> Distribution {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let sum_seconds = self.sum_ms.load(Ordering::Relaxed) as f64 / 1000.0;
        Distribution { bounds: self.bounds, counts, sum_seconds }
    }
}

/// A metric family with one histogram per label value.
#[derive(Debug)]
pub struct HistogramFamily<const N: usize> {
    /// The label values.
    pub words: [&'static str; N],
    histograms: [Histogram; N],
}

impl<const N: usize> HistogramFamily<N> {
    fn new(words: [&'static str; N], bounds: &'static [f64]) -> Self {
        Self { words, histograms: words.map(|_| Histogram::new(bounds)) }
    }

    fn add(&self, word: &str, ms: u64) {
        if let Some(position) = self.words.iter().position(|known| *known == word) {
            self.histograms[position].add(ms);
        }
    }

    /// Returns the label values with their current distributions.
    pub fn read(&self) -> impl Iterator<Item = (&'static str, Distribution)> {
        self.words.into_iter().zip(self.histograms.iter().map(Histogram::read))
    }
}

/// A metric family with one counter per label value.
#[derive(Debug)]
pub struct CounterFamily<const N: usize>([(&'static str, AtomicU64); N]);

impl<const N: usize> CounterFamily<N> {
    fn new(words: [&'static str; N]) -> Self {
        Self(words.map(|word| (word, AtomicU64::new(0))))
    }

    fn add(&self, word: &str) {
        if let Some((_, count)) = self.0.iter().find(|(known, _)| *known == word) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the label values with their current counts.
    pub fn read(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(word, count)| (*word, count.load(Ordering::Relaxed)))
    }
}

const DELAYS: [&str; 2] = ["waiting", "given_up"];
const RUN_ENDS: [&str; 3] = ["completed", "failed", "cancelled"];

/// The metrics of the engine. A fork counts as a run; the events that it copies or replays are not counted again.
#[derive(Debug)]
pub struct EngineMetrics {
    /// The number of created runs.
    pub runs_created: AtomicU64,
    /// The number of ended runs by outcome.
    pub runs_ended: CounterFamily<3>,
    /// Durations of runs by outcome. Forks are excluded, because their start time is that of their source.
    pub runs: HistogramFamily<3>,
    /// Durations of node attempts by node type and outcome.
    pub nodes: BTreeMap<String, HistogramFamily<3>>,
    /// Durations of recorded effects by node type.
    pub activities: BTreeMap<String, Histogram>,
    /// The number of interrupts by kind.
    pub interrupts_requested: CounterFamily<{ Kind::ALL.len() }>,
    /// Times until interrupts were closed, by outcome.
    pub interrupts: HistogramFamily<3>,
    /// The number of delays of nodes by an unavailable server: those that wait, and those that need an operator.
    pub delays: CounterFamily<2>,
}

impl EngineMetrics {
    pub(crate) fn new(node_types: impl Iterator<Item = String>) -> Self {
        let types: Vec<String> = node_types.chain([OTHER.to_owned()]).collect();
        let node = |name: &String| (name.clone(), HistogramFamily::new(RUN_ENDS, &NODE_BOUNDS));
        let activity = |name: &String| (name.clone(), Histogram::new(&ACTIVITY_BOUNDS));
        Self {
            runs_created: AtomicU64::new(0),
            runs_ended: CounterFamily::new(RUN_ENDS),
            runs: HistogramFamily::new(RUN_ENDS, &RUN_BOUNDS),
            nodes: types.iter().map(node).collect(),
            activities: types.iter().map(activity).collect(),
            interrupts_requested: CounterFamily::new(Kind::ALL.map(Kind::as_str)),
            interrupts: HistogramFamily::new(["resolved", "timeout", "cancelled"], &INTERRUPT_BOUNDS),
            delays: CounterFamily::new(DELAYS),
        }
    }

    /// Updates the metrics for a committed change.
    pub(crate) fn count(&self, change: &Change) {
        let run = &*change.after;
        if change.starts_run() {
            self.runs_created.fetch_add(1, Ordering::Relaxed);
            if change.from.as_ref().is_some_and(|copied| copied.finished()) {
                self.runs_ended.add(end_word(run));
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
                    self.interrupt_closed(run, *id);
                }
                // A step without a duration was copied from another run.
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
            family.add(word, elapsed_ms(attempt_started_at(change, event, node), change.at));
        }
    }

    fn interrupt_closed(&self, run: &Run, id: InterruptId) {
        let Some(interrupt) = run.interrupt(id) else { return };
        match &interrupt.resolution {
            Some(Resolution::Answered { at, .. }) => self.record_interrupt(interrupt, "resolved", *at),
            Some(Resolution::TimedOut { at }) => self.record_interrupt(interrupt, "timeout", *at),
            None => {}
        }
    }

    fn record_interrupt(&self, interrupt: &Interrupt, word: &str, at: Timestamp) {
        self.interrupts.add(word, elapsed_ms(interrupt.requested_at, at));
    }

    /// Records the end of a run. Its open interrupts and its running nodes count as cancelled.
    fn run_ended(&self, run: &Run, at: Timestamp) {
        let word = end_word(run);
        self.runs_ended.add(word);
        if run.started.as_ref().is_some_and(|started| started.fork.is_none()) {
            self.runs.add(word, elapsed_ms(run.started_at, at));
        }
        run.open_interrupts().for_each(|interrupt| self.record_interrupt(interrupt, "cancelled", at));
        for (node, state) in run.workflow.nodes.iter().zip(&run.nodes) {
            if state.status.is_active()
                && !state.retrying
                && let Some(family) = of_type(&self.nodes, run, &node.id)
            {
                family.add("cancelled", elapsed_ms(state.tried_at.unwrap_or(at), at));
            }
        }
    }
}

fn end_word(run: &Run) -> &'static str {
    match run.end {
        Some(RunEnd::Completed { .. }) => "completed",
        Some(RunEnd::Failed { .. }) => "failed",
        Some(RunEnd::Cancelled { .. }) | None => "cancelled",
    }
}

/// Returns the start of the attempt that the event ends. The folded run may already be at another visit.
fn attempt_started_at(change: &Change, event: usize, node: &NodeId) -> Timestamp {
    let starts =
        |earlier: &Event| matches!(earlier, Event::NodeStarted { node: started, .. } if started == node);
    let before = change.from.as_ref().and_then(|run| run.node_state(node));
    // A node that waited for a retry was woken in this change.
    let before = before.filter(|state| !state.retrying).and_then(|state| state.tried_at);
    before.filter(|_| !change.events[..event].iter().rev().any(starts)).unwrap_or(change.at)
}

fn elapsed_ms(from: Timestamp, to: Timestamp) -> u64 {
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
    fn a_value_counts_in_the_first_bucket_with_a_sufficient_bound() {
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
