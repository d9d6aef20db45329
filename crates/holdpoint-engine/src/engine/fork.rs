//! Forks: new runs that copy the beginning of the log of another run. A branch continues live after the copy. A replay
//! executes nodes again and takes results of outside effects from the record.

use std::sync::Arc;

use holdpoint_core::{
    ChildInterruptChanges, ChildResult, Command, Event, Fork, ForkMode, NodeStatus, Obligation, Refusal, Run,
    RunParameters, RunRef, StartRequest, Status, Timer, Timestamp, react,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::commit::CommitPlan;
use super::starting::new_run_id;
use super::{ATTEMPTS_MAX, Engine, Once, PriorState, Runs};
use crate::committer::MailboxAction;
use crate::draft::RunDraft;
use crate::error::Error;
use crate::store::{self, events};

mod record;
mod replay;

use record::SourceLog;
use replay::{ForkReplay, ReplayEnd};

/// The part of a run to copy, and the mode of the fork.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// The principal that makes the fork. It is a requester of the fork, in addition to those of the source.
    pub by: String,
    /// The lineage of the caller's key. `None` if the caller has no key, as in a program that embeds the engine.
    pub credential: Option<String>,
    /// Branch or replay.
    pub mode: ForkMode,
    /// The sequence of the first event that is not copied.
    pub from_seq: u64,
    /// Changes to the start parameters of a branch.
    pub overlay: Overlay,
    /// The request whose receipt is written with the fork.
    pub once: Option<Once<Run>>,
}

/// Changes to the start parameters of a branch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// Members that replace those of the source's options.
    pub configurable: Map<String, Value>,
    /// The tags, if they differ from those of the source.
    pub tags: Option<Vec<String>>,
    /// The metadata, if it differs from that of the source.
    pub metadata: Option<Map<String, Value>>,
}

impl Runs<'_> {
    /// Creates a fork of a run. Effects, interrupts, timers and child runs in the copied or replayed part do not
    /// happen again; the rest is executed live. Open interrupts get their full timeout again.
    ///
    /// Fails with [`Error::BeyondLog`] if `from_seq` is beyond the log, and refuses a replay with an overlay.
    ///
    /// Completes even if the caller drops the future. A node that panics does not end the process.
    pub async fn fork(self, of: &RunRef, request: ForkRequest) -> Result<Arc<Run>, Error> {
        let (engine, of) = (self.engine.clone(), of.clone());
        let forking = tokio::spawn(async move { engine.fork_now(&of, &request).await });
        forking.await.map_err(|error| store::Error::Failed(error.to_string()))?
    }
}

impl Engine {
    async fn fork_now(&self, source: &RunRef, request: &ForkRequest) -> Result<Arc<Run>, Error> {
        if request.mode == ForkMode::Replay && request.overlay != Overlay::default() {
            return Err(Refusal::invalid("runOptionsOverlay", "is only allowed in mode branch").into());
        }
        self.admit_copy(source).await?;
        let (log, starts) = events::with_starts(self.db(), source).await?;
        let Some(Event::RunStarted(started)) = log.first().map(|first| &first.event) else {
            return Err(Error::NotFound("run"));
        };
        if request.from_seq > log.len() as u64 {
            return Err(Error::BeyondLog { events: log.len() as u64 });
        }
        let workflow = self.workflows().revision(&source.tenant, &started.workflow, started.revision).await?;
        let of = RunRef { tenant: source.tenant.clone(), run: new_run_id()? };
        let at = self.now();
        let mut start = start_of_fork(source, started, request, at, log.len() as u64);
        start.grants = self.carried_grants(source, started).await?;
        let theirs = started.artifact_owner(&source.run).clone();
        let new_run = Run::new(of.run.clone(), workflow);
        let mut record = SourceLog::new(source.run.clone(), log, starts, start, &new_run)?;
        if request.mode == ForkMode::Branch {
            record.truncate(request.from_seq);
            record.rename_artifacts(&theirs, &of.run);
        }
        record.rename_children(&of.run, &new_run);
        for _ in 0..ATTEMPTS_MAX {
            if let Some(run) = self.try_fork(&of, &new_run, &record, request, at).await? {
                return Ok(run);
            }
        }
        Err(Error::Busy)
    }

    /// Returns `None` if a concurrent change interfered.
    async fn try_fork(
        &self,
        of: &RunRef,
        new_run: &Run,
        record: &SourceLog,
        request: &ForkRequest,
        at: Timestamp,
    ) -> Result<Option<Arc<Run>>, Error> {
        let mut replay = ForkReplay::new(self, record, of.clone(), new_run.clone(), request.from_seq);
        let ended = replay.compare_all().await?;
        let (run, history) = (replay.run, replay.rows);
        let open = if run.finished() { Vec::new() } else { open_timers(&run) };
        let mut draft = RunDraft::new(of.clone(), run, at);
        draft.before = PriorState::of(new_run);
        self.continue_live(&mut draft, record, ended).await?;
        draft.obligations.splice(0..0, open);
        if draft.run.next_work().is_some() {
            draft.mail = MailboxAction::Enqueue(Uuid::now_v7().to_string());
        }
        let after = draft.run.clone();
        let receipt = self.new_receipt(request.once.as_ref(), &*after);
        let plan = CommitPlan { history, ..CommitPlan::from(draft) };
        Ok(self.commit(plan, receipt).await?.is_written().then_some(after))
    }

    /// Continues the fork after the end of the record.
    async fn continue_live(
        &self,
        draft: &mut RunDraft,
        record: &SourceLog,
        ended: ReplayEnd,
    ) -> Result<(), Error> {
        let ReplayEnd { diverged, rest } = ended;
        if draft.run.started.is_none() {
            draft.decide(&Command::Start(Box::new(record.start.clone())))?;
        }
        let differs = diverged.is_some();
        diverged.into_iter().chain(rest).for_each(|event| apply_event(draft, event));
        if draft.run.finished() {
            return Ok(());
        }
        add_missing_events(draft, record);
        if draft.run.finished() {
            return Ok(());
        }
        restart_children(draft)?;
        if differs {
            replay::continue_with_record(self, draft, record).await
        } else {
            self.advance(draft).await
        }
    }
}

/// Returns the start of a fork: that of the source, with the overlay and the origin. The fork has no parent, because
/// the parent of the source does not know the fork.
fn start_of_fork(
    source: &RunRef,
    started: &RunParameters,
    request: &ForkRequest,
    at: Timestamp,
    events: u64,
) -> StartRequest {
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
    StartRequest {
        inputs: started.inputs.clone(),
        configurable,
        tags: overlay.tags.clone().unwrap_or_else(|| started.tags.clone()),
        metadata: overlay.metadata.clone().unwrap_or_else(|| started.metadata.clone()),
        // A fork does not join the thread of its source, which could then have two open runs.
        scope: started.scope.clone().filter(|_| started.thread.is_none()),
        callback_url: started.callback_url.clone(),
        callback_secret: started.callback_secret.clone(),
        requested_by: started.requested_by.clone(),
        credentials: credentials_of_fork(started, request),
        trace: started.trace.clone(),
        trace_state: started.trace_state.clone(),
        // A fork of a run from an older version keeps the rules of that version.
        engine_version: started.engine_version.map(|_| Engine::VERSION),
        fork: Some(fork),
        forked_by,
        source: started.source,
        ..StartRequest::new(started.owner.clone())
    }
}

/// Returns the lineages that a fork depends on: those of its source and that of the caller. Empty if one is unknown.
fn credentials_of_fork(started: &RunParameters, request: &ForkRequest) -> Vec<String> {
    let (Some(own), false) = (&request.credential, started.credentials.is_empty()) else { return Vec::new() };
    let earlier = started.credentials.iter().filter(|lineage| *lineage != own);
    earlier.chain([own]).cloned().collect()
}

fn apply_event(draft: &mut RunDraft, event: Event) {
    draft.obligations.extend(react(&draft.run, &event, draft.now));
    Arc::make_mut(&mut draft.run).apply(&event, draft.now);
    draft.events.push(event);
}

/// Returns the timers of a fork: deadlines of interrupts with their full timeout, sleeps with their original end,
/// and the deadline of the run.
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

/// Adds events that a truncated log lacks: the resumption of nodes after an answer, and the failure of the run
/// after the failure of a node.
fn add_missing_events(draft: &mut RunDraft, record: &SourceLog) {
    let run = draft.run.clone();
    for (position, (node, state)) in run.workflow.nodes.iter().zip(&run.nodes).enumerate() {
        if state.status == NodeStatus::Failed && !run.workflow.admits_failure_of(position) {
            let error = record.error_of(&node.id);
            apply_event(draft, Event::RunFailed { error, node: Some(node.id.clone()) });
            return;
        }
        if let NodeStatus::Waiting(interrupt) = state.status
            && run.interrupt(interrupt).is_some_and(|asked| !asked.is_open())
        {
            apply_event(draft, Event::NodeResumed { node: node.id.clone(), interrupt });
        }
    }
}

/// Starts new child runs for those that the fork still waits for. Child runs that depend on a grant of the source fail
/// instead.
fn restart_children(draft: &mut RunDraft) -> Result<(), Refusal> {
    let run = draft.run.clone();
    for child in run.children.iter().filter(|child| child.result.is_none() && child.belongs_to(&run.id)) {
        if let Err(grant) = run.usable_grants_for_child(&child.node, child.call.as_deref()) {
            let result = Some(ChildResult { error: Some(grant.error()), ..ChildResult::default() });
            let (child, status) = (child.run.clone(), Status::Failed);
            draft.decide(&Command::Child {
                child,
                status,
                interrupts: ChildInterruptChanges::default(),
                result,
            })?;
            continue;
        }
        let start = Obligation::StartChild { child: child.run.clone() };
        if !draft.obligations.contains(&start) {
            draft.obligations.push(start);
            let (child, status) = (child.run.clone(), Status::Running);
            let interrupts = ChildInterruptChanges::default();
            draft.decide(&Command::Child { child, status, interrupts, result: None })?;
        }
    }
    Ok(())
}
