//! The runs of a thread, and the interruption of a thread.

use holdpoint_ids::{RunId, Status, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Instant;
use crate::decisions::{RunWaitingState, ToolTicket};

/// A page of the runs of a thread, the newest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRuns {
    /// The runs of this page.
    pub runs: Vec<ThreadRun>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// A run of a thread.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRun {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the thread.
    pub thread_id: String,
    /// The id of the agent. Null for a run of a workflow.
    #[serialize_always]
    pub agent_id: Option<String>,
    /// The status of the run.
    pub status: Status,
    /// The instant of the start.
    pub created_at: Instant,
    /// The instant of the last change.
    pub updated_at: Instant,
    /// The code of the error of a failed run.
    pub error_code: Option<String>,
    /// timed_out: the run failed because a deadline passed without an answer.
    #[schemars(extend("const" = "timed_out"))]
    pub outcome: Option<String>,
}

/// A run of a thread, with its suspended calls and its waiting state.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRunNow {
    /// The run.
    #[serde(flatten)]
    pub run: ThreadRun,
    /// The tool calls that wait for a decision, or whose decision is not executed yet.
    pub tickets: Vec<ToolTicket>,
    /// The waiting state. Absent if the run does not wait.
    pub waiting: Option<RunWaitingState>,
    /// The number of model replies in the run.
    pub steps: u32,
    /// The tokens that the run used.
    pub usage: TokenUsage,
}

/// The tokens that calls of models used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// The tokens that the models read.
    pub input_tokens: u64,
    /// The tokens that the models wrote.
    pub output_tokens: u64,
}

/// The body of `POST /v1/threads/{threadId}/interrupt`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptThread {
    /// If true, a run that waits for a person is not cancelled.
    pub keep_waiting: Option<bool>,
}

/// The result of the interruption of a thread.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadInterrupted {
    /// The new epoch of the dispatch thread. Older dispatches are invalid.
    pub epoch: u64,
    /// The number of queued dispatches that were superseded.
    pub superseded_count: usize,
    /// The dispatch that a worker had claimed.
    pub active_dispatch_id: Option<String>,
    /// The run that was cancelled.
    pub cancelled_run_id: Option<RunId>,
    /// True if the thread had no open run and no queued dispatch.
    pub nothing_to_interrupt: bool,
}

/// The body of `POST /v1/threads/{threadId}/cancel`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelThread {
    /// The reason, which is recorded.
    #[schemars(length(max = limits::REASON_CHARS_MAX))]
    pub reason: Option<String>,
}
