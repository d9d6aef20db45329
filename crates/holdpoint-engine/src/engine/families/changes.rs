//! Collects the changes of related runs for one commit. Cancellations that do not fit into the commit are left to
//! workers; the commit activates their runs.

use std::collections::{BTreeMap, VecDeque};

use holdpoint_core::{Command, Obligation, Refusal, Run, RunId, RunRef, TenantId, Timestamp};
use uuid::Uuid;

use super::{ShownState, cascading_children, child_result, ended_with_parent};
use crate::committer::{Change, MailboxAction, Precondition};
use crate::draft::RunDraft;
use crate::engine::Engine;
use crate::engine::advance::ChildStart;
use crate::error::Error;

/// A run of the family with its uncommitted changes.
struct FamilyMember {
    draft: RunDraft,
    /// The number of obligations that were handled.
    handled: usize,
    /// The state that was last reported to the parent.
    reported: ShownState,
}

/// The changes of related runs that one commit writes.
pub(crate) struct FamilyChanges<'e> {
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
    /// Collects the changes that `causes` cause. All of them have the same time.
    pub(crate) fn new(engine: &'e Engine, tenant: TenantId, causes: Vec<RunDraft>) -> Self {
        let mut family = Self {
            engine,
            tenant,
            now: causes.last().map_or_else(|| engine.now(), |draft| draft.now),
            members: BTreeMap::new(),
            touched: VecDeque::new(),
            causes: causes.iter().map(|draft| draft.of.run.clone()).collect(),
            room: engine.0.cascade_max,
            runs_to_activate: Vec::new(),
        };
        causes.into_iter().for_each(|draft| family.add(draft));
        family
    }

    fn add(&mut self, draft: RunDraft) {
        let id = draft.of.run.clone();
        self.touched.push_back(id.clone());
        self.members.insert(id, FamilyMember::from(draft));
    }

    /// Follows obligations and reports from run to run until there are no more.
    pub(crate) async fn collect(&mut self) -> Result<Option<Precondition>, Error> {
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
                self.add(*draft);
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
        let own = |run: &Run| run.parent().is_some_and(|above| above.run == *parent);
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

    /// Reports a changed status, and changed open interrupts, to the parent.
    async fn report_to_parent(&mut self, id: &RunId) -> Result<(), Error> {
        let Some(member) = self.members.get_mut(id) else { return Ok(()) };
        let run = member.draft.run.clone();
        let shown = ShownState::of(&run);
        let Some(parent) = run.parent().filter(|_| shown != member.reported && !ended_with_parent(&run))
        else {
            return Ok(());
        };
        let status = shown.status;
        member.reported = shown;
        if !self.load(&parent.run).await? {
            return Ok(());
        }
        let above = &self.members[&parent.run].draft.run;
        let Some(known) = above.child(id) else { return Ok(()) };
        let interrupts = run.changes_for_parent(&known.interrupts);
        let result = child_result(above, &run);
        let command = Command::Child { child: id.clone(), status, interrupts, result };
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
        let run = match self.engine.runs().get_stored(&of).await {
            Ok(run) => run,
            Err(Error::NotFound(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.members.insert(id.clone(), RunDraft::new(of, run, self.now).into());
        Ok(true)
    }

    /// Returns the changes, those of the causes first.
    pub(crate) fn into_changes(mut self) -> Vec<Change> {
        let mut changes = Vec::with_capacity(self.members.len());
        for run in &self.causes {
            changes.extend(self.members.remove(run).map(|cause| Change::from(cause.draft.with_dispatch())));
        }
        if let Some(first) = changes.first_mut() {
            first.runs_to_activate = self.runs_to_activate;
        }
        for member in self.members.into_values().filter(|member| !member.draft.events.is_empty()) {
            changes.push(member.draft.with_dispatch().into());
        }
        changes
    }
}

impl From<RunDraft> for FamilyMember {
    fn from(draft: RunDraft) -> Self {
        let reported = draft.before.shown.clone();
        Self { draft, handled: 0, reported }
    }
}

impl RunDraft {
    /// Queues a dispatch if the run has work and no live dispatch: it was activated in this change and related runs gave
    /// it new work, or only related runs woke it.
    fn with_dispatch(mut self) -> Self {
        let is_free = match self.mail {
            MailboxAction::Activated | MailboxAction::Performed(_) => true,
            MailboxAction::None => self.before.has_no_dispatch() && !self.events.is_empty(),
            MailboxAction::Enqueue(_)
            | MailboxAction::HandOff(_)
            | MailboxAction::ClaimAction { .. }
            | MailboxAction::Reclaim(_)
            | MailboxAction::Cancel(_)
            | MailboxAction::Reconcile(_) => false,
        };
        if is_free && self.run.next_work().is_some() {
            self.mail = MailboxAction::Enqueue(Uuid::now_v7().to_string());
        }
        self
    }
}
