//! The parameters with which a run started.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ForkMode, Owner};
use crate::mailbox::DispatchOptions;
use crate::run::Run;
use crate::{NodeId, RequestSource, RunId, Timestamp, WorkflowId};

/// The parameters with which a run started. They never change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunParameters {
    /// The workflow of the run.
    pub workflow: WorkflowId,
    /// The revision of the workflow.
    pub revision: u64,
    /// The owner of the run.
    pub owner: Owner,
    /// The input values of the workflow.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// Options that override settings of the workflow.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub configurable: Map<String, Value>,
    /// Tags for filters and subscriptions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Metadata from the client.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The thread of the run, if it is shared with other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The exclusive scope of the run. A caller can require that only one run of a scope is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The address that receives the result of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The caller's `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The caller's `tracestate`, passed on unchanged. Set only together with `trace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<String>,
    /// The version of the engine that started the run. Absent in runs of versions that did not record it: in these, an
    /// `audience` restricts who may approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<u64>,
    /// The run and the node that started this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The source of a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    /// The principals that forked this run, its sources or its parents, in the order of the forks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forked_by: Vec<String>,
    /// The ids of the grants that permitted the parent run to start this one. A copy keeps them and cannot use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// Requesters in addition to owner and forkers. A child run inherits those of its parent: the principals that had
    /// sent messages to an agent of an ancestor run when the child run was started. A run of a trigger has the principal
    /// that created the trigger, and the sender of the event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_by: Vec<String>,
    /// The lineages of the keys that started and forked this run or its parent. A link that the server creates for the
    /// run has only rights that all of these keys have. Empty if a key is unknown, as in runs of earlier versions and
    /// their forks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
    /// The secret that callbacks are signed with, sealed by the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_secret: Option<String>,
    /// The source of the request that started the run. Earlier versions did not record it. A fork has that of its
    /// source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<RequestSource>,
    /// The run of the thread that this run continues. The later runs before this one are no longer part of the thread.
    /// Without it, the run continues the last run of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_of: Option<RunId>,
    /// The id that the front end gave the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_run: Option<String>,
    /// The options of the first dispatch. Later dispatches inherit priority and attempts.
    #[serde(default, skip_serializing_if = "DispatchOptions::is_default")]
    pub dispatch: DispatchOptions,
    /// The delivery of a trigger that started the run. A fork has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Box<TriggerCause>>,
}

/// The delivery of a trigger that started a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerCause {
    /// The id of the trigger.
    pub subscription: String,
    /// The id of the delivery.
    pub delivery: String,
}

/// The run and the node that started this run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent run.
    pub run: RunId,
    /// The workflow of the parent run.
    pub workflow: WorkflowId,
    /// The node of the parent run.
    pub node: NodeId,
    /// The number of ancestors of this run.
    pub depth: u32,
    /// The ancestors above the parent, beginning with the root. Earlier versions did not store them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<Ancestor>,
}

impl Parent {
    /// Returns the parent of a run that a node of `run` starts. `above` are the ancestors of `run`, beginning with the
    /// root.
    pub fn of_child(run: &Run, node: &NodeId, above: Vec<Ancestor>) -> Self {
        let (workflow, depth) = (run.workflow.id.clone(), run.depth() + 1);
        Self { run: run.id.clone(), workflow, node: node.clone(), depth, above }
    }

    /// Returns the parent as a step of a path.
    pub fn as_ancestor(&self) -> Ancestor {
        Ancestor { run: self.run.clone(), workflow: self.workflow.clone(), node: self.node.clone() }
    }

    /// Returns the ancestors of the run, beginning with the root and ending with the parent. Returns None if an earlier
    /// version stored only the parent.
    pub fn path(&self) -> Option<Vec<Ancestor>> {
        let path: Vec<_> = self.above.iter().cloned().chain([self.as_ancestor()]).collect();
        (path.len() as u64 == u64::from(self.depth)).then_some(path)
    }
}

/// A run above another run, with the node that started the next run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// The run.
    pub run: RunId,
    /// The workflow of the run.
    pub workflow: WorkflowId,
    /// The node of the run.
    pub node: NodeId,
}

/// The source of a forked run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The run that was copied.
    pub source: RunId,
    /// The first run of a chain of forks. Keys of interrupts contain its id, so that they are equal in all forks.
    pub origin: RunId,
    /// In a branch: the number of copied events. In a replay: the number of events for which the record takes
    /// precedence if the replay computes other events.
    pub from_seq: u64,
    /// Replay or branch.
    pub mode: ForkMode,
    /// The time of the fork. Deadlines of open interrupts in the copy are counted from it. Earlier versions did not
    /// store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The run whose id the artifacts of a replay contain, if it is not `origin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<RunId>,
    /// The number of events of the source that the fork can repeat: `from_seq` in a branch, all events in a replay.
    /// Forks of versions without grants do not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<u64>,
}
