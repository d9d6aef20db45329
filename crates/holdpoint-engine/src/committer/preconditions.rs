//! The check of the preconditions of changes and new dispatches against the state that was read in the transaction.

use holdpoint_core::mailbox::{MailboxError, RunDispatch};

use super::locks::{BatchState, DedupeKey};
use super::work::{Change, CommitReply, Precondition};

impl BatchState {
    /// Returns the error of a new dispatch that is invalid or exists already.
    pub(super) fn find_enqueue_conflict(&self, row: &RunDispatch) -> Option<MailboxError> {
        if let Err(error) = row.validate_new() {
            return Some(error);
        }
        if self.dispatches.contains_key(&row.dispatch_id) {
            return Some(MailboxError::DuplicateDispatch { dispatch_id: row.dispatch_id.clone() });
        }
        self.find_live_key(DedupeKey::of_row(row)?)
    }

    /// Returns the error of a new dispatch whose key a live dispatch of the thread has.
    fn find_live_key(&self, key: DedupeKey) -> Option<MailboxError> {
        let existing_dispatch_id = self.live_keys.get(&key)?.clone();
        Some(MailboxError::DuplicateKey { dedupe_key: key.key, existing_dispatch_id })
    }

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
        if let Some(error) = DedupeKey::of_change(change).and_then(|key| self.find_live_key(key)) {
            return Some(CommitReply::KeyInUse(error));
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
        // Readers see the runs of a thread in the order of their ids. Therefore a new run needs the highest id.
        let newest = self.newest.get(&scope).filter(|_| change.started_in_thread().is_some());
        newest
            .filter(|newest| newest.as_str() >= of.run.as_str())
            .map(|_| CommitReply::Conflict(Precondition::Sequence))
    }
}
