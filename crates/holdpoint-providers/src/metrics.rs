//! Measures of turns: counts, durations, times to the first text, retries, waits for locks and tokens, by kind of provider.
//! Names of graphs are no labels, because callers choose them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdpoint_core::agent::Usage;
use holdpoint_engine::{Distribution, Histogram};

use super::{ProviderError, ProviderOutcome};

/// Upper bounds of durations, in seconds. A turn can take many minutes.
const BOUNDS: [f64; 12] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];
const OUTCOMES: [&str; 4] = ["completed", "interrupted", "cancelled", "failed"];

/// The measures of all kinds of providers.
#[derive(Debug, Default)]
pub struct ProviderMetrics {
    /// By kind: the part of the name of a graph before the colon. The operator's settings determine the kinds.
    kinds: Mutex<BTreeMap<String, Arc<KindMetrics>>>,
}

/// The measures of one kind.
#[derive(Debug)]
pub(crate) struct KindMetrics {
    turns: [AtomicU64; OUTCOMES.len()],
    durations: Histogram,
    first_texts: Histogram,
    lock_waits: Histogram,
    retries: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

/// The values of one kind at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderMeasures {
    /// The kind, such as `langgraph`.
    pub kind: String,
    /// The number of turns by outcome.
    pub turns: Vec<(&'static str, u64)>,
    /// The durations of turns.
    pub durations: Distribution,
    /// The times from the start of a turn to its first text.
    pub first_texts: Distribution,
    /// The times that turns waited for the lock of their graph.
    pub lock_waits: Distribution,
    /// The number of attempts after a first one failed.
    pub retries: u64,
    /// The tokens that providers reported.
    pub tokens: Usage,
}

impl ProviderMetrics {
    /// Returns the current values of all kinds that had a turn.
    pub fn read(&self) -> Vec<ProviderMeasures> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.iter().map(|(kind, metrics)| metrics.read(kind)).collect()
    }

    pub(crate) fn of_graph(&self, graph: &str) -> Arc<KindMetrics> {
        let kind = graph.split_once(':').map_or(graph, |(kind, _)| kind);
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.entry(kind.to_owned()).or_default().clone()
    }
}

impl Default for KindMetrics {
    fn default() -> Self {
        let histogram = || Histogram::new(&BOUNDS);
        Self {
            turns: Default::default(),
            durations: histogram(),
            first_texts: histogram(),
            lock_waits: histogram(),
            retries: AtomicU64::new(0),
            input_tokens: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
        }
    }
}

impl KindMetrics {
    pub(crate) fn count_turn(&self, outcome: &Result<ProviderOutcome, ProviderError>, took: Duration) {
        let outcome = match outcome {
            Ok(ProviderOutcome::Completed(_)) => 0,
            Ok(ProviderOutcome::Interrupted(_)) => 1,
            Ok(ProviderOutcome::Cancelled) => 2,
            Err(_) => 3,
        };
        self.turns[outcome].fetch_add(1, Ordering::Relaxed);
        self.durations.add(milliseconds(took));
    }

    pub(crate) fn count_first_text(&self, after: Duration) {
        self.first_texts.add(milliseconds(after));
    }

    pub(crate) fn count_lock_wait(&self, waited: Duration) {
        self.lock_waits.add(milliseconds(waited));
    }

    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_tokens(&self, usage: Usage) {
        self.input_tokens.fetch_add(usage.input_tokens, Ordering::Relaxed);
        self.output_tokens.fetch_add(usage.output_tokens, Ordering::Relaxed);
    }

    fn read(&self, kind: &str) -> ProviderMeasures {
        let turns =
            OUTCOMES.iter().zip(&self.turns).map(|(word, count)| (*word, count.load(Ordering::Relaxed)));
        ProviderMeasures {
            kind: kind.to_owned(),
            turns: turns.collect(),
            durations: self.durations.read(),
            first_texts: self.first_texts.read(),
            lock_waits: self.lock_waits.read(),
            retries: self.retries.load(Ordering::Relaxed),
            tokens: Usage {
                input_tokens: self.input_tokens.load(Ordering::Relaxed),
                output_tokens: self.output_tokens.load(Ordering::Relaxed),
                ..Usage::default()
            },
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
