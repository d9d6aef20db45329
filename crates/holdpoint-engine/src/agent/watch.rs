//! Gives up what is under way outside when its run has ended meanwhile.

use std::future::{Future, pending};

use holdpoint_core::RunRef;

use crate::bus::Subscription;
use crate::context::{EffectContext, Stop};
use crate::engine::Engine;

pub(crate) struct Watch {
    engine: Engine,
    of: RunRef,
}

impl Watch {
    pub(crate) fn of(context: &EffectContext) -> Self {
        Self { engine: context.engine().clone(), of: context.of() }
    }

    /// What comes of it, unless the run ends first: then it is dropped where it stands.
    pub(crate) async fn unless_ended<T>(&self, outside: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            value = outside => Ok(value),
            () = self.ended() => Err(Stop::Lost),
        }
    }

    /// Comes back when the run has ended, and else never.
    pub(crate) async fn ended(&self) {
        ended(&self.engine, &self.of, &mut self.engine.subscribe(&self.of)).await;
    }
}

/// Comes back when the run ends after somebody began to listen, and else never.
pub(crate) async fn ended(engine: &Engine, of: &RunRef, news: &mut Subscription) {
    loop {
        news.changed().await;
        if !engine.is_alive() {
            return pending().await;
        }
        if engine.run(of).await.is_ok_and(|run| run.finished()) {
            return;
        }
    }
}
