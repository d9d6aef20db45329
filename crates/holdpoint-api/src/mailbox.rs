//! The mailbox: dispatches, which activate runs, and their queues.

use holdpoint_ids::mailbox::TerminationReason;
use holdpoint_ids::{RunDispatchStatus, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::Instant;

/// The query of `GET /v1/threads/{threadId}/dispatches`, beside that of a page.
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
    pub dispatches: Vec<Dispatch>,
    pub next_cursor: Option<String>,
}

/// A dispatch with the state of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dispatch {
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
    pub dispatch_id: String,
    pub thread_id: String,
    pub run_id: String,
    /// The state of the dispatch in its queue.
    pub status: RunDispatchStatus,
    pub priority: u8,
    pub dedupe_key: Option<String>,
    pub dispatch_epoch: u64,
    pub available_at: Instant,
    pub attempt_count: u32,
    pub max_attempts: u32,
    pub last_error: Option<String>,
    pub claimed_by: Option<String>,
    pub lease_until: Option<Instant>,
    pub created_at: Instant,
    pub updated_at: Instant,
    pub projection: DispatchProjection,
}

/// The run of a dispatch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchRun {
    pub run_id: String,
    pub workflow_id: WorkflowId,
    pub status: String,
    pub status_url: String,
}

/// The report of the run when the dispatch was carried out. Members without a value are null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchProjection {
    pub run_status: Option<String>,
    #[schemars(with = "Value")]
    pub termination: Option<TerminationReason>,
    pub response: Option<String>,
    pub error: Option<String>,
    pub instance_id: Option<String>,
    pub completed_at: Option<Instant>,
}

/// The numbers of dispatches by status.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MailboxStats {
    pub counts: DispatchCounts,
    /// The next instant at which a dispatch of the database becomes due. Only for callers with the scope tenants:manage.
    pub next_wakeup_at: Option<Instant>,
}

/// The number of dispatches in each status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchCounts {
    pub queued: u64,
    pub claimed: u64,
    pub acked: u64,
    pub cancelled: u64,
    pub superseded: u64,
    pub dead_letter: u64,
}
