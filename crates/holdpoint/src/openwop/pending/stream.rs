//! How much waits, told again whenever that may have changed. Whoever watches the same shares one count of it: a
//! thousand open pages cost what one costs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use holdpoint_api::pending::{ListPending, STREAM_SECONDS_MAX, StreamPending};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::translate;
use crate::app::App;
use crate::auth::{Caller, CanSeePending};
use crate::body::Params;
use crate::error::ApiError;
use crate::sse;

/// Between two counts of the same at least, so that what comes in bursts is counted once.
const PAUSE: Duration = Duration::from_millis(100);
/// Counting takes no more than this part of the time, however long it takes.
const SHARE: u32 = 5;
/// Deadlines come closer without anybody doing anything.
const AGAIN: Duration = Duration::from_secs(15);
/// Counts at the same time, of all who watch: the database has others to answer.
const COUNTING_MAX: usize = 2;
/// What is watched: by whom matters only where it is about them.
type Key = (String, String);

#[derive(Debug)]
pub(crate) struct Watches {
    by_key: Mutex<HashMap<Key, Arc<watch::Sender<Bytes>>>>,
    turns: Semaphore,
    counted: AtomicU64,
}

impl Default for Watches {
    fn default() -> Self {
        Self { by_key: Mutex::default(), turns: Semaphore::new(COUNTING_MAX), counted: AtomicU64::new(0) }
    }
}

pub(crate) async fn stream(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    Params(StreamPending { seconds }): Params<StreamPending>,
    Params(asked): Params<ListPending>,
) -> Result<Response, ApiError> {
    let seconds = seconds.unwrap_or(STREAM_SECONDS_MAX);
    if !(1..=STREAM_SECONDS_MAX).contains(&seconds) {
        return Err(ApiError::invalid("seconds", format!("must be 1 to {STREAM_SECONDS_MAX}")));
    }
    // Said now: a stream that has begun cannot say no.
    translate::filter(&caller, asked.clone(), None, app.engine.now())?;
    let permit = caller.open_stream(&app)?;
    let counts = join(&app, caller, asked);
    let frames = Frames {
        counts,
        stopping: app.stopping.clone(),
        ends: Instant::now() + Duration::from_secs(seconds),
    };
    let frames = unfold(frames, |mut frames| async move { frames.next().await.map(|frame| (frame, frames)) });
    Ok(sse::streamed(permit, frames, sse::comment))
}

struct Frames {
    counts: watch::Receiver<Bytes>,
    stopping: watch::Receiver<bool>,
    ends: Instant,
}

impl Frames {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let told = tokio::select! {
                told = self.counts.changed() => told.is_ok(),
                // An error means that the server has gone, which is as good as a signal.
                _ = self.stopping.wait_for(|stopping| *stopping) => false,
                () = tokio::time::sleep_until(self.ends) => false,
            };
            if !told {
                return None;
            }
            let frame = self.counts.borrow_and_update().clone();
            // Before the first count there is nothing to tell.
            if !frame.is_empty() {
                return Some(frame);
            }
        }
    }
}

/// What others watch already, or a new count of it.
fn join(app: &App, caller: Caller, asked: ListPending) -> watch::Receiver<Bytes> {
    let whose = match asked.assignee.as_deref() {
        Some("me") => format!("{:?}", caller.principal()),
        _ => String::new(),
    };
    let key = (caller.tenant().to_string(), format!("{asked:?} {whose}"));
    let mut by_key = app.watches.by_key.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = by_key.get(&key) {
        let mut counts = sender.subscribe();
        // What is known is told at once.
        counts.mark_changed();
        return counts;
    }
    let (sender, counts) = watch::channel(Bytes::new());
    let sender = Arc::new(sender);
    by_key.insert(key.clone(), sender.clone());
    tokio::spawn(keep_counting(app.clone(), key, sender, caller, asked));
    counts
}

/// Until nobody watches any more. A restart forgets it, and with it everybody who watched.
async fn keep_counting(
    app: App,
    key: Key,
    sender: Arc<watch::Sender<Bytes>>,
    caller: Caller,
    asked: ListPending,
) {
    let mut news = app.engine.subscribe_waiting(caller.tenant());
    let mut stopping = app.stopping.clone();
    loop {
        let begun = Instant::now();
        match count(&app, &caller, &asked).await {
            Ok(frame) => {
                sender.send_if_modified(|known| {
                    let news = *known != frame;
                    *known = frame;
                    news
                });
            }
            Err(error) => tracing::debug!(?error, "what waits could not be counted; it is tried again"),
        }
        let pause = PAUSE.max(begun.elapsed() * SHARE);
        tokio::select! {
            () = async {
                tokio::time::sleep(pause).await;
                let _ = tokio::time::timeout(AGAIN, news.changed()).await;
            } => {}
            () = sender.closed() => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
        let mut by_key = app.watches.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.receiver_count() == 0 || *stopping.borrow() {
            by_key.remove(&key);
            return;
        }
    }
}

async fn count(app: &App, caller: &Caller, asked: &ListPending) -> Result<Bytes, ApiError> {
    let _turn = app.watches.turns.acquire().await;
    app.watches.counted.fetch_add(1, Ordering::Relaxed);
    let filter = translate::filter(caller, asked.clone(), None, app.engine.now())?;
    let counts = app.engine.pending_counts(caller.tenant(), &filter).await?;
    let counts = serde_json::to_string(&translate::counts(counts)).map_err(ApiError::internal)?;
    Ok(format!("event: counts\ndata: {counts}\n\n").into())
}

#[cfg(test)]
mod tests;
