//! Metrics at a collector and at `/metrics`: names, units, bucket bounds, and labels of bounded cardinality.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::collector::{Collector, Metric, PointValue, RawRequest, metrics};
use crate::harness::{Server, accept, gated};
use crate::telemetry::one_node;

const RUN_BOUNDS: [f64; 11] = [0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0];
const INTERRUPT_BOUNDS: [f64; 8] = [60.0, 300.0, 900.0, 1800.0, 3600.0, 14400.0, 86400.0, 604_800.0];

/// Executes a completed, a cancelled and a failed run. Returns their ids.
fn three_runs(server: &Server) -> Vec<String> {
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    client.put("/v1/workflows/failing", &one_node("failing", "core.fail", json!({})));
    let runs = vec![client.start_run("gated"), client.start_run("gated"), client.start_run("failing")];
    assert_eq!(client.answer(&runs[0], "gate", &accept()).status, 200);
    assert_eq!(client.post(&format!("/v1/runs/{}/cancel", runs[1]), &json!({})).status, 200);
    runs
}

fn sums(metric: &Metric, label: &str) -> BTreeMap<String, i64> {
    assert_eq!((metric.unit.as_str(), metric.temporality, metric.monotonic), ("1", 2, true));
    let point_value = |point: &crate::collector::Point| {
        let PointValue::Sum(value) = point.value else { panic!("{point:?}") };
        assert!(point.start > 0 && point.start <= point.time, "{point:?}");
        (point.attributes.get(label).and_then(Value::as_str).unwrap_or("").to_owned(), value)
    };
    metric.points.iter().map(point_value).collect()
}

/// Returns the counts of a histogram for each value of a label.
fn histogram_counts(metric: &Metric, label: &str, expected: &[f64]) -> BTreeMap<String, u64> {
    assert_eq!((metric.unit.as_str(), metric.temporality), ("s", 2));
    let point_value = |point: &crate::collector::Point| {
        let PointValue::Histogram { count, sum, buckets, bounds } = &point.value else { panic!("{point:?}") };
        assert_eq!(bounds, expected);
        assert_eq!((buckets.len(), buckets.iter().sum::<u64>()), (bounds.len() + 1, *count));
        assert!(*sum >= 0.0);
        (point.attributes[label].as_str().unwrap().to_owned(), *count)
    };
    metric.points.iter().map(point_value).collect()
}

fn map_of<T: Copy>(pairs: &[(&str, T)]) -> BTreeMap<String, T> {
    pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn metrics_have_the_names_units_and_bounds_of_the_contract() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::launch(folder.path(), &["--otlp-endpoint", &collector.url], |command| {
        command.stderr(Stdio::null())
    });
    let runs = three_runs(&server);
    server.terminate();
    assert!(server.wait().success());
    // The server exports its metrics when it stops.
    let metric_requests = |requests: &[RawRequest]| {
        requests.iter().filter(|sent| sent.path == "/v1/metrics").cloned().collect()
    };
    let requests: Vec<RawRequest> = metric_requests(
        &collector.wait("metrics", |requests| requests.iter().any(|sent| sent.path == "/v1/metrics")),
    );
    let last = requests.last().unwrap();
    let exported = metrics(last);
    let names: Vec<&str> = exported.keys().map(String::as_str).collect();
    let expected = [
        "openwop.activity.duration",
        "openwop.interrupt.duration",
        "openwop.interrupt.requested",
        "openwop.node.duration",
        "openwop.run.completed",
        "openwop.run.created",
        "openwop.run.duration",
    ];
    assert_eq!(names, expected);
    let ends = [("cancelled", 1), ("completed", 1), ("failed", 1)];
    assert_eq!(sums(&exported["openwop.run.created"], ""), map_of(&[("", 3)]));
    assert_eq!(sums(&exported["openwop.run.completed"], "openwop.run_status"), map_of(&ends));
    let asked = [
        ("approval", 2),
        ("clarification", 0),
        ("conversation.close", 0),
        ("conversation.exchange", 0),
        ("conversation.start", 0),
        ("custom", 0),
        ("external-event", 0),
        ("low-confidence", 0),
    ];
    assert_eq!(sums(&exported["openwop.interrupt.requested"], "openwop.interrupt_kind"), map_of(&asked));
    let ends = [("cancelled", 1), ("completed", 1), ("failed", 1)];
    assert_eq!(
        histogram_counts(&exported["openwop.run.duration"], "openwop.run_status", &RUN_BOUNDS),
        map_of(&ends)
    );
    let closed = [("cancelled", 1), ("resolved", 1), ("timeout", 0)];
    assert_eq!(
        histogram_counts(&exported["openwop.interrupt.duration"], "status", &INTERRUPT_BOUNDS),
        map_of(&closed)
    );
    let text = String::from_utf8_lossy(&last.body).into_owned();
    assert!(runs.iter().all(|run| !text.contains(run)) && !text.contains("default"), "a name in {text}");
}

/// Parses a line of the Prometheus text format: name, labels, value.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let (name, labels) =
        series.split_once('{').map_or((series, ""), |(name, rest)| (name, rest.strip_suffix('}').unwrap()));
    let fits = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    assert!(fits(name) && !name.is_empty(), "{line}");
    let pair = |pair: &str| {
        let (label, value) = pair.split_once('=').unwrap_or_else(|| panic!("{line}"));
        assert!(fits(label), "{line}");
        let value = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'))
            .unwrap_or_else(|| panic!("{line}"));
        assert!(!value.contains(['"', '\\']), "{line}");
        (label.to_owned(), value.to_owned())
    };
    let labels = labels.split(',').filter(|text| !text.is_empty()).map(pair).collect();
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("{line}")))
}

#[test]
fn the_prometheus_page_has_the_same_metrics_and_no_ids() {
    let server = Server::start();
    let runs = three_runs(&server);
    let page = server.client.get("/metrics").body.as_str().unwrap().to_owned();
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples: Vec<(String, BTreeMap<String, String>, f64)> = Vec::new();
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(kinds.insert(name, kind), None, "{name} twice");
        } else if !line.starts_with("# HELP ") {
            samples.push(sample(line));
        }
    }
    let of_family = |name: &str| {
        let plain = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        kinds.get(name).or_else(|| kinds.get(plain?).filter(|kind| **kind == "histogram"))
    };
    for (name, labels, value) in &samples {
        assert!(of_family(name).is_some(), "{name} has no type");
        assert!(value.is_finite() && *value >= 0.0, "{name} {value}");
        let known = [
            "le",
            "openwop_interrupt_kind",
            "openwop_node_type",
            "openwop_run_status",
            "provider",
            "status",
            "what",
        ];
        assert!(labels.keys().all(|label| known.contains(&label.as_str())), "{name} {labels:?}");
    }
    let find = |name: &str, label: &str, word: &str| {
        let fits = |(found, labels, _): &&(String, BTreeMap<String, String>, f64)| {
            found == name && (label.is_empty() || labels.get(label).is_some_and(|value| value == word))
        };
        samples
            .iter()
            .filter(fits)
            .map(|(_, labels, value)| (labels.get("le").cloned(), *value))
            .collect::<Vec<_>>()
    };
    assert_eq!(find("openwop_run_created_total", "", ""), [(None, 3.0)]);
    assert_eq!(find("openwop_run_completed_total", "openwop_run_status", "cancelled"), [(None, 1.0)]);
    let buckets = find("openwop_interrupt_duration_seconds_bucket", "status", "resolved");
    let bounds: Vec<String> = buckets.iter().map(|(bound, _)| bound.clone().unwrap()).collect();
    assert_eq!(bounds, ["60", "300", "900", "1800", "3600", "14400", "86400", "604800", "+Inf"]);
    assert!(
        buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1),
        "bucket counts are cumulative: {buckets:?}"
    );
    assert_eq!(find("openwop_interrupt_duration_seconds_count", "status", "resolved"), [(None, 1.0)]);
    assert!(runs.iter().all(|run| !page.contains(run)) && !page.contains("default"), "a name in {page}");
    assert!(!page.contains("holdpoint_telemetry_dropped_total"), "no collector is configured");
}
