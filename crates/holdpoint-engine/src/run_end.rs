//! Cancels effects in progress when their run ends.

use std::future::{Future, pending};
use std::sync::Arc;

use holdpoint_core::{Run, RunRef};

use crate::bus::Subscription;
use crate::context::{EffectContext, Stop};
use crate::engine::Engine;

/// Watches for the end of a run.
#[derive(Debug)]
pub struct RunEndWatch {
    engine: Engine,
    of: RunRef,
}

impl RunEndWatch {
    /// Returns a watch of the run of a node.
    pub fn of(context: &EffectContext) -> Self {
        Self { engine: context.engine().clone(), of: context.of() }
    }

    /// Fails with [`Stop::Cancelled`] or [`Stop::Lost`] if the stored run has ended.
    pub async fn check_open(&self) -> Result<(), Stop> {
        match self.engine.runs().get_stored(&self.of).await {
            Ok(run) if run.finished() => Err(Stop::of_run(&run)),
            Ok(_) => Ok(()),
            Err(error) => Err(Stop::Broken(error.to_string())),
        }
    }

    /// Waits for the future. If the run ends first, drops the future and returns [`Stop::Cancelled`] or [`Stop::Lost`].
    pub async fn unless_ended<T>(&self, outside: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            value = outside => Ok(value),
            stop = self.wait_until_ended() => Err(stop),
        }
    }

    /// Returns [`Stop::Cancelled`] or [`Stop::Lost`] when the run ends. Never returns if the run does not end or the
    /// engine stops.
    pub async fn wait_until_ended(&self) -> Stop {
        let mut changes = self.engine.events().subscribe(&self.of);
        match self.engine.known_end(&self.of) {
            // The run ended before the subscription.
            Some(run) => Stop::of_run(&run),
            None => wait_for_run_end(&self.engine, &self.of, &mut changes).await,
        }
    }
}

impl Engine {
    /// Returns the run if this process knows that it has ended. Does not read the store.
    pub(crate) fn known_end(&self, of: &RunRef) -> Option<Arc<Run>> {
        self.events().cached(of).filter(|run| run.finished())
    }
}

/// Returns [`Stop::Cancelled`] or [`Stop::Lost`] when the run ends. The subscription must exist before the caller checks
/// that the run is open. Never returns if the engine stops.
pub async fn wait_for_run_end(engine: &Engine, of: &RunRef, changes: &mut Subscription) -> Stop {
    loop {
        changes.changed().await;
        if !engine.is_alive() {
            return pending().await;
        }
        if let Ok(run) = engine.runs().get(of).await
            && run.finished()
        {
            return Stop::of_run(&run);
        }
    }
}
