//! The event stream of a graph: progress events, then the outcome. Progress contains only names of events and nodes.

use std::collections::VecDeque;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use holdpoint_api::chat::ChatProgress;
use holdpoint_core::Event;
use holdpoint_engine::{Error, GraphStatus, RecordedEvent, Subscription};
use serde::Serialize;
use tokio::time::Instant;

use super::handlers::ChatExecution;
use super::translate;
use crate::app::App;
use crate::sse;
use crate::streams::StreamPermit;

pub(super) fn response(app: &App, permit: StreamPermit, execution: ChatExecution) -> Response {
    let subscription = app.engine.subscribe(&execution.handle.of);
    let next = execution.from;
    let stream = ProgressStream {
        app: app.clone(),
        execution,
        subscription,
        next,
        ready: VecDeque::new(),
        done: false,
    };
    let frames =
        unfold(stream, |mut stream| async move { stream.next_chunk().await.map(|bytes| (bytes, stream)) });
    sse::respond(permit, frames, sse::comment)
}

struct ProgressStream {
    app: App,
    execution: ChatExecution,
    subscription: Subscription,
    next: u64,
    ready: VecDeque<Bytes>,
    done: bool,
}

impl ProgressStream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if !self.ready.is_empty() {
                let all: Vec<Bytes> = self.ready.drain(..).collect();
                return Some(all.concat().into());
            }
            if self.done {
                return None;
            }
            if let Err(error) = self.read_progress().await {
                tracing::warn!(%error, "cannot read a run; the stream of its graph ends");
                return None;
            }
            if !self.ready.is_empty() {
                continue;
            }
            let mut stopping = self.app.stopping.clone();
            tokio::select! {
                () = self.subscription.changed() => {}
                _ = stopping.wait_for(|stopping| *stopping) => return None,
            }
        }
    }

    /// Queues frames for new events, and the outcome if the graph does not run any more.
    async fn read_progress(&mut self) -> Result<(), Error> {
        let (engine, of) = (&self.app.engine, &self.execution.handle.of);
        let standing = engine.wait_for_graph(of, self.execution.after.as_deref(), Instant::now()).await?;
        // Events are read in parts. All of them are sent before the outcome.
        loop {
            let found = engine.follow(of, self.next).await?;
            for recorded in &found {
                self.next = recorded.seq + 1;
                self.ready
                    .push_back(frame("progress", &progress(&self.execution.handle.state_key, recorded)));
            }
            if found.is_empty() || standing == GraphStatus::Running {
                break;
            }
        }
        if standing != GraphStatus::Running {
            let outcome = translate::outcome(self.execution.handle.state_key.clone(), standing);
            self.ready.push_back(frame("outcome", &outcome));
            self.done = true;
        }
        Ok(())
    }
}

fn progress(state_key: &str, recorded: &RecordedEvent) -> ChatProgress {
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
