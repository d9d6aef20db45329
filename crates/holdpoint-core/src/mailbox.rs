//! The rules of the mailbox: dispatches, their states and transitions. A store locks a row, computes the new row with
//! these functions, and writes it.
//!
//! A dispatch has two states. [`RunDispatchStatus`] is its state in the queue. The result ([`RunStatus`],
//! [`TerminationReason`], response and error) is the outcome of the activation in the run.

use crate::{TenantId, Timestamp, limits};

mod error;
mod options;
mod outcome;
mod transition;

pub use error::MailboxError;
pub use holdpoint_ids::RunDispatchStatus;
pub use options::{DispatchOptions, RESERVED_KEY_PREFIX};
pub use outcome::{RunDispatchResult, RunStatus, TerminationReason};
pub use transition::{ClaimAction, ClaimRejection, ReclaimedDispatch};

/// The priority of a dispatch without an explicit one.
pub const PRIORITY_DEFAULT: u8 = 128;
/// The number of attempts of a dispatch without an explicit one.
pub const MAX_ATTEMPTS_DEFAULT: u32 = 5;
/// The delay before the second attempt.
pub const RETRY_FIRST_MS: u64 = 250;
/// The longest delay before an attempt.
pub const RETRY_CAP_MS: u64 = 30_000;

/// One activation of a run: its delivery, lease, retries and result. It contains no data of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDispatch {
    /// The tenant of the run.
    pub tenant: TenantId,
    /// The id of the dispatch.
    pub dispatch_id: String,
    /// The dispatch thread. Only one dispatch of a thread is claimed at a time.
    pub thread_id: String,
    /// The run to activate.
    pub run_id: String,
    /// The priority; 0 is claimed first.
    pub priority: u8,
    /// The deduplication key. The thread rejects another dispatch with this key while this one is queued or claimed.
    pub dedupe_key: Option<String>,
    /// The epoch of the thread when the dispatch was enqueued. An interruption of the thread increments the epoch of
    /// the thread, which invalidates older dispatches.
    pub dispatch_epoch: u64,
    /// The state in the queue.
    pub status: RunDispatchStatus,
    /// The time from which the dispatch can be claimed.
    pub available_at: Timestamp,
    /// The number of failed attempts.
    pub attempt_count: u32,
    /// The number of attempts after which the dispatch becomes a dead letter.
    pub max_attempts: u32,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// The fencing token of the claim.
    pub claim_token: Option<String>,
    /// The worker that holds the claim.
    pub claimed_by: Option<String>,
    /// The end of the lease.
    pub lease_until: Option<Timestamp>,
    /// The id of the current attempt.
    pub dispatch_instance_id: Option<String>,
    /// The status of the run after the activation.
    pub run_status: Option<RunStatus>,
    /// The reason why the run ended.
    pub termination: Option<TerminationReason>,
    /// The response of the run.
    pub run_response: Option<String>,
    /// The error of the run.
    pub run_error: Option<String>,
    /// The time at which the dispatch ended.
    pub completed_at: Option<Timestamp>,
    /// The time at which the dispatch was enqueued.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Timestamp,
}

/// The result of the interruption of a dispatch thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxInterrupt {
    /// The new epoch of the thread.
    pub new_dispatch_epoch: u64,
    /// The claimed dispatch. It stays claimed; the next operation with its token is rejected.
    pub active_dispatch: Option<RunDispatch>,
    /// The number of superseded dispatches.
    pub superseded_count: usize,
    /// The superseded dispatches after the change. The caller must close their runs.
    pub superseded_dispatches: Vec<RunDispatch>,
}

impl RunDispatch {
    /// Creates a queued dispatch that can be claimed immediately.
    pub fn queued(
        tenant: &TenantId,
        dispatch_id: &str,
        thread_id: &str,
        run_id: &str,
        now: Timestamp,
    ) -> Self {
        Self {
            tenant: tenant.clone(),
            dispatch_id: dispatch_id.to_owned(),
            thread_id: thread_id.to_owned(),
            run_id: run_id.to_owned(),
            priority: PRIORITY_DEFAULT,
            dedupe_key: None,
            dispatch_epoch: 0,
            status: RunDispatchStatus::Queued,
            available_at: now,
            attempt_count: 0,
            max_attempts: MAX_ATTEMPTS_DEFAULT,
            last_error: None,
            claim_token: None,
            claimed_by: None,
            lease_until: None,
            dispatch_instance_id: None,
            run_status: None,
            termination: None,
            run_response: None,
            run_error: None,
            completed_at: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Checks the invariants of a row. A store rejects a row that violates them, on write and on read.
    pub fn validate(&self) -> Result<(), MailboxError> {
        let rule = |holds: bool, message: &str| if holds { Ok(()) } else { Err(invalid(message)) };
        let ids = [&self.dispatch_id, &self.thread_id, &self.run_id];
        rule(ids.iter().all(|id| !is_blank(id)), "dispatch_id, thread_id and run_id must not be blank")?;
        rule(ids.iter().all(|id| !id.contains('\0')), "ids must not contain NUL")?;
        rule(
            self.dedupe_key.as_ref().is_none_or(|key| !key.contains('\0')),
            "dedupe_key must not contain NUL",
        )?;
        rule(self.max_attempts > 0, "max_attempts must be at least 1")?;
        rule(self.attempt_count <= self.max_attempts, "attempt_count must not exceed max_attempts")?;
        let claim = [self.claim_token.as_deref(), self.claimed_by.as_deref()];
        let unclaimed = claim == [None, None] && self.lease_until.is_none();
        match self.status {
            RunDispatchStatus::Queued => {
                rule(unclaimed, "a queued dispatch must not have a claim")?;
                rule(
                    self.has_no_result() && self.completed_at.is_none(),
                    "a queued dispatch must not have a result",
                )
            }
            RunDispatchStatus::Claimed => {
                let held = claim.iter().all(|word| word.is_some_and(|word| !is_blank(word)));
                rule(
                    held && self.lease_until.is_some(),
                    "a claimed dispatch must have claim_token, claimed_by and lease_until",
                )
            }
            RunDispatchStatus::Acked
            | RunDispatchStatus::Cancelled
            | RunDispatchStatus::Superseded
            | RunDispatchStatus::DeadLetter => {
                let allowed = self.status != RunDispatchStatus::Superseded;
                rule(allowed || self.has_no_result(), "a superseded dispatch must not have a result")?;
                rule(unclaimed, "a dispatch that has ended must not have a claim")?;
                rule(self.completed_at.is_some(), "a dispatch that has ended must have completed_at")
            }
        }
    }

    /// Checks a new row. It must be queued, and its ids must fit the indexes of every database.
    pub fn validate_new(&self) -> Result<(), MailboxError> {
        self.validate()?;
        if [&self.dispatch_id, &self.run_id].iter().any(|id| id.trim().is_empty()) {
            return Err(invalid("dispatch_id and run_id must not be blank"));
        }
        if self.status != RunDispatchStatus::Queued {
            return Err(invalid("only a queued dispatch can be enqueued"));
        }
        check_length("dispatch_id", &self.dispatch_id, limits::DISPATCH_ID_BYTES_MAX)?;
        validate_thread(&self.thread_id)?;
        match &self.dedupe_key {
            Some(key) => check_length("dedupe_key", key, limits::DEDUPE_KEY_BYTES_MAX),
            None => Ok(()),
        }
    }

    fn has_no_result(&self) -> bool {
        let words = [&self.dispatch_instance_id, &self.run_response, &self.run_error];
        words.iter().all(|word| word.is_none()) && self.run_status.is_none() && self.termination.is_none()
    }
}

/// Rejects an invalid id of a dispatch thread.
pub fn validate_thread(thread_id: &str) -> Result<(), MailboxError> {
    if thread_id.trim().is_empty() || thread_id.contains('\0') {
        return Err(invalid("thread_id must not be blank and must not contain NUL"));
    }
    check_length("thread_id", thread_id, limits::DISPATCH_ID_BYTES_MAX)
}

/// Returns true if a text is blank by the rule of the table constraints. A stricter rule would make stored rows
/// unreadable.
fn is_blank(text: &str) -> bool {
    text.trim_matches(' ').is_empty()
}

fn check_length(what: &str, text: &str, max: usize) -> Result<(), MailboxError> {
    if text.len() > max { Err(invalid(&format!("{what} must have at most {max} bytes"))) } else { Ok(()) }
}

/// Returns the delay before the next attempt after `failed` failed ones: doubled each time, capped, and changed by up
/// to 20 % so that dispatches that failed together are not retried together. `jitter` is between 0 and 1.
pub fn backoff_ms(failed: u32, jitter: f64) -> u64 {
    let doubled = RETRY_FIRST_MS.saturating_mul(1 << failed.saturating_sub(1).min(20));
    let base = doubled.min(RETRY_CAP_MS) as f64;
    (base * (0.8 + 0.4 * jitter.clamp(0.0, 1.0))) as u64
}

/// Returns the delay before the next attempt to reach a server that has been unreachable for `away_ms`. The delay is as
/// long as the outage so far, within [`RETRY_FIRST_MS`] and [`RETRY_CAP_MS`], with the jitter of [`backoff_ms`].
pub fn outage_delay_ms(away_ms: u64, jitter: f64) -> u64 {
    let base = away_ms.clamp(RETRY_FIRST_MS, RETRY_CAP_MS) as f64;
    (base * (0.8 + 0.4 * jitter.clamp(0.0, 1.0))) as u64
}

fn invalid(message: &str) -> MailboxError {
    MailboxError::Validation(message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_the_cap_and_jitters_by_a_fifth() {
        let middle: Vec<u64> = [1, 2, 3, 7, 8, 100].map(|failed| backoff_ms(failed, 0.5)).to_vec();
        assert_eq!(middle, [250, 500, 1000, 16_000, 30_000, 30_000]);
        assert_eq!((backoff_ms(1, 0.0), backoff_ms(1, 1.0)), (200, 300));
    }

    #[test]
    fn the_delay_after_an_outage_equals_its_duration_up_to_the_cap() {
        let middle: Vec<u64> = [0, 250, 900, 20_000, 600_000].map(|away| outage_delay_ms(away, 0.5)).to_vec();
        assert_eq!(middle, [250, 250, 900, 20_000, 30_000]);
        assert_eq!((outage_delay_ms(0, 0.0), outage_delay_ms(0, 1.0)), (200, 300));
    }
}
