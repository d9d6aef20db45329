//! Runs: start, list, cancel, pause, resume and fork.

use std::borrow::Cow;

use holdpoint_ids::{Drain, ForkMode, HoldStatus, RunId, Status, WorkflowId, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::basics::is_default;
use crate::mailbox::DispatchOptions;
use crate::{Instant, Object};

/// The smallest number of characters in a callback secret.
pub const CALLBACK_SECRET_CHARS_MIN: usize = 16;
/// The largest number of characters in a callback secret.
pub const CALLBACK_SECRET_CHARS_MAX: usize = 256;
/// The largest number of characters in the id of a scope.
pub const SCOPE_ID_CHARS_MAX: usize = 256;
/// The largest number of runs that one request cancels.
pub const BULK_CANCEL_MAX: usize = 100;

/// The body of `POST /v1/runs`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(example = serde_json::json!({"workflowId": "sample-approval", "inputs": {"title": "Hello"}}))]
pub struct CreateRun {
    /// The id of a registered workflow.
    #[schemars(length(min = 1, max = limits::ID_CHARS_MAX))]
    pub workflow_id: String,
    /// Values of the workflow's variables, by name.
    pub inputs: Option<Object>,
    /// Must be the tenant of the key; another one is rejected with 403.
    pub tenant_id: Option<String>,
    /// Options of the run; the discovery document lists them.
    pub configurable: Option<Object>,
    /// Tags for the filters of lists and webhooks.
    #[schemars(length(max = limits::TAGS_MAX), inner(length(max = limits::TAG_CHARS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// Any data; shown with the run.
    pub metadata: Option<Object>,
    /// The subject of the run, for X-Dedup and for filters.
    #[schemars(length(min = 1, max = SCOPE_ID_CHARS_MAX))]
    pub scope_id: Option<String>,
    /// An https URL that receives a signed link for each interrupt of the run.
    #[schemars(regex(pattern = "^[Hh][Tt][Tt][Pp][Ss]://"), extend("format" = "uri"))]
    pub callback_url: Option<String>,
    /// The secret that signs callbacks, as for webhooks. Requires callbackUrl. If it is left out, the server creates a
    /// secret and returns it once.
    #[schemars(length(min = CALLBACK_SECRET_CHARS_MIN, max = CALLBACK_SECRET_CHARS_MAX))]
    pub callback_secret: Option<String>,
    /// Options of the first dispatch, without dedupeKey.
    pub dispatch: Option<DispatchOptions>,
}

/// The headers of `POST /v1/runs`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartRunHeaders {
    /// enforce: the request is rejected with 409 while another run with the same scopeId is unfinished.
    #[serde(rename = "X-Dedup")]
    #[schemars(extend("enum" = ["enforce"]))]
    pub dedup: Option<String>,
    /// The W3C trace of the caller. A value that cannot be read is ignored.
    pub traceparent: Option<String>,
    /// The W3C trace state of the caller, passed on together with traceparent, at most 512 characters. Ignored without
    /// a traceparent.
    pub tracestate: Option<String>,
}

/// A run that was started.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunCreated {
    /// The id of the run.
    pub run_id: RunId,
    /// The status of the run.
    pub status: Status,
    /// The path of the events of the run.
    pub events_url: String,
    /// The path of the run.
    pub status_url: String,
    /// The secret that signs the callbacks of the run, if the request has a callbackUrl and no callbackSecret. Shown
    /// once: not when the request is sent again under its Idempotency-Key.
    pub callback_secret: Option<String>,
}

/// The filter of `GET /v1/runs`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListRuns {
    /// Only runs in this status.
    #[schemars(with = "Option<Status>")]
    pub status: Option<String>,
    /// Only runs of this workflow.
    pub workflow_id: Option<String>,
    /// Only runs of this scope.
    pub scope_id: Option<String>,
    /// Only runs that this run started.
    pub parent_run_id: Option<String>,
    /// Only runs with this tag.
    pub tag: Option<String>,
    /// Only runs that were created at this instant or later.
    #[schemars(with = "Option<Instant>")]
    pub created_after: Option<String>,
    /// Only runs that were created before this instant.
    #[schemars(with = "Option<Instant>")]
    pub created_before: Option<String>,
}

/// A page of runs, the newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    /// The runs of this page.
    pub runs: Vec<RunSummary>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// A run in a list.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the workflow.
    pub workflow_id: WorkflowId,
    /// The status of the run.
    pub status: Status,
    /// The instant of the creation.
    pub created_at: Instant,
    /// The instant of the last change.
    pub updated_at: Instant,
    /// The scope of the run.
    pub scope_id: Option<String>,
    /// The run that started this run.
    pub parent_run_id: Option<RunId>,
    /// The code of the error of a failed run.
    pub error_code: Option<String>,
    /// The title of a hold.
    pub title: Option<String>,
    /// timed_out: the run failed because a deadline passed without an answer. For a completed hold: its status.
    #[schemars(with = "Option<String>", extend("enum" = ["timed_out", "approved", "rejected", "answered"]))]
    pub outcome: Option<HoldStatus>,
}

/// The body of `POST /v1/runs/{runId}/cancel`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CancelRun {
    /// The reason, which is recorded.
    #[schemars(length(max = limits::REASON_CHARS_MAX))]
    pub reason: Option<String>,
}

/// A run with its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStatusNow {
    /// The id of the run.
    pub run_id: RunId,
    /// The status of the run.
    pub status: Status,
}

/// The body of `POST /v1/runs:bulk-cancel`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkCancel {
    /// The runs to cancel.
    #[schemars(length(min = 1, max = BULK_CANCEL_MAX))]
    pub run_ids: Vec<String>,
    /// The reason, which is recorded.
    #[schemars(length(max = limits::REASON_CHARS_MAX))]
    pub reason: Option<String>,
}

/// The results of cancelling several runs, in the order of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkCancelled {
    /// The results in the order of the request.
    pub results: Vec<CancelResult>,
}

/// The result of cancelling one of several runs.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelResult {
    /// The id as it was sent.
    pub run_id: String,
    /// True if the run is cancelled or had already ended.
    pub ok: bool,
    /// The status of the run.
    pub status: Option<Status>,
    /// The reason for which the run is not cancelled.
    pub error: Option<RunError<'static>>,
}

/// The error of a run or a node.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunError<'a> {
    /// The error code.
    pub code: Cow<'a, str>,
    /// Further members; they depend on the code.
    pub details: Option<Cow<'a, Map<String, Value>>>,
    /// The error message.
    pub message: Cow<'a, str>,
    /// True if a retry may succeed.
    pub retryable: Option<bool>,
}

/// The body of `POST /v1/runs/{runId}:pause`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseRun {
    /// The reason, which is recorded.
    #[schemars(length(max = limits::REASON_CHARS_MAX))]
    pub reason: Option<String>,
    /// drain-current-node waits for running nodes (default); immediate pauses at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drain_policy: Drain,
}

/// A run that is paused, or will be once its running nodes have ended.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPaused {
    /// The id of the run.
    pub run_id: RunId,
    /// The status of the run.
    pub status: Status,
    /// The instant of the pause.
    pub paused_at: Option<Instant>,
    /// True if the run pauses only after its running nodes have ended. The status of this response is paused; the run
    /// itself is running until then.
    pub draining: Option<bool>,
}

/// The body of `POST /v1/runs/{runId}:resume`. It has no members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeRun {}

/// A run that continues after a pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResumed {
    /// The id of the run.
    pub run_id: RunId,
    /// The status of the run.
    pub status: Status,
    /// The instant of the resume.
    pub resumed_at: Instant,
}

/// The body of `POST /v1/runs/{runId}:fork`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkRun {
    /// replay repeats the log without effects; branch copies the events before fromSeq and continues live.
    pub mode: ForkMode,
    /// The event of the source at which the fork begins. Required for a branch; 0 by default for a replay.
    #[schemars(range(min = 0, max = i64::MAX))]
    pub from_seq: Option<i64>,
    /// Options of a branch that replace those of its source.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_options_overlay: RunOptionsOverlay,
}

/// The options of a fork that differ from those of its source.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunOptionsOverlay {
    /// Options that replace those of the source.
    #[serde(default, skip_serializing_if = "is_default")]
    pub configurable: Object,
    /// Tags that replace those of the source.
    #[schemars(inner(length(max = limits::TAG_CHARS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// Metadata that replaces that of the source.
    pub metadata: Option<Object>,
}

/// A run that was started from the log of another run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunForked {
    /// The id of the new run.
    pub run_id: RunId,
    /// The id of the source.
    pub source_run_id: RunId,
    /// The sequence of the first event that was not copied.
    pub from_seq: u64,
    /// The mode of the fork.
    pub mode: ForkMode,
    /// The status of the run.
    pub status: Status,
    /// The path of the events of the run.
    pub events_url: String,
    /// The path of the run.
    pub status_url: String,
}
