//! What a change of one run does to the runs around it: runs it starts, runs that end with it, the run that waits for
//! it. All of it is one commit.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use holdpoint_core::{
    ChildResult, Command, End, Event, Obligation, Owner, Parent, Refusal, Run, RunError, RunId, RunRef,
    Start, Status, TenantId, Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

use super::Engine;
use crate::advance::Draft;
use crate::committer::{Change, Guard, Mail};
use crate::error::Error;
use crate::trace::SpanName;

/// Runs that one commit may change.
const FAMILY_MAX: usize = 1024;

/// A run before a change, as far as others see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    pub seq: u64,
    /// As its parent knows it.
    shown: Status,
    idle: bool,
}

impl Before {
    pub(crate) fn of(run: &Run) -> Self {
        Self { seq: run.seq, shown: shown(run), idle: run.next_work().is_none() }
    }

    /// A run with work left has a live dispatch whose holder will see a change before it can finish.
    pub(crate) fn idle(&self) -> bool {
        self.idle
    }
}

/// What a parent is told of a run. Nobody but a parent asks.
fn shown(run: &Run) -> Status {
    match parent_of(run) {
        Some(_) => known_as(run.status()),
        None => Status::Running,
    }
}

/// That a run has begun is no news.
fn known_as(status: Status) -> Status {
    if status == Status::Pending { Status::Running } else { status }
}

fn parent_of(run: &Run) -> Option<&Parent> {
    run.started.as_ref().and_then(|started| started.parent.as_ref())
}

/// What one run leaves to the run that started it.
fn result_for(parent: &Run, child: &Run) -> Option<ChildResult> {
    let error = match child.end.as_ref()? {
        End::Failed { error, .. } => Some(error.clone()),
        End::Completed { .. } | End::Cancelled { .. } => None,
    };
    let known = parent.children.iter().find(|known| known.run == child.id)?;
    let node = parent.workflow.position(&known.node).map(|position| &parent.workflow.nodes[position])?;
    let wanted = node.config.get("outputMapping").and_then(Value::as_object);
    let wanted = wanted.into_iter().flat_map(|mapping| mapping.values()).filter_map(Value::as_str);
    let outputs = wanted.filter_map(|name| Some((name.to_owned(), child.variables.get(name)?.clone())));
    Some(ChildResult { outputs: outputs.collect(), error })
}

impl Engine {
    /// Runs pure nodes as far as they go. A run that is started on the way and comes to nothing at once, because there
    /// is no such workflow or it will not take these inputs, is news at once.
    pub(crate) async fn carry_on(&self, draft: &mut Draft) -> Result<(), Error> {
        let mut looked_at = 0;
        loop {
            draft.advance(&self.0.nodes)?;
            let mut heard = false;
            let obligations = draft.obligations.get(looked_at..).unwrap_or_default().to_vec();
            looked_at = draft.obligations.len();
            for obligation in obligations {
                if let Obligation::StartChild { child } = obligation
                    && let Some(news) = self.stillborn(draft, &child).await?
                {
                    heard |= draft.decide(&news).is_ok();
                }
            }
            if !heard {
                return Ok(());
            }
        }
    }

    /// The news of a run that cannot begin, or that ends as it begins.
    async fn stillborn(&self, parent: &Draft, child: &RunId) -> Result<Option<Command>, Error> {
        let failed = |error: RunError| {
            let result = Some(ChildResult { error: Some(error), ..ChildResult::default() });
            Command::Child { child: child.clone(), status: Status::Failed, result }
        };
        Ok(match self.born(&parent.run, child, parent.now).await? {
            Birth::Refused(error) => Some(failed(error)),
            Birth::Born(born) if born.run.finished() => Some(Command::Child {
                child: child.clone(),
                status: born.run.status(),
                result: result_for(&parent.run, &born.run),
            }),
            Birth::Born(_) => None,
        })
    }

    /// The beginning of a run that another one starts.
    async fn born(&self, parent: &Run, child: &RunId, now: Timestamp) -> Result<Birth, Error> {
        let refused = |code: &str, message: String| Ok(Birth::Refused(RunError::new(code, message)));
        let known = parent.children.iter().find(|known| known.run == *child);
        let (Some(known), Some(started)) = (known, parent.started.as_ref()) else {
            return refused("child_not_found", format!("{child} was never asked for"));
        };
        let Owner { tenant, .. } = &started.owner;
        let Some(workflow) = self.0.registry.latest(&self.0.db, tenant, &known.workflow).await? else {
            return refused("workflow_not_found", format!("there is no workflow {}", known.workflow));
        };
        let of = RunRef { tenant: tenant.clone(), run: child.clone() };
        if self.0.sequences.of(&self.0.db, &of).await?.is_some() {
            return refused("run_id_taken", format!("there is a run {child} already"));
        }
        let start = Start {
            inputs: known.inputs.clone(),
            // What the run does belongs to what the node that starts it does.
            trace: Some(SpanName::of_visit(tenant, parent, &known.node, known.visit).to_string()),
            parent: Some(Parent {
                run: parent.id.clone(),
                workflow: parent.workflow.id.clone(),
                node: known.node.clone(),
                depth: started.parent.as_ref().map_or(0, |above| above.depth) + 1,
            }),
            ..Start::new(started.owner.clone())
        };
        let mut draft = Draft::new(Arc::new(Run::unborn(child.clone(), workflow)), now);
        match draft.decide(&Command::Start(start)) {
            Ok(()) => Ok(Birth::Born(Box::new(draft))),
            Err(refusal) => refused(refusal.code(), refusal.to_string()),
        }
    }

    /// Everything that a change entails, itself first. A guard when the world has changed under it.
    pub(super) async fn family(
        &self,
        of: &RunRef,
        before: Before,
        draft: Draft,
        mail: Mail,
    ) -> Result<Result<Vec<Change>, Guard>, Error> {
        let related = |obligation: &Obligation| match obligation {
            Obligation::StartChild { .. } | Obligation::CancelChild { .. } => true,
            Obligation::Activate | Obligation::SetTimer { .. } | Obligation::ClearTimer { .. } => false,
        };
        if before.shown == shown(&draft.run) && !draft.obligations.iter().any(related) {
            return Ok(Ok(vec![change(of.clone(), before.seq, draft, mail)]));
        }
        let mut family = Family::new(self, of, before, draft);
        if let Some(guard) = family.gather().await? {
            return Ok(Err(guard));
        }
        Ok(Ok(family.changes(of, mail)))
    }
}

enum Birth {
    Born(Box<Draft>),
    Refused(RunError),
}

struct Member {
    before: Before,
    draft: Draft,
    /// How many of the obligations were seen to.
    seen: usize,
    /// What its parent was told last.
    told: Status,
}

struct Family<'e> {
    engine: &'e Engine,
    tenant: TenantId,
    now: Timestamp,
    members: BTreeMap<RunId, Member>,
    /// Members that something happened to.
    touched: VecDeque<RunId>,
    /// Cancelled with their parents, who want to hear nothing of it.
    cancelled: HashSet<RunId>,
}

impl<'e> Family<'e> {
    fn new(engine: &'e Engine, of: &RunRef, before: Before, draft: Draft) -> Self {
        let (tenant, now) = (of.tenant.clone(), draft.now);
        let mut family = Self {
            engine,
            tenant,
            now,
            members: BTreeMap::new(),
            touched: VecDeque::new(),
            cancelled: HashSet::new(),
        };
        family.add(of.run.clone(), before, draft);
        family
    }

    fn add(&mut self, id: RunId, before: Before, draft: Draft) {
        self.touched.push_back(id.clone());
        self.members.insert(id, Member { before, draft, seen: 0, told: before.shown });
    }

    /// Follows what happens from one run to the next until nothing more does.
    async fn gather(&mut self) -> Result<Option<Guard>, Error> {
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
            if self.members.len() > FAMILY_MAX {
                return Err(Error::FamilyTooLarge { runs_max: FAMILY_MAX });
            }
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
                let unborn = Before { seq: 0, shown: Status::Running, idle: true };
                self.add(child.clone(), unborn, *draft);
                Ok(None)
            }
            // It could when the run was carried on; that must be done again.
            Birth::Refused(_) => Ok(Some(Guard::Revision)),
        }
    }

    async fn cancel(&mut self, parent: &RunId, child: RunId) -> Result<(), Error> {
        // A copy of a run knows children that are not its own.
        let own = |run: &Run| parent_of(run).is_some_and(|above| above.run == *parent);
        if !self.load(&child).await? || !own(&self.members[&child].draft.run) {
            return Ok(());
        }
        self.cancelled.insert(child.clone());
        self.ask(&child, &Command::CancelWithParent)
    }

    /// A parent hears of every change that it could see.
    async fn tell_parent(&mut self, id: &RunId) -> Result<(), Error> {
        let Some(member) = self.members.get_mut(id) else { return Ok(()) };
        let run = member.draft.run.clone();
        let status = shown(&run);
        let Some(parent) = parent_of(&run).filter(|_| status != member.told && !self.cancelled.contains(id))
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
        self.members.insert(id.clone(), Member { before, draft, seen: 0, told: before.shown });
        Ok(true)
    }

    /// The change that caused it all comes first, with what it does to its own dispatch.
    fn changes(mut self, first: &RunRef, mail: Mail) -> Vec<Change> {
        let mut changes = Vec::with_capacity(self.members.len());
        if let Some(member) = self.members.remove(&first.run) {
            changes.push(change(first.clone(), member.before.seq, member.draft, mail));
        }
        for (run, member) in self.members {
            if member.draft.events.is_empty() {
                continue;
            }
            let wakes = member.before.idle && member.draft.run.next_work().is_some();
            let mail = if wakes { Mail::Enqueue(Uuid::now_v7().to_string()) } else { Mail::None };
            let of = RunRef { tenant: self.tenant.clone(), run };
            changes.push(change(of, member.before.seq, member.draft, mail));
        }
        changes
    }
}

pub(super) fn change(of: RunRef, before: u64, draft: Draft, mail: Mail) -> Change {
    let history: Vec<(Timestamp, Vec<Event>)> = Vec::new();
    let Draft { from, run, events, obligations, now } = draft;
    Change { of, before, from, after: run, history, events, obligations, mail, at: now, exclusive: false }
}
