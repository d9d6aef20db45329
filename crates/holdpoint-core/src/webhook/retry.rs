//! When a delivery is tried again, and when it is given up. Chance comes in as an argument.

use serde::{Deserialize, Serialize};

use super::{Backoff, DeadReason, retry_after_ms};
use crate::Timestamp;
use crate::limits;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// The first one included.
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub base_ms: u64,
    /// No wait of ours is longer.
    pub max_ms: u64,
}

impl Default for RetryPolicy {
    /// Ten attempts over about a day.
    fn default() -> Self {
        let max_ms = 6 * 60 * 60 * 1000;
        Self { max_attempts: 10, backoff: Backoff::Exponential, base_ms: 60_000, max_ms }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {rule}")]
pub struct BadPolicy {
    pub field: &'static str,
    pub rule: String,
}

/// What the other side made of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    Taken,
    /// It wants nothing more, ever.
    Gone,
    /// Anything else, no answer included, and how long it asked to be left alone.
    Failed {
        retry_after_ms: Option<u64>,
    },
}

/// What becomes of a delivery after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Delivered,
    RetryAt(Timestamp),
    DeadLetter(DeadReason),
}

impl Reception {
    /// A redirect is a failure: it is never followed.
    pub fn of_status(status: u16, retry_after: Option<&str>, now: Timestamp) -> Self {
        match status {
            200..=299 => Self::Taken,
            410 => Self::Gone,
            _ => Self::Failed { retry_after_ms: retry_after.and_then(|text| retry_after_ms(text, now)) },
        }
    }

    pub fn succeeded(self) -> bool {
        match self {
            Self::Taken => true,
            Self::Gone | Self::Failed { .. } => false,
        }
    }
}

impl RetryPolicy {
    pub fn check(&self) -> Result<(), BadPolicy> {
        let bad = |field, rule: String| Err(BadPolicy { field, rule });
        if self.max_attempts == 0 || self.max_attempts > limits::WEBHOOK_ATTEMPTS_MAX {
            return bad("maxAttempts", format!("1 to {}", limits::WEBHOOK_ATTEMPTS_MAX));
        }
        let most = limits::WEBHOOK_WAIT_MS_MAX;
        if self.max_ms > most {
            return bad("maxMs", format!("at most {most}"));
        }
        if self.base_ms > self.max_ms {
            return bad("baseMs", "at most maxMs".to_owned());
        }
        Ok(())
    }

    /// What becomes of a delivery after its attempt number `attempt`, from 1. `chance` is any number, drawn anew.
    pub fn next(&self, attempt: u32, reception: Reception, chance: u64, now: Timestamp) -> Next {
        match reception {
            Reception::Taken => Next::Delivered,
            Reception::Gone => Next::DeadLetter(DeadReason::Gone),
            Reception::Failed { .. } if attempt >= self.max_attempts => {
                Next::DeadLetter(DeadReason::RetriesExhausted)
            }
            Reception::Failed { retry_after_ms } => {
                // Whoever asks for more time gets it, but cannot put us off for ever.
                let asked = retry_after_ms.unwrap_or(0).min(limits::WEBHOOK_WAIT_MS_MAX);
                Next::RetryAt(now.plus_ms(self.wait_ms(attempt, chance).max(asked)))
            }
        }
    }

    /// Before the attempt that follows attempt number `attempt`. Growing waits are between half and all of themselves,
    /// so that those who failed together do not come back together.
    pub fn wait_ms(&self, attempt: u32, chance: u64) -> u64 {
        match self.backoff {
            Backoff::None => 0,
            Backoff::Fixed => self.base_ms.min(self.max_ms),
            Backoff::Exponential => {
                let doublings = attempt.saturating_sub(1).min(63);
                let full = self.base_ms.saturating_mul(1 << doublings).min(self.max_ms);
                let half = full / 2;
                full - if half == 0 { 0 } else { chance % (half + 1) }
            }
        }
    }
}
