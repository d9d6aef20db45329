//! Payloads of events about nodes.

use std::borrow::Cow;

use holdpoint_ids::{NodeId, Reducer, RunId, Status, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::runs::RunError;
use crate::{Instant, Members};

/// The payload of `node.started`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStarted<'a> {
    pub attempt: u32,
    /// `none` if the node needs no grant.
    pub grant: Option<Cow<'a, str>>,
    pub grant_ids: Option<Vec<String>>,
    pub node_id: NodeId,
    pub type_id: Cow<'a, str>,
}

/// The payload of `node.completed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCompleted<'a> {
    pub duration_ms: Option<i64>,
    pub node_id: NodeId,
    pub outputs: Members<'a, Cow<'a, Value>>,
}

/// The payload of `node.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeFailed<'a> {
    pub error: RunError<'a>,
    pub node_id: NodeId,
}

/// The payload of `node.skipped`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSkipped<'a> {
    pub node_id: NodeId,
    pub reason: Cow<'a, str>,
}

/// The payload of `node.retried`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRetried<'a> {
    pub attempt: u32,
    pub delay_ms: u64,
    pub last_error: RunError<'a>,
    pub node_id: NodeId,
}

/// The payload of `holdpoint.node.delayed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDelayed<'a> {
    pub error: RunError<'a>,
    pub node_id: NodeId,
    pub until: Option<Instant>,
}

/// The payload of `node.dispatched`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDispatched<'a> {
    pub child_run_id: RunId,
    pub child_workflow_id: WorkflowId,
    pub tool_call_id: Option<Cow<'a, str>>,
}

/// The payload of `holdpoint.node.awaiting`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAwaiting {
    pub child_run_id: RunId,
    pub node_id: NodeId,
}

/// The payload of `holdpoint.child.changed` and `holdpoint.child.ended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChildChanged {
    pub child_run_id: RunId,
    pub status: Status,
}

/// The payload of `holdpoint.sleep.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SleepStarted {
    pub node_id: NodeId,
    pub until: Instant,
}

/// The payload of `holdpoint.sleep.ended`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SleepEnded {
    pub node_id: NodeId,
}

/// The payload of `holdpoint.step.recorded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRecorded<'a> {
    pub node_id: NodeId,
    pub step: Cow<'a, str>,
}

/// The payload of `variable.changed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariableChanged<'a> {
    pub name: Cow<'a, str>,
    pub next: Cow<'a, Value>,
    pub node_id: NodeId,
    pub previous: Option<Cow<'a, Value>>,
}

/// The payload of `channel.written`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelWritten<'a> {
    pub channel: Cow<'a, str>,
    pub node_id: NodeId,
    pub reducer: Reducer,
    pub value: Cow<'a, Value>,
    pub written_at: Instant,
}

/// The payload of `ai.message.chunk`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageChunk<'a> {
    pub chunk: Cow<'a, str>,
    pub is_last: bool,
    pub meta: Option<Cow<'a, Map<String, Value>>>,
    pub node_id: NodeId,
    pub run_id: RunId,
}

/// The payload of `artifact.created`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactCreated<'a> {
    pub artifact_id: Cow<'a, str>,
    #[serialize_always]
    pub artifact_type: Option<Cow<'a, str>>,
    pub node_id: NodeId,
    pub version: String,
}

/// The payload of `workflow.loopback-limit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoopbackLimit {
    pub iterations: u32,
    pub limit: u32,
    pub node_id: NodeId,
}

/// The payload of `holdpoint.loop.turned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoopTurned<'a> {
    pub edge_id: Cow<'a, str>,
    pub iteration: u32,
}
