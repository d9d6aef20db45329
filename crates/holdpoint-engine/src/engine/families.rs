//! What a change of one run does to the runs around it: runs it starts, runs that end with it, the run that waits for
//! it. All of it is one commit.

use std::sync::Arc;

use holdpoint_core::{
    Child, ChildResult, Command, End, Event, Obligation, Owner, Parent, Run, RunError, RunId, RunRef, Start,
    Status, TenantId, Timestamp,
};
use serde_json::{Map, Value};

use super::Engine;
use crate::advance::Draft;
use crate::agent::tool::cut;
use crate::committer::{Change, Guard, Mail};
use crate::error::Error;
use crate::trace::SpanName;

mod gathering;

use gathering::Family;

/// Runs that end with another in one commit, those below them included. What is more ends in commits of its own.
pub(super) const CASCADE_MAX: usize = 256;

/// A run before a change, as far as others see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    pub seq: u64,
    /// As its parent knows it.
    shown: Status,
    idle: bool,
    /// The dispatch of the run was given up while a node had work.
    stranded: bool,
}

impl Before {
    pub(crate) fn of(run: &Run) -> Self {
        let (idle, stranded) =
            (run.next_work().is_none(), run.nodes.iter().any(holdpoint_core::NodeState::is_given_up));
        Self { seq: run.seq, shown: shown(run), idle, stranded }
    }

    /// Returns whether a change needs a dispatch. A run with work left has a live one, whose holder sees the change before
    /// it can finish, unless that dispatch was given up.
    pub(crate) fn wakes(&self, draft: &Draft) -> bool {
        let is_revived = self.stranded && !draft.events.is_empty() && draft.run.next_work().is_some();
        is_revived || self.idle && draft.obligations.contains(&Obligation::Activate)
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

/// Cancelled because its parent was, who wants to hear nothing of it.
fn ended_with_parent(run: &Run) -> bool {
    matches!(&run.end, Some(End::Cancelled { parent: Some(_), .. }))
}

/// Whether a run has ended in a way that ends the runs which it started.
fn takes_along(run: &Run) -> bool {
    match &run.end {
        Some(End::Failed { .. } | End::Cancelled { .. }) => true,
        Some(End::Completed { .. }) | None => false,
    }
}

/// The runs that would end with this one.
fn below(run: &Run) -> impl Iterator<Item = &Child> {
    run.children.iter().map(AsRef::as_ref).filter(|child| child.cascade && child.result.is_none())
}

/// What one run leaves to the run that started it.
fn result_for(parent: &Run, child: &Run) -> Option<ChildResult> {
    let error = match child.end.as_ref()? {
        End::Failed { error, .. } => Some(error.clone()),
        End::Completed { .. } | End::Cancelled { .. } => None,
    };
    let known = parent.children.iter().find(|known| known.run == child.id)?;
    if known.call.is_some() {
        return Some(ChildResult { outputs: tool_result(child), error });
    }
    let node = parent.workflow.position(&known.node).map(|position| &parent.workflow.nodes[position])?;
    let wanted = node.config.get("outputMapping").and_then(Value::as_object);
    let wanted = wanted.into_iter().flat_map(|mapping| mapping.values()).filter_map(Value::as_str);
    let outputs = wanted.filter_map(|name| Some((name.to_owned(), child.variables.get(name)?.clone())));
    Some(ChildResult { outputs: outputs.collect(), error })
}

/// What an agent is told of a run that has carried out a call.
fn tool_result(child: &Run) -> Map<String, Value> {
    if child.status() != Status::Completed {
        return Map::new();
    }
    let shown = child.outputs().into_iter().filter(|(name, _)| !child.is_hidden(name)).collect();
    match cut(Value::Object(shown)) {
        Value::Object(members) => members,
        // An object stays one.
        _ => Map::new(),
    }
}

impl Engine {
    /// Runs pure nodes as far as they go. A run that is started on the way and comes to nothing at once, because there
    /// is no such workflow or it will not take these inputs, is news at once.
    pub(crate) async fn carry_on(&self, draft: &mut Draft) -> Result<(), Error> {
        let mut looked_at = 0;
        loop {
            draft.advance(&self.0.nodes)?;
            if !self.hear_stillborn(draft, &mut looked_at).await? {
                return Ok(());
            }
        }
    }

    /// Tells a run of those that it starts and that come to nothing at once; says whether there was one. Obligations before
    /// `looked_at` were seen to.
    pub(crate) async fn hear_stillborn(
        &self,
        draft: &mut Draft,
        looked_at: &mut usize,
    ) -> Result<bool, Error> {
        let mut heard = false;
        let obligations = draft.obligations.get(*looked_at..).unwrap_or_default().to_vec();
        *looked_at = draft.obligations.len();
        for obligation in obligations {
            if let Obligation::StartChild { child } = obligation
                && let Some(news) = self.stillborn(draft, &child).await?
            {
                heard |= draft.decide(&news).is_ok();
            }
        }
        Ok(heard)
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
        if let Some(missing) = self.0.nodes.missing(&workflow).first() {
            return refused("capability_not_provided", missing.to_string());
        }
        let of = RunRef { tenant: tenant.clone(), run: child.clone() };
        if self.sequence(&of).await?.is_some() {
            return refused("run_id_taken", format!("there is a run {child} already"));
        }
        if let Err(error) = self.admit_child(&of, parent).await? {
            return Ok(Birth::Refused(error));
        }
        let start = Start {
            inputs: known.inputs.clone(),
            configurable: started.configurable.clone(),
            tags: started.tags.clone(),
            // What the run does belongs to what the node that starts it does.
            trace: Some(SpanName::of_visit(tenant, parent, &known.node, known.visit).to_string()),
            trace_state: started.trace_state.clone(),
            engine_version: started.engine_version.map(|_| Self::VERSION),
            parent: Some(Parent {
                run: parent.id.clone(),
                workflow: parent.workflow.id.clone(),
                node: known.node.clone(),
                depth: started.parent.as_ref().map_or(0, |above| above.depth) + 1,
            }),
            forked_by: started.forked_by.clone(),
            grants: parent.grants_for_child(&known.node, known.call.as_deref()),
            requested_by: parent.inherited_requesters(),
            credentials: started.credentials.clone(),
            ..Start::new(started.owner.clone())
        };
        let mut draft = Draft::new(Arc::new(Run::unborn(child.clone(), workflow)), now);
        match draft.decide(&Command::Start(Box::new(start))) {
            Ok(()) => Ok(Birth::Born(Box::new(draft))),
            Err(refusal) => refused(refusal.code().as_str(), refusal.to_string()),
        }
    }

    /// Whether a run must end because the one that started it has, or has given it up, and there were too many to end in
    /// that commit. Only a look at what is remembered, unless it is to be `sure`.
    pub(crate) async fn outlives_parent(&self, of: &RunRef, run: &Run, sure: bool) -> Result<bool, Error> {
        let Some(parent) = parent_of(run).filter(|_| !run.finished()) else { return Ok(false) };
        let above = RunRef { tenant: of.tenant.clone(), run: parent.run.clone() };
        let above = match sure {
            true => match self.run(&above).await {
                Ok(above) => Some(above),
                Err(Error::NotFound(_)) => None,
                Err(error) => return Err(error),
            },
            false => self.0.cache.get(&above),
        };
        let Some(above) = above else { return Ok(false) };
        let given_up = above.child(&of.run).is_some_and(|child| child.given_up);
        Ok(given_up || (takes_along(&above) && below(&above).any(|child| child.run == of.run)))
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
        self.families(of.tenant.clone(), vec![(of.run.clone(), before, draft, mail)]).await
    }

    /// Everything that some changes of one tenant entail together, themselves first.
    pub(super) async fn families(
        &self,
        tenant: TenantId,
        seeds: Vec<(RunId, Before, Draft, Mail)>,
    ) -> Result<Result<Vec<Change>, Guard>, Error> {
        let mut family = Family::new(self, tenant, self.now());
        seeds.into_iter().for_each(|(run, before, draft, mail)| family.seed(run, before, draft, mail));
        if let Some(guard) = family.gather().await? {
            return Ok(Err(guard));
        }
        Ok(Ok(family.changes()))
    }
}

enum Birth {
    Born(Box<Draft>),
    Refused(RunError),
}

pub(super) fn change(of: RunRef, before: u64, draft: Draft, mail: Mail) -> Change {
    let history: Vec<(Timestamp, Vec<Event>)> = Vec::new();
    let Draft { from, run, events, obligations, now } = draft;
    let (nudges, exclusive, cause) = (Vec::new(), false, None);
    Change {
        of,
        before,
        from,
        after: run,
        history,
        events: events.into(),
        obligations,
        mail,
        nudges,
        at: now,
        exclusive,
        cause,
    }
}
