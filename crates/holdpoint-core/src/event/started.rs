//! What a run was started with: it never changes afterwards.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ForkMode, Owner};
use crate::{NodeId, RunId, Timestamp, WorkflowId};

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
    /// The thread that the run belongs to, where it is not one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What the run works on; callers may ask that only one run does so at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The caller's `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The caller's `tracestate`, passed on as it is. Only beside a `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<String>,
    /// The version of the engine that started the run. Absent in runs of versions that did not record it: in these, an
    /// `audience` restricts who may approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    /// Who has made this run by a fork, or one that it comes from or was started by; the last of them at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forked_by: Vec<String>,
    /// The ids of the grants that permitted the parent run to start this one. A copy keeps them and cannot use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// Requesters that a child run inherits from its parent, besides owner and forkers: the principals that had sent
    /// messages to an agent above it when it was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_by: Vec<String>,
    /// Lineages of the keys that started and forked this run or its parent. Links that the host mints for the run need
    /// the rights of all of them. Empty where a key is unknown: in runs of earlier versions and in copies of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
    /// The secret that callbacks are signed with, sealed by the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_secret: Option<String>,
}

/// The run and the node that started this run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub run: RunId,
    pub workflow: WorkflowId,
    pub node: NodeId,
    /// How many runs are above this one.
    pub depth: u32,
}

/// Where a forked run comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    pub source: RunId,
    /// The first of a line of forks: keys of interrupts carry its name, so that they stay the same in each.
    pub origin: RunId,
    pub from_seq: u64,
    pub mode: ForkMode,
    /// When it was made: what is still open in the copy has its whole time again. Not known of forks made before this
    /// was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Of a replay: the run whose name artifacts carry, where that is not the first of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<RunId>,
    /// The number of events of the source that the copy may contain. Copies made before grants were introduced do not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<u64>,
}
