//! Payloads of events about nodes.

use std::borrow::Cow;

use holdpoint_ids::{NodeId, Reducer, RunId, Status, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::runs::RunError;
use crate::snapshot::ChildInterrupt;
use crate::{Instant, Members};

/// The payload of `node.started`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStarted<'a> {
    /// Always 0: a retry does not start the node again.
    pub attempt: u32,
    /// `none` if the node needs no grant.
    pub grant: Option<Cow<'a, str>>,
    /// The grants that the node uses.
    pub grant_ids: Option<Vec<String>>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The type of the node.
    pub type_id: Cow<'a, str>,
}

/// The payload of `node.completed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCompleted<'a> {
    /// The time since the start of the node, in milliseconds.
    pub duration_ms: Option<i64>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The outputs, by name.
    pub outputs: Members<'a, Cow<'a, Value>>,
}

/// The payload of `node.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeFailed<'a> {
    /// The error of the node.
    pub error: RunError<'a>,
    /// The id of the node.
    pub node_id: NodeId,
}

/// The payload of `node.skipped`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSkipped<'a> {
    /// The id of the node.
    pub node_id: NodeId,
    /// The reason for which the node is skipped.
    pub reason: Cow<'a, str>,
}

/// The payload of `node.retried`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRetried<'a> {
    /// The number of the next attempt.
    pub attempt: u32,
    /// The delay before the next attempt, in milliseconds.
    pub delay_ms: u64,
    /// The error of the last attempt.
    pub last_error: RunError<'a>,
    /// The id of the node.
    pub node_id: NodeId,
}

/// The payload of `holdpoint.node.delayed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDelayed<'a> {
    /// The error of the last attempt.
    pub error: RunError<'a>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The end of the retries. Absent if an operator must requeue the dispatch.
    pub until: Option<Instant>,
}

/// The payload of `node.dispatched`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDispatched<'a> {
    /// The id of the child run.
    pub child_run_id: RunId,
    /// The workflow of the child run.
    pub child_workflow_id: WorkflowId,
    /// The tool call that started the child run.
    pub tool_call_id: Option<Cow<'a, str>>,
}

/// The payload of `holdpoint.node.awaiting`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAwaiting {
    /// The id of the child run.
    pub child_run_id: RunId,
    /// The id of the node.
    pub node_id: NodeId,
}

/// The payload of `holdpoint.child.changed` and `holdpoint.child.ended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildChanged {
    /// The id of the child run.
    pub child_run_id: RunId,
    /// The status of the child run.
    pub status: Status,
    /// The interrupts that the child run, or a run below it, has opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opened_interrupts: Vec<ChildInterrupt>,
    /// The ids of the interrupts of the child run, or of runs below it, that are no longer open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed_interrupt_ids: Vec<String>,
}

/// The payload of `holdpoint.sleep.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SleepStarted {
    /// The id of the node.
    pub node_id: NodeId,
    /// The end of the sleep.
    pub until: Instant,
}

/// The payload of `holdpoint.sleep.ended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SleepEnded {
    /// The id of the node.
    pub node_id: NodeId,
}

/// The payload of `holdpoint.step.recorded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRecorded<'a> {
    /// The id of the node.
    pub node_id: NodeId,
    /// The name of the step.
    pub step: Cow<'a, str>,
}

/// The payload of `variable.changed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariableChanged<'a> {
    /// The name of the variable.
    pub name: Cow<'a, str>,
    /// The new value.
    pub next: Cow<'a, Value>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The previous value.
    pub previous: Option<Cow<'a, Value>>,
}

/// The payload of `channel.written`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelWritten<'a> {
    /// The name of the channel.
    pub channel: Cow<'a, str>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The reducer of the channel.
    pub reducer: Reducer,
    /// The written value.
    pub value: Cow<'a, Value>,
    /// The instant of the write.
    pub written_at: Instant,
}

/// The payload of `ai.message.chunk`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageChunk<'a> {
    /// The text of the chunk.
    pub chunk: Cow<'a, str>,
    /// True if this is the last chunk.
    pub is_last: bool,
    /// Metadata of the chunk.
    pub meta: Option<Cow<'a, Map<String, Value>>>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The id of the run.
    pub run_id: RunId,
}

/// The payload of `holdpoint.reasoning.chunk`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningChunk<'a> {
    /// The text of the chunk.
    pub chunk: Cow<'a, str>,
    /// True if this is the last chunk of a part of the reasoning.
    pub is_last: bool,
    /// Metadata of the chunk.
    pub meta: Option<Cow<'a, Map<String, Value>>>,
    /// The id of the node.
    pub node_id: NodeId,
}

/// The payload of `holdpoint.tool.chunk`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallChunk<'a> {
    /// The id of the call.
    pub call_id: Cow<'a, str>,
    /// The next part of the arguments, as JSON text.
    pub chunk: Cow<'a, str>,
    /// True for the last chunk of a call without a recorded reply.
    pub is_last: bool,
    /// Metadata of the chunk.
    pub meta: Option<Cow<'a, Map<String, Value>>>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The name of the tool, in the first chunk of a call.
    pub tool_name: Option<Cow<'a, str>>,
}

/// The payload of `holdpoint.activity.reported`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityReported<'a> {
    /// The id of the activity, unique in its node.
    pub activity_id: Cow<'a, str>,
    /// The type of the activity.
    pub activity_type: Cow<'a, str>,
    /// The tool call that reported the activity.
    pub call_id: Option<Cow<'a, str>>,
    /// The content, which replaces the earlier content of the activity.
    pub content: Cow<'a, Map<String, Value>>,
    /// The id of the node.
    pub node_id: NodeId,
}

/// The payload of `artifact.created`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactCreated<'a> {
    /// The id of the artifact.
    pub artifact_id: Cow<'a, str>,
    /// The type of the artifact.
    #[serialize_always]
    pub artifact_type: Option<Cow<'a, str>>,
    /// The id of the node.
    pub node_id: NodeId,
    /// The version of the artifact.
    pub version: String,
}

/// The payload of `workflow.loopback-limit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoopbackLimit {
    /// The number of iterations.
    pub iterations: u32,
    /// The maximum number of iterations.
    pub limit: u32,
    /// The id of the node.
    pub node_id: NodeId,
}

/// The payload of `holdpoint.loop.turned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoopTurned<'a> {
    /// The edge that closes the loop.
    pub edge_id: Cow<'a, str>,
    /// The number of the iteration.
    pub iteration: u32,
}
