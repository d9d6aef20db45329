//! Executes a run under a claimed dispatch. All writes are fenced with the token of the claim.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdpoint_core::mailbox::ClaimAction;
use holdpoint_core::{Command, NodeStatus, NodeWork, Refusal, Run, RunRef, Timestamp};

use super::Lease;
use super::node_execution::{NodeExecution, NodeResult};
use crate::committer::{Claim, ClaimToken, MailboxAction, Precondition, dispatch_result};
use crate::context::Stop;
use crate::draft::RunDraft;
use crate::engine::{CommitOutcome, Engine, ParentLookup};
use crate::error::Error;
use crate::nodes::NodeType;

/// Executes a run under the claim of a worker. Clones share the state of the execution.
#[derive(Clone, Debug)]
pub(crate) struct RunExecutor {
    engine: Engine,
    claim: Arc<Claim>,
    lease: Arc<Lease>,
    local: Arc<Mutex<LocalState>>,
}

/// The state of the executor that the store or the cache may not have yet.
#[derive(Debug, Default)]
struct LocalState {
    /// Decided events that are not yet written. They are committed with the first write of the node, or with its end.
    deferred: Option<DeferredWrite>,
    /// The run after the last commit. The next write detects a concurrent change.
    written: Option<Arc<Run>>,
}

#[derive(Debug)]
struct DeferredWrite {
    draft: RunDraft,
    what: ClaimAction,
}

/// The progress of an execution.
#[derive(Debug)]
struct Progress {
    /// True if the dispatch has a record of its start.
    started: bool,
    /// The place where the state of the parent is looked up next.
    lookup: ParentLookup,
}

/// The result of advancing a run.
#[derive(Debug)]
enum Advance {
    /// The next node must be executed.
    Enter { run: Arc<Run>, work: NodeWork, now: Timestamp },
    /// The run was changed concurrently.
    Again,
    /// The run waits or has ended, or the claim is lost.
    Over,
}

impl RunExecutor {
    pub(super) fn new(engine: Engine, claim: Arc<Claim>, lease: Arc<Lease>) -> Self {
        Self { engine, claim, lease, local: Arc::default() }
    }

    /// Executes the nodes of the run until it waits, ends, or the claim is lost. `handoff` is the run of a handoff,
    /// which is not read from the store.
    pub(super) async fn execute_run(self, handoff: Option<Arc<Run>>) -> Result<(), Error> {
        let mut finished: Option<(usize, NodeResult)> = None;
        // The start of a handoff was recorded in the change that created it.
        let mut progress = Progress { started: handoff.is_some(), lookup: ParentLookup::Store };
        self.local().written = handoff;
        loop {
            match self.advance_with_retries(finished.as_ref(), &mut progress).await? {
                Advance::Enter { run, work, now } => {
                    finished = Some((work.position(), self.execute_node(run, work, now).await?));
                    progress.started |= self.local().deferred.is_none();
                }
                Advance::Again => {}
                Advance::Over => return Ok(()),
            }
        }
    }

    /// Advances the run. Waits if the store is busy and the last node has actions that are not recorded, such as the
    /// reply of a model: they must not be repeated.
    async fn advance_with_retries(
        &self,
        finished: Option<&(usize, NodeResult)>,
        progress: &mut Progress,
    ) -> Result<Advance, Error> {
        if finished.is_none_or(|(_, result)| result.actions.is_empty()) {
            return self.advance(finished, progress).await;
        }
        let _recording = self.lease.begin_recording();
        for wait in RECORD_WAITS {
            match self.advance(finished, progress).await {
                Err(Error::Store(crate::store::Error::Closed)) => break,
                Err(Error::Store(_) | Error::Busy) => tokio::time::sleep(wait).await,
                advanced => return advanced,
            }
        }
        self.advance(finished, progress).await
    }

    /// Commits the result of the last node, the nodes without effects after it, and the start of the next node. The
    /// start may also be left to the next node.
    async fn advance(
        &self,
        finished: Option<&(usize, NodeResult)>,
        progress: &mut Progress,
    ) -> Result<Advance, Error> {
        let deferred = self.local().deferred.take();
        let mut draft = match deferred {
            Some(DeferredWrite { draft, .. }) => draft,
            None => {
                let lookup = std::mem::replace(&mut progress.lookup, ParentLookup::CacheOnly);
                self.load_draft(lookup).await?
            }
        };
        if let Some((position, NodeResult { actions, outcome })) = finished.cloned() {
            // A refusal means that the run has ended, or that the node must be entered again.
            let _ = draft.record_actions(position, actions).and_then(|()| draft.finish(position, outcome));
        }
        self.engine.advance(&mut draft).await?;
        // Events of finished work are committed before the next node executes; only a write without them is deferred.
        let settled = draft.events.is_empty();
        let work = draft.begin_next()?;
        let what = match work {
            Some(_) if progress.started => ClaimAction::Touch,
            Some(_) => ClaimAction::RecordStart { instance_id: self.claim.instance.clone() },
            None => ClaimAction::Complete(dispatch_result(&draft.run, Some(&self.claim.instance))),
        };
        let (run, now) = (draft.run.clone(), draft.now);
        if let Some(work) = work.filter(|work| settled && self.writes_first(&run, *work)) {
            self.local().deferred = Some(DeferredWrite { draft, what });
            return Ok(Advance::Enter { run, work, now });
        }
        match self.commit(draft, what).await? {
            CommitOutcome::Conflict(Precondition::Claim) => Ok(Advance::Over),
            CommitOutcome::Conflict(
                Precondition::Sequence
                | Precondition::Revision
                | Precondition::Receipt
                | Precondition::Arrival,
            ) => Ok(Advance::Again),
            CommitOutcome::Written => {
                progress.started = true;
                self.local().written = Some(run.clone());
                Ok(work.map_or(Advance::Over, |work| Advance::Enter { run, work, now }))
            }
        }
    }

    /// Loads the run into a draft. Cancels it if its parent has ended.
    async fn load_draft(&self, lookup: ParentLookup) -> Result<RunDraft, Error> {
        let run = self.current_run().await?;
        let mut draft = RunDraft::new(self.of().clone(), run, self.engine.now());
        if self.engine.must_end_with_parent(&draft.of, &draft.run, lookup).await? {
            // After this command, further commands of the change are refused or have no effect.
            draft.decide(&Command::CancelWithParent)?;
        }
        Ok(draft)
    }

    fn writes_first(&self, run: &Run, work: NodeWork) -> bool {
        let node = &run.workflow.nodes[work.position()];
        match self.engine.nodes().get(&node.type_id) {
            Some(NodeType::Effect(effect)) => effect.commits_before_effects(),
            Some(NodeType::Pure(_)) | None => false,
        }
    }

    fn local(&self) -> MutexGuard<'_, LocalState> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the run that the last commit left in `written`. If there is none, reads the store and not the cache, which
    /// may not have the commit that caused the claim.
    async fn current_run(&self) -> Result<Arc<Run>, Error> {
        let written = self.local().written.take();
        match written {
            Some(run) => Ok(run),
            None => self.engine.runs().get_stored(&self.claim.run).await,
        }
    }

    /// Commits a draft under the claim.
    async fn commit(&self, mut draft: RunDraft, what: ClaimAction) -> Result<CommitOutcome, Error> {
        draft.mail = MailboxAction::ClaimAction { claim: self.claim.clone(), what };
        self.engine.commit(draft, None).await
    }

    /// Enters one node with effects.
    async fn execute_node(&self, run: Arc<Run>, work: NodeWork, now: Timestamp) -> Result<NodeResult, Error> {
        NodeExecution::Claimed(self.clone()).enter(run, work.position(), now).await
    }

    /// Checks before an effect that the run is open, as far as this process knows, and that the claim is still valid.
    /// Reads the store only if the lease may have expired, for example after the process was suspended.
    pub(crate) async fn check_lease(&self) -> Result<(), Stop> {
        if let Some(run) = self.engine.known_end(self.of()) {
            return Err(Stop::of_run(&run));
        }
        let now = self.engine.now();
        if self.lease.holds(now) {
            return Ok(());
        }
        let until = now.plus_ms(self.engine.lease_ms());
        match self.engine.extend_leases(None, vec![ClaimToken::from(&*self.claim)], until, now).await {
            Ok(kept) if kept == [true] => {
                self.lease.renew(until);
                Ok(())
            }
            Ok(_) => Err(self.lost_claim().await),
            Err(error) => Err(Stop::Broken(error.to_string())),
        }
    }

    /// Returns the reason for the loss of the claim: the run was cancelled, or another worker has taken it over.
    async fn lost_claim(&self) -> Stop {
        match self.engine.runs().get_stored(self.of()).await {
            Ok(run) => Stop::of_run(&run),
            // The reason is unknown. The node must stop in any case.
            Err(_) => Stop::Lost,
        }
    }

    /// Commits a recorded step and returns the resulting run. Waits if the store is busy, because the effect is done
    /// and must not be repeated.
    pub(crate) async fn record(&self, command: Command) -> Result<Arc<Run>, Stop> {
        let _recording = self.lease.begin_recording();
        self.record_with_retries(command).await
    }

    async fn record_with_retries(&self, command: Command) -> Result<Arc<Run>, Stop> {
        let mut waits = RECORD_WAITS.iter();
        loop {
            match self.try_record(&command).await {
                Ok(Some(run)) => return Ok(run),
                Ok(None) => {}
                Err(RecordError::Stop(stop)) => return Err(stop),
                Err(RecordError::Failed(Error::Store(error @ crate::store::Error::Closed))) => {
                    return Err(Stop::Broken(error.to_string()));
                }
                Err(RecordError::Failed(error)) => match waits.next() {
                    Some(wait) => tokio::time::sleep(*wait).await,
                    None => return Err(Stop::Broken(error.to_string())),
                },
            }
        }
    }

    pub(crate) fn of(&self) -> &RunRef {
        &self.claim.run
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Records a step. Returns None if the run was changed concurrently.
    async fn try_record(&self, command: &Command) -> Result<Option<Arc<Run>>, RecordError> {
        let deferred = self.local().deferred.take();
        if let Some(DeferredWrite { mut draft, what }) = deferred {
            decide_step(&mut draft, command)?;
            return self.write(draft, what).await;
        }
        let run = self.current_run().await?;
        if let Command::Record { node, name, result, .. } = command
            && let Some(recorded) = run.node_state(node).and_then(|state| state.steps.get(name))
        {
            // An earlier commit with an unknown outcome was successful, or another process has recorded the step.
            return if recorded == result { Ok(Some(run)) } else { Err(RecordError::Stop(Stop::Lost)) };
        }
        let mut draft = RunDraft::new(self.of().clone(), run, self.engine.now());
        decide_step(&mut draft, command)?;
        self.write(draft, ClaimAction::Touch).await
    }

    /// Commits the entry of the node if it is not yet written.
    pub(crate) async fn write_entry(&self, position: usize) -> Result<(), Stop> {
        let deferred = self.local().deferred.take();
        let Some(DeferredWrite { draft, what }) = deferred else { return Ok(()) };
        if draft.events.is_empty() && what == ClaimAction::Touch {
            // The entry was committed with the change that activated the run.
            self.local().written = Some(draft.run);
            return Ok(());
        }
        match self.write(draft, what).await {
            Ok(Some(_)) => Ok(()),
            // The run was changed concurrently. An entry in the store is kept; otherwise the node is entered again.
            Ok(None) => match self.current_run().await {
                Ok(run) if run.nodes.get(position).is_some_and(|node| node.status == NodeStatus::Running) => {
                    Ok(())
                }
                Ok(run) => Err(Stop::of_run(&run)),
                Err(error) => Err(Stop::Broken(error.to_string())),
            },
            Err(RecordError::Stop(stop)) => Err(stop),
            Err(RecordError::Failed(error)) => Err(Stop::Broken(error.to_string())),
        }
    }

    async fn write(&self, mut draft: RunDraft, what: ClaimAction) -> Result<Option<Arc<Run>>, RecordError> {
        self.engine.report_failed_child_starts(&mut draft, &mut 0).await?;
        let after = draft.run.clone();
        match self.commit(draft, what).await? {
            CommitOutcome::Written => {
                self.local().written = Some(after.clone());
                Ok(Some(after))
            }
            CommitOutcome::Conflict(Precondition::Claim) => Err(RecordError::Stop(self.lost_claim().await)),
            CommitOutcome::Conflict(
                Precondition::Sequence
                | Precondition::Revision
                | Precondition::Receipt
                | Precondition::Arrival,
            ) => Ok(None),
        }
    }
}

fn decide_step(draft: &mut RunDraft, command: &Command) -> Result<(), RecordError> {
    draft.decide(command).map_err(|refusal| {
        RecordError::Stop(match refusal {
            Refusal::RunFinished(_) | Refusal::NodeNotRunning => Stop::of_run(&draft.run),
            // An earlier commit with an unknown outcome was successful. The stored run determines the next step.
            Refusal::BadCall(_) => Stop::Broken(refusal.to_string()),
            refusal => Stop::failed(refusal.code().as_str(), refusal.to_string()),
        })
    })
}

/// Waits between the attempts to record a finished effect: about a minute in total.
const RECORD_WAITS: [Duration; 16] = {
    let mut waits = [Duration::from_secs(6); 16];
    let short = [50, 100, 200, 400, 800, 1600, 3200];
    let mut at = 0;
    while at < short.len() {
        waits[at] = Duration::from_millis(short[at]);
        at += 1;
    }
    waits
};

/// The reason why a step was not recorded.
enum RecordError {
    Stop(Stop),
    Failed(Error),
}

impl From<Error> for RecordError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
