//! All that happens in a thread, run after run: as a list in pages, or as a stream that has no end of its own.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use holdpoint_api::events::After;

use self::stream::Stream;
use serde_json::Value;

use super::log::{Follower, Frame, Rest};
use crate::app::App;
use crate::auth::CanReadRuns;
use crate::body::{InPath, Page, Params};
use crate::error::ApiError;
use crate::places::{self, Place};
use crate::sse::{self, weight};

mod stream;

/// A page of a list ends with the event that fills it, however few they are.
const PAGE_BYTES: usize = 1024 * 1024;

pub(crate) async fn events(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
    Params(page): Params<Page>,
    Params(behind): Params<After>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let limit = page.limit()?;
    let (field, behind) = last_seen(&headers, &page, &behind)?;
    let follower = Follower::open(&app.log, caller.tenant(), &thread, behind).await?;
    let follower = follower.ok_or_else(|| places::unknown(field))?;
    if wants_stream(&headers) {
        let frames = Stream::new(follower).into_frames();
        return Ok(sse::streamed(caller.open_stream(&app)?, frames, sse::comment));
    }
    list(follower, limit).await
}

/// Where a reader goes on, and where it says so. One that comes back by itself asks for the same address as before:
/// what it has seen since then counts.
fn last_seen(
    headers: &HeaderMap,
    page: &Page,
    behind: &After,
) -> Result<(&'static str, Option<Place>), ApiError> {
    const HEADER: &str = "Last-Event-ID";
    let header = headers.get(HEADER).map(|value| value.to_str().map_err(|_| places::unknown(HEADER)));
    let (field, text) = match (header.transpose()?, &page.cursor, &behind.after) {
        (Some(text), ..) => (HEADER, text.trim()),
        (None, Some(text), _) => ("cursor", text.as_str()),
        (None, None, Some(text)) => ("after", text.as_str()),
        (None, None, None) => return Ok(("after", None)),
    };
    Ok((field, Some(places::parse(field, text)?)))
}

/// A stream that does not end is for those who ask for one.
fn wants_stream(headers: &HeaderMap) -> bool {
    let stream = weight(headers, "text/event-stream");
    stream > 0.0 && stream >= weight(headers, "application/json")
}

async fn list(mut follower: Follower, limit: u64) -> Result<Response, ApiError> {
    let mut text = b"{\"events\":[".to_vec();
    let (mut shown, mut last, mut more) = (0, None, false);
    'pages: while let Some(rest) = follower.read().await? {
        for frame in rest.frames() {
            if shown == limit || text.len() >= PAGE_BYTES {
                more = true;
                break 'pages;
            }
            if shown > 0 {
                text.push(b',');
            }
            let cursor = places::cursor(rest.run(), frame.sequence);
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

/// The document of an event as readers of its run see it, with its place in the thread before everything else.
fn write(text: &mut Vec<u8>, cursor: &str, rest: &Rest, frame: &Frame) {
    let document = rest.text(frame.data.clone());
    text.extend_from_slice(format!("{{\"cursor\":{},", Value::from(cursor)).as_bytes());
    // An object that is never empty: it goes on behind its brace.
    text.extend_from_slice(document.get(1..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_sent_to_those_who_ask_for_one() {
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
    fn what_was_seen_last_counts_before_where_a_reader_began() {
        let seen = |id: Option<&str>, cursor: Option<&str>, after: Option<&str>| {
            let id = id.map(|id| ("last-event-id".parse().unwrap(), id.parse().unwrap()));
            let mut page = Page::default();
            page.cursor = cursor.map(str::to_owned);
            let after = After { after: after.map(str::to_owned) };
            last_seen(&id.into_iter().collect(), &page, &after).map(|(_, place)| place.map(|(_, seq)| seq))
        };
        assert_eq!(seen(Some("r.3"), Some("r.2"), Some("r.1")).unwrap(), Some(3));
        assert_eq!(seen(None, Some("r.2"), Some("r.1")).unwrap(), Some(2));
        assert_eq!(seen(None, None, Some("r.1")).unwrap(), Some(1));
        assert_eq!(seen(None, None, None).unwrap(), None);
        assert!(seen(Some("7"), None, Some("r.1")).is_err(), "what is wrong is not passed over");
    }
}
