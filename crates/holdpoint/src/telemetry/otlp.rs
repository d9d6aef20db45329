//! The messages of OTLP that the exporter sends, and functions for their attributes.

use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

pub(crate) use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
pub(crate) use opentelemetry_proto::tonic::metrics::v1::metric::Data;
pub(crate) use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Histogram, HistogramDataPoint, Metric, MetricsData, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, number_data_point,
};
pub(crate) use opentelemetry_proto::tonic::resource::v1::Resource;
pub(crate) use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
pub(crate) use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
pub(crate) use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, TracesData};

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

pub(crate) fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

pub(crate) fn flag(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::BoolValue(value))
}

/// Returns the value of an attribute that a function of this module returned.
pub(crate) fn as_json(attribute: &KeyValue) -> serde_json::Value {
    match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.as_str().into(),
        Some(Value::BoolValue(flag)) => (*flag).into(),
        Some(Value::IntValue(number)) => (*number).into(),
        _ => serde_json::Value::Null,
    }
}
