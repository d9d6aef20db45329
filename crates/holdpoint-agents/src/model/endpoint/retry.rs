//! The delay before a retry, as a pure function: time and randomness are arguments.

use std::time::Duration;

/// The longest requested wait before a retry. If the server requests a longer one, the call fails and the run waits.
pub(super) const REQUESTED_WAIT_MAX: Duration = Duration::from_secs(30);
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Returns the delay after this number of failures. None if there is not enough time left or the server requests a
/// longer wait than [`REQUESTED_WAIT_MAX`]. `jitter` is between 0 and 1.
pub(super) fn delay(
    failed: u32,
    base: Duration,
    requested_ms: Option<u64>,
    left: Duration,
    jitter: f64,
) -> Option<Duration> {
    let doubled = base.saturating_mul(2_u32.saturating_pow(failed)).min(WAIT_MAX);
    let backoff = doubled.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0));
    let requested = Duration::from_millis(requested_ms.unwrap_or(0));
    let wait = backoff.max(requested);
    (requested <= REQUESTED_WAIT_MAX && wait < left).then_some(wait)
}

/// Returns a random number from 0 to 1, from the random bits of a UUID.
pub(super) fn jitter() -> f64 {
    let bits = uuid::Uuid::now_v7().as_u128() & 0xffff;
    u16::try_from(bits).map_or(0.5, f64::from) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn delays_double_up_to_a_limit_with_jitter_of_one_half() {
        let long = ms(1_000_000);
        for (failed, jitter, expected) in [
            (0, 1.0, 500),
            (1, 1.0, 1000),
            (2, 1.0, 2000),
            (0, 0.0, 250),
            (9, 1.0, 20_000),
            (99, 0.0, 10_000),
        ] {
            assert_eq!(delay(failed, ms(500), None, long, jitter), Some(ms(expected)), "{failed} {jitter}");
        }
    }

    #[test]
    fn a_requested_wait_is_honoured_up_to_its_limit() {
        let long = ms(1_000_000);
        assert_eq!(delay(0, ms(500), Some(7000), long, 0.5), Some(ms(7000)));
        assert_eq!(delay(0, ms(500), Some(0), long, 1.0), Some(ms(500)), "the computed delay is the minimum");
        assert_eq!(delay(0, ms(500), Some(30_000), long, 0.5), Some(ms(30_000)));
        assert_eq!(delay(0, ms(500), Some(30_001), long, 0.5), None);
        assert_eq!(delay(0, ms(500), Some(u64::MAX), long, 0.5), None);
    }

    #[test]
    fn there_is_no_retry_without_enough_time_left() {
        assert_eq!(delay(0, ms(500), None, ms(500), 1.0), None);
        assert_eq!(delay(0, ms(500), None, ms(501), 1.0), Some(ms(500)));
        assert_eq!(delay(0, ms(5), Some(1000), ms(900), 1.0), None);
        assert_eq!(delay(0, ms(5), None, Duration::ZERO, 0.0), None);
    }
}
