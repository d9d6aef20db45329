//! What has happened to a run. The JSON of these values is the stored contract: variants and fields are only ever
//! added, and every variant has a golden line in `tests/golden_events.rs`.
//!
//! Names follow OpenWOP where it has one; `holdpoint.*` are ours. What can be computed from the fold is not stored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{InterruptId, NodeId, TenantId, Timestamp, WorkflowId};
use crate::interrupt::Kind;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    #[serde(rename = "run.started")]
    RunStarted(Box<Started>),
    #[serde(rename = "node.started")]
    NodeStarted { node: NodeId },
    #[serde(rename = "node.completed")]
    NodeCompleted {
        node: NodeId,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        outputs: Map<String, Value>,
    },
    #[serde(rename = "node.failed")]
    NodeFailed { node: NodeId, error: RunError },
    #[serde(rename = "node.skipped")]
    NodeSkipped { node: NodeId, reason: String },
    #[serde(rename = "node.suspended")]
    NodeSuspended { node: NodeId, interrupt: InterruptId },
    #[serde(rename = "node.resumed")]
    NodeResumed { node: NodeId, interrupt: InterruptId },
    #[serde(rename = "interrupt.requested")]
    InterruptRequested {
        id: InterruptId,
        node: NodeId,
        kind: Kind,
        key: String,
        data: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume_schema: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    #[serde(rename = "approval.requested")]
    ApprovalRequested { interrupt: InterruptId },
    #[serde(rename = "clarification.requested")]
    ClarificationRequested { interrupt: InterruptId },
    #[serde(rename = "interrupt.resolved")]
    InterruptResolved { id: InterruptId, value: Value, by: String },
    /// Nobody answered before the deadline: silence, which is neither a grant nor a person's refusal.
    #[serde(rename = "interrupt.timed_out")]
    InterruptTimedOut { id: InterruptId },
    #[serde(rename = "approval.received")]
    ApprovalReceived { interrupt: InterruptId },
    #[serde(rename = "clarification.resolved")]
    ClarificationResolved { interrupt: InterruptId },
    #[serde(rename = "holdpoint.step.recorded")]
    StepRecorded { node: NodeId, name: String, result: Value },
    #[serde(rename = "holdpoint.sleep.started")]
    SleepStarted { node: NodeId, until: Timestamp },
    #[serde(rename = "holdpoint.sleep.ended")]
    SleepEnded { node: NodeId },
    #[serde(rename = "run.completed")]
    RunCompleted,
    #[serde(rename = "run.failed")]
    RunFailed {
        error: RunError,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
    },
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        by: String,
    },
}

/// Everything a run was started with; it never changes afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub workflow: WorkflowId,
    pub revision: u64,
    pub owner: Owner,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub configurable: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub tenant: TenantId,
    pub principal: String,
}

/// Why a node or a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    pub code: String,
    pub message: String,
}

impl RunError {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }
}
