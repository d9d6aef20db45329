//! A run with changes that are not committed yet. Executes nodes without outside effects in memory.

use std::sync::Arc;

use holdpoint_core::agent::AgentAction;
use holdpoint_core::mailbox::DispatchOptions;
use holdpoint_core::{
    Command, Effect, Event, NodeOutcome, NodeWork, Obligation, Refusal, Run, RunError, RunRef, Timestamp,
    decide_and_apply, react,
};

use crate::committer::MailboxAction;
use crate::context::Context;
use crate::engine::PriorState;
use crate::nodes::{NodeType, NodeTypes, PureNode, check_provided};

/// A run with events that are not committed yet, and their effect on the mailbox.
#[derive(Debug)]
pub(crate) struct RunDraft {
    pub of: RunRef,
    /// The state that related runs and dispatches know. The committer checks that it is still current.
    pub before: PriorState,
    /// The state before the events. `None` for a run without events.
    pub from: Option<Arc<Run>>,
    /// The state after the events.
    pub run: Arc<Run>,
    pub events: Vec<Event>,
    pub obligations: Vec<Obligation>,
    pub now: Timestamp,
    pub mail: MailboxAction,
    /// The options that the caller chose for the dispatch of this change.
    pub options: DispatchOptions,
}

/// The nodes of a run that a worker does not begin or enter now.
#[derive(Debug, Default)]
pub(crate) struct BusyNodes {
    /// The positions of the nodes that execute.
    pub at_work: Vec<usize>,
    /// The positions of the nodes whose execution failed. They are entered again under another claim.
    pub set_aside: Vec<usize>,
}

impl BusyNodes {
    fn contains(&self, position: usize) -> bool {
        self.at_work.contains(&position) || self.set_aside.contains(&position)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at_work.is_empty() && self.set_aside.is_empty()
    }
}

impl RunDraft {
    pub(crate) fn new(of: RunRef, run: Arc<Run>, now: Timestamp) -> Self {
        let (before, from) = (PriorState::of(&run), (run.seq > 0).then(|| run.clone()));
        let (events, obligations) = (Vec::new(), Vec::new());
        let (mail, options) = (MailboxAction::None, DispatchOptions::default());
        Self { of, before, from, run, events, obligations, now, mail, options }
    }

    /// Returns whether the change needs a new dispatch.
    pub(crate) fn wakes(&self) -> bool {
        self.before.wakes(self)
    }

    /// Returns the options of a dispatch of this change: those of the caller, or those with which the run started. After
    /// messages, the priority of the start is not used if it is urgent: their sender may not have the right to it.
    pub(crate) fn dispatch_options(&self) -> DispatchOptions {
        match self.run.started.as_deref() {
            Some(started) if self.from.is_none() => started.dispatch.clone(),
            Some(started) if self.adds_messages() => {
                self.options.clone().or(&started.dispatch.clone().not_urgent())
            }
            Some(started) => self.options.clone().or(&started.dispatch),
            None => self.options.clone(),
        }
    }

    fn adds_messages(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::MessageAdded { .. }))
    }

    pub(crate) fn decide(&mut self, command: &Command) -> Result<(), Refusal> {
        let (now, obligations) = (self.now, &mut self.obligations);
        let events = decide_and_apply(&mut self.run, command, now, |run, event| {
            obligations.extend(react(run, event, now));
        })?;
        self.events.extend(events);
        Ok(())
    }

    /// Executes pure nodes until the run ends or waits, or until only nodes with outside effects can continue.
    pub(crate) fn execute_pure_nodes(&mut self, types: &NodeTypes) -> Result<(), Refusal> {
        loop {
            while let Some(work) = self.next_pure_work(types) {
                self.execute_pure_work(types, work)?;
            }
            // Nodes that cannot be reached are skipped at once, because nodes behind them may be ready.
            if self.is_sequential() || self.run.next_work().is_none() || self.run.is_settled() {
                return Ok(());
            }
            self.decide(&Command::Settle)?;
        }
    }

    fn execute_pure_work(&mut self, types: &NodeTypes, work: NodeWork) -> Result<(), Refusal> {
        let node = &self.run.workflow.nodes[work.position()];
        let pure = match types.get(&node.type_id) {
            Some(NodeType::Pure(pure)) => Ok(pure.clone()),
            Some(NodeType::Effect(_)) | None => {
                Err(format!("this engine has no node type {:?} without effects", node.type_id))
            }
        };
        let effect = types.effect_of(node);
        if !self.begin(work, effect)? {
            return Ok(());
        }
        let outcome = match pure {
            Ok(pure) => types.restrict_outcome(self.execute_pure(work.position(), pure.as_ref())),
            Err(why) => NodeOutcome::Failed(RunError::new("unknown_node_type", why)),
        };
        self.finish(work.position(), outcome)
    }

    /// Returns whether the workflow executes one node at a time.
    fn is_sequential(&self) -> bool {
        self.run.workflow.settings.max_parallel_nodes == 1
    }

    fn has_effects(&self, types: &NodeTypes, work: NodeWork) -> bool {
        let node = &self.run.workflow.nodes[work.position()];
        matches!(types.get(&node.type_id), Some(NodeType::Effect(_)))
    }

    /// Returns whether a node can start while others execute: it has begun, or its inputs are available. A node without
    /// its inputs starts when no other node executes, because one of them may provide the inputs.
    fn can_start_beside(&self, work: NodeWork) -> bool {
        match work {
            NodeWork::Enter(_) => true,
            NodeWork::Begin(position) => self.run.inputs_of(&self.run.workflow.nodes[position]).is_ok(),
        }
    }

    /// Returns the next node without outside effects. Gates come first, so that their interrupts open early.
    fn next_pure_work(&self, types: &NodeTypes) -> Option<NodeWork> {
        let next = self.run.next_work()?;
        if !self.has_effects(types, next) {
            return Some(next);
        }
        if self.run.nodes.len() == 1 {
            return None;
        }
        let is_beside = |work: &NodeWork| match (next, work) {
            (NodeWork::Enter(_), NodeWork::Begin(_)) => !self.is_sequential(),
            (NodeWork::Enter(_) | NodeWork::Begin(_), _) => true,
        };
        let mut ready = self.run.ready_work();
        ready.retain(|work| {
            is_beside(work) && !self.has_effects(types, *work) && self.can_start_beside(*work)
        });
        let is_gate = |work: &&NodeWork| types.is_gate(&self.run.workflow.nodes[work.position()]);
        let other = || ready.first().filter(|_| !self.is_sequential());
        ready.iter().find(is_gate).or_else(other).copied()
    }

    /// Begins the next node, which has outside effects, and returns it.
    pub(crate) fn begin_next(&mut self) -> Result<Option<NodeWork>, Refusal> {
        match self.run.next_work() {
            Some(work) => Ok(self.begin(work, Effect::Outside)?.then_some(work)),
            None => Ok(None),
        }
    }

    /// Begins nodes with outside effects, as many as the workflow admits beside the `busy` ones, and returns the nodes to
    /// enter. The caller has executed the pure nodes.
    pub(crate) fn begin_effects(
        &mut self,
        types: &NodeTypes,
        busy: &BusyNodes,
    ) -> Result<Vec<NodeWork>, Refusal> {
        let most = usize::try_from(self.run.workflow.settings.max_parallel_nodes).unwrap_or(usize::MAX);
        let mut begun: Vec<NodeWork> = Vec::new();
        while busy.at_work.len() + begun.len() < most {
            let Some(work) = self.next_effect(types, busy, &begun) else { break };
            if !self.begin(work, Effect::Outside)? {
                return Ok(Vec::new());
            }
            begun.push(work);
        }
        Ok(begun)
    }

    fn next_effect(&self, types: &NodeTypes, busy: &BusyNodes, begun: &[NodeWork]) -> Option<NodeWork> {
        let next = self.run.next_work()?;
        let nodes = &self.run.workflow.nodes;
        let others = || busy.at_work.iter().copied().chain(begun.iter().map(|work| work.position()));
        // The run has one handle, which one node at a time uses.
        let uses_handle = |position: usize| types.uses_handle(&nodes[position]);
        let is_free = |work: NodeWork| {
            let position = work.position();
            let waits_for_handle = uses_handle(position) && others().any(uses_handle);
            !busy.contains(position) && others().all(|other| other != position) && !waits_for_handle
        };
        let is_alone = busy.is_empty() && begun.is_empty();
        if self.is_sequential() || (is_alone && self.run.nodes.len() == 1) {
            return Some(next).filter(|work| is_free(*work));
        }
        let mut ready = self.run.ready_work();
        ready.retain(|work| self.has_effects(types, *work) && is_free(*work));
        if is_alone && ready.len() <= 1 {
            return Some(next);
        }
        let startable = ready.into_iter().find(|work| self.can_start_beside(*work));
        startable.or_else(|| is_alone.then_some(next))
    }

    /// Begins a node. Returns false if the run ended instead because it reached the limit of node executions.
    fn begin(&mut self, work: NodeWork, effect: Effect) -> Result<bool, Refusal> {
        if let NodeWork::Begin(position) = work {
            let node = self.run.workflow.nodes[position].id.clone();
            self.decide(&Command::Begin { node, effect })?;
        }
        Ok(!self.run.finished())
    }

    pub(crate) fn finish(&mut self, position: usize, outcome: NodeOutcome) -> Result<(), Refusal> {
        let node = self.run.workflow.nodes[position].id.clone();
        self.decide(&Command::Finish { node, outcome })
    }

    /// Records the actions of an agent at a node. An empty list has no effect.
    pub(crate) fn record_actions(
        &mut self,
        position: usize,
        actions: Vec<AgentAction>,
    ) -> Result<(), Refusal> {
        if actions.is_empty() {
            return Ok(());
        }
        let node = self.run.workflow.nodes[position].id.clone();
        self.decide(&Command::Act { node, actions })
    }

    pub(crate) fn execute_pure(&self, position: usize, pure: &dyn PureNode) -> NodeOutcome {
        let entered = Context::new(self.run.clone(), position, self.now);
        let result = entered.and_then(|mut context| {
            check_provided(pure.requires())?;
            let outputs = pure.run(&mut context)?;
            Ok(context.complete(outputs))
        });
        match result {
            Ok(outcome) => outcome,
            // Only a node with effects can be tried again later: a pure node that returns `Unavailable` or `Broken`
            // fails.
            Err(stop) => stop
                .outcome(&self.run.workflow.nodes[position].id)
                .unwrap_or_else(|error| NodeOutcome::Failed(RunError::new("node_failed", error.to_string()))),
        }
    }
}
