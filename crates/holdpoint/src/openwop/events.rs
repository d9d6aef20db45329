//! Handlers that return the events of a run: as a stream, as a list, or as a list with a long poll.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use holdpoint_api::events::{
    BUFFER_MS_MAX, POLL_SECONDS_DEFAULT, POLL_SECONDS_MAX, PollEvents, StreamEvents,
};
use holdpoint_core::RunRef;
use tokio::time::Instant;

use self::listing::EventListing;
use self::stream::RunEventStream;
use super::log::{FrameContent, LogReader, snapshot_frame};
use super::stream_modes::StreamModes;
use crate::app::App;
use crate::auth::{Caller, CanReadRuns};
use crate::body::{InPath, Params};
use crate::error::ApiError;
use crate::streams::{self, FrameSource, StreamPermit, accept_weight};

mod listing;
#[cfg(test)]
mod many_readers_tests;
mod stream;

pub(crate) async fn stream(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
    Params(params): Params<StreamEvents>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Checked first, so that an invalid parameter gets the same error for a stream and for a list.
    let modes = params.stream_mode.as_deref().map(StreamModes::parse).transpose()?;
    let buffer = buffer(params.buffer_ms)?;
    let last = last_seen(&headers)?;
    if wants_json(&headers) {
        return list(&app, &caller, &run, modes, last).await;
    }
    let modes = modes.unwrap_or(StreamModes::UPDATES);
    let frames = open(&app, caller.run(&run)?, modes, buffer, last).await?.into_frames();
    Ok(streams::respond(caller.open_stream(&app)?, frames, streams::comment))
}

/// Opens the stream of a run after the last event that the client saw.
async fn open(
    app: &App,
    of: RunRef,
    modes: StreamModes,
    buffer: Option<Duration>,
    last: Option<u64>,
) -> Result<RunEventStream, ApiError> {
    let mut next = last.map_or(0, |last| last + 1);
    let mut baseline = None;
    if let (Some(_), true) = (last, modes == StreamModes::VALUES) {
        let run = app.log.latest(&of, FrameContent::Snapshots).await?;
        // A client that saw the last event has the last snapshot.
        if !run.finished() || next < run.seq {
            baseline = Some(snapshot_frame(&run));
        }
        next = next.max(run.seq);
    }
    let reader = LogReader::open(&app.log, of, FrameContent::of(modes), next).await?;
    Ok(RunEventStream::new(reader, modes, buffer, baseline))
}

/// Returns the events so far. Without a mode, returns all of them.
async fn list(
    app: &App,
    caller: &Caller,
    run: &str,
    modes: Option<StreamModes>,
    last: Option<u64>,
) -> Result<Response, ApiError> {
    let next = last.map_or(0, |last| last + 1);
    let reader = LogReader::open(&app.log, caller.run(run)?, FrameContent::Documents, next).await?;
    EventListing::new(reader, modes.unwrap_or(StreamModes::DEBUG)).into_response().await
}

pub(crate) async fn poll(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
    Params(params): Params<PollEvents>,
) -> Result<Response, ApiError> {
    let modes =
        params.stream_mode.as_deref().map(StreamModes::parse).transpose()?.unwrap_or(StreamModes::DEBUG);
    let deadline = Instant::now() + timeout(params.timeout)?;
    let next = params.last_sequence.map_or(0, |last| u64::try_from(last.saturating_add(1)).unwrap_or(0));
    let reader = LogReader::open(&app.log, caller.run(&run)?, FrameContent::Documents, next).await?;
    let mut listing = EventListing::new(reader, modes).with_completion();
    let StreamPermit { guard, slot: _slot } = caller.open_stream(&app)?;
    guard.during(listing.wait(deadline)).await?;
    listing.into_response().await
}

/// Returns the maximum time of a long poll.
fn timeout(seconds: Option<u64>) -> Result<Duration, ApiError> {
    let seconds = seconds.unwrap_or(POLL_SECONDS_DEFAULT);
    if !(1..=POLL_SECONDS_MAX).contains(&seconds) {
        return Err(ApiError::invalid("timeout", format!("must be 1 to {POLL_SECONDS_MAX} seconds")));
    }
    Ok(Duration::from_secs(seconds))
}

fn buffer(ms: Option<u64>) -> Result<Option<Duration>, ApiError> {
    match ms {
        None | Some(0) => Ok(None),
        Some(ms) if ms <= BUFFER_MS_MAX => Ok(Some(Duration::from_millis(ms))),
        Some(_) => Err(ApiError::invalid("bufferMs", format!("must be 0 to {BUFFER_MS_MAX} milliseconds"))),
    }
}

/// Returns the sequence of the last event that a reconnecting client saw.
fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(header) = headers.get("last-event-id") else { return Ok(None) };
    let last = header.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
    match last.filter(|last| i64::try_from(*last).is_ok()) {
        Some(last) => Ok(Some(last)),
        None => Err(ApiError::invalid("Last-Event-ID", "must be the sequence number of an event")),
    }
}

/// Returns whether the client prefers a list. The default is the stream.
fn wants_json(headers: &HeaderMap) -> bool {
    accept_weight(headers, "application/json") > accept_weight(headers, "text/event-stream")
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn a_list_is_sent_if_the_client_prefers_json_to_a_stream() {
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
        assert!(!accepts("application/json, text/event-stream"), "the stream wins if both are equal");
        assert!(!wants_json(&HeaderMap::new()));
    }

    #[test]
    fn last_event_id_must_be_a_sequence_number() {
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
