//! Collects the changes of related runs for one commit. Cancellations that do not fit into the commit are left to
//! workers; the commit activates their runs.

use std::collections::{BTreeMap, VecDeque};

use holdpoint_core::{Command, Obligation, Refusal, Run, RunId, RunRef, Status, TenantId, Timestamp};
use uuid::Uuid;

use super::{
    ChildStart, PriorState, cascading_children, child_result, ended_with_parent, new_change, parent_of,
    status_for_parent,
};
use crate::committer::{Change, MailboxAction, Precondition};
use crate::draft::RunDraft;
use crate::engine::Engine;
use crate::error::Error;

/// A run of the family with its uncommitted changes.
struct FamilyMember {
    before: PriorState,
    draft: RunDraft,
    /// The number of obligations that were handled.
    handled: usize,
    /// The status that was last reported to the parent.
    reported: Status,
    /// The mailbox action of a run that caused the changes. `None` for other runs.
    mail: Option<MailboxAction>,
}

/// The changes of related runs that one commit writes.
pub(super) struct FamilyChanges<'e> {
    engine: &'e Engine,
    tenant: TenantId,
    now: Timestamp,
    members: BTreeMap<RunId, FamilyMember>,
    /// The members with unhandled changes.
    touched: VecDeque<RunId>,
    /// The runs whose changes caused the others.
    causes: Vec<RunId>,
    /// The number of runs that may still end in this commit.
    room: usize,
    /// Runs that must end and do not fit into this commit. The worker that executes them ends them.
    runs_to_activate: Vec<RunId>,
}

impl<'e> FamilyChanges<'e> {
    pub(super) fn new(engine: &'e Engine, tenant: TenantId, now: Timestamp) -> Self {
        let (members, touched, causes, runs_to_activate) = Default::default();
        Self { engine, tenant, now, members, touched, causes, room: engine.0.cascade_max, runs_to_activate }
    }

    /// Adds a run whose change causes the others.
    pub(super) fn add_cause(&mut self, id: RunId, before: PriorState, draft: RunDraft, mail: MailboxAction) {
        // All changes of the commit have the same time.
        self.now = draft.now;
        self.causes.push(id.clone());
        self.add(id.clone(), before, draft);
        if let Some(member) = self.members.get_mut(&id) {
            member.mail = Some(mail);
        }
    }

    fn add(&mut self, id: RunId, before: PriorState, draft: RunDraft) {
        self.touched.push_back(id.clone());
        self.members
            .insert(id, FamilyMember { before, draft, handled: 0, reported: before.shown, mail: None });
    }

    /// Follows obligations and reports from run to run until there are no more.
    pub(super) async fn collect(&mut self) -> Result<Option<Precondition>, Error> {
        while let Some(id) = self.touched.pop_front() {
            let Some(member) = self.members.get_mut(&id) else { continue };
            let fresh = member.draft.obligations[member.handled..].to_vec();
            member.handled = member.draft.obligations.len();
            for obligation in fresh {
                match obligation {
                    Obligation::StartChild { child } => {
                        if let Some(failed) = self.start(&id, &child).await? {
                            return Ok(Some(failed));
                        }
                    }
                    Obligation::CancelChild { child } => self.cancel(&id, child).await?,
                    Obligation::Activate | Obligation::SetTimer { .. } | Obligation::ClearTimer { .. } => {}
                }
            }
            self.report_to_parent(&id).await?;
        }
        Ok(None)
    }

    async fn start(&mut self, parent: &RunId, child: &RunId) -> Result<Option<Precondition>, Error> {
        let Some(parent) = self.members.get(parent) else { return Ok(None) };
        // A child run that could not start has a result.
        if parent.draft.run.children.iter().any(|known| known.run == *child && known.result.is_some()) {
            return Ok(None);
        }
        match self.engine.draft_child_start(&parent.draft.run, child, self.now).await? {
            ChildStart::Started(draft) => {
                let prior = PriorState { seq: 0, shown: Status::Running, idle: true, stranded: false };
                self.add(child.clone(), prior, *draft);
                Ok(None)
            }
            // A run that has ended cannot record that its child run did not start.
            ChildStart::Failed(error) if parent.draft.run.finished() => {
                tracing::warn!(%child, code = error.code, "a child run was not started: {}", error.message);
                Ok(None)
            }
            // The start was possible when the parent was executed, so that the parent must be executed again.
            ChildStart::Failed(_) => Ok(Some(Precondition::Revision)),
        }
    }

    /// Cancels a child run if the commit has room for it and its own child runs; otherwise a worker cancels it later.
    /// This bounds the size of a commit. A child run that starts in this commit needs no room.
    async fn cancel(&mut self, parent: &RunId, child: RunId) -> Result<(), Error> {
        let place = usize::from(self.causes.contains(parent) && !self.members.contains_key(&child));
        if self.room < place {
            self.runs_to_activate.push(child);
            return Ok(());
        }
        // A fork lists child runs of its source, which are not its own.
        let own = |run: &Run| parent_of(run).is_some_and(|above| above.run == *parent);
        if !self.load(&child).await? || !own(&self.members[&child].draft.run) {
            return Ok(());
        }
        let wanted = place + cascading_children(&self.members[&child].draft.run).count();
        let Some(room) = self.room.checked_sub(wanted) else {
            // Skips the remaining child runs without a read.
            self.room = 0;
            self.runs_to_activate.push(child);
            return Ok(());
        };
        self.room = room;
        self.apply_command(&child, &Command::CancelWithParent)
    }

    /// Reports a changed status to the parent.
    async fn report_to_parent(&mut self, id: &RunId) -> Result<(), Error> {
        let Some(member) = self.members.get_mut(id) else { return Ok(()) };
        let run = member.draft.run.clone();
        let status = status_for_parent(&run);
        let Some(parent) = parent_of(&run).filter(|_| status != member.reported && !ended_with_parent(&run))
        else {
            return Ok(());
        };
        member.reported = status;
        if !self.load(&parent.run).await? {
            return Ok(());
        }
        let above = &self.members[&parent.run].draft.run;
        let command = Command::Child { child: id.clone(), status, result: child_result(above, &run) };
        self.apply_command(&parent.run.clone(), &command)
    }

    /// Applies a command to a member. Ignores refusals of a run that has ended or does not know the child run.
    fn apply_command(&mut self, id: &RunId, command: &Command) -> Result<(), Error> {
        let Some(member) = self.members.get_mut(id) else { return Ok(()) };
        let happened = member.draft.events.len();
        match member.draft.decide(command) {
            Ok(()) => {
                if member.draft.events.len() > happened {
                    self.touched.push_back(id.clone());
                }
                Ok(())
            }
            Err(Refusal::RunFinished(_) | Refusal::ChildNotFound) => Ok(()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Loads a run into the family. Returns false if it does not exist.
    async fn load(&mut self, id: &RunId) -> Result<bool, Error> {
        if self.members.contains_key(id) {
            return Ok(true);
        }
        let of = RunRef { tenant: self.tenant.clone(), run: id.clone() };
        let run = match self.engine.load(&of).await {
            Ok(run) => run,
            Err(Error::NotFound(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let before = PriorState::of(&run);
        let draft = RunDraft::new(run, self.now);
        self.members.insert(
            id.clone(),
            FamilyMember { before, draft, handled: 0, reported: before.shown, mail: None },
        );
        Ok(true)
    }

    /// Returns the changes, those of the causes first.
    pub(super) fn changes(mut self) -> Vec<Change> {
        let mut changes = Vec::with_capacity(self.members.len());
        for run in std::mem::take(&mut self.causes) {
            if let Some(member) = self.members.remove(&run) {
                let runs_to_activate = std::mem::take(&mut self.runs_to_activate);
                changes.push(Change {
                    runs_to_activate,
                    ..member.change(RunRef { tenant: self.tenant.clone(), run })
                });
            }
        }
        for (run, member) in self.members {
            if !member.draft.events.is_empty() {
                changes.push(member.change(RunRef { tenant: self.tenant.clone(), run }));
            }
        }
        changes
    }
}

impl FamilyMember {
    /// Returns the change of this run. A performed dispatch becomes a queued one if related runs gave the run new work.
    fn change(self, of: RunRef) -> Change {
        let works = self.draft.run.next_work().is_some();
        let mail = match self.mail {
            Some(MailboxAction::Performed(id)) if works => MailboxAction::Enqueue(id),
            None if (self.before.idle || self.before.stranded) && works => {
                MailboxAction::Enqueue(Uuid::now_v7().to_string())
            }
            mail => mail.unwrap_or(MailboxAction::None),
        };
        new_change(of, self.before.seq, self.draft, mail)
    }
}
