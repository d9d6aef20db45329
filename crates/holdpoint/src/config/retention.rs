//! How long events are kept for who comes later.

use std::time::Duration;

use anyhow::anyhow;

const DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// A year is a long time to wait for something that has happened.
const MAX: Duration = Duration::from_secs(365 * 24 * 3600);

pub(super) fn choose(flag: Option<Duration>, file: Option<&str>) -> anyhow::Result<Duration> {
    let file = file.map(parse).transpose().map_err(|why| anyhow!("event_retention: {why}"))?;
    Ok(flag.or(file).unwrap_or(DEFAULT))
}

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
    fn times_are_read_and_the_flag_wins() {
        for (text, seconds) in
            [("0", 0), ("0h", 0), ("90s", 90), ("15m", 900), ("12h", 43_200), ("365d", 31_536_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "1", "h", "-1h", "1.5h", "366d", "1w", "99999999999999999999d", "1é"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(choose(None, None).unwrap(), DEFAULT);
        assert_eq!(choose(None, Some("1h")).unwrap(), Duration::from_secs(3600));
        assert_eq!(choose(Some(Duration::ZERO), Some("1h")).unwrap(), Duration::ZERO);
        assert!(choose(None, Some("soon")).unwrap_err().to_string().contains("event_retention"));
    }
}
