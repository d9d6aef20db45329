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
    /// The id of the artifact.
    pub artifact_id: Cow<'a, str>,
    /// The type of the artifact.
    pub artifact_type: Cow<'a, str>,
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the node.
    pub node_id: NodeId,
    /// The version of the artifact.
    pub version: String,
    /// The instant of this version.
    pub created_at: Option<Instant>,
    /// The output of the node.
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

/// The snapshot, the events and the spans of a run in one document. It shows only ids, types, codes, states, times,
/// numbers and the shape of values, so that it can be given to third parties.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DebugBundle {
    /// The version of the format.
    pub bundle_version: String,
    /// The instant of the response.
    pub generated_at: Instant,
    /// The server.
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
    /// The size of the run.
    pub metrics: BundleMetrics,
    /// True if values are masked.
    pub redaction_applied: bool,
    /// The form of the redaction.
    #[schemars(extend("enum" = ["mask"]))]
    pub redaction_mode: String,
    /// True if the list of events is incomplete.
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
    /// The id of the parent span. Null for the first span of a trace.
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
    /// The number of events in the log.
    pub event_count: usize,
    /// The number of nodes.
    pub node_count: usize,
}
