//! The measures of the engine as OTLP metrics and in the text format of Prometheus, with the names of the protocol.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use holdpoint_core::Timestamp;
use holdpoint_engine::{Distribution, Engine, EngineMetrics};
use holdpoint_providers::{ProviderMeasures, Providers};

use super::otlp::{
    self, AggregationTemporality, Data, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
    number_data_point,
};

/// The labels of a value: pairs of name and value.
type Labels = Vec<(&'static str, String)>;

enum Points {
    Counts(Vec<(Labels, u64)>),
    Distributions(Vec<(Labels, Distribution)>),
}

struct MetricSeries {
    name: &'static str,
    help: &'static str,
    unit: &'static str,
    points: Points,
}

fn all(engine: &Engine) -> Vec<MetricSeries> {
    let providers = engine.extension::<Providers>().map(|providers| providers.metrics().read());
    let mut series = of_engine(engine.measures());
    series.extend(of_providers(&providers.unwrap_or_default()));
    series
}

/// Returns the measures of turns of providers. A kind without turns has none.
fn of_providers(kinds: &[ProviderMeasures]) -> Vec<MetricSeries> {
    if kinds.is_empty() {
        return Vec::new();
    }
    let labels = |of: &ProviderMeasures| vec![("provider", of.kind.clone())];
    let counts = |counts: Vec<(Labels, u64)>| Points::Counts(counts);
    let spread = |read: fn(&ProviderMeasures) -> &Distribution| {
        Points::Distributions(kinds.iter().map(|of| (labels(of), read(of).clone())).collect())
    };
    let with = |of: &ProviderMeasures, name: &'static str, value: &str| {
        let mut all = labels(of);
        all.push((name, value.to_owned()));
        all
    };
    let turns = kinds
        .iter()
        .flat_map(|of| of.turns.iter().map(move |(outcome, count)| (with(of, "outcome", outcome), *count)));
    let tokens = kinds.iter().flat_map(|of| {
        let named = [("input", of.tokens.input_tokens), ("output", of.tokens.output_tokens)];
        named.map(|(kind, count)| (with(of, "type", kind), count))
    });
    let retries = kinds.iter().map(|of| (labels(of), of.retries));
    let measure = |name, help, unit, points| MetricSeries { name, help, unit, points };
    vec![
        measure("holdpoint.provider.turns", "Turns of providers that ended.", "1", counts(turns.collect())),
        measure(
            "holdpoint.provider.turn.duration",
            "Time of turns of providers, with retries.",
            "s",
            spread(|of| &of.durations),
        ),
        measure(
            "holdpoint.provider.first_text",
            "Time from the start of a turn to its first text.",
            "s",
            spread(|of| &of.first_texts),
        ),
        measure(
            "holdpoint.provider.lock_wait",
            "Time that turns waited for the lock of their graph.",
            "s",
            spread(|of| &of.lock_waits),
        ),
        measure("holdpoint.provider.retries", "Repeated attempts of turns.", "1", counts(retries.collect())),
        measure(
            "holdpoint.provider.tokens",
            "Tokens that providers reported.",
            "1",
            counts(tokens.collect()),
        ),
    ]
}

fn of_engine(measures: &EngineMetrics) -> Vec<MetricSeries> {
    let label = |name: &'static str, value: &str| vec![(name, value.to_owned())];
    let runs: Vec<(Labels, Distribution)> =
        measures.runs.read().map(|(word, read)| (label("openwop.run_status", word), read)).collect();
    let nodes = measures.nodes.iter().flat_map(|(type_id, family)| {
        family.read().map(|(word, read)| {
            let labels =
                vec![("openwop.node_type", type_id.clone()), ("openwop.run_status", word.to_owned())];
            (labels, read)
        })
    });
    let activities =
        measures.activities.iter().map(|(type_id, histogram)| (label("provider", type_id), histogram.read()));
    let asked = measures.interrupts_requested.read();
    let asked = asked.map(|(kind, count)| (label("openwop.interrupt_kind", kind), count));
    let ended = measures.runs_ended.read();
    let ended = ended.map(|(word, count)| (label("openwop.run_status", word), count)).collect();
    let created = measures.runs_created.load(Ordering::Relaxed);
    let measure = |name, help, unit, points| MetricSeries { name, help, unit, points };
    vec![
        measure(
            "openwop.run.created",
            "Runs that were accepted.",
            "1",
            Points::Counts(vec![(Vec::new(), created)]),
        ),
        measure("openwop.run.completed", "Runs that ended.", "1", Points::Counts(ended)),
        measure(
            "openwop.run.duration",
            "Time from start to end, including waits; without forks.",
            "s",
            Points::Distributions(runs),
        ),
        measure(
            "openwop.node.duration",
            "Time of attempts of nodes, including waits.",
            "s",
            non_empty(nodes),
        ),
        measure("openwop.activity.duration", "Time of recorded effects.", "s", non_empty(activities)),
        measure("openwop.interrupt.requested", "Interrupts requested.", "1", Points::Counts(asked.collect())),
        measure("openwop.interrupt.duration", "Time from the request of an interrupt to its end.", "s", {
            let read = measures.interrupts.read().map(|(word, read)| (label("status", word), read));
            Points::Distributions(read.collect())
        }),
    ]
}

/// Keeps the distributions that have values, because most node types have none.
fn non_empty(distributions: impl Iterator<Item = (Labels, Distribution)>) -> Points {
    Points::Distributions(distributions.filter(|(_, read)| read.count() > 0).collect())
}

/// Returns the measures as OTLP metrics of the time from `since` to `now`.
pub(crate) fn otlp_metrics(engine: &Engine, since: Timestamp, now: Timestamp) -> Vec<Metric> {
    let nanoseconds = |at: Timestamp| u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000);
    let (from, to) = (nanoseconds(since), nanoseconds(now));
    let attributes =
        |labels: &Labels| labels.iter().map(|(name, value)| otlp::text(name, value.as_str())).collect();
    let number = |(labels, count): &(Labels, u64)| NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: from,
        time_unix_nano: to,
        value: Some(number_data_point::Value::AsInt(i64::try_from(*count).unwrap_or(i64::MAX))),
        ..NumberDataPoint::default()
    };
    let spread = |(labels, read): &(Labels, Distribution)| HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: from,
        time_unix_nano: to,
        count: read.count(),
        sum: Some(read.sum_seconds),
        bucket_counts: read.counts.clone(),
        explicit_bounds: read.bounds.to_vec(),
        ..HistogramDataPoint::default()
    };
    let data = |points: &Points| match points {
        Points::Counts(counts) => Data::Sum(Sum {
            data_points: counts.iter().map(number).collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        Points::Distributions(distributions) => Data::Histogram(Histogram {
            data_points: distributions.iter().map(spread).collect(),
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
        }),
    };
    let metric = |measure: &MetricSeries| Metric {
        name: measure.name.to_owned(),
        description: measure.help.to_owned(),
        unit: measure.unit.to_owned(),
        data: Some(data(&measure.points)),
        ..Metric::default()
    };
    all(engine).iter().map(metric).collect()
}

/// Adds the measures to a page for Prometheus. Its names have no dots, and counters end in `_total`.
pub(crate) fn write_prometheus(engine: &Engine, page: &mut String) {
    for measure in all(engine) {
        let name = measure.name.replace('.', "_");
        let (name, kind) = match &measure.points {
            Points::Counts(_) => (format!("{name}_total"), "counter"),
            Points::Distributions(_) => (format!("{name}_seconds"), "histogram"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", measure.help);
        match &measure.points {
            Points::Counts(counts) => {
                for (labels, count) in counts {
                    let _ = writeln!(page, "{name}{} {count}", braces(labels, None));
                }
            }
            Points::Distributions(distributions) => {
                distributions.iter().for_each(|(labels, read)| write_distribution(page, &name, labels, read));
            }
        }
    }
}

fn write_distribution(page: &mut String, name: &str, labels: &Labels, read: &Distribution) {
    let mut below = 0;
    for (count, bound) in read.counts.iter().zip(read.bounds) {
        below += count;
        let _ = writeln!(page, "{name}_bucket{} {below}", braces(labels, Some(&bound.to_string())));
    }
    let count = read.count();
    let _ = writeln!(page, "{name}_bucket{} {count}", braces(labels, Some("+Inf")));
    let _ = writeln!(page, "{name}_sum{} {}", braces(labels, None), read.sum_seconds);
    let _ = writeln!(page, "{name}_count{} {count}", braces(labels, None));
}

fn braces(labels: &Labels, bound: Option<&str>) -> String {
    let named = labels.iter().map(|(name, value)| (name.replace('.', "_"), value.as_str()));
    let all = named.chain(bound.map(|bound| ("le".to_owned(), bound)));
    let quoted: Vec<String> = all.map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    if quoted.is_empty() { String::new() } else { format!("{{{}}}", quoted.join(",")) }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
