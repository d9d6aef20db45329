//! Open interrupts of child runs: the records of a parent, and the changes that a run reports to its parent.

use super::{ChildRunState, Interrupt, Run, Status};
use crate::event::{ChildInterrupt, ChildInterruptChanges, ClosedChildInterrupt, RunStep};
use crate::{InterruptId, RunId};

impl Run {
    /// Returns the open interrupts of the child runs that the run waits for, and of the runs below them.
    pub fn child_interrupts(&self) -> impl Iterator<Item = (&ChildRunState, &ChildInterrupt)> {
        let children = self.children.iter().map(AsRef::as_ref).filter(|child| child.is_awaited());
        let children = children.filter(|_| !self.finished());
        children.flat_map(|child| child.interrupts.iter().map(move |open| (child, open)))
    }

    /// Returns whether a child run that the run waits for is executing, so that it may soon end or open an interrupt.
    pub fn has_executing_child(&self) -> bool {
        let mut awaited = self.children.iter().filter(|child| child.is_awaited() && !self.finished());
        awaited.any(|child| matches!(child.status, Status::Pending | Status::Running))
    }

    /// Returns the open interrupts of this run and of the runs below it, as its parent records them.
    pub fn interrupts_for_parent(&self) -> Vec<ChildInterrupt> {
        if self.finished() {
            return Vec::new();
        }
        let own = self.open_interrupts().map(|open| ChildInterrupt {
            id: open.id,
            node: open.node.clone(),
            kind: open.kind,
            below: Vec::new(),
        });
        let below = self.child_interrupts().map(|(child, open)| {
            let mut below = vec![child.as_step()];
            below.extend(open.below.iter().cloned());
            ChildInterrupt { below, ..open.clone() }
        });
        own.chain(below).collect()
    }

    /// Returns the difference between the open interrupts that the parent knows and those of this run.
    pub fn changes_for_parent(&self, known: &[ChildInterrupt]) -> ChildInterruptChanges {
        let now = self.interrupts_for_parent();
        let is_in = |list: &[ChildInterrupt], one: &ChildInterrupt| {
            list.iter().any(|other| other.id == one.id && other.run(&self.id) == one.run(&self.id))
        };
        let closed = known.iter().filter(|one| !is_in(&now, one)).map(|one| {
            let run = one.run(&self.id).clone();
            let decision = self.decision_of(&run, one.id).map(str::to_owned);
            ClosedChildInterrupt { run, id: one.id, decision }
        });
        let closed = closed.collect();
        ChildInterruptChanges { opened: now.into_iter().filter(|one| !is_in(known, one)).collect(), closed }
    }

    /// Returns the id of the decision that closed an interrupt of this run or of a run below it.
    fn decision_of(&self, run: &RunId, id: InterruptId) -> Option<&str> {
        if *run == self.id {
            return self.interrupt(id).and_then(Interrupt::last_decision);
        }
        let recorded = self.children.iter().flat_map(|child| &child.decisions);
        recorded.filter(|one| one.run == *run && one.id == id).find_map(|one| one.decision.as_deref())
    }
}

impl ChildRunState {
    /// Returns whether the parent waits for the end of the child run.
    pub fn is_awaited(&self) -> bool {
        (self.wait || self.call.is_some()) && self.result.is_none()
    }

    /// Returns the start of the child run as a step of a path.
    pub fn as_step(&self) -> RunStep {
        RunStep { node: self.node.clone(), run: self.run.clone(), workflow: self.workflow.clone() }
    }

    /// Returns the changes that are not recorded yet.
    pub(crate) fn new_changes(&self, changes: &ChildInterruptChanges) -> ChildInterruptChanges {
        let is_known =
            |run: &RunId, id| self.interrupts.iter().any(|open| open.id == id && open.run(&self.run) == run);
        let opened = changes.opened.iter().filter(|one| !is_known(one.run(&self.run), one.id));
        let closed = changes.closed.iter().filter(|one| is_known(&one.run, one.id));
        ChildInterruptChanges { opened: opened.cloned().collect(), closed: closed.cloned().collect() }
    }

    pub(super) fn apply_changes(&mut self, opened: &[ChildInterrupt], closed: &[ClosedChildInterrupt]) {
        let child = self.run.clone();
        let is_closed = |open: &ChildInterrupt| {
            closed.iter().any(|one| one.id == open.id && one.run == *open.run(&child))
        };
        self.interrupts.retain(|open| !is_closed(open));
        self.interrupts.extend_from_slice(opened);
        self.decisions.extend(closed.iter().filter(|one| one.decision.is_some()).cloned());
    }
}
