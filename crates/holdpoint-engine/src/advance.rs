//! Carries a run on through nodes without outside effects, as far as it goes, in memory.

use std::sync::Arc;

use holdpoint_core::agent::Act;
use holdpoint_core::{
    Command, Effect, Event, Obligation, Outcome, Refusal, Run, RunError, Timestamp, Work, decide, react,
};

use crate::context::Context;
use crate::nodes::{NodeType, NodeTypes, PureNode, check_provided};

/// A run in the making: the fold so far, and the events that led there from the stored one.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The fold that the events begin with, unless nothing has happened to the run yet.
    pub from: Option<Arc<Run>>,
    pub run: Arc<Run>,
    pub events: Vec<Event>,
    pub obligations: Vec<Obligation>,
    pub now: Timestamp,
}

impl Draft {
    pub(crate) fn new(run: Arc<Run>, now: Timestamp) -> Self {
        let from = (run.seq > 0).then(|| run.clone());
        Self { from, run, events: Vec::new(), obligations: Vec::new(), now }
    }

    pub(crate) fn decide(&mut self, command: &Command) -> Result<(), Refusal> {
        let events = decide(&self.run, command, self.now)?;
        let run = Arc::make_mut(&mut self.run);
        for event in events {
            self.obligations.extend(react(run, &event, self.now));
            run.apply(&event, self.now);
            self.events.push(event);
        }
        Ok(())
    }

    /// Runs pure nodes until the run ends, waits, or comes to a node that needs a worker.
    pub(crate) fn advance(&mut self, types: &NodeTypes) -> Result<(), Refusal> {
        while let Some(work) = self.next_inside(types) {
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
                Ok(pure) => types.permitted(self.perform(work.position(), pure.as_ref())),
                Err(why) => Outcome::Failed(RunError::new("unknown_node_type", why)),
            };
            self.finish(work.position(), outcome)?;
        }
        Ok(())
    }

    /// Returns the next node. A gate that can be asked comes before every effect: nobody is asked later because a call is
    /// slow. A gate without its inputs is not early but waits for its turn.
    fn next_inside(&self, types: &NodeTypes) -> Option<Work> {
        let next = self.run.next_work()?;
        let nodes = &self.run.workflow.nodes;
        let asks = |work: &Work| {
            let node = &nodes[work.position()];
            types.asks(node) && self.run.inputs_of(node).is_ok()
        };
        match types.get(&nodes[next.position()].type_id) {
            Some(NodeType::Effect(_)) => Some(self.run.ready_work().into_iter().find(asks).unwrap_or(next)),
            Some(NodeType::Pure(_)) | None => Some(next),
        }
    }

    /// Begins the next node, which has effects, and returns it.
    pub(crate) fn begin_next(&mut self) -> Result<Option<Work>, Refusal> {
        match self.run.next_work() {
            Some(work) => Ok(self.begin(work, Effect::Outside)?.then_some(work)),
            None => Ok(None),
        }
    }

    /// False when the run has ended instead: it has begun as many nodes as it may.
    fn begin(&mut self, work: Work, effect: Effect) -> Result<bool, Refusal> {
        if let Work::Begin(position) = work {
            let node = self.run.workflow.nodes[position].id.clone();
            self.decide(&Command::Begin { node, effect })?;
        }
        Ok(!self.run.finished())
    }

    pub(crate) fn finish(&mut self, position: usize, outcome: Outcome) -> Result<(), Refusal> {
        let node = self.run.workflow.nodes[position].id.clone();
        self.decide(&Command::Finish { node, outcome })
    }

    /// What an agent did at a node; nothing is no command.
    pub(crate) fn act(&mut self, position: usize, acts: Vec<Act>) -> Result<(), Refusal> {
        if acts.is_empty() {
            return Ok(());
        }
        let node = self.run.workflow.nodes[position].id.clone();
        self.decide(&Command::Act { node, acts })
    }

    pub(crate) fn perform(&self, position: usize, pure: &dyn PureNode) -> Outcome {
        let entered = Context::new(self.run.clone(), position, self.now);
        let result = entered.and_then(|mut context| {
            check_provided(pure.requires())?;
            let outputs = pure.run(&mut context)?;
            Ok(context.complete(outputs))
        });
        match result {
            Ok(outcome) => outcome,
            // A pure node has no store that could be broken.
            Err(stop) => stop
                .outcome(&self.run.workflow.nodes[position].id)
                .unwrap_or_else(|error| Outcome::Failed(RunError::new("node_failed", error.to_string()))),
        }
    }
}
