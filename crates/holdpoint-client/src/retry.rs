//! The number of retries and the delays between the attempts.

use std::time::Duration;

use crate::error::Error;

/// Retries for 10 to 22 seconds, which is enough for a server to restart.
pub(crate) const RECONNECT: RetryPolicy =
    RetryPolicy { retries: 8, delay_first: Duration::from_millis(200), delay_max: Duration::from_secs(5) };
/// The longest `Retry-After` that the client waits for. If the server requests more, the client returns the error.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The number of retries after a transient error, and the delays between them.
///
/// The delay doubles with each attempt, up to `delay_max`. The client waits a random time between half of the delay and
/// the whole delay, so that many clients do not retry at the same moment. It waits at least the time of `Retry-After`;
/// if that is more than a minute, the client returns the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after the first one. 0 turns retries off.
    pub retries: u32,
    /// The delay before the first retry.
    pub delay_first: Duration,
    /// The longest delay.
    pub delay_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries: 3, delay_first: Duration::from_millis(200), delay_max: Duration::from_secs(5) }
    }
}

impl RetryPolicy {
    /// No retries: each request is sent once.
    pub const OFF: Self = Self { retries: 0, delay_first: Duration::ZERO, delay_max: Duration::ZERO };

    /// Returns the delay before retry `attempt`, from 0, or None if there are no more retries.
    pub(crate) fn delay(&self, attempt: u32, retry_after: Option<Duration>) -> Option<Duration> {
        if attempt >= self.retries {
            return None;
        }
        let longest = self.delay_first.saturating_mul(1 << attempt.min(16)).min(self.delay_max);
        let delay = longest / 2 + longest.mul_f64(random_fraction()) / 2;
        match retry_after {
            Some(asked) if asked > RETRY_AFTER_MAX => None,
            asked => Some(delay.max(asked.unwrap_or_default())),
        }
    }

    /// Sleeps before the next attempt. Returns the error if there are no more attempts.
    pub(crate) async fn sleep_or_fail(&self, attempt: &mut u32, error: Error) -> Result<(), Error> {
        let retry_after = error.refusal().and_then(|refusal| refusal.retry_after);
        let Some(delay) = self.delay(*attempt, retry_after) else { return Err(error) };
        *attempt += 1;
        tokio::time::sleep(delay).await;
        Ok(())
    }
}

/// Returns a random number from 0 to below 1.
fn random_fraction() -> f64 {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    f64::from(random) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_limit_and_vary() {
        let policy = RetryPolicy {
            retries: 4,
            delay_first: Duration::from_millis(100),
            delay_max: Duration::from_millis(300),
        };
        for (attempt, longest) in [(0, 100), (1, 200), (2, 300), (3, 300)] {
            let longest = Duration::from_millis(longest);
            for _ in 0..50 {
                let delay = policy.delay(attempt, None).unwrap();
                assert!(delay >= longest / 2 && delay <= longest, "attempt {attempt}: {delay:?}");
            }
        }
        let delays: std::collections::BTreeSet<_> = (0..20).map(|_| policy.delay(3, None)).collect();
        assert!(delays.len() > 1, "delays must be random");
        assert_eq!(policy.delay(4, None), None);
        assert_eq!(RetryPolicy::OFF.delay(0, None), None);
    }

    #[test]
    fn the_server_can_ask_for_a_longer_delay() {
        let asked = Duration::from_secs(7);
        assert_eq!(RetryPolicy::default().delay(0, Some(asked)), Some(asked));
        assert_eq!(RetryPolicy::default().delay(0, Some(Duration::from_secs(86_400))), None);
    }
}
