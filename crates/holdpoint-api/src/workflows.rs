//! Workflow definitions.

use holdpoint_ids::{WorkflowId, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::{Instant, Object};

/// The top-level members of a workflow definition. The server checks nodes and edges when a definition is registered.
/// The error for a rejected definition lists every flaw. A definition is returned as it was registered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowDefinition {
    /// The id of the workflow.
    #[schemars(length(min = 1))]
    pub id: String,
    /// The name of the workflow.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The version of the definition, chosen by its author.
    #[schemars(length(min = 1))]
    pub version: String,
    /// A description for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub description: Option<String>,
    /// The nodes.
    #[schemars(length(max = limits::NODES_MAX))]
    pub nodes: Vec<Object>,
    /// The edges between the nodes.
    #[schemars(length(max = limits::EDGES_MAX))]
    pub edges: Vec<Object>,
    /// The triggers.
    pub triggers: Vec<Value>,
    /// The variables and inputs.
    #[schemars(length(max = limits::VARIABLES_MAX))]
    pub variables: Vec<Object>,
    /// Metadata of the author.
    pub metadata: Object,
    /// The settings of the runs.
    pub settings: Object,
    /// Further members.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The workflows of the tenant, by id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowList {
    /// The latest revision of each workflow.
    pub workflows: Vec<WorkflowSummary>,
}

/// A workflow in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSummary {
    /// The id of the workflow.
    pub id: WorkflowId,
    /// The name of the workflow.
    pub name: String,
    /// The version of the definition.
    pub version: String,
    /// The number of the revision, from 1.
    #[schemars(range(min = 1))]
    pub revision: u64,
    /// The instant of the latest revision.
    pub updated_at: Instant,
}

/// A definition that was registered.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowRegistered {
    /// The id of the workflow.
    pub id: WorkflowId,
    /// The version of the definition.
    pub version: String,
    /// The number of the revision, from 1.
    #[schemars(range(min = 1))]
    pub revision: u64,
    /// A warning for each name, role, group or scope in a list of approvers that no key of this tenant has, and for
    /// each audience that does not restrict the approvers.
    pub warnings: Option<Vec<String>>,
}
