//! Reading a run's log: as a stream that stays open, as a list, or as a list that is waited for.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use holdpoint_api::events::{
    BUFFER_MS_MAX, POLL_SECONDS_DEFAULT, POLL_SECONDS_MAX, PollEvents, StreamEvents,
};
use tokio::time::Instant;

use self::listing::Listing;
use self::stream::Stream;
use super::log::{Reader, Shape, snapshot_frame};
use super::mode::Modes;
use crate::app::App;
use crate::auth::{Caller, CanReadRuns};
use crate::body::{InPath, Params};
use crate::error::ApiError;
use crate::sse::{self, weight};
use crate::streams::StreamPermit;

#[cfg(test)]
mod crowd;
mod listing;
mod stream;

pub(crate) async fn stream(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
    Params(params): Params<StreamEvents>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Before anything else, so that a mistake is the same mistake whatever form of answer is asked for.
    let modes = params.stream_mode.as_deref().map(Modes::parse).transpose()?;
    let buffer = buffer(params.buffer_ms)?;
    let last = last_seen(&headers)?;
    if wants_json(&headers) {
        return list(&app, &caller, &run, modes, last).await;
    }
    let modes = modes.unwrap_or(Modes::UPDATES);
    let of = caller.run(&run)?;
    let mut next = last.map_or(0, |last| last + 1);
    let mut baseline = None;
    if let (Some(_), true) = (last, modes == Modes::VALUES) {
        let run = app.log.latest(&of, Shape::Snapshots).await?;
        // Who saw the end has the last snapshot.
        if !run.finished() || next < run.seq {
            baseline = Some(snapshot_frame(&run));
        }
        next = next.max(run.seq);
    }
    let reader = Reader::open(&app.log, of, Shape::of(modes), next).await?;
    let frames = Stream::new(reader, modes, buffer, baseline).into_frames();
    Ok(sse::streamed(caller.open_stream(&app)?, frames, sse::comment))
}

/// The log so far; without a mode, all of it.
async fn list(
    app: &App,
    caller: &Caller,
    run: &str,
    modes: Option<Modes>,
    last: Option<u64>,
) -> Result<Response, ApiError> {
    let next = last.map_or(0, |last| last + 1);
    let reader = Reader::open(&app.log, caller.run(run)?, Shape::Documents, next).await?;
    Listing::new(reader, modes.unwrap_or(Modes::DEBUG)).into_response().await
}

pub(crate) async fn poll(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
    Params(params): Params<PollEvents>,
) -> Result<Response, ApiError> {
    let modes = params.stream_mode.as_deref().map(Modes::parse).transpose()?.unwrap_or(Modes::DEBUG);
    let seconds = params.timeout.unwrap_or(POLL_SECONDS_DEFAULT);
    if !(1..=POLL_SECONDS_MAX).contains(&seconds) {
        return Err(ApiError::invalid("timeout", format!("must be 1 to {POLL_SECONDS_MAX} seconds")));
    }
    let next = match params.last_sequence {
        None => 0,
        Some(last) => u64::try_from(last.saturating_add(1)).unwrap_or(0),
    };
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let reader = Reader::open(&app.log, caller.run(&run)?, Shape::Documents, next).await?;
    let mut listing = Listing::new(reader, modes).tells_end();
    let StreamPermit { guard, slot: _slot } = caller.open_stream(&app)?;
    guard.during(listing.wait(deadline)).await?;
    listing.into_response().await
}

fn buffer(ms: Option<u64>) -> Result<Option<Duration>, ApiError> {
    match ms {
        None | Some(0) => Ok(None),
        Some(ms) if ms <= BUFFER_MS_MAX => Ok(Some(Duration::from_millis(ms))),
        Some(_) => Err(ApiError::invalid("bufferMs", format!("must be 0 to {BUFFER_MS_MAX} milliseconds"))),
    }
}

/// A client that reconnects names the last event it saw.
fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(header) = headers.get("last-event-id") else { return Ok(None) };
    let last = header.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
    match last.filter(|last| i64::try_from(*last).is_ok()) {
        Some(last) => Ok(Some(last)),
        None => Err(ApiError::invalid("Last-Event-ID", "must be the sequence number of an event")),
    }
}

/// Whether a list is preferred to a stream. Who prefers neither gets the stream.
fn wants_json(headers: &HeaderMap) -> bool {
    weight(headers, "application/json") > weight(headers, "text/event-stream")
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn a_list_is_sent_to_those_who_like_it_better_than_a_stream() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, value.parse().unwrap());
            wants_json(&headers)
        };
        assert!(accepts("application/json"));
        assert!(accepts("Application/JSON; charset=utf-8, */*"));
        assert!(accepts("text/event-stream;q=0.5, application/json"));
        for stream in ["text/event-stream", "*/*", "text/html", "application/json;q=0", ""] {
            assert!(!accepts(stream), "{stream}");
        }
        assert!(!accepts("application/json, text/event-stream"), "equally good: the stream");
        assert!(!wants_json(&HeaderMap::new()));
    }

    #[test]
    fn the_last_event_that_was_seen_has_a_sequence_number() {
        let seen = |value: &str| {
            let headers = HeaderMap::from_iter([("last-event-id".parse().unwrap(), value.parse().unwrap())]);
            last_seen(&headers).ok().flatten()
        };
        assert_eq!(seen("0"), Some(0));
        assert_eq!(seen(" 9223372036854775807 "), Some(i64::MAX as u64));
        for bad in ["9223372036854775808", "-1", "1.0", "soon", ""] {
            assert_eq!(seen(bad), None, "{bad}");
        }
    }
}
