//! The snapshot of a run. Clients read it most, so the server borrows it from the run and writes it without a copy.

use std::borrow::Cow;

use holdpoint_ids::{Drain, ForkMode, Kind, NodeId, NodeStatusName, Owner, RunId, Status, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::runs::RunError;
use crate::{Instant, Members};

/// A run as it is now. Sensitive values are shown as `[redacted]`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot<'a> {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub workflow_version: Cow<'a, str>,
    pub status: Status,
    pub owner: Option<Cow<'a, Owner>>,
    pub tags: Option<Cow<'a, [String]>>,
    pub metadata: Option<Cow<'a, Map<String, Value>>>,
    pub configurable: Option<Cow<'a, Map<String, Value>>>,
    pub inputs: Option<Members<'a, Cow<'a, Value>>>,
    pub current_node_id: Option<NodeId>,
    pub started_at: Instant,
    pub completed_at: Option<Instant>,
    pub interrupt: Option<OpenInterrupt<'a>>,
    pub error: Option<RunError<'a>>,
    pub paused_at: Option<Instant>,
    pub paused_by: Option<Cow<'a, str>>,
    pub pause_requested_at: Option<Instant>,
    pub pause_requested_by: Option<Cow<'a, str>>,
    pub drain_policy: Option<Drain>,
    pub pause_reason: Option<Cow<'a, str>>,
    pub parent_run_id: Option<RunId>,
    pub parent_node_id: Option<NodeId>,
    pub source_run_id: Option<RunId>,
    pub from_seq: Option<u64>,
    pub fork_mode: Option<ForkMode>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub forked_by: Cow<'a, [String]>,
    /// Requesters that a child run inherits besides owner and forkers: principals that had sent messages to an agent
    /// above it.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub requested_by: Cow<'a, [String]>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_runs: Vec<ChildRun>,
    /// The nodes of the workflow in its order, by id.
    pub node_states: Members<'a, NodeState<'a>>,
    /// The values of the channels, by name.
    pub channels: Option<Map<String, Value>>,
    pub variables: Members<'a, Cow<'a, Value>>,
    pub event_log_schema_version: u32,
    /// The version of the engine that started the run. Missing in runs of versions that did not record it.
    #[schemars(range(min = 1))]
    pub engine_version: Option<u64>,
}

/// A run that the run started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildRun {
    pub run_id: RunId,
    pub workflow_id: WorkflowId,
    pub node_id: NodeId,
    /// The last status that the parent received.
    pub status: Status,
}

/// The state of a node.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeState<'a> {
    pub status: NodeStatusName,
    pub type_id: Cow<'a, str>,
    pub started_at: Option<Instant>,
    pub completed_at: Option<Instant>,
    pub error: Option<RunError<'a>>,
    pub delay: Option<NodeDelay<'a>>,
}

/// The wait of a node for an external server that is unavailable.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeDelay<'a> {
    pub since: Instant,
    /// The node is tried again until then. Without it an operator must requeue the run's dispatch.
    pub until: Option<Instant>,
    pub error: RunError<'a>,
}

/// The open interrupt that the run waits for.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenInterrupt<'a> {
    pub interrupt_id: String,
    /// The ids of all open interrupts of this node, if there are several. An answer must then name its interrupt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_interrupt_ids: Vec<String>,
    #[schemars(with = "String")]
    pub kind: Kind,
    pub node_id: NodeId,
    pub key: Cow<'a, str>,
    pub data: Cow<'a, Value>,
    pub requested_at: Instant,
    pub timeout_ms: Option<u64>,
    pub expires_at: Option<Instant>,
    /// The JSON Schema of the answer.
    #[schemars(extend("type" = ["object", "boolean"]))]
    pub resume_schema: Option<Cow<'a, Value>>,
    /// The token of a link in the caller's name. Only for callers that may answer, and never in streams.
    pub interrupt_token: Option<String>,
    /// The URL of that link.
    pub callback_url: Option<String>,
}
