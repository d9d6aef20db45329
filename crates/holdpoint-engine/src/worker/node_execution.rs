//! The execution of one node with effects: under the claim of a worker, or without a claim and then without effects.

use std::sync::{Arc, OnceLock};

use holdpoint_core::agent::AgentAction;
use holdpoint_core::{NodeOutcome, Run, RunError, RunRef, Timestamp};

use super::RunExecutor;
use crate::context::{Context, EffectContext, Stop};
use crate::draft::RunDraft;
use crate::engine::Engine;
use crate::error::Error;
use crate::nodes::NodeType;

/// The authority under which a node is executed.
#[derive(Clone, Debug)]
pub(crate) enum NodeExecution {
    /// With the claim of a worker. The node can perform effects and write.
    Claimed(RunExecutor),
    /// Without a claim. The node is stopped when it attempts an effect or a write.
    Dry(DryExecution),
}

/// An execution without a claim.
#[derive(Clone, Debug)]
pub(crate) struct DryExecution {
    engine: Engine,
    of: RunRef,
    at: Timestamp,
    purpose: DryPurpose,
    /// Set when the node attempts an effect or a write: its actions before that.
    stopped: Arc<OnceLock<Vec<AgentAction>>>,
}

/// The purpose of an execution without a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DryPurpose {
    /// To execute a node in the change that activates its run.
    Activation,
    /// To derive the outcome of a node again, from its recorded steps only.
    Replay,
}

/// The outcome of a node, and the last actions of an agent in it.
#[derive(Clone, Debug)]
pub(crate) struct NodeResult {
    pub actions: Vec<AgentAction>,
    pub outcome: NodeOutcome,
}

impl From<NodeOutcome> for NodeResult {
    fn from(outcome: NodeOutcome) -> Self {
        Self { actions: Vec::new(), outcome }
    }
}

/// The result of an execution without a claim.
#[derive(Debug)]
pub(crate) enum DryResult {
    Ended(NodeResult),
    /// The node needs a claim to continue, for an effect that is not recorded. It can continue from these actions.
    Stopped(Vec<AgentAction>),
}

/// Enters a node of a draft with its recorded steps, without a claim.
pub(crate) async fn execute_dry(
    engine: &Engine,
    draft: &RunDraft,
    position: usize,
    purpose: DryPurpose,
) -> DryResult {
    let (of, at, stopped) = (draft.of.clone(), draft.now, Arc::<OnceLock<_>>::default());
    let dry = DryExecution { engine: engine.clone(), of, at, purpose, stopped: stopped.clone() };
    let entered = NodeExecution::Dry(dry).enter(draft.run.clone(), position, at).await;
    match (stopped.get(), entered) {
        (Some(actions), _) => DryResult::Stopped(actions.clone()),
        (None, Ok(result)) => DryResult::Ended(result),
        (None, Err(_)) => DryResult::Stopped(Vec::new()),
    }
}

impl NodeExecution {
    /// Enters one node with effects.
    pub(super) async fn enter(
        self,
        run: Arc<Run>,
        position: usize,
        now: Timestamp,
    ) -> Result<NodeResult, Error> {
        let engine = self.engine().clone();
        let node = &run.workflow.nodes[position];
        let Some(NodeType::Effect(effect)) = engine.nodes().get(&node.type_id).cloned() else {
            let message = format!("this engine has no node type {:?}", node.type_id);
            return Ok(NodeOutcome::Failed(RunError::new("unknown_node_type", message)).into());
        };
        let is_replay = self.is_replay();
        // Also checks nodes whose start was copied from another run.
        if !is_replay && let Err(grant) = engine.check_grants(self.of(), &run, node).await? {
            return Ok(NodeOutcome::Failed(grant.error()).into());
        }
        let mut context = match Context::new(run.clone(), position, now) {
            Ok(context) => EffectContext::new(context, self),
            Err(stop) => return Ok(stop.outcome(&node.id)?.into()),
        };
        let ended = effect.run(&mut context).await;
        let actions = context.take_actions();
        let outcome = match ended {
            Ok(outputs) => context.complete(outputs),
            // Recorded effects were permitted at the time.
            Err(stop) if is_replay => stop.outcome(&node.id)?,
            Err(stop) => engine.nodes().restrict_outcome(stop.outcome(&node.id)?),
        };
        Ok(NodeResult { actions, outcome })
    }

    /// Returns the executor with the claim. Stops a node that attempts an effect or a write without a claim, and takes
    /// its actions.
    pub(crate) fn claimed(&self, actions: &mut Vec<AgentAction>) -> Result<&RunExecutor, Stop> {
        match self {
            Self::Claimed(executor) => Ok(executor),
            Self::Dry(dry) => {
                // A node that continues after this is ignored.
                let _ = dry.stopped.set(std::mem::take(actions));
                Err(Stop::Lost)
            }
        }
    }

    /// Returns whether the node uses recorded steps only.
    pub(crate) fn is_replay(&self) -> bool {
        match self {
            Self::Claimed(_) => false,
            Self::Dry(dry) => dry.purpose == DryPurpose::Replay,
        }
    }

    pub(crate) fn of(&self) -> &RunRef {
        match self {
            Self::Claimed(executor) => executor.of(),
            Self::Dry(dry) => &dry.of,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        match self {
            Self::Claimed(executor) => executor.engine(),
            Self::Dry(dry) => &dry.engine,
        }
    }

    /// Returns the current time, or the time of the change or of the replay.
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Claimed(executor) => executor.engine().now(),
            Self::Dry(dry) => dry.at,
        }
    }
}
