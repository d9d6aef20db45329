//! The commit of decided changes. Starts, commands, timers, claimed work, forks and external events end here.

use std::sync::Arc;

use holdpoint_core::{Event, Obligation, Run, RunEnd, Timestamp};

use super::Engine;
use super::families::{FamilyChanges, ShownState};
use super::once::PendingReceipt;
use crate::committer::{ArrivalCause, Change, CommitReply, MailboxAction, Precondition, Work};
use crate::draft::RunDraft;
use crate::error::Error;
use crate::store::Statement;

/// Decided changes of runs of one tenant that are committed together.
#[derive(Debug, Default)]
pub(crate) struct CommitPlan {
    /// The changed runs. Changes of related runs are added by the commit.
    pub drafts: Vec<RunDraft>,
    /// The events that the first run copies from another run, each commit with its time.
    pub history: Vec<(Timestamp, Vec<Event>)>,
    /// Rejects the start of the first run while another run of its scope is unfinished.
    pub exclusive: bool,
    /// The external event that causes the changes.
    pub cause: Option<Box<ArrivalCause>>,
    /// Further statements that are written with the changes.
    pub rows: Vec<Statement>,
}

impl From<RunDraft> for CommitPlan {
    fn from(draft: RunDraft) -> Self {
        Self { drafts: vec![draft], ..Self::default() }
    }
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    Written,
    /// A concurrent change won. The caller decides again or gives up.
    Conflict(Precondition),
}

impl CommitOutcome {
    pub(crate) fn is_written(self) -> bool {
        self == Self::Written
    }
}

impl Engine {
    /// Commits changes of runs, the changes of related runs, and the receipt, all or none.
    pub(crate) async fn commit(
        &self,
        plan: impl Into<CommitPlan>,
        receipt: Option<PendingReceipt>,
    ) -> Result<CommitOutcome, Error> {
        let CommitPlan { drafts, history, exclusive, cause, rows } = plan.into();
        let Some(tenant) = drafts.first().map(|draft| draft.of.tenant.clone()) else {
            return Ok(CommitOutcome::Written);
        };
        let mut changes = if drafts.iter().any(affects_related_runs) || drafts.len() > 1 {
            let mut family = FamilyChanges::new(self, tenant, drafts);
            if let Some(conflict) = family.collect().await? {
                return Ok(CommitOutcome::Conflict(conflict));
            }
            family.into_changes()
        } else {
            drafts.into_iter().map(Change::from).collect()
        };
        if let Some(first) = changes.first_mut() {
            (first.history, first.exclusive, first.cause, first.rows) = (history, exclusive, cause, rows);
        }
        for change in &mut changes {
            self.claim_locally(change);
            change.expires_handle = self.expires_handle(&change.after);
        }
        let new_runs = changes.iter().filter(|change| change.before == 0);
        let workflows: Vec<_> =
            new_runs.map(|change| (change.of.tenant.clone(), change.after.workflow.id.clone())).collect();
        match self.0.committer.submit(Work::Changes(changes), receipt).await? {
            CommitReply::Conflict(failed) => {
                if failed == Precondition::Revision {
                    // Another node has registered a newer revision.
                    workflows.iter().for_each(|(tenant, id)| self.0.registry.forget_latest(tenant, id));
                }
                Ok(CommitOutcome::Conflict(failed))
            }
            _ => Ok(CommitOutcome::Written),
        }
    }

    /// Returns whether the run has failed or was cancelled, and has a node that uses a handle.
    fn expires_handle(&self, run: &Run) -> bool {
        match run.end {
            Some(RunEnd::Failed { .. } | RunEnd::Cancelled { .. }) => self.0.nodes.use_handles(&run.workflow),
            Some(RunEnd::Completed { .. }) | None => false,
        }
    }

    /// Lets the worker of this process claim a new dispatch, if it has a free slot.
    fn claim_locally(&self, change: &mut Change) {
        if let MailboxAction::Enqueue(id) = &change.mail
            && !change.dispatch.is_delayed(change.at)
            && let Some(claim) = self
                .0
                .local_handoff
                .reserve(|| change.queued_dispatch(id), change.at.plus_ms(self.0.lease_ms))
        {
            change.mail = MailboxAction::HandOff(Arc::new(claim));
        }
    }
}

/// Returns whether a change starts or cancels child runs, or must be reported to the parent.
fn affects_related_runs(draft: &RunDraft) -> bool {
    let related = |obligation: &Obligation| match obligation {
        Obligation::StartChild { .. } | Obligation::CancelChild { .. } => true,
        Obligation::Activate | Obligation::SetTimer { .. } | Obligation::ClearTimer { .. } => false,
    };
    draft.before.shown != ShownState::of(&draft.run) || draft.obligations.iter().any(related)
}

impl From<RunDraft> for Change {
    fn from(draft: RunDraft) -> Self {
        let dispatch = draft.dispatch_options();
        let RunDraft { of, before, from, run, events, obligations, now, mail, options: _ } = draft;
        Self {
            of,
            before: before.seq,
            from,
            after: run,
            history: Vec::new(),
            events: events.into(),
            obligations,
            mail,
            dispatch,
            runs_to_activate: Vec::new(),
            at: now,
            exclusive: false,
            cause: None,
            expires_handle: false,
            rows: Vec::new(),
        }
    }
}
