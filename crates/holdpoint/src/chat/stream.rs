//! The event stream of a graph: the events of its run, then the outcome.

use axum::response::Response;
use holdpoint_engine::{Engine, SiblingsWait};
use holdpoint_providers::{EngineGraphs, GraphStatus};

use super::handlers::ChatExecution;
use super::{events, translate};
use crate::app::App;
use crate::error::ApiError;
use crate::streams::{self, FrameQueue, FrameSource, LogWait, StreamPermit, Wakeup};

pub(super) fn response(app: &App, permit: StreamPermit, execution: ChatExecution) -> Response {
    let changes = LogWait::new(app.engine.events().subscribe(&execution.handle.of), &app.stopping);
    let (engine, siblings) = (app.engine.clone(), SiblingsWait::default());
    let stream = ProgressStream { engine, next: execution.from, execution, changes, siblings };
    streams::respond(permit, stream.into_frames(), streams::comment)
}

struct ProgressStream {
    engine: Engine,
    execution: ChatExecution,
    changes: LogWait,
    next: u64,
    siblings: SiblingsWait,
}

impl FrameSource for ProgressStream {
    const JOINED: bool = true;

    /// Queues frames for new events, and the outcome if the graph does not run any more.
    async fn fill(&mut self, queue: &mut FrameQueue) -> Result<(), ApiError> {
        let (engine, ChatExecution { handle, after, .. }) = (&self.engine, &self.execution);
        let seen = engine.graphs().progress(&handle.of, after.as_deref(), &mut self.siblings).await?;
        let is_running = seen.status == GraphStatus::Running || seen.siblings_until.is_some();
        let mut frames = Vec::new();
        // Events are read in parts. All of them are sent before the outcome.
        loop {
            let found = engine.events().follow(&handle.of, self.next).await?;
            for recorded in &found {
                self.next = recorded.seq + 1;
                frames.extend(events::frames(&handle.state_key, recorded));
            }
            if found.is_empty() || is_running {
                break;
            }
        }
        if !is_running {
            frames.push(events::frame("outcome", &translate::outcome(handle.state_key.clone(), seen.status)));
            queue.close();
        } else if frames.is_empty() && self.changes.next_until(seen.siblings_until).await == Wakeup::Stopping
        {
            queue.close();
        }
        queue.extend(frames);
        Ok(())
    }

    fn read_failure(&self) -> &'static str {
        "cannot read a run; the stream of its graph ends"
    }
}
