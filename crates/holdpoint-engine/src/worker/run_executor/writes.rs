//! The writes of the nodes under a claim: recorded steps, actions of agents and the entry of a node. One write follows the
//! other, so that nodes of one execution do not conflict.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::mailbox::ClaimAction;
use holdpoint_core::{Command, NodeStatus, Refusal, Run};

use super::{DeferredWrite, LocalState, RunExecutor};
use crate::committer::Precondition;
use crate::context::Stop;
use crate::draft::RunDraft;
use crate::engine::CommitOutcome;
use crate::error::Error;

impl RunExecutor {
    /// Commits a recorded step and returns the resulting run. Waits if the store is busy, because the effect is done
    /// and must not be repeated.
    pub(crate) async fn record(&self, command: Command) -> Result<Arc<Run>, Stop> {
        let (_recording, _of_node) = (self.lease.begin_recording(), self.unrecorded.begin_recording());
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

    /// Records a step. Returns None if the run was changed concurrently.
    async fn try_record(&self, command: &Command) -> Result<Option<Arc<Run>>, RecordError> {
        let mut local = self.local.lock().await;
        if let Some(DeferredWrite { mut draft, what }) = local.deferred.take() {
            decide_step(&mut draft, command)?;
            return self.write(&mut local, draft, what).await;
        }
        let run = self.current_run(&mut local).await?;
        if let Command::Record { node, name, result, .. } = command
            && let Some(recorded) = run.node_state(node).and_then(|state| state.steps.get(name))
        {
            // An earlier commit with an unknown outcome was successful, or another process has recorded the step.
            return if recorded == result { Ok(Some(run)) } else { Err(RecordError::Stop(Stop::Lost)) };
        }
        let mut draft = RunDraft::new(self.of().clone(), run, self.engine.now());
        decide_step(&mut draft, command)?;
        self.write(&mut local, draft, ClaimAction::Touch).await
    }

    /// Commits the entry of the node if it is not yet written.
    pub(crate) async fn write_entry(&self, position: usize) -> Result<(), Stop> {
        let mut local = self.local.lock().await;
        let Some(DeferredWrite { draft, what }) = local.deferred.take() else { return Ok(()) };
        if draft.events.is_empty() && what == ClaimAction::Touch {
            // The entry was committed with the change that activated the run.
            local.set_written(draft.run);
            return Ok(());
        }
        match self.write(&mut local, draft, what).await {
            Ok(Some(_)) => Ok(()),
            // The run was changed concurrently. An entry in the store is kept; otherwise the node is entered again.
            Ok(None) => match self.current_run(&mut local).await {
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

    async fn write(
        &self,
        local: &mut LocalState,
        mut draft: RunDraft,
        what: ClaimAction,
    ) -> Result<Option<Arc<Run>>, RecordError> {
        self.engine.report_failed_child_starts(&mut draft, &mut 0).await?;
        let after = draft.run.clone();
        match self.commit(draft, what).await? {
            CommitOutcome::Written => {
                local.set_written(after.clone());
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
pub(super) const RECORD_WAITS: [Duration; 16] = {
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
