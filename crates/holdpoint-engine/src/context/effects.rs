//! What code of a node sees besides when it does something outside: steps that are recorded before it goes on, and the
//! right to write at all.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::agent::Act;
use holdpoint_core::{Command, NodeId, Outcome, Run, RunRef, Timestamp};
use serde_json::{Map, Value};

use super::{Context, Stop};
use crate::engine::Engine;
use crate::worker::Holder;

/// A [`Context`] for nodes with outside effects.
#[derive(Debug)]
pub struct EffectContext {
    context: Context,
    holder: Holder,
}

impl Deref for EffectContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl DerefMut for EffectContext {
    fn deref_mut(&mut self) -> &mut Context {
        &mut self.context
    }
}

impl EffectContext {
    pub(crate) fn new(context: Context, holder: Holder) -> Self {
        Self { context, holder }
    }

    pub(crate) fn complete(self, outputs: Map<String, Value>) -> Outcome {
        self.context.complete(outputs)
    }

    /// Pauses for `ms` milliseconds from now, over restarts too.
    pub fn sleep(&mut self, ms: u64) -> Result<(), Stop> {
        self.context.now = self.holder.now();
        self.context.sleep(ms)
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.holder.engine()
    }

    /// Commits what an agent has done. When this returns, it is on disk, and the run still ours.
    pub(crate) async fn write_down(&mut self) -> Result<(), Stop> {
        self.holder.check().await?;
        if self.acts.is_empty() {
            return self.holder.write_entry(self.context.position).await;
        }
        let command = Command::Act { node: self.node().id.clone(), acts: self.context.take_acts() };
        self.context.run = self.holder.record(command).await?;
        Ok(())
    }

    /// Commits something while the agent is at something else; to be told of the run that comes of it. Nothing may be
    /// left to write down at that time.
    pub(crate) fn write_aside(
        &self,
        act: Act,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<Run>, Stop>> + Send>> {
        let command = Command::Act { node: self.node().id.clone(), acts: vec![act] };
        let holder = self.holder.clone();
        Box::pin(async move { holder.record(command).await })
    }

    /// Whether only what was done before is wanted.
    pub(crate) fn replays(&self) -> bool {
        self.holder.replays()
    }

    pub(crate) fn go_on_from(&mut self, run: Arc<Run>) {
        self.context.run = run;
    }

    /// The run, as the store knows it.
    pub(crate) fn of(&self) -> RunRef {
        self.holder.of()
    }

    pub(crate) fn clock(&self) -> Timestamp {
        self.holder.now()
    }

    /// Does something outside and records its result before going on. A result that is recorded is returned
    /// without doing it again; an error is not recorded, so the effect is tried again when the node is.
    ///
    /// A crash between the effect and its record cannot be told from one before it: give the other side an
    /// idempotency key (run id, node id and step name are stable) if twice would hurt.
    pub async fn step<F>(&mut self, name: &str, effect: impl FnOnce() -> F) -> Result<Value, Stop>
    where
        F: Future<Output = Result<Value, Stop>>,
    {
        let node: NodeId = self.node().id.clone();
        if let Some(result) = self.run.nodes[self.position].steps.get(name) {
            return Ok(result.clone());
        }
        self.holder.check().await?;
        let began = self.holder.now();
        let result = effect().await?;
        let took_ms = u64::try_from(self.holder.now().0 - began.0).ok();
        let command = Command::Record { node, name: name.to_owned(), result: result.clone(), took_ms };
        self.context.run = self.holder.record(command).await?;
        Ok(result)
    }
}
