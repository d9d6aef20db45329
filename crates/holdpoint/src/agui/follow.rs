//! Follows the log of one run, event by event, with the run as it was after each. Holds the fold and nothing else.

use std::time::Duration;

use holdpoint_core::{Run, RunRef};
use holdpoint_engine::{Engine, Recorded, Subscription};
use tokio::sync::watch;

use crate::app::App;
use crate::error::ApiError;

/// Looks again this often even if nobody said that there is something new.
const BACKSTOP: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Follower {
    engine: Engine,
    of: RunRef,
    /// The run right before the next event.
    run: Run,
    news: Subscription,
    stopping: watch::Receiver<bool>,
}

impl Follower {
    pub(super) fn new(app: &App, of: RunRef, run: Run) -> Self {
        let news = app.engine.subscribe(&of);
        Self { engine: app.engine.clone(), of, run, news, stopping: app.stopping.clone() }
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }

    pub(super) fn apply(&mut self, one: &Recorded) -> &Run {
        self.run.apply(&one.event, one.at);
        &self.run
    }

    /// The next events, whole commits of them, which are yet to be applied; nothing when the server goes down. May be
    /// dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Recorded>>, ApiError> {
        loop {
            if self.engine.length(&self.of).await? > self.run.seq {
                let found = self.engine.follow(&self.of, self.run.seq).await?;
                if !found.is_empty() {
                    return Ok(Some(found));
                }
            }
            if *self.stopping.borrow() {
                return Ok(None);
            }
            tokio::select! {
                () = self.news.changed() => {}
                () = tokio::time::sleep(BACKSTOP) => {}
                _ = self.stopping.changed() => {}
            }
        }
    }
}
