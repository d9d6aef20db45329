//! Activation of a run inside the change that wakes it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use holdpoint_core::{NodeWork, RunRef};
use uuid::Uuid;

use super::Engine;
use crate::committer::MailboxAction;
use crate::draft::RunDraft;
use crate::error::Error;
use crate::nodes::NodeType;
use crate::worker::RunExecutor;

/// The number of nodes with internal effects that one change executes. The caller waits for them.
const INLINE_NODES_MAX: usize = 16;

impl Engine {
    /// Executes the nodes of a run in the same change until it needs outside effects. Returns a performed dispatch, or
    /// a queued one if work is left for a worker.
    pub(super) async fn activate(&self, of: &RunRef, draft: &mut RunDraft) -> Result<MailboxAction, Error> {
        self.advance_draft(draft).await?;
        let mut entered = 0;
        while entered < INLINE_NODES_MAX && self.execute_internal_node(of, draft).await? {
            self.advance_draft(draft).await?;
            entered += 1;
        }
        let id = Uuid::now_v7().to_string();
        Ok(if draft.run.next_work().is_some() {
            MailboxAction::Enqueue(id)
        } else {
            MailboxAction::Performed(id)
        })
    }

    /// Executes the next node if it is an effect node whose effects all stay inside the engine. Returns whether it
    /// did. If the node begins but does not finish, a worker executes it again; the worker also counts panics.
    async fn execute_internal_node(&self, of: &RunRef, draft: &mut RunDraft) -> Result<bool, Error> {
        let inside = |work: NodeWork| {
            let node = &draft.run.workflow.nodes[work.position()];
            match self.nodes().get(&node.type_id) {
                Some(NodeType::Effect(effect)) => effect.runs_locally(self, &draft.run, node),
                Some(NodeType::Pure(_)) | None => false,
            }
        };
        if !draft.run.next_work().is_some_and(inside) {
            return Ok(false);
        }
        let Some(work) = draft.begin_next()? else { return Ok(false) };
        let (run, position) = (draft.run.clone(), work.position());
        let executor = RunExecutor::for_activation(self.clone(), of.clone(), draft.now);
        let entering = AssertUnwindSafe(Box::pin(executor.enter_node(run, position))).catch_unwind();
        let Ok(Some((actions, outcome))) = entering.await else { return Ok(false) };
        Ok(draft.record_actions(position, actions).and_then(|()| draft.finish(position, outcome)).is_ok())
    }
}
