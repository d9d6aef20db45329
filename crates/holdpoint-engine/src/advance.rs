//! Carries a run on through nodes without outside effects, as far as it goes, in memory.

use std::sync::Arc;

use holdpoint_core::{
    Command, Completion, Event, Obligation, Outcome, Refusal, Run, RunError, Timestamp, Work, decide, react,
};

use crate::context::Context;
use crate::nodes::{NodeType, NodeTypes, PureNode};

/// A run in the making: the fold so far, and the events that led there from the stored one.
#[derive(Debug)]
pub(crate) struct Draft {
    pub run: Arc<Run>,
    pub events: Vec<Event>,
    pub obligations: Vec<Obligation>,
    pub now: Timestamp,
}

impl Draft {
    pub(crate) fn new(run: Arc<Run>, now: Timestamp) -> Self {
        Self { run, events: Vec::new(), obligations: Vec::new(), now }
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
        while let Some(work) = self.run.next_work() {
            let node = &self.run.workflow.nodes[work.position()];
            match types.get(&node.type_id) {
                Some(NodeType::Effect(_)) => return Ok(()),
                Some(NodeType::Pure(pure)) => {
                    let pure = pure.clone();
                    self.begin(work)?;
                    let outcome = self.perform(work.position(), pure.as_ref());
                    self.finish(work.position(), outcome)?;
                }
                None => {
                    let message = format!("this engine has no node type {:?}", node.type_id);
                    self.begin(work)?;
                    self.finish(
                        work.position(),
                        Outcome::Failed(RunError::new("unknown_node_type", message)),
                    )?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn begin(&mut self, work: Work) -> Result<(), Refusal> {
        match work {
            Work::Begin(position) => {
                let node = self.run.workflow.nodes[position].id.clone();
                self.decide(&Command::Begin { node })
            }
            Work::Enter(_) => Ok(()),
        }
    }

    pub(crate) fn finish(&mut self, position: usize, outcome: Outcome) -> Result<(), Refusal> {
        let node = self.run.workflow.nodes[position].id.clone();
        self.decide(&Command::Finish { node, outcome })
    }

    fn perform(&self, position: usize, pure: &dyn PureNode) -> Outcome {
        let entered = Context::new(self.run.clone(), position, self.now);
        let result = entered.and_then(|mut context| pure.run(&mut context));
        match result {
            Ok(outputs) => Outcome::Completed(Box::new(Completion::of(outputs))),
            // A pure node has no store that could be broken.
            Err(stop) => stop
                .outcome()
                .unwrap_or_else(|error| Outcome::Failed(RunError::new("node_failed", error.to_string()))),
        }
    }
}
