//! What is done for a run in the very change that wakes it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use holdpoint_core::{RunRef, Work};
use uuid::Uuid;

use super::Engine;
use crate::advance::Draft;
use crate::committer::Mail;
use crate::error::Error;
use crate::nodes::NodeType;
use crate::worker::Holder;

/// Nodes with effects that one change carries a run through: whoever wakes it waits for that.
const ENTERED_MAX: usize = 16;

impl Engine {
    /// Carries the woken run on in the same change as far as it goes without outside effects; what is left is for a
    /// worker. Either way the activation is a dispatch.
    pub(super) async fn activate(&self, of: &RunRef, draft: &mut Draft) -> Result<Mail, Error> {
        self.carry_on(draft).await?;
        let mut entered = 0;
        while entered < ENTERED_MAX && self.enter_inside(of, draft).await? {
            self.carry_on(draft).await?;
            entered += 1;
        }
        let id = Uuid::now_v7().to_string();
        Ok(if draft.run.next_work().is_some() { Mail::Enqueue(id) } else { Mail::Performed(id) })
    }

    /// Runs the next node if it has effects and none of them is outside; says whether it did. What it begins and cannot
    /// end, a worker ends, who also counts how often it panics.
    async fn enter_inside(&self, of: &RunRef, draft: &mut Draft) -> Result<bool, Error> {
        let inside = |work: Work| {
            let node = &draft.run.workflow.nodes[work.position()];
            match self.nodes().get(&node.type_id) {
                Some(NodeType::Effect(effect)) => effect.stays_inside(self, &draft.run, node),
                Some(NodeType::Pure(_)) | None => false,
            }
        };
        if !draft.run.next_work().is_some_and(inside) {
            return Ok(false);
        }
        let Some(work) = draft.begin_next()? else { return Ok(false) };
        let (run, position) = (draft.run.clone(), work.position());
        let holder = Holder::inside(self.clone(), of.clone(), draft.now);
        let entering = AssertUnwindSafe(Box::pin(holder.enter(run, position))).catch_unwind();
        let Ok(Some((acts, outcome))) = entering.await else { return Ok(false) };
        Ok(draft.act(position, acts).and_then(|()| draft.finish(position, outcome)).is_ok())
    }
}
