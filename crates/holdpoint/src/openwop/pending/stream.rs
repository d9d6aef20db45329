//! A stream of the counts of pending interrupts, updated after each change. Subscribers of the same filter share one
//! query, so that a thousand open pages cost as much as one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use holdpoint_api::pending::{ListPending, STREAM_SECONDS_MAX, StreamPending};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::translate;
use crate::app::App;
use crate::auth::{Caller, CanSeePending};
use crate::body::Params;
use crate::error::ApiError;
use crate::streams::{self, FrameQueue, FrameSource};

/// The minimum time between two counts of a filter, so that a burst of changes is counted once.
const COUNT_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The minimum pause after a count, as a multiple of the time that the count took.
const IDLE_FACTOR: u32 = 5;
/// Time after which counts are refreshed without a change: the counts of near and passed deadlines change with time.
const REFRESH_INTERVAL: Duration = Duration::from_secs(15);
/// The limit of concurrent counts of all subscribers, so that the database has capacity for other queries.
const CONCURRENT_COUNTS_MAX: usize = 2;
/// The tenant, and the filter with the principal if the filter depends on it.
type WatchKey = (String, String);

/// The filters that have subscribers, with the last counts of each.
#[derive(Debug)]
pub(crate) struct PendingWatches {
    by_key: Mutex<HashMap<WatchKey, Arc<watch::Sender<Bytes>>>>,
    turns: Semaphore,
    counted: AtomicU64,
}

impl Default for PendingWatches {
    fn default() -> Self {
        Self {
            by_key: Mutex::default(),
            turns: Semaphore::new(CONCURRENT_COUNTS_MAX),
            counted: AtomicU64::new(0),
        }
    }
}

pub(crate) async fn stream(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    Params(StreamPending { seconds }): Params<StreamPending>,
    Params(query): Params<ListPending>,
) -> Result<Response, ApiError> {
    let ends = Instant::now() + duration(seconds)?;
    // Checked before the stream begins: a stream cannot respond with an error.
    translate::filter(&caller, query.clone(), None, app.engine.now())?;
    let permit = caller.open_stream(&app)?;
    let counts = subscribe(&app, caller, query);
    let frames = CountFrames { counts, stopping: app.stopping.clone(), ends }.into_frames();
    Ok(streams::respond(permit, frames, streams::comment))
}

fn duration(seconds: Option<u64>) -> Result<Duration, ApiError> {
    match seconds.unwrap_or(STREAM_SECONDS_MAX) {
        seconds @ 1..=STREAM_SECONDS_MAX => Ok(Duration::from_secs(seconds)),
        _ => Err(ApiError::invalid("seconds", format!("must be 1 to {STREAM_SECONDS_MAX}"))),
    }
}

struct CountFrames {
    counts: watch::Receiver<Bytes>,
    stopping: watch::Receiver<bool>,
    ends: Instant,
}

impl FrameSource for CountFrames {
    async fn fill(&mut self, queue: &mut FrameQueue) -> Result<(), ApiError> {
        let is_open = tokio::select! {
            is_open = self.counts.changed() => is_open.is_ok(),
            // An error means that the sender was dropped: the server has stopped.
            _ = self.stopping.wait_for(|stopping| *stopping) => false,
            () = tokio::time::sleep_until(self.ends) => false,
        };
        if !is_open {
            queue.close();
            return Ok(());
        }
        let frame = self.counts.borrow_and_update().clone();
        // The value is empty until the first count.
        queue.extend(Some(frame).filter(|frame| !frame.is_empty()));
        Ok(())
    }
}

/// Subscribes to the counts of a filter. Starts to count if the caller is the first subscriber.
fn subscribe(app: &App, caller: Caller, query: ListPending) -> watch::Receiver<Bytes> {
    let whose = match query.assignee.as_deref() {
        Some("me") => format!("{:?}", caller.principal()),
        _ => String::new(),
    };
    let key = (caller.tenant().to_string(), format!("{query:?} {whose}"));
    let mut by_key = app.watches.by_key.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = by_key.get(&key) {
        let mut counts = sender.subscribe();
        // A new subscriber gets the last counts at once.
        counts.mark_changed();
        return counts;
    }
    let (sender, counts) = watch::channel(Bytes::new());
    let sender = Arc::new(sender);
    by_key.insert(key.clone(), sender.clone());
    tokio::spawn(count_until_unwatched(app.clone(), key, sender, caller, query));
    counts
}

/// Counts until the last subscriber has left. A restart ends the task together with the streams of its subscribers.
async fn count_until_unwatched(
    app: App,
    key: WatchKey,
    sender: Arc<watch::Sender<Bytes>>,
    caller: Caller,
    query: ListPending,
) {
    let mut changes = app.engine.interrupts().subscribe(caller.tenant());
    let mut stopping = app.stopping.clone();
    loop {
        let started_at = Instant::now();
        match count(&app, &caller, &query).await {
            Ok(frame) => {
                sender.send_if_modified(|known| {
                    let is_changed = *known != frame;
                    *known = frame;
                    is_changed
                });
            }
            Err(error) => tracing::debug!(?error, "cannot count pending interrupts; will retry"),
        }
        let pause = COUNT_INTERVAL_MIN.max(started_at.elapsed() * IDLE_FACTOR);
        tokio::select! {
            () = async {
                tokio::time::sleep(pause).await;
                let _ = tokio::time::timeout(REFRESH_INTERVAL, changes.changed()).await;
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

async fn count(app: &App, caller: &Caller, query: &ListPending) -> Result<Bytes, ApiError> {
    let _turn = app.watches.turns.acquire().await;
    app.watches.counted.fetch_add(1, Ordering::Relaxed);
    let filter = translate::filter(caller, query.clone(), None, app.engine.now())?;
    let counts = app.engine.interrupts().counts(caller.tenant(), &filter).await?;
    let counts = serde_json::to_string(&translate::counts(counts)).map_err(ApiError::internal)?;
    Ok(format!("event: counts\ndata: {counts}\n\n").into())
}

#[cfg(test)]
mod tests;
