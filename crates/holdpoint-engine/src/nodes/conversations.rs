//! Conversations can be switched off. Which definitions need them, and what becomes of a node that opens one all the
//! same: some say what they ask only when they run.

use holdpoint_core::workflow::{self, Flaw, Workflow};
use holdpoint_core::{Outcome, Request, RunError};

use super::NodeTypes;

/// As discovery calls it.
const CAPABILITY: &str = "conversationPrimitive";

impl NodeTypes {
    pub(crate) fn set_conversations(&mut self, on: bool) {
        self.conversations = on;
    }

    pub(crate) fn has_conversations(&self) -> bool {
        self.conversations
    }

    /// What a definition needs that was switched off, node by node.
    pub(crate) fn missing(&self, workflow: &Workflow) -> Vec<Flaw> {
        if self.conversations {
            return Vec::new();
        }
        let message = "holds a conversation, and this server has conversations switched off; ask with clarifications instead";
        let flaw = |node: &workflow::Node| Flaw {
            capability: Some(CAPABILITY),
            ..Flaw::of_node(&node.id, "typeId", message)
        };
        workflow.nodes.iter().filter(|node| needs_conversations(node)).map(flaw).collect()
    }

    /// What a node comes to where not everything is switched on.
    pub(crate) fn permitted(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Asked(request) if !self.conversations && request.kind.is_of_conversation() => {
                let message = format!("the node needs {CAPABILITY}, which this server has switched off");
                Outcome::Failed(RunError::new("capability_not_provided", message))
            }
            other => other,
        }
    }
}

fn needs_conversations(node: &workflow::Node) -> bool {
    match node.type_id.as_str() {
        "core.conversationGate" => true,
        "core.interrupt" => {
            Request::from_json(&node.config).is_ok_and(|request| request.kind.is_of_conversation())
        }
        _ => false,
    }
}
