//! Durations in settings.

use std::time::Duration;

use holdpoint_cli::values::seconds_within;

const DAYS_MAX: u64 = 365;

/// Parses a duration of at most a year, such as `12h` or `30d`, or `0`.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    seconds_within(text, ..=DAYS_MAX * 24 * 3600)
        .map(Duration::from_secs)
        .ok_or_else(|| format!("must be a number and s, m, h, d or w, such as 24h, up to {DAYS_MAX}d; or 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_at_most_a_year() {
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert_eq!(parse("365d"), Ok(Duration::from_secs(31_536_000)));
        for text in ["", "1", "366d", "53w", "99999999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
