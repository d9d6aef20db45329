//! Workflow definitions.

use holdpoint_ids::{WorkflowId, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::{Instant, Object};

/// The frame of a workflow definition. The server checks nodes and edges when a definition is registered, lists every
/// flaw of a rejected one, and returns a definition as it was registered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowDefinition {
    #[schemars(length(min = 1))]
    pub id: String,
    #[schemars(length(min = 1))]
    pub name: String,
    #[schemars(length(min = 1))]
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub description: Option<String>,
    #[schemars(length(max = limits::NODES_MAX))]
    pub nodes: Vec<Object>,
    #[schemars(length(max = limits::EDGES_MAX))]
    pub edges: Vec<Object>,
    pub triggers: Vec<Value>,
    #[schemars(length(max = limits::VARIABLES_MAX))]
    pub variables: Vec<Object>,
    pub metadata: Object,
    pub settings: Object,
    /// Further members.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The workflows of the tenant, by id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowList {
    pub workflows: Vec<WorkflowSummary>,
}

/// A workflow in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSummary {
    pub id: WorkflowId,
    pub name: String,
    pub version: String,
    #[schemars(range(min = 1))]
    pub revision: u64,
    pub updated_at: Instant,
}

/// A definition that was registered.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowRegistered {
    pub id: WorkflowId,
    pub version: String,
    #[schemars(range(min = 1))]
    pub revision: u64,
    /// One for each name, role, group or scope in a list of approvers that no key of this tenant has, and one for each
    /// audience without approvers.
    pub warnings: Option<Vec<String>>,
}
