//! Forks: a new run that shares the beginning of another one's log. A branch goes on live from there; a replay takes
//! from the record what came from outside and works out the rest again.

use std::sync::Arc;

use holdpoint_core::{
    ChildResult, Command, Event, Fork, ForkMode, NodeStatus, Obligation, Refusal, Run, RunId, RunRef, Start,
    Started, Status, Timer, Timestamp, react,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::starting::fresh_id;
use super::{ATTEMPTS_MAX, Before, Engine, Once};
use crate::advance::Draft;
use crate::committer::Mail;
use crate::error::Error;
use crate::store::{self, events};

mod record;
mod replay;

use record::Record;
use replay::{Ended, Replay};

/// Which part of a run is copied, and how the copy goes on.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// Who makes the copy: it is their wish as well as that of whoever started the source.
    pub by: String,
    /// The lineage of the key with which the copy is made; None if the caller has no key, as outside of the server.
    pub credential: Option<String>,
    pub mode: ForkMode,
    /// Events before this number are copied.
    pub from_seq: u64,
    pub overlay: Overlay,
    /// The request whose receipt is written with the copy.
    pub once: Option<Once<Run>>,
}

/// What is different about a branch from its beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// Laid over what the source was started with, member by member.
    pub configurable: Map<String, Value>,
    /// Instead of the source's, where they are given.
    pub tags: Option<Vec<String>>,
    pub metadata: Option<Map<String, Value>>,
}

impl Engine {
    /// Makes a new run from the beginning of another. No effect, question, timer or child of the part that is copied
    /// or replayed happens again; what the record does not tell is done live, as for any run. What is still open has
    /// its whole time from now on, however old the source is.
    ///
    /// `from_seq` beyond the log is [`Error::BeyondLog`]; a replay with an overlay is refused.
    ///
    /// Goes on when the caller goes away, and survives nodes that panic.
    pub async fn fork(&self, of: &RunRef, request: ForkRequest) -> Result<Arc<Run>, Error> {
        let (engine, of) = (self.clone(), of.clone());
        let forking = tokio::spawn(async move { engine.fork_whole(&of, &request).await });
        forking.await.map_err(|error| store::Error::Failed(error.to_string()))?
    }

    async fn fork_whole(&self, source: &RunRef, request: &ForkRequest) -> Result<Arc<Run>, Error> {
        if request.mode == ForkMode::Replay && request.overlay != Overlay::default() {
            return Err(Refusal::invalid("runOptionsOverlay", "is only for branches").into());
        }
        self.admit_copy(source).await?;
        let (log, starts) = events::with_starts(self.db(), source).await?;
        let Some(Event::RunStarted(started)) = log.first().map(|first| &first.event) else {
            return Err(Error::NotFound("run"));
        };
        if request.from_seq > log.len() as u64 {
            return Err(Error::BeyondLog { events: log.len() as u64 });
        }
        let workflow = self.workflow_revision(&source.tenant, &started.workflow, started.revision).await?;
        let of = RunRef { tenant: source.tenant.clone(), run: fresh_id()? };
        let at = self.now();
        let mut start = start_of_copy(source, started, request, (at, log.len() as u64));
        start.grants = self.carried_grants(source, started).await?;
        let theirs = started.artifact_owner(&source.run).clone();
        let unborn = Run::unborn(of.run.clone(), workflow);
        let mut record = Record::new(source.run.clone(), log, starts, start, &unborn)?;
        if request.mode == ForkMode::Branch {
            record.cut(request.from_seq);
            record.rename_artifacts(&theirs, &of.run);
        }
        record.rename_children(&of.run, &unborn);
        for _ in 0..ATTEMPTS_MAX {
            if let Some(run) = self.try_fork(&of, &unborn, &record, request, at).await? {
                return Ok(run);
            }
        }
        Err(Error::Busy)
    }

    /// Nothing when the world has changed meanwhile.
    async fn try_fork(
        &self,
        of: &RunRef,
        unborn: &Run,
        record: &Record,
        request: &ForkRequest,
        at: Timestamp,
    ) -> Result<Option<Arc<Run>>, Error> {
        let mut replay = Replay::new(self, record, unborn.clone(), request.from_seq);
        let ended = replay.tell().await?;
        let (run, history) = (replay.run, replay.rows);
        let open = if run.finished() { Vec::new() } else { open_timers(&run) };
        let mut draft = Draft::new(run, at);
        self.go_live(&mut draft, record, ended).await?;
        draft.obligations.splice(0..0, open);
        let wakes = draft.run.next_work().is_some();
        let mail = if wakes { Mail::Enqueue(Uuid::now_v7().to_string()) } else { Mail::None };
        let after = draft.run.clone();
        let Ok(mut changes) = self.family(of, Before::of(unborn), draft, mail).await? else {
            return Ok(None);
        };
        if let Some(first) = changes.first_mut() {
            first.history = history;
        }
        Ok(self.commit(changes, request.once.as_ref()).await?.is_none().then_some(after))
    }

    /// What is not on record happens now.
    async fn go_live(&self, draft: &mut Draft, record: &Record, ended: Ended) -> Result<(), Error> {
        let Ended { diverged, rest } = ended;
        if draft.run.started.is_none() {
            draft.decide(&Command::Start(Box::new(record.start.clone())))?;
        }
        let differs = diverged.is_some();
        diverged.into_iter().chain(rest).for_each(|event| happen(draft, event));
        if draft.run.finished() {
            return Ok(());
        }
        settle_cut(draft, record);
        if draft.run.finished() {
            return Ok(());
        }
        redispatch(draft)?;
        if differs { replay::go_on(self, draft, record).await } else { self.carry_on(draft).await }
    }
}

/// Everything as it was, and whose copy it is. The run that started the source knows nothing of the copy.
fn start_of_copy(
    source: &RunRef,
    started: &Started,
    request: &ForkRequest,
    (at, events): (Timestamp, u64),
) -> Start {
    let overlay = &request.overlay;
    let mut configurable = started.configurable.clone();
    configurable.extend(overlay.configurable.clone());
    let origin = started.fork.as_ref().map_or(&source.run, |fork| &fork.origin).clone();
    let artifacts = started.artifact_owner(&source.run).clone();
    let artifacts = Some(artifacts).filter(|owner| request.mode == ForkMode::Replay && *owner != origin);
    let earlier = started.forked_by.iter().filter(|by| **by != request.by);
    let forked_by = earlier.chain([&request.by]).cloned().collect();
    let fork = Fork {
        source: source.run.clone(),
        origin,
        from_seq: request.from_seq,
        mode: request.mode,
        at: Some(at),
        artifacts,
        copied: Some(if request.mode == ForkMode::Replay { events } else { request.from_seq }),
    };
    Start {
        inputs: started.inputs.clone(),
        configurable,
        tags: overlay.tags.clone().unwrap_or_else(|| started.tags.clone()),
        metadata: overlay.metadata.clone().unwrap_or_else(|| started.metadata.clone()),
        // A copy is no run of the thread that its source stands in: it would be open there beside another.
        scope: started.scope.clone().filter(|_| started.thread.is_none()),
        callback_url: started.callback_url.clone(),
        callback_secret: started.callback_secret.clone(),
        requested_by: started.requested_by.clone(),
        credentials: credentials_of_copy(started, request),
        trace: started.trace.clone(),
        trace_state: started.trace_state.clone(),
        // A copy of an older run keeps the rules of that run.
        engine_version: started.engine_version.map(|_| Engine::VERSION),
        fork: Some(fork),
        forked_by,
        ..Start::new(started.owner.clone())
    }
}

/// Returns the lineages that a copy depends on: those of its source and that of its forker. Empty if one is unknown.
fn credentials_of_copy(started: &Started, request: &ForkRequest) -> Vec<String> {
    let (Some(own), false) = (&request.credential, started.credentials.is_empty()) else { return Vec::new() };
    let earlier = started.credentials.iter().filter(|lineage| *lineage != own);
    earlier.chain([own]).cloned().collect()
}

fn happen(draft: &mut Draft, event: Event) {
    draft.obligations.extend(react(&draft.run, &event, draft.now));
    Arc::make_mut(&mut draft.run).apply(&event, draft.now);
    draft.events.push(event);
}

/// What is still ahead of a run: deadlines with their whole time, and sleeps, which are over when they would have been.
fn open_timers(run: &Run) -> Vec<Obligation> {
    let deadlines = run.open_interrupts().filter_map(|interrupt| {
        Some(Obligation::SetTimer { timer: Timer::Interrupt(interrupt.id), due: interrupt.expires_at()? })
    });
    let sleeps = run.workflow.nodes.iter().filter_map(|node| {
        let due = run.sleeping_until(&node.id)?;
        Some(Obligation::SetTimer { timer: Timer::Sleep(node.id.clone()), due })
    });
    let limit = run.deadline().map(|due| Obligation::SetTimer { timer: Timer::Run, due });
    deadlines.chain(sleeps).chain(limit).collect()
}

/// A log may be cut between an answer and what it does to those who wait for it, or between the failure of a node and that
/// of the run.
fn settle_cut(draft: &mut Draft, record: &Record) {
    let run = draft.run.clone();
    for (position, (node, state)) in run.workflow.nodes.iter().zip(&run.nodes).enumerate() {
        if state.status == NodeStatus::Failed && !run.workflow.admits_failure_of(position) {
            let error = record.error_of(&node.id);
            happen(draft, Event::RunFailed { error, node: Some(node.id.clone()) });
            return;
        }
        if let NodeStatus::Waiting(interrupt) = state.status
            && run.interrupt(interrupt).is_some_and(|asked| !asked.is_open())
        {
            happen(draft, Event::NodeResumed { node: node.id.clone(), interrupt });
        }
    }
}

/// Starts the child runs that the copy still waits for again, for the copy. Child runs that depend on a grant of the
/// source fail instead.
fn redispatch(draft: &mut Draft) -> Result<(), Refusal> {
    let run = draft.run.clone();
    let own = |child: &RunId| child.as_str().starts_with(&format!("{}.", run.id));
    for child in run.children.iter().filter(|child| child.result.is_none() && own(&child.run)) {
        if let Err(grant) = run.usable_grants_for_child(&child.node, child.call.as_deref()) {
            let result = Some(ChildResult { error: Some(grant.error()), ..ChildResult::default() });
            draft.decide(&Command::Child { child: child.run.clone(), status: Status::Failed, result })?;
            continue;
        }
        let start = Obligation::StartChild { child: child.run.clone() };
        if !draft.obligations.contains(&start) {
            draft.obligations.push(start);
            let (child, status) = (child.run.clone(), Status::Running);
            draft.decide(&Command::Child { child, status, result: None })?;
        }
    }
    Ok(())
}
