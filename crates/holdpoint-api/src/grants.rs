//! Grants: decisions that permit effects, and their uses.

use holdpoint_ids::{NodeId, RunId, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::Instant;

/// The body of `POST /v1/grants/{grantId}:consume`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsumeGrant {
    /// SHA-256 of the RFC 8785 form of the payload that the client acts on: the artifact that was shown, or the artifact
    /// as the approver edited it.
    pub digest: String,
}

/// A decision that permits effects, with the effects that used it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// The id of the grant.
    pub grant_id: String,
    /// The id of the run.
    pub run_id: RunId,
    /// The node of the interrupt.
    pub node_id: NodeId,
    /// The interrupt whose decision created the grant.
    pub interrupt_id: String,
    /// The visit of the node, from 1. A loop visits a node several times.
    #[schemars(range(min = 1))]
    pub visit: u32,
    /// The tool call that was allowed.
    pub call_id: Option<String>,
    /// The principals that approved.
    pub deciders: Vec<String>,
    /// The instant of the decision.
    pub decided_at: Option<Instant>,
    /// The digest of the payload that was granted.
    pub digest: String,
    /// The digest of all data that the approver was shown.
    pub shown_digest: Option<String>,
    /// The nodes that the gate covers. Absent if the gate covers every effect that it leads to.
    pub covers: Option<Value>,
    /// True if the run is a fork and its source received the decision: the fork cannot use the grant.
    pub transferred: bool,
    /// The uses by nodes of the run.
    pub uses: Vec<GrantUse>,
    /// The use by a client, for an effect outside of Holdpoint.
    pub consumed: Option<GrantConsumed>,
}

/// The use of a grant by a node.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantUse {
    /// The node that performed the effect.
    pub node_id: NodeId,
    /// The visit of the node, from 1.
    #[schemars(range(min = 1))]
    pub visit: u32,
    /// The tool call of an agent.
    pub call_id: Option<String>,
    /// The instant of the use.
    pub at: Instant,
}

/// The use of a grant by a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrantConsumed {
    /// The principal of the client.
    pub by: String,
    /// The instant of the use.
    pub at: Instant,
}

/// An effect that a gate permits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Permit {
    /// The node that performs the effect.
    pub node_id: NodeId,
    /// The type of the node.
    pub type_id: String,
    /// The part of the payload that the approval fixes.
    pub payload: PayloadFixed,
    /// True if the approval permits the effect in every round of a loop.
    pub repeat: bool,
}

/// The part of an effect's payload that the approval fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PayloadFixed {
    /// The approval fixes the whole payload.
    #[serde(rename = "fixed by this approval")]
    Fixed,
    /// The approval fixes the body, but no other inputs.
    #[serde(rename = "body fixed by this approval, other inputs not")]
    BodyFixed,
    /// The approval does not fix the payload.
    #[serde(rename = "payload not fixed by this approval")]
    NotFixed,
    /// The effect needs no grant.
    #[serde(rename = "needs no grant")]
    NeedsNoGrant,
}

/// The gates of a workflow with the effects that each permits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowGrants {
    /// The id of the workflow.
    pub workflow_id: WorkflowId,
    /// The number of the revision, from 1.
    #[schemars(range(min = 1))]
    pub revision: u64,
    /// The gates.
    pub gates: Vec<Gate>,
    /// Warnings about nodes.
    pub notes: Vec<GrantNote>,
}

/// A gate with the effects that it permits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// The node of the gate.
    pub node_id: NodeId,
    /// The effects that the gate permits.
    pub permits: Vec<Permit>,
}

/// A warning about a node and its gates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantNote {
    /// The id of the node.
    pub node_id: NodeId,
    /// The warning.
    pub message: String,
}
