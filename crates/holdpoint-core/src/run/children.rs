//! Folds the events of child runs.

use std::sync::Arc;

use super::{ChildRunState, NodeState, NodeStatus, Run, Status};
use crate::event::{ChildInterruptChanges, Event};
use crate::{NodeId, RunId};

impl Run {
    /// Adds a child run, or records that a node waits for one.
    pub(super) fn add_child(&mut self, event: &Event) {
        if let Event::NodeAwaiting { node, child } = event {
            self.update_node(node, |state| state.status = NodeStatus::Awaiting(child.clone()));
        }
        let Event::NodeDispatched { node, child, workflow, inputs, wait, cascade, call } = event else {
            return;
        };
        let visit = self.node_state(node).map_or(1, |state| state.visit);
        self.update_node(node, |state| {
            state.children.push(child.clone());
            match call {
                Some(call) => state.set_call_run(call, child),
                None if *wait => state.status = NodeStatus::Awaiting(child.clone()),
                None => {}
            }
        });
        self.children.push(Arc::new(ChildRunState {
            run: child.clone(),
            node: node.clone(),
            visit,
            workflow: workflow.clone(),
            inputs: inputs.clone(),
            wait: *wait,
            cascade: *cascade,
            call: call.clone(),
            status: Status::Pending,
            interrupts: Vec::new(),
            decisions: Vec::new(),
            result: None,
            abandoned: false,
        }));
    }

    /// Records the status of a child run, its open interrupts, and its result if it has ended.
    pub(super) fn update_child(&mut self, event: &Event) {
        let (child, status, opened, closed, result) = match event {
            Event::ChildChanged { child, status, interrupts: ChildInterruptChanges { opened, closed } } => {
                (child, status, opened.as_slice(), closed, None)
            }
            Event::ChildEnded { child, status, result, closed } => {
                (child, status, [].as_slice(), closed, Some(result))
            }
            _ => return,
        };
        let Some(known) = self.children.iter_mut().find(|known| known.run == *child) else { return };
        let known = Arc::make_mut(known);
        known.status = *status;
        known.apply_changes(opened, closed);
        let Some(result) = result else { return };
        known.result = Some(Arc::new(result.clone()));
        known.interrupts.clear();
        let node = known.node.clone();
        self.update_node(&node, |state| {
            if state.awaits(child) {
                state.status = NodeStatus::Running;
            }
            state.mark_child_ended(child);
        });
    }

    /// Abandons a child run whose result is no longer needed. The engine cancels it in the same commit, or in a later
    /// one if too many child runs end in this commit.
    pub(super) fn abandon_child(&mut self, child: &RunId) {
        let Some(known) = self.children.iter_mut().find(|known| known.run == *child) else { return };
        let known = Arc::make_mut(known);
        known.status = Status::Cancelled;
        known.result = Some(Arc::default());
        known.interrupts.clear();
        known.abandoned = true;
    }

    /// Returns the child run with this id.
    pub fn child(&self, run: &RunId) -> Option<&Arc<ChildRunState>> {
        self.children.iter().find(|child| child.run == *run)
    }

    /// Returns whether a node waits for this child run.
    pub fn awaits(&self, run: &RunId) -> bool {
        self.nodes.iter().any(|state| state.awaits(run))
    }

    /// Returns the unfinished child runs that execute tool calls of this node.
    pub(crate) fn runs_of_calls(&self, node: &NodeId) -> Vec<RunId> {
        let agent = self.node_state(node).and_then(|state| state.agent.as_ref());
        let calls = agent.into_iter().flat_map(|agent| &agent.calls);
        calls.filter_map(|call| call.unfinished_run()).cloned().collect()
    }

    pub(crate) fn run_of_call(&self, node: &NodeId, call: &str) -> Option<RunId> {
        let agent = self.node_state(node).and_then(|state| state.agent.as_ref());
        agent.and_then(|agent| agent.call(call)?.unfinished_run()).cloned()
    }
}

impl NodeState {
    /// Returns whether the end of this child run resumes the node. An agent waits for all its child runs and interrupts
    /// at the same time.
    pub(crate) fn awaits(&self, run: &RunId) -> bool {
        let calls = || self.agent.iter().flat_map(|agent| &agent.calls);
        match &self.status {
            NodeStatus::Awaiting(child) if child == run => true,
            NodeStatus::Awaiting(_) | NodeStatus::Waiting(_) => {
                calls().any(|call| call.unfinished_run() == Some(run))
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
