//! Recovery after a lost connection during a commit: finds out whether the jobs of the batch are stored.

use std::collections::HashSet;
use std::time::Duration;

use holdpoint_core::RunRef;

use super::commit_loop::CommitLoop;
use super::work::{CommitReply, Job, MailboxAction, Work};
use crate::store::{self, Error, Param, Query, Tx, runs};

/// The number of lookups after which the outcome stays unknown: about half a minute.
const TRIES: usize = 60;
const WAIT: Duration = Duration::from_millis(500);

impl<T: Tx> CommitLoop<T> {
    /// Replies to the jobs whose events are in the log. Returns the jobs to commit again: jobs whose events are missing
    /// from the log, and jobs without events that can be repeated. All other jobs fail with an unknown outcome.
    pub(super) async fn resolve_unknown_outcomes(&self, jobs: Vec<Job>, why: &str) -> Vec<Job> {
        let (mut changes, others): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| first_append(job).is_some() || is_repeatable(job));
        self.fail(others, &Error::Unknown(why.to_owned()));
        let mut tries = 0;
        let found = loop {
            tries += 1;
            match self.find_committed(&changes).await {
                Ok(found) => break found,
                Err(error) if tries >= TRIES => {
                    self.fail(changes, &Error::Unknown(error.to_string()));
                    return Vec::new();
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot find out yet whether a commit is stored; trying again");
                    tokio::time::sleep(WAIT).await;
                }
            }
        };
        changes.iter_mut().for_each(|job| job.outcome_unknown = true);
        let (committed, again): (Vec<Job>, Vec<Job>) =
            changes.into_iter().partition(|job| first_event(job).is_some_and(|event| found.contains(&event)));
        let replies = committed.iter().map(|_| CommitReply::Done).collect();
        self.publish(committed, replies);
        again
    }

    /// Corrects conflicts of jobs that were committed before with an unknown outcome: such a job may conflict with
    /// its own first commit, which arrived late.
    pub(super) async fn recheck_conflicts(&self, jobs: &[Job], replies: &mut [CommitReply]) {
        for (job, reply) in jobs.iter().zip(replies) {
            if job.outcome_unknown
                && matches!(
                    reply,
                    CommitReply::Conflict(_)
                        | CommitReply::Duplicate(_)
                        | CommitReply::ScopeBusy(_)
                        | CommitReply::KeyInUse(_)
                )
            {
                match self.find_committed(std::slice::from_ref(job)).await {
                    Ok(found) if found.is_empty() => {}
                    Ok(_) => *reply = CommitReply::Done,
                    Err(error) => *reply = CommitReply::OutcomeUnknown(error.to_string()),
                }
            }
        }
    }

    /// Returns the first event of each job whose events are in the log.
    async fn find_committed(&self, jobs: &[Job]) -> Result<HashSet<EventPosition>, Error> {
        let sets = jobs.iter().filter_map(first_append).map(<[Param]>::to_vec).collect();
        let found = self.tx.begin(&[Query::each(store::events::COMMITTED, sets)]).await;
        self.tx.rollback().await;
        let found = found?;
        let rows = found.iter().flat_map(|answer| &answer.rows);
        rows.map(|row| Ok(EventPosition { of: runs::reference(row)?, seq: row.count("seq")? })).collect()
    }
}

/// The position of an event in the log of its run.
#[derive(PartialEq, Eq, Hash)]
struct EventPosition {
    of: RunRef,
    seq: u64,
}

/// Returns the values of the first row of events that a job appends. If it is stored, the whole job is.
fn first_append(job: &Job) -> Option<&[Param]> {
    let statement = job.writes.iter().find(|statement| statement.sql == store::events::INSERT);
    statement.map(|statement| &statement.params[..])
}

/// Returns the position of the first event that a job appends, in the row that [`first_append`] returns.
fn first_event(job: &Job) -> Option<EventPosition> {
    let Work::Changes(changes) = &job.work else { return None };
    let change = changes.iter().find(|change| change.has_events())?;
    Some(EventPosition { of: change.of.clone(), seq: change.before })
}

/// Returns true if the job can be committed twice. A change can if it has no events and either marks a dispatch as
/// reconciled or depends on the token or the lease of a claim: if the first commit is stored, the second is
/// rejected.
fn is_repeatable(job: &Job) -> bool {
    let Work::Changes(changes) = &job.work else { return matches!(job.work, Work::Rows(_)) };
    changes.iter().all(|change| {
        !change.has_events()
            && matches!(
                change.mail,
                MailboxAction::ClaimAction { .. } | MailboxAction::Reclaim(_) | MailboxAction::Reconcile(_)
            )
    })
}
