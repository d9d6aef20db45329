//! The circuit breaker of a webhook. It opens after consecutive failures, allows one probe after a cooldown, and fails
//! permanently after too many failures within a week.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Consecutive failures that open the circuit.
const CONSECUTIVE_FAILURES_MAX: u32 = 4;
/// Failures within the window after which the breaker fails permanently.
pub const FAILURES_MAX: usize = 100;
const WINDOW_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// The state of a circuit breaker. It is stored as JSON with its webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Breaker {
    in_a_row: u32,
    /// Attempts are not allowed before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_until: Option<Timestamp>,
    /// The time until which a probe is in flight. Other attempts are not allowed before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    probing_until: Option<Timestamp>,
    /// Times of failures within the window, in milliseconds, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<i64>,
    failed: bool,
}

/// The decision of a circuit breaker about the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Attempts are allowed.
    Pass,
    /// One attempt is allowed. The caller announces it with [`Breaker::start_probe`].
    Probe,
    /// No attempt is allowed before this time.
    Skip(Timestamp),
    /// No attempt is allowed until the breaker is reset.
    Failed,
}

impl Breaker {
    /// Returns the state of the breaker at a time.
    pub fn state_at(&self, now: Timestamp) -> BreakerState {
        if self.failed {
            return BreakerState::Failed;
        }
        let Some(until) = self.open_until else { return BreakerState::Pass };
        let until = self.probing_until.map_or(until, |probing| probing.max(until));
        if now < until { BreakerState::Skip(until) } else { BreakerState::Probe }
    }

    /// Returns true if the circuit is open or half-open.
    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }

    /// Returns true if the breaker has failed permanently.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns the number of consecutive failures.
    pub fn consecutive_failures(&self) -> u32 {
        self.in_a_row
    }

    /// Returns the end of the cooldown.
    pub fn open_until(&self) -> Option<Timestamp> {
        self.open_until
    }

    /// Records the start of a probe that takes at most `within_ms`.
    pub fn start_probe(&mut self, now: Timestamp, within_ms: u64) {
        self.probing_until = Some(now.plus_ms(within_ms));
    }

    /// Records a successful attempt and closes the circuit. Earlier failures still count for the window.
    pub fn record_success(&mut self) {
        self.in_a_row = 0;
        self.open_until = None;
        self.probing_until = None;
    }

    /// Records a failed attempt.
    pub fn record_failure(&mut self, now: Timestamp, cooldown_ms: u64) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row >= CONSECUTIVE_FAILURES_MAX {
            self.open_until = Some(now.plus_ms(cooldown_ms));
            self.probing_until = None;
        }
        self.count(now);
    }

    /// Records a delivery that became a dead letter. It counts for the window only.
    pub fn record_dead_letter(&mut self, now: Timestamp) {
        self.count(now);
    }

    fn count(&mut self, now: Timestamp) {
        // The clocks of processes differ, so `now` may be before the last failure. The list must stay sorted.
        let at = self.failures.last().map_or(now.0, |last| now.0.max(*last));
        self.failures.push(at);
        let since = at.saturating_sub(WINDOW_MS);
        self.failures.retain(|failure| *failure > since);
        if self.failures.len() >= FAILURES_MAX {
            self.failed = true;
        }
    }
}
