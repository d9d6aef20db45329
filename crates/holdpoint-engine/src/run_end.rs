//! Cancels effects in progress when their run ends.

use std::future::{Future, pending};

use holdpoint_core::RunRef;

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

    /// Waits for the future. If the run ends first, drops the future and returns [`Stop::Lost`].
    pub async fn unless_ended<T>(&self, outside: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            value = outside => Ok(value),
            () = self.wait_until_ended() => Err(Stop::Lost),
        }
    }

    /// Returns when the run ends. Never returns if the run does not end or the engine stops.
    pub async fn wait_until_ended(&self) {
        wait_for_run_end(&self.engine, &self.of, &mut self.engine.events().subscribe(&self.of)).await;
    }
}

/// Returns when the run ends. The subscription must exist before the caller checks that the run is open. Never returns
/// if the engine stops.
pub async fn wait_for_run_end(engine: &Engine, of: &RunRef, changes: &mut Subscription) {
    loop {
        changes.changed().await;
        if !engine.is_alive() {
            return pending().await;
        }
        if engine.runs().get(of).await.is_ok_and(|run| run.finished()) {
            return;
        }
    }
}
