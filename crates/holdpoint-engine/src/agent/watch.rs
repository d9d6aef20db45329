//! Gives up what is under way outside when its run has ended meanwhile.

use std::future::{Future, pending};

use holdpoint_core::RunRef;

use crate::context::{EffectContext, Stop};
use crate::engine::Engine;

pub(super) struct Watch {
    engine: Engine,
    of: RunRef,
}

impl Watch {
    pub(super) fn of(context: &EffectContext) -> Self {
        Self { engine: context.engine().clone(), of: context.of() }
    }

    /// What comes of it, unless the run ends first: then it is dropped where it stands.
    pub(super) async fn unless_ended<T>(&self, outside: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            value = outside => Ok(value),
            () = self.ended() => Err(Stop::Lost),
        }
    }

    /// Comes back when the run has ended, and else never.
    pub(super) async fn ended(&self) {
        let mut news = self.engine.subscribe(&self.of);
        loop {
            news.changed().await;
            if !self.engine.is_alive() {
                return pending().await;
            }
            if self.engine.run(&self.of).await.is_ok_and(|run| run.finished()) {
                return;
            }
        }
    }
}
