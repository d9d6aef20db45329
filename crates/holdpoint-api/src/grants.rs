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
    pub grant_id: String,
    pub run_id: RunId,
    pub node_id: NodeId,
    pub interrupt_id: String,
    #[schemars(range(min = 1))]
    pub visit: u32,
    /// The tool call that was allowed.
    pub call_id: Option<String>,
    pub deciders: Vec<String>,
    pub decided_at: Option<Instant>,
    /// The digest of the payload that was granted.
    pub digest: String,
    /// The digest of all data that the approver was shown.
    pub shown_digest: Option<String>,
    /// The nodes that the gate covers. Without it, the gate covers every effect that it leads to.
    pub covers: Option<Value>,
    /// The run is a copy and its source received the decision: the copy cannot use the grant.
    pub transferred: bool,
    pub uses: Vec<GrantUse>,
    /// The use by a client, for an effect outside of Holdpoint.
    pub consumed: Option<GrantConsumed>,
}

/// The use of a grant by a node.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantUse {
    pub node_id: NodeId,
    #[schemars(range(min = 1))]
    pub visit: u32,
    pub call_id: Option<String>,
    pub at: Instant,
}

/// The use of a grant by a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrantConsumed {
    pub by: String,
    pub at: Instant,
}

/// An effect that a gate permits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Permit {
    pub node_id: NodeId,
    pub type_id: String,
    pub payload: PayloadFixed,
    pub repeat: bool,
}

/// The part of an effect's payload that the approval fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PayloadFixed {
    #[serde(rename = "fixed by this approval")]
    Fixed,
    #[serde(rename = "body fixed by this approval, other inputs not")]
    BodyFixed,
    #[serde(rename = "payload not fixed by this approval")]
    NotFixed,
    #[serde(rename = "needs no grant")]
    NeedsNoGrant,
}

/// The gates of a workflow with the effects that each permits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowGrants {
    pub workflow_id: WorkflowId,
    #[schemars(range(min = 1))]
    pub revision: u64,
    pub gates: Vec<Gate>,
    pub notes: Vec<GrantNote>,
}

/// A gate with the effects that it permits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    pub node_id: NodeId,
    pub permits: Vec<Permit>,
}

/// A warning about a node and its gates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantNote {
    pub node_id: NodeId,
    pub message: String,
}
