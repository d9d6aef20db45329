//! Identifiers and instants as types. `parse` accepts only valid texts, so a parsed id is not checked again.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits;

/// The error for a text that is not a valid identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be 1 to {max} characters without control characters")]
pub struct BadId {
    what: &'static str,
    max: usize,
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, BadId> {
                let length = text.chars().count();
                if length == 0 || length > $max || text.chars().any(char::is_control) {
                    return Err(BadId { what: $what, max: $max });
                }
                Ok(Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the text without a copy.
            pub fn shared(&self) -> Arc<str> {
                self.0.clone()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(RunId, "a run id", limits::ID_CHARS_MAX);
text_id!(TenantId, "a tenant id", limits::ID_CHARS_MAX);
text_id!(WorkflowId, "a workflow id", limits::ID_CHARS_MAX);
text_id!(
    /// The id of a node inside its workflow. Tools generate long ids, so the only limit is the size of a request.
    NodeId,
    "a node id",
    limits::REQUEST_BYTES_MAX
);

/// A run and its tenant. No lookup uses the run id alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunRef {
    pub tenant: TenantId,
    pub run: RunId,
}

/// The principal that started a run, and its tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RunOwner"))]
pub struct Owner {
    pub tenant: TenantId,
    pub principal: String,
}

/// The ordinal of an interrupt in its run, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InterruptId(pub u32);

impl fmt::Display for InterruptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0)
    }
}

/// An instant in Unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the instant `ms` later. Saturates instead of overflowing.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add_unsigned(ms))
    }

    /// Parses an instant in RFC 3339. Rounds a part of a millisecond up, so that no deadline is early.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        let (ms, rest) = (at.as_nanosecond().div_euclid(1_000_000), at.as_nanosecond().rem_euclid(1_000_000));
        Some(Self(i64::try_from(ms).ok()?.saturating_add(i64::from(rest > 0))))
    }

    /// Returns ISO 8601 in UTC with milliseconds. A year has four digits: instants beyond them are written as the first
    /// or the last instant with four digits.
    pub fn to_iso(self) -> IsoText {
        const DAY_MS: i64 = 86_400_000;
        const YEARS_0_TO_9999: (i64, i64) = (-62_167_219_200_000, 253_402_300_799_999);
        let at = self.0.clamp(YEARS_0_TO_9999.0, YEARS_0_TO_9999.1);
        let (year, month, day) = civil_date(at.div_euclid(DAY_MS));
        let ms = at.rem_euclid(DAY_MS);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        put_digits(&mut text[0..4], year);
        put_digits(&mut text[5..7], month);
        put_digits(&mut text[8..10], day);
        put_digits(&mut text[11..13], ms / 3_600_000);
        put_digits(&mut text[14..16], ms / 60_000 % 60);
        put_digits(&mut text[17..19], ms / 1000 % 60);
        put_digits(&mut text[20..23], ms % 1000);
        IsoText(text)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_iso().as_str())
    }
}

/// An instant as ISO 8601. Documents contain many instants, so the digits are written directly, which is faster than
/// `format!`.
#[derive(Clone, Copy, Debug)]
pub struct IsoText([u8; 24]);

impl IsoText {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Writes the last decimal digits of a number that is not negative.
fn put_digits(text: &mut [u8], mut number: i64) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Returns the year, month and day of a day counted from 1970-01-01. In the computation, a year begins in March, so
/// that the leap day is its last day.
fn civil_date(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let shifted = days + 719_468;
    let era = shifted.div_euclid(ERA_DAYS);
    let of_era = shifted.rem_euclid(ERA_DAYS);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_shown_as_iso_8601_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (1_794_733_199_999, "2026-11-15T08:59:59.999Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp(ms).to_string(), text);
        }
    }

    #[test]
    fn an_instant_beyond_four_digit_years_is_clamped() {
        let now = Timestamp(1_794_733_199_999);
        for ms in [170_399_243_271_378_976, u64::MAX] {
            assert_eq!(now.plus_ms(ms).to_string(), "9999-12-31T23:59:59.999Z");
        }
        assert_eq!(Timestamp(i64::MIN).to_string(), "0000-01-01T00:00:00.000Z");
        assert_eq!(now.plus_ms(1).to_string(), "2026-11-15T09:00:00.000Z");
    }

    #[test]
    fn an_id_that_is_empty_too_long_or_has_control_characters_is_rejected() {
        for bad in ["", "a\nb", &"x".repeat(129)] {
            assert!(RunId::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(RunId::parse("größe-1").unwrap().as_str(), "größe-1");
    }
}
