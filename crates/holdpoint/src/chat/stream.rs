//! What a graph does, as it does it, and last its outcome. Only names of events and nodes are told on the way.

use std::collections::VecDeque;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use holdpoint_api::chat::ChatProgress;
use holdpoint_core::Event;
use holdpoint_engine::{Error, Recorded, Standing, Subscription};
use serde::Serialize;
use tokio::time::Instant;

use super::chats::Begun;
use super::translate;
use crate::app::App;
use crate::sse;
use crate::streams::StreamPermit;

pub(super) fn response(app: &App, permit: StreamPermit, begun: Begun) -> Response {
    let news = app.engine.subscribe(&begun.handle.of);
    let next = begun.from;
    let telling = Telling { app: app.clone(), begun, news, next, ready: VecDeque::new(), done: false };
    let frames =
        unfold(telling, |mut telling| async move { telling.chunk().await.map(|bytes| (bytes, telling)) });
    sse::streamed(permit, frames, sse::comment)
}

struct Telling {
    app: App,
    begun: Begun,
    news: Subscription,
    next: u64,
    ready: VecDeque<Bytes>,
    done: bool,
}

impl Telling {
    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if !self.ready.is_empty() {
                let all: Vec<Bytes> = self.ready.drain(..).collect();
                return Some(all.concat().into());
            }
            if self.done {
                return None;
            }
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "a stream of a graph ends because its run could not be read");
                return None;
            }
            if !self.ready.is_empty() {
                continue;
            }
            let mut stopping = self.app.stopping.clone();
            tokio::select! {
                () = self.news.changed() => {}
                _ = stopping.wait_for(|stopping| *stopping) => return None,
            }
        }
    }

    /// Tells what is new; and where the graph stands, when it stands still.
    async fn look(&mut self) -> Result<(), Error> {
        let (engine, of) = (&self.app.engine, &self.begun.handle.of);
        let standing = engine.graph_settled(of, self.begun.after.as_deref(), Instant::now()).await?;
        // What is followed comes in parts; all of it is told before it is said how it ended.
        loop {
            let found = engine.follow(of, self.next).await?;
            for recorded in &found {
                self.next = recorded.seq + 1;
                self.ready.push_back(frame("progress", &progress(&self.begun.handle.state_key, recorded)));
            }
            if found.is_empty() || standing == Standing::Running {
                break;
            }
        }
        if standing != Standing::Running {
            let outcome = translate::outcome(self.begun.handle.state_key.clone(), standing);
            self.ready.push_back(frame("outcome", &outcome));
            self.done = true;
        }
        Ok(())
    }
}

fn progress(state_key: &str, recorded: &Recorded) -> ChatProgress {
    let node_id = match &recorded.event {
        Event::NodeStarted { node, .. } | Event::NodeCompleted { node, .. } => Some(node.clone()),
        _ => None,
    };
    let (state_key, kind) = (state_key.to_owned(), recorded.event.name().to_owned());
    ChatProgress { state_key, kind, at: recorded.at.into(), node_id }
}

fn frame(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}
