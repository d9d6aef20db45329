//! Messages against what OTLP's own files say of them.

use prost::Message;
use serde_json::json;

use super::*;

fn span() -> Traces {
    let span = Span {
        trace_id: (1..=16).collect(),
        span_id: (1..=8).collect(),
        parent_span_id: Vec::new(),
        name: "n".to_owned(),
        kind: Span::INTERNAL,
        start_time_unix_nano: 1,
        end_time_unix_nano: 0x0102_0304_0506_0708,
        attributes: vec![KeyValue::number("k", 300)],
        links: vec![Link { trace_id: vec![9], span_id: vec![8] }],
        status: Some(Status { message: "m".to_owned(), code: Status::ERROR }),
    };
    let scope = Some(Scope { name: "s".to_owned(), version: String::new() });
    let scope_spans = vec![ScopeSpans { scope, spans: vec![span] }];
    let resource = Some(Resource { attributes: vec![KeyValue::flag("f", false)] });
    Traces { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
}

/// Worked out by hand from `trace.proto`, `common.proto` and `resource.proto`.
#[test]
fn a_span_is_these_bytes() {
    #[rustfmt::skip]
    let span = [
        0x0a, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, // 1: trace_id
        0x12, 8, 1, 2, 3, 4, 5, 6, 7, 8,                                // 2: span_id
        0x2a, 1, b'n',                                                  // 5: name
        0x30, 1,                                                        // 6: kind
        0x39, 1, 0, 0, 0, 0, 0, 0, 0,                                   // 7: start, little-endian
        0x41, 8, 7, 6, 5, 4, 3, 2, 1,                                   // 8: end
        0x4a, 8, 0x0a, 1, b'k', 0x12, 3, 0x18, 0xac, 0x02,              // 9: attribute, int_value 300
        0x6a, 6, 0x0a, 1, 9, 0x12, 1, 8,                                // 13: link
        0x7a, 5, 0x12, 1, b'm', 0x18, 2,                                // 15: status
    ];
    let mut bytes = vec![0x0a, 96, 0x0a, 9, 0x0a, 7, 0x0a, 1, b'f', 0x12, 2, 0x10, 0];
    bytes.extend([0x12, 83, 0x0a, 3, 0x0a, 1, b's', 0x12, 76]);
    assert_eq!(span.len(), 76);
    bytes.extend(span);
    assert_eq!(span_bytes(), bytes);
}

fn span_bytes() -> Vec<u8> {
    span().encode_to_vec()
}

#[test]
fn in_json_ids_are_hexadecimal_and_long_numbers_are_strings() {
    let expected = json!({"resourceSpans": [{
        "resource": {"attributes": [{"key": "f", "value": {"boolValue": false}}]},
        "scopeSpans": [{
            "scope": {"name": "s", "version": ""},
            "spans": [{
                "traceId": "0102030405060708090a0b0c0d0e0f10", "spanId": "0102030405060708", "name": "n",
                "kind": 1, "startTimeUnixNano": "1", "endTimeUnixNano": "72623859790382856",
                "attributes": [{"key": "k", "value": {"intValue": "300"}}],
                "links": [{"traceId": "09", "spanId": "08"}], "status": {"message": "m", "code": 2},
            }],
        }],
    }]});
    assert_eq!(serde_json::to_value(span()).unwrap(), expected);
}

#[test]
fn a_count_of_0_is_a_point_with_a_value() {
    let point =
        NumberPoint { attributes: Vec::new(), start_time_unix_nano: 0, time_unix_nano: 0, as_int: Some(0) };
    assert_eq!(point.encode_to_vec(), [0x31, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(serde_json::to_value(&point).unwrap()["asInt"], "0");
}

#[test]
fn a_histogram_in_json_has_its_counts_as_strings_and_its_bounds_as_numbers() {
    let point = HistogramPoint {
        attributes: vec![KeyValue::text("status", "resolved")],
        start_time_unix_nano: 1,
        time_unix_nano: 2,
        count: 3,
        sum: Some(1.5),
        bucket_counts: vec![1, 2],
        explicit_bounds: vec![60.0],
    };
    let data = Data::Histogram(Histogram { data_points: vec![point], aggregation_temporality: CUMULATIVE });
    let metric =
        Metric { name: "n".to_owned(), description: "d".to_owned(), unit: "s".to_owned(), data: Some(data) };
    let expected = json!({
        "name": "n", "description": "d", "unit": "s",
        "histogram": {"aggregationTemporality": 2, "dataPoints": [{
            "attributes": [{"key": "status", "value": {"stringValue": "resolved"}}],
            "startTimeUnixNano": "1", "timeUnixNano": "2", "count": "3", "sum": 1.5,
            "bucketCounts": ["1", "2"], "explicitBounds": [60.0],
        }]},
    });
    assert_eq!(serde_json::to_value(metric).unwrap(), expected);
}
