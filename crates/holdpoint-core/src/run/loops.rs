//! Folds a way back: everything that its target leads to begins anew.

use super::{NodeState, Run};

impl Run {
    pub(super) fn turn_back(&mut self, edge: &str, iteration: u32) {
        let workflow = self.workflow.clone();
        let Some(taken) = workflow.loops.iter().find(|found| workflow.edges[found.edge].id == edge) else {
            return;
        };
        self.turns[taken.edge] = iteration;
        // Loops inside this one are counted from the start again.
        let target = workflow.edges[taken.edge].target;
        let inside = |edge: usize| {
            let (source, other) = (workflow.edges[edge].source, workflow.edges[edge].target);
            other != target && taken.region[source] && taken.region[other]
        };
        for found in workflow.loops.iter().filter(|found| inside(found.edge)) {
            self.turns[found.edge] = 0;
        }
        for position in (0..self.nodes.len()).filter(|position| taken.region[*position]) {
            let before = &self.nodes[position];
            self.nodes[position] = NodeState {
                visit: before.visit + 1,
                outputs_before: before.outputs.clone(),
                keys_from: self.unused_key_count(position),
                ..NodeState::untouched()
            };
        }
        for (at, edge) in workflow.edges.iter().enumerate() {
            if taken.region[edge.source] {
                self.conditions[at] = None;
            }
        }
    }
}
