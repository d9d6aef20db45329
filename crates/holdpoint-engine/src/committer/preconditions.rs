//! The check of the preconditions of a change against the state that was read in the transaction.

use super::locks::BatchState;
use super::work::{Change, CommitReply, Precondition};

impl BatchState {
    /// Returns the reply to a change whose preconditions do not hold, or None if they hold.
    pub(super) fn find_conflict(&self, change: &Change) -> Option<CommitReply> {
        if !change.has_events() {
            return None;
        }
        let of = &change.of;
        let still = |key| self.arrivals.get(key).copied();
        if change.cause.as_ref().is_some_and(|cause| still(&cause.key) != Some(cause.state)) {
            return Some(CommitReply::Conflict(Precondition::Arrival));
        }
        if self.runs.get(of).copied().unwrap_or(0) != change.before {
            return Some(CommitReply::Conflict(Precondition::Sequence));
        }
        let workflow = &change.after.workflow;
        let newest = self.revisions.get(&(of.tenant.clone(), workflow.id.clone()));
        if change.requires_newest_revision() && newest.is_some_and(|newest| *newest != workflow.revision) {
            return Some(CommitReply::Conflict(Precondition::Revision));
        }
        let scope = change.scope().filter(|_| change.exclusive)?;
        if let Some(run) = self.scopes.get(&scope) {
            return Some(CommitReply::ScopeBusy(run.clone()));
        }
        // Runs of a thread are read in the order of their ids, so that a new run needs the highest id.
        let newest = self.newest.get(&scope).filter(|_| change.started_in_thread().is_some());
        newest
            .filter(|newest| newest.as_str() >= of.run.as_str())
            .map(|_| CommitReply::Conflict(Precondition::Sequence))
    }
}
