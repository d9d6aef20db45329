//! Server-sent events as every protocol sends them: asked for with `Accept`, and kept open on the way.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::Stream;

/// Frames as an answer that stays open.
pub(crate) fn streamed(frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-cache"),
        // Some proxies gather an answer before they pass it on, unless they are told not to.
        ("x-accel-buffering", "no"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

/// How much a media type is wanted by its own name.
pub(crate) fn weight(headers: &HeaderMap, wanted: &str) -> f32 {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = accepted.flat_map(|value| value.split(','));
    ranges.filter_map(|range| weight_of(range, wanted)).fold(0.0, f32::max)
}

/// The weight a media range gives to exactly this type.
fn weight_of(range: &str, wanted: &str) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(wanted) {
        return None;
    }
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    Some(weight.and_then(|text| text.trim().parse().ok()).unwrap_or(1.0))
}
