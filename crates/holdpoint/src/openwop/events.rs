//! Reading a run's log: as a stream that stays open, or page by page with a long poll.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use futures_util::stream::unfold;
use holdpoint_core::{Run, RunRef};
use holdpoint_engine::{Recorded, Subscription};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::documents::{Mode, document};
use super::wire;
use crate::app::App;
use crate::auth::CanReadRuns;
use crate::body::{InPath, Params};
use crate::error::ApiError;

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Looks again this often even if nobody said that there is something new.
const BACKSTOP: Duration = Duration::from_secs(10);
const POLL_SECONDS_DEFAULT: u64 = 30;
const POLL_SECONDS_MAX: u64 = 60;

pub(crate) async fn stream(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
    Params(params): Params<wire::Stream>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    let mode = mode(params.stream_mode.as_deref())?;
    let of = caller.run(&run)?;
    let next = next_sequence(&headers)?;
    let reader = Reader::new(app, of, next).await?;
    let frames = unfold((reader, VecDeque::new()), move |(mut reader, mut ready)| async move {
        while ready.is_empty() {
            let (run, recorded) = reader.next().await?;
            ready.extend(
                recorded.iter().filter(|one| mode.shows(&one.event)).filter_map(|one| frame(&run, one)),
            );
        }
        ready.pop_front().map(|frame| (Ok::<_, Infallible>(frame), (reader, ready)))
    });
    let sse = Sse::new(frames).keep_alive(KeepAlive::new().interval(KEEP_ALIVE).text("keepalive"));
    // Some proxies gather an answer before they pass it on, unless they are told not to.
    Ok(([("x-accel-buffering", "no")], sse))
}

fn frame(run: &Run, recorded: &Recorded) -> Option<Frame> {
    let document = document(run, recorded);
    let text = serde_json::to_string(&document).ok()?;
    Some(Frame::default().id(document.sequence.to_string()).event(document.kind).data(text))
}

fn mode(text: Option<&str>) -> Result<Mode, ApiError> {
    Mode::parse(text.unwrap_or("updates")).ok_or_else(|| {
        let message = format!("streamMode must be one of {}", Mode::NAMES.join(", "));
        let error = ApiError::new(StatusCode::BAD_REQUEST, "unsupported_stream_mode", message);
        error.with(json!({"supported": Mode::NAMES}))
    })
}

/// A client that reconnects names the last event it saw.
fn next_sequence(headers: &HeaderMap) -> Result<u64, ApiError> {
    let Some(header) = headers.get("last-event-id") else { return Ok(0) };
    let last = header.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
    last.and_then(|last| last.checked_add(1))
        .ok_or_else(|| ApiError::invalid("Last-Event-ID", "must be the sequence number of an event"))
}

/// Follows a log to its end.
struct Reader {
    app: App,
    of: RunRef,
    next: u64,
    news: Subscription,
    stopping: watch::Receiver<bool>,
}

impl Reader {
    async fn new(app: App, of: RunRef, next: u64) -> Result<Self, ApiError> {
        app.engine.run(&of).await?;
        let news = app.engine.subscribe(&of);
        let stopping = app.stopping.clone();
        Ok(Self { app, of, next, news, stopping })
    }

    /// The next events with the fold that explains them; nothing after the last, or when the server goes down.
    async fn next(&mut self) -> Option<(Arc<Run>, Vec<Recorded>)> {
        loop {
            match self.read().await {
                Ok((run, recorded)) if !recorded.is_empty() => return Some((run, recorded)),
                // Finished and nothing behind what was read; otherwise the rest came in between, or comes.
                Ok((run, _)) if run.finished() && run.seq <= self.next => return None,
                Ok((run, _)) if run.seq > self.next => continue,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(?error, run = %self.of.run, "a stream ends because its run could not be read");
                    return None;
                }
            }
            if *self.stopping.borrow() {
                return None;
            }
            tokio::select! {
                () = self.news.changed() => {}
                () = tokio::time::sleep(BACKSTOP) => {}
                _ = self.stopping.changed() => return None,
            }
        }
    }

    /// New events, and a fold that has folded at least these. What this reader saw before may have been shown to it by
    /// another node, so that this one has not folded it yet.
    async fn read(&mut self) -> Result<(Arc<Run>, Vec<Recorded>), ApiError> {
        let recorded = self.app.engine.events(&self.of, self.next).await?;
        self.next = recorded.last().map_or(self.next, |last| last.seq + 1);
        let run = self.app.engine.run_since(&self.of, self.next).await?;
        Ok((run, recorded))
    }
}

pub(crate) async fn poll(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
    Params(params): Params<wire::Poll>,
) -> Result<Json<Value>, ApiError> {
    let seconds = params.timeout.unwrap_or(POLL_SECONDS_DEFAULT);
    if !(1..=POLL_SECONDS_MAX).contains(&seconds) {
        return Err(ApiError::invalid("timeout", format!("must be 1 to {POLL_SECONDS_MAX} seconds")));
    }
    let next = match params.last_sequence {
        None => 0,
        Some(last) => u64::try_from(last.saturating_add(1)).unwrap_or(0),
    };
    let mut reader = Reader::new(app, caller.run(&run)?, next).await?;
    let (run, recorded) = match tokio::time::timeout(Duration::from_secs(seconds), reader.next()).await {
        Ok(Some(found)) => found,
        Ok(None) | Err(_) => (reader.app.engine.run_since(&reader.of, reader.next).await?, Vec::new()),
    };
    let shown: Vec<wire::EventDoc> = recorded.iter().map(|one| document(&run, one)).collect();
    // Complete for this reader: it has now been shown everything.
    let shown_until = recorded.last().map_or(next, |last| last.seq + 1);
    let complete = run.finished() && shown_until >= run.seq;
    Ok(Json(json!({"events": shown, "isComplete": complete})))
}
