//! Decisions that permit effects.

use serde_json::Value;

use super::{BadRequest, Interrupt, Kind, Resolution};
use crate::canonical::digest;
use crate::ids::{NodeId, Timestamp};

/// The custom kind of the content review: its decision `approve` permits the publication.
const CONTENT_REVIEW: &str = "content_review";

/// One effect that a grant was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantUse {
    pub node: NodeId,
    pub visit: u32,
    /// The tool call, for a call of an agent.
    pub call: Option<String>,
    pub at: Timestamp,
}

impl Interrupt {
    /// Whether it stands before other nodes. A question about a tool call stands before that call only.
    pub fn is_gate(&self) -> bool {
        self.call_id().is_none() && (self.kind == Kind::Approval || self.is_content_review())
    }

    /// Whether its decision permits effects. Refinements, rejections and timeouts do not.
    pub fn is_granted(&self) -> bool {
        let Some(Resolution::Answered { value, .. }) = &self.resolution else { return false };
        let action = value.get("action").and_then(Value::as_str).unwrap_or_default();
        match self.kind {
            Kind::Approval => ["accept", "edit-accept", "override"].contains(&action),
            Kind::Custom if self.is_content_review() => action == "approve",
            // A tool asked for something first, and may go on.
            Kind::Custom => self.call_id().is_some() && action == "resume",
            Kind::Clarification
            | Kind::ExternalEvent
            | Kind::ConversationStart
            | Kind::ConversationExchange
            | Kind::ConversationClose
            | Kind::LowConfidence => false,
        }
    }

    /// Whether the gate covers an effect at this node. A gate without `covers` covers every node that it leads to.
    pub fn covers(&self, node: &NodeId) -> bool {
        let Some(covers) = self.data.get("covers").and_then(Value::as_array) else { return true };
        covers.iter().filter_map(covered_node).any(|covered| covered == node.as_str())
    }

    /// Returns what the decision was about: the artifact that was shown, or what the approver made of it.
    pub fn granted_payload(&self) -> Option<&Value> {
        let Some(Resolution::Answered { value, .. }) = &self.resolution else { return None };
        match value.get("action").and_then(Value::as_str) {
            Some("edit-accept") => value.get("editedArtifactData"),
            _ => self.data.get("artifactData"),
        }
    }

    /// Returns the digest of the payload that was granted; of everything that was shown if there is no artifact.
    pub fn granted_digest(&self) -> String {
        digest(self.granted_payload().unwrap_or(&self.data))
    }

    /// Whether a client that presents this digest acts on what was granted. The digest of everything that was shown
    /// counts too, unless the approver edited it.
    pub fn grants_digest(&self, presented: &str) -> bool {
        let edited = self.granted_payload() != self.data.get("artifactData");
        presented == self.granted_digest() || (!edited && self.digest.as_deref() == Some(presented))
    }

    /// Returns the principals whose votes made the decision.
    pub fn deciders(&self) -> Vec<&str> {
        let Some(Resolution::Answered { by, .. }) = &self.resolution else { return Vec::new() };
        let mut deciders: Vec<&str> = self
            .votes
            .iter()
            .filter(|vote| vote.copied == self.taken_over && vote.grants())
            .map(|vote| vote.by.as_str())
            .collect();
        if !deciders.contains(&by.as_str()) {
            deciders.push(by);
        }
        deciders
    }

    fn is_content_review(&self) -> bool {
        self.kind == Kind::Custom
            && self.data.get("customKind").and_then(Value::as_str) == Some(CONTENT_REVIEW)
    }
}

/// Checks the `covers` of a gate. That its nodes exist is checked when the workflow is registered.
pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    let Some(covers) = data.get("covers") else { return Ok(()) };
    let sound = |entry: &Value| match entry {
        Value::String(node) => !node.is_empty(),
        Value::Object(members) => {
            members.get("node").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
                && members.get("repeat").is_none_or(Value::is_boolean)
                && members.keys().all(|name| ["node", "repeat"].contains(&name.as_str()))
        }
        _ => false,
    };
    match covers.as_array() {
        Some(entries) if !entries.is_empty() && entries.iter().all(sound) => Ok(()),
        _ => {
            let message = "must be a non-empty array of node ids or of {\"node\": id, \"repeat\": true}";
            Err(BadRequest::new("data.covers", message))
        }
    }
}

/// Returns the node that an entry of `covers` names: a node id, or an object with one.
pub fn covered_node(entry: &Value) -> Option<&str> {
    entry.as_str().or_else(|| entry.get("node")?.as_str())
}
