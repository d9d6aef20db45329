//! The retry policy of deliveries. Random numbers are arguments.

use serde::{Deserialize, Serialize};

use super::{Backoff, DeadReason, retry_after_ms};
use crate::Timestamp;
use crate::limits;

/// The retry policy of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// The maximum number of attempts, including the first.
    pub max_attempts: u32,
    /// The growth of the delays.
    pub backoff: Backoff,
    /// The delay before the second attempt.
    pub base_ms: u64,
    /// The longest delay of the policy. A `Retry-After` of the receiver can be longer.
    pub max_ms: u64,
}

impl Default for RetryPolicy {
    /// Returns a policy of ten attempts within about nine hours.
    fn default() -> Self {
        let max_ms = 6 * 60 * 60 * 1000;
        Self { max_attempts: 10, backoff: Backoff::Exponential, base_ms: 60_000, max_ms }
    }
}

/// A field of a retry policy is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {rule}")]
pub struct BadPolicy {
    /// The JSON name of the field.
    pub field: &'static str,
    /// The values that are allowed.
    pub rule: String,
}

/// The response of the receiver to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryResponse {
    /// The receiver accepted the delivery.
    Accepted,
    /// The receiver wants no more deliveries (status 410).
    Gone,
    /// The receiver responded with another status, or not at all.
    Failed {
        /// The `Retry-After` of the response.
        retry_after_ms: Option<u64>,
    },
}

/// The state of a delivery after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The delivery succeeded.
    Delivered,
    /// The next attempt is at this time.
    RetryAt(Timestamp),
    /// The delivery is given up.
    DeadLetter(DeadReason),
}

impl DeliveryResponse {
    /// Returns the response for an HTTP status. A redirect is a failure; it is never followed.
    pub fn of_status(status: u16, retry_after: Option<&str>, now: Timestamp) -> Self {
        match status {
            200..=299 => Self::Accepted,
            410 => Self::Gone,
            _ => Self::Failed { retry_after_ms: retry_after.and_then(|text| retry_after_ms(text, now)) },
        }
    }

    /// Returns true if the receiver accepted the delivery.
    pub fn succeeded(self) -> bool {
        match self {
            Self::Accepted => true,
            Self::Gone | Self::Failed { .. } => false,
        }
    }
}

impl RetryPolicy {
    /// Rejects a policy with an invalid field.
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

    /// Returns the state of a delivery after attempt number `attempt`, from 1. `chance` is a random number.
    pub fn outcome_of_attempt(
        &self,
        attempt: u32,
        response: DeliveryResponse,
        chance: u64,
        now: Timestamp,
    ) -> DeliveryOutcome {
        match response {
            DeliveryResponse::Accepted => DeliveryOutcome::Delivered,
            DeliveryResponse::Gone => DeliveryOutcome::DeadLetter(DeadReason::Gone),
            DeliveryResponse::Failed { .. } if attempt >= self.max_attempts => {
                DeliveryOutcome::DeadLetter(DeadReason::RetriesExhausted)
            }
            DeliveryResponse::Failed { retry_after_ms } => {
                // The receiver can request a longer delay, up to a limit.
                let requested = retry_after_ms.unwrap_or(0).min(limits::WEBHOOK_WAIT_MS_MAX);
                DeliveryOutcome::RetryAt(now.plus_ms(self.wait_ms(attempt, chance).max(requested)))
            }
        }
    }

    /// Returns the delay after attempt number `attempt`. Exponential delays are reduced randomly by up to half, so that
    /// deliveries that failed together are not retried together.
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
