//! Follows a change from run to run until nothing more happens, and makes one commit of it. What would make that commit
//! too large is left to a worker, and that it is left is part of the commit.

use std::collections::{BTreeMap, VecDeque};

use holdpoint_core::{Command, Obligation, Refusal, Run, RunId, RunRef, Status, TenantId, Timestamp};
use uuid::Uuid;

use super::{Before, Birth, below, change, ended_with_parent, parent_of, result_for, shown};
use crate::advance::Draft;
use crate::committer::{Change, Guard, Mail};
use crate::engine::Engine;
use crate::error::Error;

struct Member {
    before: Before,
    draft: Draft,
    /// How many of the obligations were seen to.
    seen: usize,
    /// What its parent was told last.
    told: Status,
    /// Of those that caused it all: what happens to their own dispatches.
    mail: Option<Mail>,
}

pub(super) struct Family<'e> {
    engine: &'e Engine,
    tenant: TenantId,
    now: Timestamp,
    members: BTreeMap<RunId, Member>,
    /// Members that something happened to.
    touched: VecDeque<RunId>,
    /// Those that caused it all.
    seeds: Vec<RunId>,
    /// How many more runs may end with them here.
    room: usize,
    /// Runs that must end and for which there was no room: whoever carries them on will see that.
    nudges: Vec<RunId>,
}

impl<'e> Family<'e> {
    pub(super) fn new(engine: &'e Engine, tenant: TenantId, now: Timestamp) -> Self {
        let (members, touched, seeds, nudges) = Default::default();
        Self { engine, tenant, now, members, touched, seeds, room: engine.0.cascade_max, nudges }
    }

    /// Adds one of those that cause it all.
    pub(super) fn seed(&mut self, id: RunId, before: Before, draft: Draft, mail: Mail) {
        // What follows happens at the same time.
        self.now = draft.now;
        self.seeds.push(id.clone());
        self.add(id.clone(), before, draft);
        if let Some(member) = self.members.get_mut(&id) {
            member.mail = Some(mail);
        }
    }

    fn add(&mut self, id: RunId, before: Before, draft: Draft) {
        self.touched.push_back(id.clone());
        self.members.insert(id, Member { before, draft, seen: 0, told: before.shown, mail: None });
    }

    /// Follows what happens from one run to the next until nothing more does.
    pub(super) async fn gather(&mut self) -> Result<Option<Guard>, Error> {
        while let Some(id) = self.touched.pop_front() {
            let Some(member) = self.members.get_mut(&id) else { continue };
            let fresh = member.draft.obligations[member.seen..].to_vec();
            member.seen = member.draft.obligations.len();
            for obligation in fresh {
                match obligation {
                    Obligation::StartChild { child } => {
                        if let Some(guard) = self.start(&id, &child).await? {
                            return Ok(Some(guard));
                        }
                    }
                    Obligation::CancelChild { child } => self.cancel(&id, child).await?,
                    Obligation::Activate | Obligation::SetTimer { .. } | Obligation::ClearTimer { .. } => {}
                }
            }
            self.tell_parent(&id).await?;
        }
        Ok(None)
    }

    async fn start(&mut self, parent: &RunId, child: &RunId) -> Result<Option<Guard>, Error> {
        let Some(parent) = self.members.get(parent) else { return Ok(None) };
        // One that could not begin has ended by now.
        if parent.draft.run.children.iter().any(|known| known.run == *child && known.result.is_some()) {
            return Ok(None);
        }
        match self.engine.born(&parent.draft.run, child, self.now).await? {
            Birth::Born(draft) => {
                let unborn = Before { seq: 0, shown: Status::Running, idle: true, stranded: false };
                self.add(child.clone(), unborn, *draft);
                Ok(None)
            }
            // A run that has ended by now waits for nothing, and cannot record that its child did not start.
            Birth::Refused(error) if parent.draft.run.finished() => {
                tracing::warn!(%child, code = error.code, "a child run was not started: {}", error.message);
                Ok(None)
            }
            // It could when the run was carried on; that must be done again.
            Birth::Refused(_) => Ok(Some(Guard::Revision)),
        }
    }

    /// A run takes its place only together with those below it, so that a commit stays small however many runs end:
    /// the children of the first ones, and as many others as there is room for. One that begins here has its place.
    async fn cancel(&mut self, parent: &RunId, child: RunId) -> Result<(), Error> {
        let place = usize::from(self.seeds.contains(parent) && !self.members.contains_key(&child));
        if self.room < place {
            self.nudges.push(child);
            return Ok(());
        }
        // A copy of a run knows children that are not its own.
        let own = |run: &Run| parent_of(run).is_some_and(|above| above.run == *parent);
        if !self.load(&child).await? || !own(&self.members[&child].draft.run) {
            return Ok(());
        }
        let wanted = place + below(&self.members[&child].draft.run).count();
        let Some(room) = self.room.checked_sub(wanted) else {
            // Nor is it worth looking at more of them.
            self.room = 0;
            self.nudges.push(child);
            return Ok(());
        };
        self.room = room;
        self.ask(&child, &Command::CancelWithParent)
    }

    /// A parent hears of every change that it could see.
    async fn tell_parent(&mut self, id: &RunId) -> Result<(), Error> {
        let Some(member) = self.members.get_mut(id) else { return Ok(()) };
        let run = member.draft.run.clone();
        let status = shown(&run);
        let Some(parent) = parent_of(&run).filter(|_| status != member.told && !ended_with_parent(&run))
        else {
            return Ok(());
        };
        member.told = status;
        if !self.load(&parent.run).await? {
            return Ok(());
        }
        let above = &self.members[&parent.run].draft.run;
        let command = Command::Child { child: id.clone(), status, result: result_for(above, &run) };
        self.ask(&parent.run.clone(), &command)
    }

    /// A run that has ended, or never heard of the one it is told about, has nothing to say to it.
    fn ask(&mut self, id: &RunId, command: &Command) -> Result<(), Error> {
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

    /// From the store, unless it is of the family already. False when there is no such run.
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
        let before = Before::of(&run);
        let draft = Draft::new(run, self.now);
        self.members.insert(id.clone(), Member { before, draft, seen: 0, told: before.shown, mail: None });
        Ok(true)
    }

    /// The changes that caused it all come first.
    pub(super) fn changes(mut self) -> Vec<Change> {
        let mut changes = Vec::with_capacity(self.members.len());
        for run in std::mem::take(&mut self.seeds) {
            if let Some(member) = self.members.remove(&run) {
                let nudges = std::mem::take(&mut self.nudges);
                changes.push(Change { nudges, ..member.change(RunRef { tenant: self.tenant.clone(), run }) });
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

impl Member {
    /// A run that was carried on may have got work again since, by what others of its family did.
    fn change(self, of: RunRef) -> Change {
        let works = self.draft.run.next_work().is_some();
        let mail = match self.mail {
            Some(Mail::Performed(id)) if works => Mail::Enqueue(id),
            None if (self.before.idle || self.before.stranded) && works => {
                Mail::Enqueue(Uuid::now_v7().to_string())
            }
            mail => mail.unwrap_or(Mail::None),
        };
        change(of, self.before.seq, self.draft, mail)
    }
}
