//! Follows the log of one run and folds its events. Keeps only the folded run.

use holdpoint_core::{Run, RunRef};
use holdpoint_engine::{Engine, RecordedEvent};

use crate::app::App;
use crate::error::ApiError;
use crate::streams::{LogWait, Wakeup};

#[derive(Debug)]
pub(super) struct RunFollower {
    engine: Engine,
    of: RunRef,
    /// The run right before the next event.
    run: Run,
    changes: LogWait,
}

impl RunFollower {
    pub(super) fn new(app: &App, of: RunRef, run: Run) -> Self {
        let changes = LogWait::new(app.engine.subscribe(&of), &app.stopping);
        Self { engine: app.engine.clone(), of, run, changes }
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }

    pub(super) fn apply(&mut self, one: &RecordedEvent) -> &Run {
        self.run.apply(&one.event, one.at);
        &self.run
    }

    /// Waits for the next events of whole commits. The caller must apply them. Returns None if the server shuts down.
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<RecordedEvent>>, ApiError> {
        loop {
            if self.engine.event_count(&self.of).await? > self.run.seq {
                let found = self.engine.follow(&self.of, self.run.seq).await?;
                if !found.is_empty() {
                    return Ok(Some(found));
                }
            }
            if self.changes.next().await == Wakeup::Stopping {
                return Ok(None);
            }
        }
    }
}
