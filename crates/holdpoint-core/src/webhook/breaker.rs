//! The circuit of a subscription: opens after failures in a row, lets one probe through after a while, and gives up for
//! good when there were too many failures in a week.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Failures in a row that open the circuit.
const IN_A_ROW_MAX: u32 = 4;
/// Failures within the window that end it.
pub const FAILURES_MAX: usize = 100;
const WINDOW_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// Stored as JSON with its subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Breaker {
    in_a_row: u32,
    /// Nothing passes before.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_until: Option<Timestamp>,
    /// A probe is under way; nothing else passes before.
    #[serde(skip_serializing_if = "Option::is_none")]
    probing_until: Option<Timestamp>,
    /// Instants of failures within the window, in milliseconds, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<i64>,
    failed: bool,
}

/// Whether something may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Pass,
    /// One attempt, to be announced with [`Breaker::probe`].
    Probe,
    /// Nothing before this instant.
    Skip(Timestamp),
    /// Nothing until somebody resets it.
    Failed,
}

impl Breaker {
    pub fn gate(&self, now: Timestamp) -> Gate {
        if self.failed {
            return Gate::Failed;
        }
        let Some(until) = self.open_until else { return Gate::Pass };
        let until = self.probing_until.map_or(until, |probing| probing.max(until));
        if now < until { Gate::Skip(until) } else { Gate::Probe }
    }

    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }

    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Failures in a row, up to now.
    pub fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    pub fn open_until(&self) -> Option<Timestamp> {
        self.open_until
    }

    /// Somebody tries whether the other side is back, and takes at most `within_ms` for it.
    pub fn probe(&mut self, now: Timestamp, within_ms: u64) {
        self.probing_until = Some(now.plus_ms(within_ms));
    }

    /// Old failures still count towards those of the week.
    pub fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.open_until = None;
        self.probing_until = None;
    }

    pub fn failed(&mut self, now: Timestamp, cooldown_ms: u64) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row >= IN_A_ROW_MAX {
            self.open_until = Some(now.plus_ms(cooldown_ms));
            self.probing_until = None;
        }
        self.count(now);
    }

    /// A failure that counts for the week only: a delivery that was given up after its attempts.
    pub fn gave_up(&mut self, now: Timestamp) {
        self.count(now);
    }

    fn count(&mut self, now: Timestamp) {
        // Clocks of nodes differ; what is kept stays in order.
        let at = self.failures.last().map_or(now.0, |last| now.0.max(*last));
        self.failures.push(at);
        let since = at.saturating_sub(WINDOW_MS);
        self.failures.retain(|failure| *failure > since);
        if self.failures.len() >= FAILURES_MAX {
            self.failed = true;
        }
    }
}
