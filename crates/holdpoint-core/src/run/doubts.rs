//! Folds what becomes of replies that an agent is not sure enough of.

use std::sync::Arc;

use super::Run;
use crate::agent::{Agent, Doubt};
use crate::interrupt::Kind;
use crate::{InterruptId, NodeId};

impl Run {
    /// An agent's reply waits from here on. Other nodes ask, too, and keep nothing of it.
    pub(super) fn doubt(&mut self, node: &NodeId, kind: Kind, interrupt: InterruptId) {
        if kind == Kind::LowConfidence {
            self.touch(node, |state| {
                if let Some(agent) = &mut state.agent {
                    Arc::make_mut(agent).doubt = Some(Doubt { interrupt, overruled: false });
                }
            });
        }
    }

    pub(super) fn settle_doubt(&mut self, id: InterruptId) {
        let Some(asked) = self.interrupt(id).filter(|asked| asked.kind == Kind::LowConfidence) else {
            return;
        };
        let (node, ratified) = (asked.node.clone(), asked.ratifies());
        let left = (!ratified).then_some(Doubt { interrupt: id, overruled: true });
        self.touch(&node, |state| {
            if let Some(agent) = state.agent.as_mut().filter(|agent| agent.doubts(id)) {
                Arc::make_mut(agent).doubt = left;
            }
        });
    }
}

impl Agent {
    fn doubts(&self, id: InterruptId) -> bool {
        self.doubt.is_some_and(|doubt| doubt.interrupt == id)
    }
}
