//! Executes a run under a claimed dispatch. All writes are fenced with the token of the claim.

use std::sync::Arc;

use holdpoint_core::mailbox::ClaimAction;
use holdpoint_core::{Command, NodeWork, Run, RunRef, Timestamp};
use tokio::sync::Mutex;

use super::Lease;
use super::node_execution::{NodeExecution, NodeResult};
use super::nodes_at_work::{EndedNode, NodesAtWork, UnrecordedEffects};
use crate::committer::{Claim, ClaimToken, MailboxAction, Precondition, dispatch_result};
use crate::context::Stop;
use crate::draft::{BusyNodes, RunDraft};
use crate::engine::{CommitOutcome, Engine, ParentLookup};
use crate::error::Error;
use crate::nodes::NodeType;

mod progress;
mod writes;

use progress::Progress;
use writes::RECORD_WAITS;

/// Executes a run under the claim of a worker. Clones share the state of the execution.
#[derive(Clone, Debug)]
pub(crate) struct RunExecutor {
    engine: Engine,
    claim: Arc<Claim>,
    lease: Arc<Lease>,
    /// Locked during each write, so that the writes of nodes at work follow one another.
    local: Arc<Mutex<LocalState>>,
    /// The effects of the node that uses this clone.
    unrecorded: UnrecordedEffects,
}

/// The state of the executor that the store or the cache may not have yet.
#[derive(Debug, Default)]
struct LocalState {
    /// Decided events that are not yet written. They are committed with the first write of the node, or with its end.
    /// Only a node to which no other node can be added has some.
    deferred: Option<DeferredWrite>,
    /// The run after the last commit. The next write detects a concurrent change.
    written: Option<Arc<Run>>,
    /// The number of events of the run after the last commit or read.
    seq: u64,
    /// True if a write followed changes by others that the executor has not handled yet.
    follows_changes: bool,
}

impl LocalState {
    fn set_written(&mut self, run: Arc<Run>) {
        self.seq = run.seq;
        self.written = Some(run);
    }
}

#[derive(Debug)]
struct DeferredWrite {
    draft: RunDraft,
    what: ClaimAction,
}

/// The result of advancing a run.
enum Advance {
    /// These nodes must be executed, beside those at work. The list can be empty.
    Enter { run: Arc<Run>, works: Vec<NodeWork>, now: Timestamp },
    /// The run was changed concurrently.
    Again,
    /// The claim is lost.
    Lost,
    /// The run waits or has ended, or only failed nodes can continue.
    Over,
}

impl RunExecutor {
    pub(super) fn new(engine: Engine, claim: Arc<Claim>, lease: Arc<Lease>) -> Self {
        Self { engine, claim, lease, local: Arc::default(), unrecorded: UnrecordedEffects::default() }
    }

    /// Executes the nodes of the run until it waits, ends, or the claim is lost. `handoff` is the run of a handoff,
    /// which is not read from the store.
    pub(super) async fn execute_run(self, handoff: Option<Arc<Run>>) -> Result<(), Error> {
        let mut progress = Progress {
            // The start of a handoff was recorded in the change that created it.
            started: handoff.is_some(),
            lookup: ParentLookup::Store,
            busy: BusyNodes::default(),
            failure: None,
            must_watch: false,
            changes: None,
        };
        if let Some(run) = handoff {
            self.local.lock().await.set_written(run);
        }
        let (mut nodes, mut finished) = (NodesAtWork::default(), None);
        loop {
            match self.advance_with_retries(finished.as_ref(), &mut progress).await {
                Ok(Advance::Enter { run, works, now }) => {
                    if let [work] = works[..]
                        && nodes.is_empty()
                        && !progress.must_watch
                    {
                        // No other node can get work while this one executes, so it needs no task of its own.
                        finished = Some((work.position(), self.enter(run, work, now).await?));
                        progress.started |= self.local.lock().await.deferred.is_none();
                        continue;
                    }
                    for work in works {
                        progress.busy.at_work.push(work.position());
                        let unrecorded = UnrecordedEffects::default();
                        let executor = Self { unrecorded: unrecorded.clone(), ..self.clone() };
                        let run = run.clone();
                        let entered = async move { executor.enter(run, work, now).await };
                        nodes.start(work.position(), unrecorded, entered);
                    }
                }
                Ok(Advance::Again) => continue,
                Ok(Advance::Lost) => return self.wait_for_cancelled(nodes).await,
                Ok(Advance::Over) => return progress.failure.map_or(Ok(()), Err),
                Err(error) => progress.fail(finished.as_ref().map(|(position, _)| *position), error),
            }
            finished = match self.wait(&mut nodes, &mut progress).await {
                WaitEnd::Ended(position, result) => Some((position, result)),
                WaitEnd::Changed => None,
                WaitEnd::Nothing => return progress.failure.map_or(Ok(()), Err),
            };
        }
    }

    /// Waits until a node ends or another party changes the run. A node that failed is set aside.
    async fn wait(&self, nodes: &mut NodesAtWork, progress: &mut Progress) -> WaitEnd {
        if self.watch(progress).await {
            return WaitEnd::Changed;
        }
        let ended = loop {
            tokio::select! {
                biased;
                ended = nodes.next() => break ended,
                () = self.wait_for_change(progress.changes.as_mut()) => return WaitEnd::Changed,
                () = self.lease.wait_until_overdue(&self.engine) => nodes.abort_unless_recording(),
            }
        };
        let Some(EndedNode { position, result }) = ended else { return WaitEnd::Nothing };
        progress.busy.at_work.retain(|at_work| *at_work != position);
        match result {
            Ok(result) => WaitEnd::Ended(position, result),
            Err(error) => {
                progress.fail(Some(position), error);
                // Another node may begin in place of the failed one.
                WaitEnd::Changed
            }
        }
    }

    /// Waits for the nodes of a cancelled run, so that they can release their resources. Otherwise another worker has
    /// the run: the nodes are aborted.
    async fn wait_for_cancelled(&self, mut nodes: NodesAtWork) -> Result<(), Error> {
        if !nodes.is_empty() && self.lost_claim().await == Stop::Cancelled {
            while nodes.next().await.is_some() {}
        }
        Ok(())
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

    /// Commits the result of the last node, the nodes without effects after it, and the start of the next nodes. The
    /// start of a single node may also be left to the node.
    async fn advance(
        &self,
        finished: Option<&(usize, NodeResult)>,
        progress: &mut Progress,
    ) -> Result<Advance, Error> {
        let mut local = self.local.lock().await;
        let mut draft = match local.deferred.take() {
            Some(DeferredWrite { draft, .. }) => draft,
            None => {
                let lookup = std::mem::replace(&mut progress.lookup, ParentLookup::CacheOnly);
                self.load_draft(&mut local, lookup).await?
            }
        };
        local.follows_changes = false;
        if let Some((position, NodeResult { actions, outcome })) = finished.cloned() {
            // A refusal means that the run has ended, or that the node must be entered again.
            let _ = draft.record_actions(position, actions).and_then(|()| draft.finish(position, outcome));
        }
        self.engine.advance(&mut draft).await?;
        // Events of finished work are committed before the next node executes; only a write without them is deferred.
        let settled = draft.events.is_empty();
        let works = draft.begin_effects(self.engine.nodes(), &progress.busy)?;
        let (run, now) = (draft.run.clone(), draft.now);
        progress.watch_beside(&run, &works);
        let what = self.claim_action(&run, &works, progress);
        let is_idle = matches!(what, ClaimAction::Complete(_));
        if works.is_empty() && settled && !is_idle {
            // A commit is not needed.
            local.set_written(run.clone());
            return Ok(progress.advanced(run, works, now));
        }
        if let [work] = works[..]
            && settled
            && progress.busy.is_empty()
            && !progress.must_watch
            && self.writes_first(&run, work)
        {
            local.deferred = Some(DeferredWrite { draft, what });
            return Ok(Advance::Enter { run, works, now });
        }
        match self.commit(draft, what).await? {
            CommitOutcome::Conflict(Precondition::Claim) => Ok(Advance::Lost),
            CommitOutcome::Conflict(
                Precondition::Sequence
                | Precondition::Revision
                | Precondition::Receipt
                | Precondition::Arrival,
            ) => Ok(Advance::Again),
            CommitOutcome::Written => {
                progress.started = true;
                local.set_written(run.clone());
                if is_idle {
                    progress.failure = None;
                }
                Ok(progress.advanced(run, works, now))
            }
        }
    }

    /// Returns the action on the dispatch. It is completed when no node is at work and none can begin.
    fn claim_action(&self, run: &Run, works: &[NodeWork], progress: &Progress) -> ClaimAction {
        let is_idle = works.is_empty() && progress.busy.at_work.is_empty();
        if is_idle && (progress.failure.is_none() || run.finished()) {
            ClaimAction::Complete(dispatch_result(run, Some(&self.claim.instance)))
        } else if progress.started {
            ClaimAction::Touch
        } else {
            ClaimAction::RecordStart { instance_id: self.claim.instance.clone() }
        }
    }

    /// Loads the run into a draft. Cancels it if its parent has ended.
    async fn load_draft(&self, local: &mut LocalState, lookup: ParentLookup) -> Result<RunDraft, Error> {
        let run = self.current_run(local).await?;
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

    /// Takes the run that the last commit left in `written`. If there is none, reads the store and not the cache, which
    /// may not have the commit that caused the claim.
    async fn current_run(&self, local: &mut LocalState) -> Result<Arc<Run>, Error> {
        if let Some(run) = local.written.take() {
            return Ok(run);
        }
        let run = self.engine.runs().get_stored(&self.claim.run).await?;
        local.follows_changes |= run.seq != local.seq;
        local.seq = run.seq;
        Ok(run)
    }

    /// Commits a draft under the claim.
    async fn commit(&self, mut draft: RunDraft, what: ClaimAction) -> Result<CommitOutcome, Error> {
        draft.mail = MailboxAction::ClaimAction { claim: self.claim.clone(), what };
        self.engine.commit(draft, None).await
    }

    /// Enters one node with effects.
    async fn enter(&self, run: Arc<Run>, work: NodeWork, now: Timestamp) -> Result<NodeResult, Error> {
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

    pub(crate) fn of(&self) -> &RunRef {
        &self.claim.run
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// The event that ended a wait.
enum WaitEnd {
    /// The node at this position returned.
    Ended(usize, NodeResult),
    /// Another party changed the run, or a node failed.
    Changed,
    /// No node is at work.
    Nothing,
}
