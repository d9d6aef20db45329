//! Times as settings have them.

use std::time::Duration;

/// The longest time that a setting may have.
const MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// `90s`, `15m`, `12h`, `30d`, or `0` for nothing.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let seconds = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(24 * 3600),
        _ => None,
    };
    let time = match seconds {
        Some(seconds) => number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)),
        None => (text == "0").then_some(0),
    };
    let time = time.map(Duration::from_secs).filter(|time| *time <= MAX);
    time.ok_or_else(|| {
        "write a number and s, m, h or d, such as 24h, up to 365d; or 0 to keep none".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, seconds) in
            [("0", 0), ("0h", 0), ("90s", 90), ("15m", 900), ("12h", 43_200), ("365d", 31_536_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "1", "h", "-1h", "1.5h", "366d", "1w", "99999999999999999999d", "1é"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
