//! Pending interrupts: the list, its counts, and a stream of the counts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use holdpoint_ids::{Kind, NodeId, RunId, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Instant;
use crate::snapshot::Ancestor;

/// The longest time that a stream of counts stays open, in seconds.
pub const STREAM_SECONDS_MAX: u64 = 600;

/// The filter and the order of pending interrupts.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListPending {
    /// Only interrupts of these kinds, separated by commas.
    #[schemars(with = "Option<Vec<Kind>>", length(min = 1), extend("style" = "form", "explode" = false))]
    pub kind: Option<String>,
    /// Only interrupts with this assignee: a name, role:x or group:y. me selects the interrupts that the caller may
    /// decide and has not voted on, including those that any principal may decide.
    pub assignee: Option<String>,
    /// Only interrupts of this workflow.
    pub workflow_id: Option<String>,
    /// Only interrupts of runs with this tag.
    pub tag: Option<String>,
    /// Only interrupts that were requested at least this many seconds ago.
    #[schemars(range(min = 0, max = u64::MAX))]
    pub older_than_seconds: Option<u64>,
    /// Only interrupts that were requested at most this many seconds ago.
    #[schemars(range(min = 0, max = u64::MAX))]
    pub newer_than_seconds: Option<u64>,
    /// Only interrupts with a deadline before this instant.
    #[schemars(with = "Option<Instant>")]
    pub expires_before: Option<String>,
    /// The order. deadline lists only interrupts with a deadline, the earliest first; it is the default if
    /// expiresBefore is set.
    #[schemars(extend("enum" = ["oldest", "newest", "deadline"], "default" = "oldest"))]
    pub order: Option<String>,
}

/// A page of pending interrupts. A page with fewer entries than the limit may still have a next page.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingInterrupts<'a> {
    /// The interrupts of this page.
    pub interrupts: Vec<PendingInterrupt<'a>>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// An interrupt that waits for an answer.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingInterrupt<'a> {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the node.
    pub node_id: NodeId,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The kind of the interrupt.
    #[schemars(with = "Kind")]
    pub kind: Cow<'a, str>,
    /// The key of the interrupt, unique in the run.
    pub key: Cow<'a, str>,
    /// The id of the workflow.
    pub workflow_id: WorkflowId,
    /// The title of the interrupt.
    pub title: Cow<'a, str>,
    /// An excerpt of the payload, in one line.
    pub excerpt: Option<Cow<'a, str>>,
    /// The instant at which the interrupt opened.
    pub requested_at: Instant,
    /// The time since the interrupt opened, in milliseconds.
    pub age_ms: i64,
    /// The deadline of the interrupt.
    pub expires_at: Option<Instant>,
    /// The digest of the data.
    pub digest: Option<Cow<'a, str>>,
    /// The principals that may answer: names, role:x or group:y.
    pub assignees: Vec<String>,
    /// The number of required approvals.
    pub required_approvals: Option<u64>,
    /// The votes so far.
    pub votes: Option<PendingVotes<'a>>,
    /// The runs above the run of the interrupt, beginning with the root. Absent if no run started it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Ancestor>,
    /// The number of side questions without an answer.
    pub open_asks: u64,
    /// The tags of the run.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub tags: Cow<'a, [String]>,
    /// The path of the run.
    pub status_url: String,
    /// The addresses of the interrupt.
    pub links: PendingLinks,
}

/// The votes of a pending approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingVotes<'a> {
    /// The number of approvals.
    pub approvals: u64,
    /// The number of rejections.
    pub rejections: u64,
    /// The voters in the order of their votes.
    pub voters: Cow<'a, [String]>,
}

/// The addresses of a pending interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingLinks {
    /// The path of the run.
    pub run: String,
    /// The path that accepts an answer.
    pub resolve: String,
    /// The page on which a person answers: a path, or a URL if the server has a public one.
    pub page: String,
}

/// The number of pending interrupts.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingCounts {
    /// The number of pending interrupts.
    pub total: u64,
    /// The numbers of pending interrupts, by kind.
    pub by_kind: BTreeMap<String, u64>,
    /// Interrupts past their deadline.
    pub overdue: u64,
    /// Interrupts with a deadline within an hour.
    pub due_soon: u64,
    /// False if there are more interrupts than were counted.
    pub is_complete: bool,
    /// The instant at which the oldest pending interrupt opened.
    pub oldest_requested_at: Option<Instant>,
}

/// The query of a stream of counts.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamPending {
    /// The time for which the stream stays open. A client can open it again.
    #[schemars(range(min = 1, max = STREAM_SECONDS_MAX), extend("default" = STREAM_SECONDS_MAX))]
    pub seconds: Option<u64>,
}

/// A server-sent event with the number of pending interrupts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamedPendingCounts {
    /// The name of the event.
    #[schemars(extend("const" = "counts"))]
    pub event: String,
    /// The counts as JSON.
    #[schemars(extend(
        "contentMediaType" = "application/json",
        "contentSchema" = {"$ref": "#/components/schemas/PendingCounts"},
    ))]
    pub data: String,
}
