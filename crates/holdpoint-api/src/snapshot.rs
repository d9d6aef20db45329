//! The snapshot of a run. It is the most frequent response, so the server borrows it from the run and writes it without
//! a copy.

use std::borrow::Cow;

use holdpoint_ids::{
    Drain, ForkMode, Kind, NodeId, NodeStatusName, Owner, RunId, RunRequestOrigin, Status, Transport,
    WorkflowId,
};
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
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the workflow.
    pub workflow_id: WorkflowId,
    /// The version of the workflow definition.
    pub workflow_version: Cow<'a, str>,
    /// The status of the run.
    pub status: Status,
    /// The tenant and principal to which the run belongs.
    pub owner: Option<Cow<'a, Owner>>,
    /// The origin of the request that started the run; in a fork, of the request that started its original. Missing in
    /// runs of versions that did not record it.
    pub origin: Option<RunRequestOrigin>,
    /// The protocol of that request. Missing like the origin.
    pub transport: Option<Transport>,
    /// The tags of the run.
    pub tags: Option<Cow<'a, [String]>>,
    /// The metadata of the run.
    pub metadata: Option<Cow<'a, Map<String, Value>>>,
    /// The options of the run.
    pub configurable: Option<Cow<'a, Map<String, Value>>>,
    /// The inputs of the run, by name.
    pub inputs: Option<Members<'a, Cow<'a, Value>>>,
    /// The node that waits for an answer, otherwise one that runs, sleeps or waits for a child run.
    pub current_node_id: Option<NodeId>,
    /// The instant of the start.
    pub started_at: Instant,
    /// The instant of the end.
    pub completed_at: Option<Instant>,
    /// The open interrupt that the run waits for.
    pub interrupt: Option<OpenInterrupt<'a>>,
    /// The error of a failed run.
    pub error: Option<RunError<'a>>,
    /// The instant of the pause.
    pub paused_at: Option<Instant>,
    /// The principal that paused the run.
    pub paused_by: Option<Cow<'a, str>>,
    /// The instant at which a pause was requested that waits for running nodes.
    pub pause_requested_at: Option<Instant>,
    /// The principal that requested the pause.
    pub pause_requested_by: Option<Cow<'a, str>>,
    /// The treatment of running nodes by the pause.
    pub drain_policy: Option<Drain>,
    /// The reason of the pause.
    pub pause_reason: Option<Cow<'a, str>>,
    /// The run that started this run.
    pub parent_run_id: Option<RunId>,
    /// The node that started this run.
    pub parent_node_id: Option<NodeId>,
    /// The run that this run was forked from.
    pub source_run_id: Option<RunId>,
    /// The sequence of the first event of the source that was not copied.
    pub from_seq: Option<u64>,
    /// The mode of the fork.
    pub fork_mode: Option<ForkMode>,
    /// The principals that forked the run, its sources or its parents, in the order of the forks.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub forked_by: Cow<'a, [String]>,
    /// Requesters that a child run inherits in addition to its owner and forkedBy: principals that sent messages to an
    /// agent of a parent run.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub requested_by: Cow<'a, [String]>,
    /// The trigger that started the run.
    pub trigger: Option<RunTrigger>,
    /// The child runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_runs: Vec<ChildRun>,
    /// The open interrupts of the child runs that the run waits for, and of the runs below them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_interrupts: Vec<ChildInterrupt>,
    /// The nodes of the workflow in its order, by id.
    pub node_states: Members<'a, NodeState<'a>>,
    /// The values of the channels, by name.
    pub channels: Option<Map<String, Value>>,
    /// The values of the variables, by name.
    pub variables: Members<'a, Cow<'a, Value>>,
    /// The version of the schema of the event log.
    pub event_log_schema_version: u32,
    /// The version of the engine that started the run. Missing in runs of versions that did not record it.
    #[schemars(range(min = 1))]
    pub engine_version: Option<u64>,
}

/// The trigger that started a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunTrigger {
    /// The id of the trigger.
    pub subscription_id: String,
    /// The id of the delivery.
    pub delivery_id: String,
}

/// A run that the run started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildRun {
    /// The id of the child run.
    pub run_id: RunId,
    /// The workflow of the child run.
    pub workflow_id: WorkflowId,
    /// The node that started the child run.
    pub node_id: NodeId,
    /// The last status that the parent received.
    pub status: Status,
}

/// An open interrupt of a run that was started by the run, or by a run below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildInterrupt {
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The kind of the interrupt.
    #[schemars(with = "String")]
    pub kind: Kind,
    /// The run that opened the interrupt.
    pub run_id: RunId,
    /// The workflow of that run.
    pub workflow_id: WorkflowId,
    /// The node that opened the interrupt.
    pub node_id: NodeId,
    /// The runs above that run, beginning with the run that shows the interrupt.
    pub path: Vec<Ancestor>,
}

/// A run above another run, with the node that started the next run of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ancestor {
    /// The id of the run.
    pub run_id: RunId,
    /// The workflow of the run.
    pub workflow_id: WorkflowId,
    /// The node of the run.
    pub node_id: NodeId,
}

/// The state of a node.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeState<'a> {
    /// The status of the node.
    pub status: NodeStatusName,
    /// The type of the node.
    pub type_id: Cow<'a, str>,
    /// The instant of the start.
    pub started_at: Option<Instant>,
    /// The instant of the end.
    pub completed_at: Option<Instant>,
    /// The error of a failed node.
    pub error: Option<RunError<'a>>,
    /// The delay of a node whose server is unavailable.
    pub delay: Option<NodeDelay<'a>>,
}

/// The wait of a node for an external server that is unavailable.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeDelay<'a> {
    /// The instant of the first failed attempt.
    pub since: Instant,
    /// The instant until which the node is tried again. Absent if an operator must requeue the dispatch of the run.
    pub until: Option<Instant>,
    /// The error of the last attempt.
    pub error: RunError<'a>,
}

/// The open interrupt that the run waits for.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenInterrupt<'a> {
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The ids of all open interrupts of this node, if there are several. An answer must then name its interrupt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_interrupt_ids: Vec<String>,
    /// The kind of the interrupt.
    #[schemars(with = "String")]
    pub kind: Kind,
    /// The id of the node.
    pub node_id: NodeId,
    /// The key of the interrupt, unique in the run.
    pub key: Cow<'a, str>,
    /// The data that the interrupt shows.
    pub data: Cow<'a, Value>,
    /// The instant at which the interrupt opened.
    pub requested_at: Instant,
    /// The time until the deadline, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The deadline of the interrupt.
    pub expires_at: Option<Instant>,
    /// The JSON Schema of the answer.
    #[schemars(extend("type" = ["object", "boolean"]))]
    pub resume_schema: Option<Cow<'a, Value>>,
    /// The token of a link in the caller's name. Only for callers that may answer, and never in streams.
    pub interrupt_token: Option<String>,
    /// The URL of that link.
    pub callback_url: Option<String>,
}
