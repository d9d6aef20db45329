//! Interrupts of child runs, as their parent records them.

use holdpoint_ids::Kind;
use serde::{Deserialize, Serialize};

use crate::{InterruptId, NodeId, RunId, WorkflowId};

/// An open interrupt of a child run, or of a run below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildInterrupt {
    /// The id of the interrupt in its run.
    pub id: InterruptId,
    /// The node that opened it.
    pub node: NodeId,
    /// The kind of the interrupt.
    pub kind: Kind,
    /// The runs below the child run, down to the run of the interrupt. Empty for an interrupt of the child run itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Descendant>,
}

impl ChildInterrupt {
    /// Returns the run that opened the interrupt, if `child` is the child run.
    pub fn run<'a>(&'a self, child: &'a RunId) -> &'a RunId {
        self.below.last().map_or(child, |step| &step.run)
    }

    /// Returns the public id of the interrupt, if `child` is the child run.
    pub fn name(&self, child: &RunId) -> String {
        public_id(self.run(child), self.id)
    }
}

/// A run below another run, with the node that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descendant {
    /// The node of the parent run.
    pub node: NodeId,
    /// The started run.
    pub run: RunId,
    /// The workflow of the started run.
    pub workflow: WorkflowId,
}

/// An interrupt of a child run, or of a run below it, that is no longer open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedChildInterrupt {
    /// The run of the interrupt.
    pub run: RunId,
    /// The id of the interrupt in its run.
    pub id: InterruptId,
    /// The id of the decision that closed it, if it was answered and the answer had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
}

impl ClosedChildInterrupt {
    /// Returns the public id of the interrupt.
    pub fn name(&self) -> String {
        public_id(&self.run, self.id)
    }
}

/// Returns the public id of an interrupt of a child run. A child run is never a replay, so that its names begin with its
/// own id.
fn public_id(run: &RunId, id: InterruptId) -> String {
    format!("{run}:{id}")
}

/// The changes of the open interrupts of a child run and of the runs below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildInterruptChanges {
    /// The interrupts that were opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<ChildInterrupt>,
    /// The interrupts that were closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<ClosedChildInterrupt>,
}

impl ChildInterruptChanges {
    /// Returns whether no interrupt was opened or closed.
    pub fn is_empty(&self) -> bool {
        self.opened.is_empty() && self.closed.is_empty()
    }
}
