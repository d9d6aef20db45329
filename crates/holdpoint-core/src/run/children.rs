//! Folds what is heard of the runs that a run has started.

use std::sync::Arc;

use super::{Child, NodeState, NodeStatus, Run, Status};
use crate::event::{ChildResult, Event};
use crate::{NodeId, RunId};

impl Run {
    pub(super) fn adopt(&mut self, event: &Event) {
        if let Event::NodeAwaiting { node, child } = event {
            self.touch(node, |state| state.status = NodeStatus::Awaiting(child.clone()));
        }
        let Event::NodeDispatched { node, child, workflow, inputs, wait, cascade, call } = event else {
            return;
        };
        let visit = self.node_state(node).map_or(1, |state| state.visit);
        self.touch(node, |state| {
            state.children.push(child.clone());
            match call {
                Some(call) => state.carry_out(call, child),
                None if *wait => state.status = NodeStatus::Awaiting(child.clone()),
                None => {}
            }
        });
        self.children.push(Arc::new(Child {
            run: child.clone(),
            node: node.clone(),
            visit,
            workflow: workflow.clone(),
            inputs: inputs.clone(),
            wait: *wait,
            cascade: *cascade,
            call: call.clone(),
            status: Status::Pending,
            result: None,
            given_up: false,
        }));
    }

    pub(super) fn hear_of(&mut self, child: &RunId, status: Status, result: Option<&ChildResult>) {
        let Some(known) = self.children.iter_mut().find(|known| known.run == *child) else { return };
        let known = Arc::make_mut(known);
        known.status = status;
        let Some(result) = result else { return };
        known.result = Some(Arc::new(result.clone()));
        let node = known.node.clone();
        self.touch(&node, |state| {
            if state.awaits(child) {
                state.status = NodeStatus::Running;
            }
            state.hear_end_of(child);
        });
    }

    /// What becomes of it is of no interest any more. That it is cancelled happens in the same commit, or a little later
    /// where very many end at once.
    pub(super) fn give_up(&mut self, child: &RunId) {
        let Some(known) = self.children.iter_mut().find(|known| known.run == *child) else { return };
        let known = Arc::make_mut(known);
        known.status = Status::Cancelled;
        known.result = Some(Arc::default());
        known.given_up = true;
    }

    pub fn child(&self, run: &RunId) -> Option<&Arc<Child>> {
        self.children.iter().find(|child| child.run == *run)
    }

    /// Whether a node waits for this run.
    pub fn awaits(&self, run: &RunId) -> bool {
        self.nodes.iter().any(|state| state.awaits(run))
    }

    /// Runs under way that carry out calls of this node.
    pub(crate) fn runs_of_calls(&self, node: &NodeId) -> Vec<RunId> {
        let agent = self.node_state(node).and_then(|state| state.agent.as_ref());
        let calls = agent.into_iter().flat_map(|agent| &agent.calls);
        calls.filter_map(|call| call.run_under_way()).cloned().collect()
    }

    pub(crate) fn run_of_call(&self, node: &NodeId, call: &str) -> Option<RunId> {
        let agent = self.node_state(node).and_then(|state| state.agent.as_ref());
        agent.and_then(|agent| agent.call(call)?.run_under_way()).cloned()
    }
}

impl NodeState {
    /// Whether the end of this run lets the node go on. An agent waits for all its runs at once, and for people as well.
    pub(crate) fn awaits(&self, run: &RunId) -> bool {
        let calls = || self.agent.iter().flat_map(|agent| &agent.calls);
        match &self.status {
            NodeStatus::Awaiting(child) if child == run => true,
            NodeStatus::Awaiting(_) | NodeStatus::Waiting(_) => {
                calls().any(|call| call.run_under_way() == Some(run))
            }
            NodeStatus::Pending
            | NodeStatus::Running
            | NodeStatus::Sleeping(_)
            | NodeStatus::Completed
            | NodeStatus::Failed
            | NodeStatus::Skipped => false,
        }
    }
}
