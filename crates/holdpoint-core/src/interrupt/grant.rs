//! Grants: decisions of interrupts that permit effects.

use holdpoint_ids::digest;
use serde_json::Value;

use super::{BadRequest, Interrupt, Kind, Resolution};
use crate::{NodeId, Timestamp};

/// The custom kind of the content review: its decision `approve` permits the publication.
const CONTENT_REVIEW: &str = "content_review";

/// One effect that a grant was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantUse {
    /// The node of the effect.
    pub node: NodeId,
    /// The visit of the node.
    pub visit: u32,
    /// The tool call, for a call of an agent.
    pub call: Option<String>,
    /// The time of the use.
    pub at: Timestamp,
}

impl Interrupt {
    /// Returns whether the interrupt guards the nodes after it. An interrupt of a tool call guards only that call.
    pub fn is_gate(&self) -> bool {
        self.call_id().is_none() && (self.kind == Kind::Approval || self.is_content_review())
    }

    /// Returns whether the decision permits effects. Refinements, rejections and timeouts do not.
    pub fn is_granted(&self) -> bool {
        let Some(Resolution::Answered { value, .. }) = &self.resolution else { return false };
        let action = value.get("action").and_then(Value::as_str).unwrap_or_default();
        match self.kind {
            Kind::Approval => ["accept", "edit-accept", "override"].contains(&action),
            Kind::Custom if self.is_content_review() => action == "approve",
            Kind::Custom
            | Kind::Clarification
            | Kind::ExternalEvent
            | Kind::ConversationStart
            | Kind::ConversationExchange
            | Kind::ConversationClose
            | Kind::LowConfidence => false,
        }
    }

    /// Returns whether the decision lets a tool call continue: a grant, or an answer to an interrupt that the tool
    /// requested itself.
    pub fn allows_call(&self) -> bool {
        let resumed = || match &self.resolution {
            Some(Resolution::Answered { value, .. }) => {
                value.get("action").is_some_and(|action| action == "resume")
            }
            Some(_) | None => false,
        };
        self.is_granted() || (self.kind == Kind::Custom && self.call_id().is_some() && resumed())
    }

    /// Returns whether the gate covers an effect at this node. A gate without `covers` covers every node that it leads
    /// to.
    pub fn covers(&self, node: &NodeId) -> bool {
        self.data.get("covers").is_none_or(|_| self.entry_of(node).is_some())
    }

    /// Returns whether every iteration of a loop may use the grant for an effect at this node.
    pub fn repeats(&self, node: &NodeId) -> bool {
        self.entry_of(node).is_some_and(|entry| entry.get("repeat") == Some(&Value::Bool(true)))
    }

    fn entry_of(&self, node: &NodeId) -> Option<&Value> {
        let covers = self.data.get("covers").and_then(Value::as_array)?;
        covers.iter().find(|entry| covered_node(entry) == Some(node.as_str()))
    }

    /// Returns the payload that the decision permits: the artifact that was shown, or the artifact as the approver
    /// edited it.
    pub fn granted_payload(&self) -> Option<&Value> {
        let Some(Resolution::Answered { value, .. }) = &self.resolution else { return None };
        match value.get("action").and_then(Value::as_str) {
            Some("edit-accept") => value.get("editedArtifactData"),
            _ if self.is_content_review() => value.get("draft").or_else(|| self.shown_payload()),
            _ => self.shown_payload(),
        }
    }

    fn shown_payload(&self) -> Option<&Value> {
        if self.is_content_review() {
            self.data.pointer("/data/draft")
        } else {
            self.data.get("artifactData")
        }
    }

    /// Returns the digest of the granted payload, or of all data of the interrupt if there is no artifact.
    pub fn granted_digest(&self) -> String {
        digest(self.granted_payload().unwrap_or(&self.data))
    }

    /// Returns whether a digest that a client presents matches the grant. The digest of all data of the interrupt
    /// matches too, unless the approver edited the artifact.
    pub fn grants_digest(&self, presented: &str) -> bool {
        let edited = self.granted_payload() != self.shown_payload();
        presented == self.granted_digest() || (!edited && self.digest.as_deref() == Some(presented))
    }

    /// Returns the principals that decided: those whose votes granted, and that of the last answer.
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

/// Checks the form of `covers`. The registration of the workflow checks that its nodes exist.
pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    let Some(covers) = data.get("covers") else { return Ok(()) };
    let is_valid = |entry: &Value| match entry {
        Value::String(node) => !node.is_empty(),
        Value::Object(members) => {
            members.get("node").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
                && members.get("repeat").is_none_or(Value::is_boolean)
                && members.keys().all(|name| ["node", "repeat"].contains(&name.as_str()))
        }
        _ => false,
    };
    match covers.as_array() {
        Some(entries) if !entries.is_empty() && entries.iter().all(is_valid) => Ok(()),
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
