//! Open interrupts of child runs: the records of a parent, and the changes that a run reports to its parent.

use std::collections::BTreeSet;

use super::{ChildRunState, Interrupt, Run, Status};
use crate::event::{ChildInterrupt, ChildInterruptChanges, ClosedChildInterrupt, Descendant};
use crate::{InterruptId, RunId};

impl Run {
    /// Returns the open interrupts of the child runs that the run waits for, and of the runs below them.
    pub fn child_interrupts(&self) -> impl Iterator<Item = (&ChildRunState, &ChildInterrupt)> {
        self.awaited_children().flat_map(|child| child.interrupts.iter().map(move |open| (child, open)))
    }

    /// Returns whether a child run that the run waits for is executing, so that it may soon end or open an interrupt. A
    /// child run that itself waits for runs below it counts as waiting, even if one of those is executing.
    pub fn has_executing_child(&self) -> bool {
        self.awaited_children().any(|child| matches!(child.status, Status::Pending | Status::Running))
    }

    /// Returns the child runs that the run waits for. A fork also lists child runs of its source, which report nothing to
    /// it.
    fn awaited_children(&self) -> impl Iterator<Item = &ChildRunState> {
        let children = self.children.iter().map(AsRef::as_ref).filter(|_| !self.finished());
        children.filter(|child| child.is_awaited() && child.belongs_to(&self.id))
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
            let mut below = vec![child.as_descendant()];
            below.extend(open.below.iter().cloned());
            ChildInterrupt { below, ..open.clone() }
        });
        own.chain(below).collect()
    }

    /// Returns the difference between the open interrupts that the parent knows and those of this run.
    pub fn changes_for_parent(&self, known: &[ChildInterrupt]) -> ChildInterruptChanges {
        let mut opened = self.interrupts_for_parent();
        let (is_open, is_known) = (places(&self.id, &opened), places(&self.id, known));
        let closed = known.iter().filter(|one| !is_open.contains(&(one.run(&self.id), one.id))).map(|one| {
            let run = one.run(&self.id).clone();
            let decision = self.decision_of(&run, one.id).map(str::to_owned);
            ClosedChildInterrupt { run, id: one.id, decision }
        });
        let closed = closed.collect();
        opened.retain(|one| !is_known.contains(&(one.run(&self.id), one.id)));
        ChildInterruptChanges { opened, closed }
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

    /// Returns whether this run started the child run. Otherwise it is a child run of the source of a fork.
    pub fn belongs_to(&self, run: &RunId) -> bool {
        self.run.as_str().strip_prefix(run.as_str()).is_some_and(|rest| rest.starts_with('.'))
    }

    /// Returns the child run as a step of a path.
    pub fn as_descendant(&self) -> Descendant {
        Descendant { node: self.node.clone(), run: self.run.clone(), workflow: self.workflow.clone() }
    }

    /// Returns the changes that are not recorded yet.
    pub(crate) fn new_changes(&self, changes: &ChildInterruptChanges) -> ChildInterruptChanges {
        let known = places(&self.run, &self.interrupts);
        let opened = changes.opened.iter().filter(|one| !known.contains(&(one.run(&self.run), one.id)));
        let closed = changes.closed.iter().filter(|one| known.contains(&(&one.run, one.id)));
        ChildInterruptChanges { opened: opened.cloned().collect(), closed: closed.cloned().collect() }
    }

    pub(super) fn apply_changes(&mut self, opened: &[ChildInterrupt], closed: &[ClosedChildInterrupt]) {
        let (child, left) = (&self.run, closed.iter().map(|one| (&one.run, one.id)).collect::<BTreeSet<_>>());
        self.interrupts.retain(|open| !left.contains(&(open.run(child), open.id)));
        self.interrupts.extend_from_slice(opened);
        self.decisions.extend(closed.iter().filter(|one| one.decision.is_some()).cloned());
    }
}

/// Returns the runs and ids of interrupts of a child run and of the runs below it.
fn places<'a>(child: &'a RunId, interrupts: &'a [ChildInterrupt]) -> BTreeSet<(&'a RunId, InterruptId)> {
    interrupts.iter().map(|one| (one.run(child), one.id)).collect()
}
