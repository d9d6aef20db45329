//! What a change relies on, held against what was found when it came to be written.

use super::locks::Found;
use super::work::{Change, Guard, Reply};

impl Found {
    /// What a change relies on and what is not so.
    pub(super) fn stands_against(&self, change: &Change) -> Option<Reply> {
        if change.is_silent() {
            return None;
        }
        let of = &change.of;
        let still = |key| self.arrivals.get(key).copied();
        if change.cause.as_ref().is_some_and(|cause| still(&cause.key) != Some(cause.state)) {
            return Some(Reply::Conflict(Guard::Arrival));
        }
        if self.runs.get(of).copied().unwrap_or(0) != change.before {
            return Some(Reply::Conflict(Guard::Sequence));
        }
        let workflow = &change.after.workflow;
        let newest = self.revisions.get(&(of.tenant.clone(), workflow.id.clone()));
        if change.wants_newest_revision() && newest.is_some_and(|newest| *newest != workflow.revision) {
            return Some(Reply::Conflict(Guard::Revision));
        }
        let scope = change.scope().filter(|_| change.exclusive)?;
        if let Some(run) = self.scopes.get(&scope) {
            return Some(Reply::ScopeBusy(run.clone()));
        }
        // Runs of a thread are read in the order of their ids.
        let newest = self.newest.get(&scope).filter(|_| change.begins_in_thread().is_some());
        newest.filter(|newest| newest.as_str() >= of.run.as_str()).map(|_| Reply::Conflict(Guard::Sequence))
    }
}
