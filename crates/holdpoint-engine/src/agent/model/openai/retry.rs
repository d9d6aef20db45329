//! When a model is asked again. Pure: time and chance are arguments.

use std::time::Duration;

/// A server that wants to be left alone for longer is left to whoever carries the run on later.
pub(super) const ASKED_WAIT_MAX: Duration = Duration::from_secs(30);
const WAIT_MAX: Duration = Duration::from_secs(20);

/// How long to wait after so many failures, or nothing where there is no time for it. `jitter` is between 0 and 1.
pub(super) fn wait(
    failed: u32,
    base: Duration,
    asked_ms: Option<u64>,
    left: Duration,
    jitter: f64,
) -> Option<Duration> {
    let doubled = base.saturating_mul(2_u32.saturating_pow(failed)).min(WAIT_MAX);
    let ours = doubled.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0));
    let asked = Duration::from_millis(asked_ms.unwrap_or(0));
    let wait = ours.max(asked);
    (asked <= ASKED_WAIT_MAX && wait < left).then_some(wait)
}

/// From the random bits of an id.
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
    fn waits_double_up_to_a_limit_and_are_spread_by_half() {
        let long = ms(1_000_000);
        for (failed, jitter, expected) in [
            (0, 1.0, 500),
            (1, 1.0, 1000),
            (2, 1.0, 2000),
            (0, 0.0, 250),
            (9, 1.0, 20_000),
            (99, 0.0, 10_000),
        ] {
            assert_eq!(wait(failed, ms(500), None, long, jitter), Some(ms(expected)), "{failed} {jitter}");
        }
    }

    #[test]
    fn a_server_is_left_alone_for_as_long_as_it_asks_or_is_not_asked_again() {
        let long = ms(1_000_000);
        assert_eq!(wait(0, ms(500), Some(7000), long, 0.5), Some(ms(7000)));
        assert_eq!(wait(0, ms(500), Some(0), long, 1.0), Some(ms(500)), "our own wait is the least");
        assert_eq!(wait(0, ms(500), Some(30_000), long, 0.5), Some(ms(30_000)));
        assert_eq!(wait(0, ms(500), Some(30_001), long, 0.5), None);
        assert_eq!(wait(0, ms(500), Some(u64::MAX), long, 0.5), None);
    }

    #[test]
    fn nobody_waits_for_longer_than_there_is_time() {
        assert_eq!(wait(0, ms(500), None, ms(500), 1.0), None);
        assert_eq!(wait(0, ms(500), None, ms(501), 1.0), Some(ms(500)));
        assert_eq!(wait(0, ms(5), Some(1000), ms(900), 1.0), None);
        assert_eq!(wait(0, ms(5), None, Duration::ZERO, 0.0), None);
    }
}
