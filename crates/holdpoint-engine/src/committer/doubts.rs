//! The connection broke while a commit was under way, and nobody knows whether it arrived.

use std::collections::HashSet;
use std::time::Duration;

use super::work::{Job, Mail, Reply, Work};
use super::writing::Writing;
use crate::store::{self, Error, Param, Query, Tx};

/// How long it is tried to find out, for a whole batch: about half a minute.
const TRIES: usize = 60;
const WAIT: Duration = Duration::from_millis(500);

impl<T: Tx> Writing<T> {
    /// A change that is found in the log has happened; one that is not is given back to be tried again, and so is what
    /// can be done twice; of anything else nobody can say.
    pub(super) async fn settle_doubts(&self, jobs: Vec<Job>, why: &str) -> Vec<Job> {
        let (mut changes, others): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| appended(job).is_some() || repeatable(job));
        self.fail(others, &Error::Unknown(why.to_owned()));
        let mut tries = 0;
        let found = loop {
            tries += 1;
            match self.landed(&changes).await {
                Ok(found) => break found,
                Err(error) if tries >= TRIES => {
                    self.fail(changes, &Error::Unknown(error.to_string()));
                    return Vec::new();
                }
                Err(error) => {
                    tracing::warn!(%error, "looking up whether a commit has landed");
                    tokio::time::sleep(WAIT).await;
                }
            }
        };
        changes.iter_mut().for_each(|job| job.doubtful = true);
        let (landed, again): (Vec<Job>, Vec<Job>) = changes
            .into_iter()
            .partition(|job| appended(job).is_some_and(|values| found.contains(&key(values))));
        let replies = landed.iter().map(|_| Reply::Done).collect();
        self.publish(landed, replies);
        again
    }

    /// A change that was in doubt and now meets a conflict may have met itself: the first try was still on its way.
    pub(super) async fn confirm(&self, jobs: &[Job], replies: &mut [Reply]) {
        for (job, reply) in jobs.iter().zip(replies) {
            if job.doubtful && matches!(reply, Reply::Conflict(_) | Reply::Duplicate(_) | Reply::ScopeBusy(_))
            {
                match self.landed(std::slice::from_ref(job)).await {
                    Ok(found) if found.is_empty() => {}
                    Ok(_) => *reply = Reply::Done,
                    Err(error) => *reply = Reply::Unsure(error.to_string()),
                }
            }
        }
    }

    /// Which of these changes are in the log: run and sequence number.
    async fn landed(&self, jobs: &[Job]) -> Result<HashSet<String>, Error> {
        let sets = jobs.iter().filter_map(appended).map(<[Param]>::to_vec).collect();
        let found = self.tx.begin(&[Query::each(store::events::LANDED, sets)]).await;
        self.tx.rollback().await;
        let rows = found?.into_iter().flat_map(|answer| answer.rows);
        Ok(rows.map(|row| key(&row.0)).collect())
    }
}

/// The values of the first events that are appended: where they are, the rest is.
fn appended(job: &Job) -> Option<&[Param]> {
    let statement = job.writes.iter().find(|statement| statement.sql == store::events::INSERT);
    statement.map(|statement| &statement.params[..])
}

/// A change that only moves a dispatch, and only from where its first try would have found it: with this token, or
/// with this lease. The second try does it, or finds that it is done.
fn repeatable(job: &Job) -> bool {
    let Work::Changes(changes) = &job.work else { return matches!(job.work, Work::Rows(_)) };
    changes.iter().all(|change| {
        change.is_silent() && matches!(change.mail, Mail::Held { .. } | Mail::Reclaim(_) | Mail::Reconcile(_))
    })
}

/// Tenant, run and sequence number, as they stand first in both.
fn key(values: &[Param]) -> String {
    format!("{:?}", &values[..values.len().min(3)])
}
