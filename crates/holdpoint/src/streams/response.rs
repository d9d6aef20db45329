//! The response of a stream: content negotiation, keepalives, and the end of the stream with its credential.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{BoxStream, unfold};
use futures_util::{Stream, StreamExt};

use super::StreamPermit;
use crate::auth::CredentialGuard;
use crate::error::ApiError;

/// Time without a frame after which the stream sends a comment, so that proxies and clients keep the connection.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE: &[u8] = b":keepalive\n\n";

/// Returns a response that streams frames until the frames or the credential of the caller end. `last_frame` builds the
/// frame that states why the credential ended: [`comment`], or an event of the protocol.
#[expect(clippy::disallowed_methods, reason = "the guard ends these frames")]
pub(crate) fn respond(
    permit: StreamPermit,
    frames: impl Stream<Item = Bytes> + Send + 'static,
    last_frame: fn(&ApiError) -> Bytes,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-cache"),
        // Disables response buffering in proxies such as nginx.
        ("x-accel-buffering", "no"),
    ];
    let StreamPermit { guard, slot } = permit;
    let frames = GuardedFrames::new(guard, frames, last_frame).into_stream();
    let counted = frames.map(move |frame| {
        // Dropping the stream frees the slot.
        let _slot = &slot;
        Ok::<_, Infallible>(frame)
    });
    (headers, Body::from_stream(counted)).into_response()
}

/// Returns an SSE comment with the reason why a stream ended, for protocols without an event for it.
pub(crate) fn comment(ended: &ApiError) -> Bytes {
    let body = ended.body();
    let text = |name: &str| body[name].as_str().unwrap_or_default().replace(['\r', '\n'], " ");
    format!(":{} {}\n\n", text("error"), text("message")).into()
}

/// Frames of a stream with keepalives between them. Ends with the credential of the caller.
struct GuardedFrames {
    guard: CredentialGuard,
    frames: BoxStream<'static, Bytes>,
    last_frame: fn(&ApiError) -> Bytes,
    keepalive_after: Duration,
    ended: bool,
}

impl GuardedFrames {
    fn new(
        guard: CredentialGuard,
        frames: impl Stream<Item = Bytes> + Send + 'static,
        last_frame: fn(&ApiError) -> Bytes,
    ) -> Self {
        Self { guard, frames: frames.boxed(), last_frame, keepalive_after: KEEPALIVE_AFTER, ended: false }
    }

    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        unfold(self, |mut guarded| async move { guarded.next().await.map(|frame| (frame, guarded)) })
    }

    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        // If the client has not read for a while, the check is overdue and comes before the next frame.
        if let Err(ended) = self.guard.check_if_due().await {
            return Some(self.end(&ended));
        }
        tokio::select! {
            biased;
            ended = self.guard.ended() => Some(self.end(&ended)),
            frame = self.frames.next() => frame,
            () = tokio::time::sleep(self.keepalive_after) => Some(Bytes::from_static(KEEPALIVE)),
        }
    }

    fn end(&mut self, why: &ApiError) -> Bytes {
        self.ended = true;
        (self.last_frame)(why)
    }
}

/// Returns the highest weight that the `Accept` headers give to a media type by name. Wildcards are ignored.
pub(crate) fn accept_weight(headers: &HeaderMap, media_type: &str) -> f32 {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = accepted.flat_map(|value| value.split(','));
    ranges.filter_map(|range| range_weight(range, media_type)).fold(0.0, f32::max)
}

/// Returns the weight of a media range if it names exactly this media type.
fn range_weight(range: &str, media_type: &str) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(media_type) {
        return None;
    }
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    Some(weight.and_then(|text| text.trim().parse().ok()).unwrap_or(1.0))
}

#[cfg(test)]
mod tests;
