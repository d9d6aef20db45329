//! Folds the low-confidence interrupts of agents.

use std::sync::Arc;

use super::Run;
use crate::agent::{Agent, UnratifiedReply};
use crate::interrupt::Kind;
use crate::{InterruptId, NodeId};

impl Run {
    /// Marks the last reply of an agent as waiting for ratification. Nodes that are not agents keep no such state.
    pub(super) fn open_low_confidence(&mut self, node: &NodeId, kind: Kind, interrupt: InterruptId) {
        if kind == Kind::LowConfidence {
            self.update_node(node, |state| {
                if let Some(agent) = &mut state.agent {
                    Arc::make_mut(agent).unratified = Some(UnratifiedReply { interrupt, overruled: false });
                }
            });
        }
    }

    /// Removes the mark of a ratified reply, or marks the reply as overruled.
    pub(super) fn close_low_confidence(&mut self, id: InterruptId) {
        let Some(asked) = self.interrupt(id).filter(|asked| asked.kind == Kind::LowConfidence) else {
            return;
        };
        let (node, ratified) = (asked.node.clone(), asked.is_ratified());
        let left = (!ratified).then_some(UnratifiedReply { interrupt: id, overruled: true });
        self.update_node(&node, |state| {
            if let Some(agent) = state.agent.as_mut().filter(|agent| agent.awaits_ratification(id)) {
                Arc::make_mut(agent).unratified = left;
            }
        });
    }
}

impl Agent {
    fn awaits_ratification(&self, id: InterruptId) -> bool {
        self.unratified.is_some_and(|reply| reply.interrupt == id)
    }
}
