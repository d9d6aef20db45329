//! The mailbox: dispatches, which activate runs, and their queues.

use holdpoint_ids::mailbox::TerminationReason;
use holdpoint_ids::{RunDispatchStatus, WorkflowId, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::Instant;

/// Options of the dispatch that a start or an input creates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DispatchOptions {
    /// The priority; 0 is claimed first. The default is 128. A value below 128 requires the scope runs:prioritize. That of
    /// a start also applies to the later dispatches of the run and to its child runs, except that a later message without
    /// a priority has at most the normal one. That of an input applies only to the dispatch that the input creates.
    #[schemars(range(min = 0, max = 255))]
    pub priority: Option<u64>,
    /// The time in milliseconds after which the dispatch can be claimed. Only for the start of a run, and not together with
    /// availableAt.
    #[schemars(range(min = 0, max = limits::DISPATCH_DELAY_MS_MAX))]
    pub delay_ms: Option<u64>,
    /// The instant from which the dispatch can be claimed, at most a year in the future. Only for the start of a run. An
    /// instant in the past has no effect.
    pub available_at: Option<Instant>,
    /// The deduplication key. The thread rejects another dispatch with this key while this one is queued or claimed. Only
    /// for requests of a thread. A request that creates no queued dispatch does not reserve the key: input to a run that
    /// executes, or work that the server performs within the request.
    #[schemars(length(min = 1, max = limits::DISPATCH_KEY_CHARS_MAX))]
    pub dedupe_key: Option<String>,
    /// The number of failed attempts after which the dispatch is a dead letter. The default is 5. That of a start also
    /// applies to the later dispatches of the run and to its child runs; that of an input applies only to the dispatch
    /// that the input creates.
    #[schemars(range(min = 1, max = limits::DISPATCH_ATTEMPTS_MAX))]
    pub max_attempts: Option<u64>,
}

/// The query of `GET /v1/threads/{threadId}/dispatches`, in addition to that of a page.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListDispatches {
    /// One or more statuses, separated by commas.
    #[schemars(regex(pattern = statuses_pattern()))]
    pub status: Option<String>,
}

fn statuses_pattern() -> String {
    let word = RunDispatchStatus::ALL.map(RunDispatchStatus::as_str).join("|");
    format!("^({word})(,({word}))*$")
}

/// A page of dispatches in the order in which they are served.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchList {
    /// The dispatches of this page.
    pub dispatches: Vec<Dispatch>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// A dispatch with the state of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dispatch {
    /// The dispatch.
    #[serde(flatten)]
    pub row: DispatchChanged,
    /// The run as it is now. Null if this server has no such run.
    pub run: Option<DispatchRun>,
}

/// A dispatch without the state of its run: the response to a change is the same when the request is sent again later.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchChanged {
    /// The id of the dispatch.
    pub dispatch_id: String,
    /// The dispatch thread. One dispatch of a thread is claimed at a time.
    pub thread_id: String,
    /// The run to activate.
    pub run_id: String,
    /// The state of the dispatch in its queue.
    pub status: RunDispatchStatus,
    /// The priority; 0 is claimed first.
    pub priority: u8,
    /// The deduplication key. The thread rejects another dispatch with this key while this one is queued or claimed.
    pub dedupe_key: Option<String>,
    /// The epoch of the thread when the dispatch was enqueued.
    pub dispatch_epoch: u64,
    /// The instant from which the dispatch can be claimed.
    pub available_at: Instant,
    /// The number of failed attempts.
    pub attempt_count: u32,
    /// The number of failed attempts after which the dispatch is a dead letter.
    pub max_attempts: u32,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// The worker that has the claim.
    pub claimed_by: Option<String>,
    /// The end of the lease.
    pub lease_until: Option<Instant>,
    /// The instant of the creation.
    pub created_at: Instant,
    /// The instant of the last change.
    pub updated_at: Instant,
    /// The result of the activation.
    pub projection: DispatchProjection,
}

/// The run of a dispatch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchRun {
    /// The id of the run.
    pub run_id: String,
    /// The id of the workflow.
    pub workflow_id: WorkflowId,
    /// The status of the run.
    pub status: String,
    /// The path of the run.
    pub status_url: String,
}

/// The result of the activation of the run. Members without a value are null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchProjection {
    /// The status of the run after the activation.
    pub run_status: Option<String>,
    /// The reason for which the run ended.
    #[schemars(with = "Value")]
    pub termination: Option<TerminationReason>,
    /// The response of the run.
    pub response: Option<String>,
    /// The error of the run.
    pub error: Option<String>,
    /// The id of the attempt.
    pub instance_id: Option<String>,
    /// The instant at which the dispatch ended.
    pub completed_at: Option<Instant>,
}

/// Statistics of the mailbox.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MailboxStats {
    /// The number of dispatches of the tenant in each status.
    pub counts: DispatchCounts,
    /// The next instant at which a dispatch of the database becomes due. Only for callers with the scope tenants:manage.
    pub next_wakeup_at: Option<Instant>,
}

/// The number of dispatches in each status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchCounts {
    /// Dispatches that wait for a worker.
    pub queued: u64,
    /// Dispatches that a worker has claimed.
    pub claimed: u64,
    /// Dispatches that were executed.
    pub acked: u64,
    /// Dispatches that were cancelled.
    pub cancelled: u64,
    /// Dispatches that an interruption of their thread superseded.
    pub superseded: u64,
    /// Dispatches that are not tried again automatically.
    pub dead_letter: u64,
}
