//! Folds a taken back edge: resets its target and all nodes that the target leads to.

use super::{NodeState, Run};

impl Run {
    pub(super) fn take_back_edge(&mut self, edge: &str, iteration: u32) {
        let workflow = self.workflow.clone();
        let Some(taken) = workflow.loops.iter().find(|found| workflow.edges[found.edge].id == edge) else {
            return;
        };
        self.loop_iterations[taken.edge] = iteration;
        // The iterations of inner loops start again from zero.
        let target = workflow.edges[taken.edge].target;
        let inside = |edge: usize| {
            let (source, other) = (workflow.edges[edge].source, workflow.edges[edge].target);
            other != target && taken.region[source] && taken.region[other]
        };
        for found in workflow.loops.iter().filter(|found| inside(found.edge)) {
            self.loop_iterations[found.edge] = 0;
        }
        for position in (0..self.nodes.len()).filter(|position| taken.region[*position]) {
            let before = &self.nodes[position];
            self.nodes[position] = NodeState {
                visit: before.visit + 1,
                outputs_before: before.outputs.clone(),
                keys_from: self.unused_key_count(position),
                ..NodeState::new()
            };
        }
        for (at, edge) in workflow.edges.iter().enumerate() {
            if taken.region[edge.source] {
                self.edge_outcomes[at] = None;
            }
        }
    }
}
