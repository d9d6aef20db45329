//! Changes that a running node does not see. Nodes of a run execute side by side: a node sees the variables and outputs
//! of the moment at which it began or was resumed, so that every execution of the visit and every replay sees the same.

use std::sync::Arc;

use serde_json::Value;

use super::{NodeStatus, Run};
use crate::NodeId;

/// The changes of other nodes since a node began or was resumed.
#[derive(Clone, Debug, PartialEq)]
pub struct UnseenChanges {
    /// The variables before the first of these changes, with the later changes of the node itself.
    pub variables: Arc<Value>,
    /// The positions of the nodes that completed.
    pub completed: Vec<usize>,
}

impl Run {
    /// Keeps the variables that the other running nodes see, before a node changes them.
    pub(super) fn keep_variables_of_siblings(&mut self, writer: &NodeId) {
        let writer = self.workflow.position(writer);
        for (position, state) in self.nodes.iter_mut().enumerate() {
            if state.status == NodeStatus::Running && Some(position) != writer && state.unseen.is_none() {
                let variables = self.variables.clone();
                state.unseen = Some(Arc::new(UnseenChanges { variables, completed: Vec::new() }));
            }
        }
    }

    /// Hides the outputs of a node that completes from the other running nodes.
    pub(super) fn hide_outputs(&mut self, completed: &NodeId) {
        let Some(completed) = self.workflow.position(completed) else { return };
        for (position, state) in self.nodes.iter_mut().enumerate() {
            if let Some(unseen) = state.unseen.as_mut().filter(|_| position != completed) {
                Arc::make_mut(unseen).completed.push(completed);
            }
        }
    }

    /// Repeats a change of a variable in the variables that the node itself sees.
    pub(super) fn show_own_change(&mut self, writer: &NodeId, name: &str, value: &Value) {
        let Some(position) = self.workflow.position(writer) else { return };
        if let Some(unseen) = &mut self.nodes[position].unseen
            && let Value::Object(variables) = Arc::make_mut(&mut Arc::make_mut(unseen).variables)
        {
            variables.insert(name.to_owned(), value.clone());
        }
    }

    /// Returns the variables that a node sees.
    pub(crate) fn visible_variables(&self, node: &NodeId) -> &Arc<Value> {
        let unseen = self.node_state(node).and_then(|state| state.unseen.as_deref());
        unseen.map_or(&self.variables, |unseen| &unseen.variables)
    }

    /// Returns whether a node sees that another one, at this position, has completed.
    pub(crate) fn sees_outputs_of(&self, node: &NodeId, source: usize) -> bool {
        let unseen = self.node_state(node).and_then(|state| state.unseen.as_deref());
        unseen.is_none_or(|unseen| !unseen.completed.contains(&source))
    }
}
