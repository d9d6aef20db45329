//! The operator's settings for deliveries.

use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Settings for webhook deliveries.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Time that an open circuit blocks attempts.
    pub cooldown: Duration,
    /// Time limit of one attempt, from the connection to the last byte of the response.
    pub attempt_timeout: Duration,
    /// Lease of a claimed durable delivery. Other processes claim the delivery after that. At least one second longer
    /// than `attempt_timeout`.
    pub lease: Duration,
    /// The maximum number of concurrent attempts per subscription.
    pub per_subscription: usize,
    /// The maximum number of concurrent attempts in this process.
    pub overall: usize,
    /// The maximum number of queued events per best-effort subscription. Further events are dropped and counted.
    pub queue_max: usize,
    /// Retention of ended deliveries and of attempts. Changes of subscriptions are kept for the longer of the two
    /// retention times.
    pub keep_deliveries: Duration,
    /// Retention of dead letters.
    pub keep_dead_letters: Duration,
    /// True if interrupts are sent to the callback address of their run.
    pub callbacks: bool,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            cooldown: Duration::from_secs(3600),
            attempt_timeout: Duration::from_secs(5),
            lease: Duration::from_secs(30),
            per_subscription: 4,
            overall: 256,
            queue_max: 1000,
            keep_deliveries: 7 * DAY,
            keep_dead_letters: 30 * DAY,
            callbacks: false,
        }
    }
}

impl WebhookSettings {
    pub(crate) fn cooldown_ms(&self) -> u64 {
        millis(self.cooldown)
    }

    pub(crate) fn attempt_timeout_ms(&self) -> u64 {
        millis(self.attempt_timeout)
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        millis(self.lease.max(self.attempt_timeout.saturating_add(Duration::from_secs(1))))
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
