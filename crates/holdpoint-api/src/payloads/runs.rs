//! Payloads of events about a whole run.

use std::borrow::Cow;

use holdpoint_ids::{Cap, Drain, NodeId, Owner, RunId, WorkflowId};
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
    /// The protocol has a number in runs and a text in events.
    pub engine_version: Option<String>,
    pub metadata: Option<Cow<'a, Map<String, Value>>>,
    pub owner: Cow<'a, Owner>,
    pub tags: Option<Cow<'a, [String]>>,
    pub transport: Cow<'a, str>,
    pub workflow_id: WorkflowId,
}

/// The payload of `run.completed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCompleted {
    pub duration_ms: i64,
    pub outputs: Option<Map<String, Value>>,
}

/// The payload of `run.failed`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunFailed<'a> {
    pub duration_ms: i64,
    pub error: RunError<'a>,
    pub failed_node_id: Option<NodeId>,
}

/// The payload of `run.cancelled`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCancelled<'a> {
    pub cancelled_by: Cow<'a, str>,
    pub duration_ms: i64,
    /// The run whose cancellation cancelled this one.
    pub parent_run_id: Option<RunId>,
    pub reason: Option<Cow<'a, str>>,
}

/// The payload of `holdpoint.pause.requested`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseRequested<'a> {
    pub drain_policy: Drain,
    pub reason: Option<Cow<'a, str>>,
    pub requested_by: Cow<'a, str>,
}

/// The payload of `run.paused`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunPausedPayload")]
pub struct RunPaused<'a> {
    pub drain_policy: Drain,
    pub paused_by: Cow<'a, str>,
    pub reason: Option<Cow<'a, str>>,
}

/// The payload of `run.resumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunResumedPayload")]
pub struct RunResumed<'a> {
    pub resumed_by: Cow<'a, str>,
}

/// The payload of `cap.breached`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapBreached {
    pub kind: Cap,
    pub limit: u64,
    pub node_id: Option<NodeId>,
    pub observed: u64,
}

/// The payload of `replay.diverged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDiverged<'a> {
    pub at_sequence: u64,
    pub divergence_kind: Cow<'a, str>,
    pub divergence_point: DivergencePoint<'a>,
    pub original_event_id: String,
    pub source_run_id: RunId,
}

/// The event of the source and the event of the replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DivergencePoint<'a> {
    pub expected: Cow<'a, str>,
    pub found: Cow<'a, str>,
}
