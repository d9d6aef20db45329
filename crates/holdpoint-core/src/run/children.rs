//! Folds what is heard of the runs that a run has started.

use std::sync::Arc;

use super::{Child, NodeStatus, Run, Status};
use crate::event::{ChildResult, Event};
use crate::ids::RunId;

impl Run {
    pub(super) fn adopt(&mut self, event: &Event) {
        let Event::NodeDispatched { node, child, workflow, inputs, wait, cascade } = event else { return };
        let visit = self.node_state(node).map_or(1, |state| state.visit);
        self.touch(node, |state| {
            state.children.push(child.clone());
            if *wait {
                state.status = NodeStatus::Awaiting(child.clone());
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
            status: Status::Pending,
            result: None,
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
            if state.status == NodeStatus::Awaiting(child.clone()) {
                state.status = NodeStatus::Running;
            }
        });
    }

    pub fn child(&self, run: &RunId) -> Option<&Arc<Child>> {
        self.children.iter().find(|child| child.run == *run)
    }

    /// Whether a node waits for this run.
    pub fn awaits(&self, run: &RunId) -> bool {
        self.nodes.iter().any(|state| state.status == NodeStatus::Awaiting(run.clone()))
    }
}
