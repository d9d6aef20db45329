//! Payloads of events about a whole run.

use std::borrow::Cow;

use holdpoint_ids::{Cap, Drain, EventTransport, NodeId, Owner, RunId, RunRequestOrigin, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::runs::RunError;

/// The payload of `run.started`. It has no inputs, because callers put secrets into them.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted<'a> {
    /// The version of the engine that started the run, as text. The snapshot has it as a number.
    pub engine_version: Option<String>,
    /// The metadata of the run.
    pub metadata: Option<Cow<'a, Map<String, Value>>>,
    /// The origin of the request that started the run. Missing in runs of versions that did not record it.
    pub origin: Option<RunRequestOrigin>,
    /// The tenant and principal to which the run belongs.
    pub owner: Cow<'a, Owner>,
    /// The tags of the run.
    pub tags: Option<Cow<'a, [String]>>,
    /// The protocol of the request that started the run; `rest` in runs of versions that did not record it. The
    /// snapshot of the run has the exact protocol.
    pub transport: EventTransport,
    /// The id of the workflow.
    pub workflow_id: WorkflowId,
}

/// The payload of `run.completed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCompleted {
    /// The time since the start of the run, in milliseconds.
    pub duration_ms: i64,
    /// The outputs of the run, by name.
    pub outputs: Option<Map<String, Value>>,
}

/// The payload of `run.failed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunFailed<'a> {
    /// The time since the start of the run, in milliseconds.
    pub duration_ms: i64,
    /// The error of the run.
    pub error: RunError<'a>,
    /// The node that failed.
    pub failed_node_id: Option<NodeId>,
}

/// The payload of `run.cancelled`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCancelled<'a> {
    /// The principal that cancelled the run.
    pub cancelled_by: Cow<'a, str>,
    /// The time since the start of the run, in milliseconds.
    pub duration_ms: i64,
    /// The run whose cancellation cancelled this one.
    pub parent_run_id: Option<RunId>,
    /// The reason of the cancellation.
    pub reason: Option<Cow<'a, str>>,
}

/// The payload of `holdpoint.pause.requested`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseRequested<'a> {
    /// The treatment of running nodes.
    pub drain_policy: Drain,
    /// The reason of the pause.
    pub reason: Option<Cow<'a, str>>,
    /// The principal that requested the pause.
    pub requested_by: Cow<'a, str>,
}

/// The payload of `run.paused`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunPausedPayload")]
pub struct RunPaused<'a> {
    /// The treatment of running nodes.
    pub drain_policy: Drain,
    /// The principal that paused the run.
    pub paused_by: Cow<'a, str>,
    /// The reason of the pause.
    pub reason: Option<Cow<'a, str>>,
}

/// The payload of `run.resumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunResumedPayload")]
pub struct RunResumed<'a> {
    /// The principal that resumed the run.
    pub resumed_by: Cow<'a, str>,
}

/// The payload of `cap.breached`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapBreached {
    /// The limit that was exceeded.
    pub kind: Cap,
    /// The value of the limit.
    pub limit: u64,
    /// The node that exceeded the limit.
    pub node_id: Option<NodeId>,
    /// The observed value.
    pub observed: u64,
}

/// The payload of `replay.diverged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDiverged<'a> {
    /// The sequence of the first event that differs.
    pub at_sequence: u64,
    /// The kind of the difference.
    pub divergence_kind: Cow<'a, str>,
    /// The events that differ.
    pub divergence_point: DivergencePoint<'a>,
    /// The id of the event of the source.
    pub original_event_id: String,
    /// The run that is replayed.
    pub source_run_id: RunId,
}

/// The event of the source and the event of the replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DivergencePoint<'a> {
    /// The type of the event of the source.
    pub expected: Cow<'a, str>,
    /// The type of the event of the replay.
    pub found: Cow<'a, str>,
}
