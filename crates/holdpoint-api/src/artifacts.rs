//! Artifacts and debug bundles of runs.

use std::borrow::Cow;

use holdpoint_ids::{NodeId, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::Instant;
use crate::discovery::Implementation;
use crate::events::Event;
use crate::snapshot::RunSnapshot;

/// The newest output of a node with an artifact type.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact<'a> {
    pub artifact_id: Cow<'a, str>,
    pub artifact_type: Cow<'a, str>,
    pub run_id: RunId,
    pub node_id: NodeId,
    pub version: String,
    pub created_at: Option<Instant>,
    pub data: Map<String, Value>,
}

/// The query of `GET /v1/runs/{runId}/debug-bundle`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShowDebugBundle {
    /// The largest number of events in the bundle: the first ones of the log.
    #[schemars(range(min = 1, max = i64::MAX))]
    pub max_events: Option<i64>,
}

/// Everything about one run in one document. Only ids, types, codes, states, times, numbers and shapes are shown, so
/// that it can be passed on.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DebugBundle {
    pub bundle_version: String,
    pub generated_at: Instant,
    pub host: Implementation,
    /// The snapshot of the run, masked.
    #[schemars(with = "RunSnapshot<'static>")]
    pub run: Value,
    /// The events of the log, masked.
    #[schemars(with = "Vec<Event>")]
    pub events: Vec<Value>,
    /// The spans of the run, masked.
    #[schemars(with = "Vec<BundleSpan>")]
    pub spans: Vec<Value>,
    pub metrics: BundleMetrics,
    pub redaction_applied: bool,
    #[schemars(extend("enum" = ["mask"]))]
    pub redaction_mode: String,
    pub truncated: bool,
    /// The name of the limit that shortened the list of events.
    pub truncated_reason: Option<String>,
}

/// A span of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleSpan {
    /// The name of the span.
    pub name: String,
    /// The id of the trace, as 32 hexadecimal digits.
    pub trace_id: String,
    /// The id of the span, as 16 hexadecimal digits.
    pub span_id: String,
    /// Null for the first span of a trace.
    pub parent_span_id: Option<String>,
    /// The beginning of the span.
    pub started_at: Instant,
    /// The end of the span.
    pub ended_at: Instant,
    /// The attributes by name.
    pub attributes: Map<String, Value>,
}

/// The size of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleMetrics {
    pub event_count: usize,
    pub node_count: usize,
}
