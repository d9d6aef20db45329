//! Handler that returns the events of a thread, run after run: as a list with pages, or as a stream without an end.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use holdpoint_api::events::After;

use self::stream::ThreadEventStream;
use serde_json::Value;

use super::log::{LogFrame, ThreadReader, UnreadFrames};
use crate::app::App;
use crate::auth::CanReadRuns;
use crate::body::{InPath, PageParams, Params};
use crate::error::ApiError;
use crate::streams::{self, FrameSource, accept_weight};
use crate::thread_cursor::{self, ThreadPosition};

mod stream;

/// The minimum size of a full page of a list. A page ends with the event that reaches it, or with the limit of events.
const PAGE_BYTES: usize = 1024 * 1024;

pub(crate) async fn events(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
    Params(page): Params<PageParams>,
    Params(start): Params<After>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let limit = page.limit()?;
    let (field, after) = last_seen(&headers, &page, &start)?;
    let reader = ThreadReader::open(&app.log, caller.tenant(), &thread, after).await?;
    let reader = reader.ok_or_else(|| thread_cursor::invalid_cursor(field))?;
    if wants_stream(&headers) {
        let frames = ThreadEventStream::new(reader).into_frames();
        return Ok(streams::respond(caller.open_stream(&app)?, frames, streams::comment));
    }
    list(reader, limit).await
}

/// Returns the position after which a client continues, and the name of the field that contains it. An `EventSource`
/// that reconnects sends the same URL again, so `Last-Event-ID` has priority.
fn last_seen(
    headers: &HeaderMap,
    page: &PageParams,
    start: &After,
) -> Result<(&'static str, Option<ThreadPosition>), ApiError> {
    const HEADER: &str = "Last-Event-ID";
    let header =
        headers.get(HEADER).map(|value| value.to_str().map_err(|_| thread_cursor::invalid_cursor(HEADER)));
    let (field, text) = match (header.transpose()?, &page.cursor, &start.after) {
        (Some(text), ..) => (HEADER, text.trim()),
        (None, Some(text), _) => ("cursor", text.as_str()),
        (None, None, Some(text)) => ("after", text.as_str()),
        (None, None, None) => return Ok(("after", None)),
    };
    Ok((field, Some(thread_cursor::parse(field, text)?)))
}

/// Returns whether the client accepts a stream and does not prefer JSON. The default is the list.
fn wants_stream(headers: &HeaderMap) -> bool {
    let stream = accept_weight(headers, "text/event-stream");
    stream > 0.0 && stream >= accept_weight(headers, "application/json")
}

async fn list(mut reader: ThreadReader, limit: u64) -> Result<Response, ApiError> {
    let mut text = b"{\"events\":[".to_vec();
    let (mut shown, mut last, mut more) = (0, None, false);
    'pages: while let Some(rest) = reader.read().await? {
        for frame in rest.frames() {
            if shown == limit || text.len() >= PAGE_BYTES {
                more = true;
                break 'pages;
            }
            if shown > 0 {
                text.push(b',');
            }
            let cursor = thread_cursor::cursor(rest.run(), frame.sequence);
            write(&mut text, &cursor, &rest, frame);
            (shown, last) = (shown + 1, Some(cursor));
        }
    }
    text.push(b']');
    if let Some(last) = last.filter(|_| more) {
        text.extend_from_slice(format!(",\"nextCursor\":{}", Value::from(last)).as_bytes());
    }
    text.push(b'}');
    Ok(([(header::CONTENT_TYPE, "application/json")], Bytes::from(text)).into_response())
}

/// Writes the document of an event as readers of its run see it, with its position in the thread as the first member.
fn write(text: &mut Vec<u8>, cursor: &str, rest: &UnreadFrames, frame: &LogFrame) {
    let document = rest.text(frame.data.clone());
    text.extend_from_slice(format!("{{\"cursor\":{},", Value::from(cursor)).as_bytes());
    // The document is a non-empty object: its members follow after the opening brace.
    text.extend_from_slice(document.get(1..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_sent_only_if_the_client_accepts_one() {
        let accepts =
            |value: &str| wants_stream(&HeaderMap::from_iter([(header::ACCEPT, value.parse().unwrap())]));
        for stream in ["text/event-stream", "application/json, text/event-stream", "text/event-stream, */*"] {
            assert!(accepts(stream), "{stream}");
        }
        for list in ["application/json", "*/*", "", "text/event-stream;q=0.5, application/json"] {
            assert!(!accepts(list), "{list}");
        }
        assert!(!wants_stream(&HeaderMap::new()));
    }

    #[test]
    fn last_event_id_has_priority_over_cursor_and_after() {
        let seen = |id: Option<&str>, cursor: Option<&str>, after: Option<&str>| {
            let id = id.map(|id| ("last-event-id".parse().unwrap(), id.parse().unwrap()));
            let mut page = PageParams::default();
            page.cursor = cursor.map(str::to_owned);
            let after = After { after: after.map(str::to_owned) };
            last_seen(&id.into_iter().collect(), &page, &after).map(|(_, place)| place.map(|(_, seq)| seq))
        };
        assert_eq!(seen(Some("r.3"), Some("r.2"), Some("r.1")).unwrap(), Some(3));
        assert_eq!(seen(None, Some("r.2"), Some("r.1")).unwrap(), Some(2));
        assert_eq!(seen(None, None, Some("r.1")).unwrap(), Some(1));
        assert_eq!(seen(None, None, None).unwrap(), None);
        assert!(seen(Some("7"), None, Some("r.1")).is_err(), "an invalid Last-Event-ID is not ignored");
    }
}
