//! What an operator can choose about deliveries.

use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// How long an open circuit lets nothing through.
    pub cooldown: Duration,
    /// For one attempt, from connecting to the last byte of the answer.
    pub attempt_timeout: Duration,
    /// How long a durable delivery that a node has claimed is that node's alone; others take over what is left after that.
    /// Never less than an attempt takes, and a second.
    pub lease: Duration,
    /// Attempts under way at a time: for one subscription, and on this node.
    pub per_subscription: usize,
    pub overall: usize,
    /// Events that may wait for a best-effort subscription; what is more is dropped and counted.
    pub queue_max: usize,
    /// How long deliveries that ended and attempts are kept; and dead letters. Changes of subscriptions are kept for the
    /// longer of the two.
    pub keep_deliveries: Duration,
    pub keep_dead_letters: Duration,
    /// Whether questions are sent to the address that a run was started with.
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
