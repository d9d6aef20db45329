//! The `Retry-After` header: seconds or an HTTP date.

use crate::Timestamp;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the delay in milliseconds. None if the text is neither seconds nor an HTTP date. A date in the past is a
/// delay of 0.
pub fn retry_after_ms(text: &str, now: Timestamp) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse::<u64>().map_or(u64::MAX, |seconds| seconds.saturating_mul(1000)));
    }
    let at = http_date_ms(text)?;
    Some(u64::try_from(at.saturating_sub(now.0)).unwrap_or(0))
}

/// Parses a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, the only format that senders may use.
fn http_date_ms(text: &str) -> Option<i64> {
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let day = number(words.next()?, 31)?;
    let month = words.next().and_then(|name| MONTHS.iter().position(|known| *known == name))?;
    let year = words.next().filter(|year| year.len() == 4).and_then(|year| number(year, 9999))?;
    let mut clock = words.next()?.split(':');
    let (hour, minute, second) =
        (number(clock.next()?, 23)?, number(clock.next()?, 59)?, number(clock.next()?, 60)?);
    if words.next() != Some("GMT") || words.next().is_some() || clock.next().is_some() || day == 0 {
        return None;
    }
    let month = i64::try_from(month).ok()? + 1;
    Some((((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}

fn number(text: &str, most: i64) -> Option<i64> {
    let digits = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= most)
}

/// Returns the days since 1970-01-01. In the computation, a year begins in March, so that the leap day is its last day.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let shifted = if month > 2 { year } else { year - 1 };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    shifted * 365 + shifted.div_euclid(4) - shifted.div_euclid(100) + shifted.div_euclid(400) + of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_seconds_and_http_dates_are_parsed() {
        let now = Timestamp(784_111_777_000);
        assert_eq!(retry_after_ms("120", now), Some(120_000));
        assert_eq!(retry_after_ms(" 0 ", now), Some(0));
        assert_eq!(retry_after_ms("99999999999999999999", now), Some(u64::MAX));
        assert_eq!(retry_after_ms("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(0));
        assert_eq!(retry_after_ms("Sun, 06 Nov 1994 08:50:37 GMT", now), Some(60_000));
        assert_eq!(retry_after_ms("Sun, 06 Nov 1994 08:48:37 GMT", now), Some(0), "the date is in the past");
        for wrong in ["", "-1", "1.5", "soon", "Sun, 06 Nov 1994 08:49:37", "Sun, 32 Nov 1994 08:49:37 GMT"] {
            assert_eq!(retry_after_ms(wrong, now), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_date_is_converted_to_the_same_instant() {
        for (text, shown) in [
            ("Thu, 29 Feb 2024 23:59:59 GMT", "2024-02-29T23:59:59.000Z"),
            ("Fri, 01 Mar 2024 00:00:00 GMT", "2024-03-01T00:00:00.000Z"),
            ("Thu, 01 Jan 1970 00:00:01 GMT", "1970-01-01T00:00:01.000Z"),
        ] {
            let ms = retry_after_ms(text, Timestamp(0)).unwrap();
            assert_eq!(Timestamp(0).plus_ms(ms).to_string(), shown);
        }
    }
}
