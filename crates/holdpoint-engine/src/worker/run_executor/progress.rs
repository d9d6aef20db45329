//! The progress of an execution: the nodes at work, the first failure, and the subscription to changes by other parties.

use std::future::pending;
use std::sync::Arc;

use holdpoint_core::{NodeWork, Run, Timestamp};

use super::{Advance, RunExecutor};
use crate::bus::Subscription;
use crate::draft::BusyNodes;
use crate::engine::ParentLookup;
use crate::error::Error;

/// The progress of an execution.
pub(super) struct Progress {
    /// True if the dispatch has a record of its start.
    pub started: bool,
    /// The place where the state of the parent is looked up next.
    pub lookup: ParentLookup,
    pub busy: BusyNodes,
    /// The first failure. The claim is returned with it after the other nodes have ended.
    pub failure: Option<Error>,
    /// True if other parties can give the run work that the nodes at work do not block.
    pub must_watch: bool,
    /// The changes of the run, while they must be watched.
    pub changes: Option<Subscription>,
}

impl Progress {
    /// Sets a node aside whose execution, or the commit of whose outcome, failed.
    pub(super) fn fail(&mut self, position: Option<usize>, error: Error) {
        self.busy.set_aside.extend(position);
        self.must_watch = false;
        self.failure.get_or_insert(error);
    }

    /// Determines whether changes by other parties must be watched while nodes execute.
    pub(super) fn watch_beside(&mut self, run: &Run, works: &[NodeWork]) {
        let busy = self.busy.at_work.iter().copied();
        let at_work: Vec<usize> = busy.chain(works.iter().map(|work| work.position())).collect();
        self.must_watch = !at_work.is_empty() && run.nodes.len() > 1 && run.can_get_work_beside(&at_work);
    }

    /// Returns the result of an advance after which the dispatch stays claimed.
    pub(super) fn advanced(&self, run: Arc<Run>, works: Vec<NodeWork>, now: Timestamp) -> Advance {
        let is_over = works.is_empty() && self.busy.at_work.is_empty();
        if is_over { Advance::Over } else { Advance::Enter { run, works, now } }
    }
}

impl RunExecutor {
    /// Subscribes to the changes of the run if they must be watched. Returns whether one was missed.
    pub(super) async fn watch(&self, progress: &mut Progress) -> bool {
        if !progress.must_watch {
            progress.changes = None;
            return false;
        }
        let is_new = progress.changes.is_none();
        let changes = progress.changes.get_or_insert_with(|| self.engine.events().subscribe(self.of()));
        let mut local = self.local.lock().await;
        let known = match self.engine.events().cached(self.of()) {
            // Another process may have changed the run before the subscription.
            _ if is_new && self.engine.is_shared() => {
                self.engine.events().count(self.of()).await.unwrap_or(0)
            }
            cached => cached.map_or(0, |run| run.seq),
        };
        let missed = local.follows_changes || known.max(changes.seq()) > local.seq;
        if missed {
            local.written = None;
        }
        missed
    }

    /// Waits until another party changes the run. Never returns without a subscription.
    pub(super) async fn wait_for_change(&self, changes: Option<&mut Subscription>) {
        let Some(changes) = changes else { return pending().await };
        loop {
            changes.changed().await;
            // Waits for the end of a write of this execution, which is notified too.
            let mut local = self.local.lock().await;
            let mut seq = changes.seq();
            if seq <= local.seq && self.engine.is_shared() {
                // The notification of another process has no sequence.
                seq = self.engine.events().count(self.of()).await.unwrap_or_default();
            }
            if local.follows_changes || seq > local.seq {
                local.written = None;
                return;
            }
        }
    }
}
