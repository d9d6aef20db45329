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

    /// Executes pure nodes until the run ends, waits, or reaches a node with outside effects.
    pub(crate) fn execute_pure_nodes(&mut self, types: &NodeTypes) -> Result<(), Refusal> {
        while let Some(work) = self.next_work(types) {
            let node = &self.run.workflow.nodes[work.position()];
            let pure = match types.get(&node.type_id) {
                Some(NodeType::Effect(_)) => return Ok(()),
                Some(NodeType::Pure(pure)) => Ok(pure.clone()),
                None => Err(format!("this engine has no node type {:?}", node.type_id)),
            };
            let effect = types.effect_of(node);
            if !self.begin(work, effect)? {
                return Ok(());
            }
            let outcome = match pure {
                Ok(pure) => types.restrict_outcome(self.execute_pure(work.position(), pure.as_ref())),
                Err(why) => NodeOutcome::Failed(RunError::new("unknown_node_type", why)),
            };
            self.finish(work.position(), outcome)?;
        }
        Ok(())
    }

    /// Returns the next node. A gate whose inputs are available comes before nodes with effects, so that its interrupt
    /// does not wait for a slow call. A gate without its inputs keeps its place in the order.
    fn next_work(&self, types: &NodeTypes) -> Option<NodeWork> {
        let next = self.run.next_work()?;
        let nodes = &self.run.workflow.nodes;
        let asks = |work: &NodeWork| {
            let node = &nodes[work.position()];
            types.is_gate(node) && self.run.inputs_of(node).is_ok()
        };
        match types.get(&nodes[next.position()].type_id) {
            Some(NodeType::Effect(_)) => Some(self.run.ready_work().into_iter().find(asks).unwrap_or(next)),
            Some(NodeType::Pure(_)) | None => Some(next),
        }
    }

    /// Begins the next node, which has outside effects, and returns it.
    pub(crate) fn begin_next(&mut self) -> Result<Option<NodeWork>, Refusal> {
        match self.run.next_work() {
            Some(work) => Ok(self.begin(work, Effect::Outside)?.then_some(work)),
            None => Ok(None),
        }
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
