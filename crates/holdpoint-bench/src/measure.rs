//! Percentiles, differences of Prometheus counters, and the formatting of numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// The median and the 99th percentile of durations, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Percentiles {
    /// Returns None if there are no samples.
    pub(super) fn of(samples: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut samples: Vec<Duration> = samples.into_iter().collect();
        samples.sort_unstable();
        Some(Self { p50: percentile_ms(&samples, 0.50)?, p99: percentile_ms(&samples, 0.99)? })
    }

    pub(super) fn text(spread: Option<Self>) -> String {
        spread.map_or_else(|| "unknown".to_string(), |at| format!("{:.2} / {:.2} ms", at.p50, at.p99))
    }
}

/// Returns the smallest sample such that at least the share `q` of the samples is less than or equal to it.
fn percentile_ms(sorted: &[Duration], q: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).map(|sample| round(sample.as_secs_f64() * 1000.0))
}

/// Prometheus metrics; samples of one name are summed over their labels.
#[derive(Debug, Default)]
pub(super) struct Metrics(pub(super) BTreeMap<String, f64>);

impl Metrics {
    pub(super) fn parse(text: &str) -> Self {
        let mut sums = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, rest)) = line.split_once(['{', ' ']) else { continue };
            // A label may contain blanks and braces, so the value starts after the last brace.
            let rest = rest.rsplit_once('}').map_or(rest, |(_, value)| value);
            let value = rest.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
            if let Some(value) = value {
                *sums.entry(name.to_string()).or_insert(0.0) += value;
            }
        }
        Self(sums)
    }

    pub(super) fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Returns the growth of a counter since `before`.
    pub(super) fn since(&self, before: &Self, name: &str) -> Option<f64> {
        Some(self.get(name)? - before.get(name)?)
    }
}

/// Returns part divided by whole, or None if one of them is unknown or the whole is zero.
pub(super) fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    whole.filter(|whole| *whole > 0.0).and_then(|whole| Some(part? / whole))
}

/// Returns the median; the higher middle value if the number of values is even.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Rounds to three decimals.
pub(super) fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// A number that is serialized with at most three decimals. A whole number is serialized without a decimal point, an
/// unknown number as null.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundedNumber(pub(super) Option<f64>);

impl Serialize for RoundedNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.map(round) {
            None => serializer.serialize_none(),
            Some(whole) if whole.fract() == 0.0 => serializer.serialize_i64(whole as i64),
            Some(value) => serializer.serialize_f64(value),
        }
    }
}

pub(super) fn format_number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "unknown".to_string(), |value| format!("{value:.decimals$}"))
}

/// Returns an empty text for an unknown value, so that its line is not printed.
pub(super) fn format_known(value: Option<f64>, decimals: usize, unit: &str) -> String {
    value.map(|value| format!("{value:.decimals$}{unit}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_at_their_rank() {
        let samples: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(Percentiles::of(samples), Some(Percentiles { p50: 100.0, p99: 198.0 }));
        let one = Percentiles::of(vec![Duration::from_millis(7)]);
        assert_eq!(one, Some(Percentiles { p50: 7.0, p99: 7.0 }));
        assert_eq!(Percentiles::of(vec![]), None);
    }

    #[test]
    fn the_median_is_the_higher_middle_value() {
        assert_eq!(median(&[9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0]), Some(9.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn metrics_are_summed_over_labels_and_comments_are_skipped() {
        let text = "# HELP a x\n# TYPE a counter\na{x=\"1 } 9\",y=\"2\"} 3\na{x=\"2\"} 4.5 1700000000\nb 1e3\nbroken\nc x\n";
        let metrics = Metrics::parse(text);
        assert_eq!(metrics.get("a"), Some(7.5));
        assert_eq!(metrics.get("b"), Some(1000.0));
        assert_eq!(metrics.get("c"), None);
    }

    #[test]
    fn results_of_unknown_values_are_unknown() {
        let (before, after) = (Metrics::parse("a 1\n"), Metrics::parse("a 5\nb 2\n"));
        assert_eq!(after.since(&before, "a"), Some(4.0));
        assert_eq!(after.since(&before, "b"), None);
        assert_eq!(ratio(Some(1.0), Some(0.0)), None);
        assert_eq!(ratio(Some(1.0), Some(4.0)), Some(0.25));
        let json = |value: Option<f64>| serde_json::to_string(&RoundedNumber(value)).unwrap();
        assert_eq!(
            (json(Some(12.0)), json(Some(1.2345)), json(None)),
            ("12".into(), "1.235".into(), "null".into())
        );
        assert_eq!(format_number(None, 1), "unknown");
    }
}
