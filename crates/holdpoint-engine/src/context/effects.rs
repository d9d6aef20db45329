//! The context of nodes with outside effects: recorded steps, and commits while the worker holds the claim.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::agent::{ActivityReport, AgentAction};
use holdpoint_core::{Command, NodeId, NodeOutcome, Run, RunRef, Timestamp};
use serde_json::{Map, Value};

use super::{Context, Stop};
use crate::engine::Engine;
use crate::worker::NodeExecution;

/// A [`Context`] for nodes with outside effects.
#[derive(Debug)]
pub struct EffectContext {
    context: Context,
    execution: NodeExecution,
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
    pub(crate) fn new(context: Context, execution: NodeExecution) -> Self {
        Self { context, execution }
    }

    pub(crate) fn complete(self, outputs: Map<String, Value>) -> NodeOutcome {
        self.context.complete(outputs)
    }

    /// Sleeps for `ms` milliseconds from now. The sleep survives restarts.
    pub fn sleep(&mut self, ms: u64) -> Result<(), Stop> {
        self.context.now = self.execution.now();
        self.context.sleep(ms)
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        self.execution.engine()
    }

    /// Commits the actions of an agent. After it returns, they are stored and the worker still holds the claim.
    pub async fn commit_actions(&mut self) -> Result<(), Stop> {
        let executor = self.execution.claimed(&mut self.context.actions)?;
        executor.check_lease().await?;
        if self.context.actions.is_empty() {
            return executor.write_entry(self.context.position).await;
        }
        let node = self.context.node().id.clone();
        let command = Command::Act { node, actions: self.context.take_actions() };
        self.context.run = executor.record(command).await?;
        Ok(())
    }

    /// Reports an activity of the node to readers of the run, for example the progress of an effect. A later report with
    /// the same id replaces the content. Each report is a commit, so a node should report a few times per second at
    /// most. A report beyond [`limits::ACTIVITIES_MAX`](holdpoint_core::limits::ACTIVITIES_MAX) is dropped.
    pub async fn report_activity(&mut self, report: ActivityReport) -> Result<(), Stop> {
        self.apply_action(AgentAction::Report(Box::new(report)))?;
        self.commit_actions().await
    }

    /// Stops an execution without a claim. Its actions so far are committed with the change that it belongs to, and a
    /// worker continues after them. An action that must be followed by its effect is applied after this call.
    pub fn require_claim(&mut self) -> Result<(), Stop> {
        self.execution.claimed(&mut self.context.actions).map(|_| ())
    }

    /// Commits actions while the agent continues. The future returns the run after the commit, for
    /// [`Self::replace_run`]. The caller must have no other uncommitted actions.
    pub fn commit_actions_concurrently(
        &self,
        actions: Vec<AgentAction>,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<Run>, Stop>> + Send>> {
        let command = Command::Act { node: self.node().id.clone(), actions };
        let execution = self.execution.clone();
        Box::pin(async move { execution.claimed(&mut Vec::new())?.record(command).await })
    }

    /// Returns whether this execution is a replay, which must not perform outside effects.
    pub fn is_replay(&self) -> bool {
        self.execution.is_replay()
    }

    /// Replaces the run with the run after a commit of [`Self::commit_actions_concurrently`].
    pub fn replace_run(&mut self, run: Arc<Run>) {
        self.context.run = run;
    }

    /// Returns the tenant and the id of the run.
    pub fn of(&self) -> RunRef {
        self.execution.of().clone()
    }

    /// Returns the current time. It differs between executions of the node.
    pub fn clock(&self) -> Timestamp {
        self.execution.now()
    }

    /// Performs an outside effect and records its result before it returns. If the step is recorded, returns the
    /// recorded result without the effect. An error is not recorded: the effect is repeated when the node executes
    /// again.
    ///
    /// Fails with [`Stop::Cancelled`] if the run was cancelled: without the effect if this process knows it already,
    /// otherwise after the effect, whose result is then not recorded. [`RunEndWatch`](crate::extension::RunEndWatch)
    /// stops an effect in progress.
    ///
    /// After a crash between the effect and its record, the effect is repeated. If a repetition does harm, send an
    /// idempotency key with the effect; run id, node id and step name are stable.
    pub async fn step<F>(&mut self, name: &str, effect: impl FnOnce() -> F) -> Result<Value, Stop>
    where
        F: Future<Output = Result<Value, Stop>>,
    {
        let node: NodeId = self.node().id.clone();
        if let Some(result) = self.run.nodes[self.position].steps.get(name) {
            return Ok(result.clone());
        }
        let executor = self.execution.claimed(&mut self.context.actions)?;
        executor.check_lease().await?;
        let began = self.execution.now();
        let result = effect().await?;
        let took_ms = u64::try_from(self.execution.now().0 - began.0).ok();
        let command = Command::Record { node, name: name.to_owned(), result: result.clone(), took_ms };
        self.context.run = executor.record(command).await?;
        Ok(result)
    }
}
