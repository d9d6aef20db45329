//! The setting that disables conversations. Definitions that need conversations are then rejected. A node whose request
//! is known only at execution fails if it opens a conversation.

use holdpoint_core::workflow::{self, DefinitionFlaw, Workflow};
use holdpoint_core::{InterruptRequest, NodeOutcome, RunError};

use super::NodeTypes;

/// The name of the capability in the discovery document.
const CAPABILITY: &str = "conversationPrimitive";

impl NodeTypes {
    pub(crate) fn set_conversations(&mut self, on: bool) {
        self.conversations = on;
    }

    pub(crate) fn has_conversations(&self) -> bool {
        self.conversations
    }

    /// Returns a flaw for each node that needs conversations, if they are disabled.
    pub(crate) fn capability_flaws(&self, workflow: &Workflow) -> Vec<DefinitionFlaw> {
        if self.conversations {
            return Vec::new();
        }
        let message = "needs conversations, which are disabled on this server; use a clarification instead";
        let flaw = |node: &workflow::Node| DefinitionFlaw {
            capability: Some(CAPABILITY),
            ..DefinitionFlaw::of_node(&node.id, "typeId", message)
        };
        workflow.nodes.iter().filter(|node| needs_conversations(node)).map(flaw).collect()
    }

    /// Replaces the outcome of a node that opens a conversation with a failure, if conversations are disabled.
    pub(crate) fn restrict_outcome(&self, outcome: NodeOutcome) -> NodeOutcome {
        match outcome {
            NodeOutcome::Asked(request) if !self.conversations && request.kind.is_of_conversation() => {
                let message = format!("the node needs {CAPABILITY}, which is disabled on this server");
                NodeOutcome::Failed(RunError::new("capability_not_provided", message))
            }
            other => other,
        }
    }
}

fn needs_conversations(node: &workflow::Node) -> bool {
    match node.type_id.as_str() {
        "core.conversationGate" => true,
        "core.interrupt" => {
            InterruptRequest::from_json(&node.config).is_ok_and(|request| request.kind.is_of_conversation())
        }
        _ => false,
    }
}
