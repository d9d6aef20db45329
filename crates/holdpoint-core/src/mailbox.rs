//! The mailbox: dispatches, their life, and who may move them on. Stores lock a row, ask here, and write the answer.
//!
//! Two tracks run beside each other. The queue's track ([`RunDispatchStatus`]) says whether an activation was
//! delivered; the projection ([`RunStatus`], [`TerminationReason`], response and error) says what the run did with it.

use crate::{TenantId, Timestamp, limits};

mod error;
mod outcome;
mod transition;

pub use error::MailboxError;
pub use holdpoint_ids::RunDispatchStatus;
pub use outcome::{RunDispatchResult, RunStatus, TerminationReason};
pub use transition::{Denied, Fenced, Reclaimed};

pub const PRIORITY_DEFAULT: u8 = 128;
pub const MAX_ATTEMPTS_DEFAULT: u32 = 5;
/// The first delay before another attempt, and the longest.
pub const RETRY_FIRST_MS: u64 = 250;
pub const RETRY_CAP_MS: u64 = 30_000;

/// One activation of a run: delivery, lease, retries and what came of it. Never what the run is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDispatch {
    pub tenant: TenantId,
    pub dispatch_id: String,
    /// The queue it stands in: one thread is one mailbox, and one activation at a time is in flight there.
    pub thread_id: String,
    pub run_id: String,
    /// 0 is served first.
    pub priority: u8,
    /// While a dispatch with this key is queued or claimed, the thread takes no other with it.
    pub dedupe_key: Option<String>,
    /// The thread's epoch when this was enqueued. An interrupt raises the thread's, and this falls behind.
    pub dispatch_epoch: u64,
    pub status: RunDispatchStatus,
    pub available_at: Timestamp,
    /// Attempts that failed.
    pub attempt_count: u32,
    pub max_attempts: u32,
    pub last_error: Option<String>,
    /// The fencing token of the claim.
    pub claim_token: Option<String>,
    pub claimed_by: Option<String>,
    pub lease_until: Option<Timestamp>,
    /// Names this attempt at carrying the activation out.
    pub dispatch_instance_id: Option<String>,
    pub run_status: Option<RunStatus>,
    pub termination: Option<TerminationReason>,
    pub run_response: Option<String>,
    pub run_error: Option<String>,
    pub completed_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What an interrupt of a thread found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxInterrupt {
    pub new_dispatch_epoch: u64,
    /// The dispatch in flight. It stays claimed and fails at its holder's next call.
    pub active_dispatch: Option<RunDispatch>,
    pub superseded_count: usize,
    /// The rows behind the count, as they are now: their runs must be closed.
    pub superseded_dispatches: Vec<RunDispatch>,
}

impl RunDispatch {
    /// An ordinary dispatch that may be claimed at once.
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

    /// The rules that every row keeps; a store refuses to write or to read one that does not.
    pub fn validate(&self) -> Result<(), MailboxError> {
        let rule = |holds: bool, words: &str| if holds { Ok(()) } else { Err(invalid(words)) };
        let ids = [&self.dispatch_id, &self.thread_id, &self.run_id];
        rule(ids.iter().all(|id| !blank(id)), "dispatch_id, thread_id and run_id must not be blank")?;
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
                rule(unclaimed, "a queued dispatch has no claim")?;
                rule(self.has_no_result() && self.completed_at.is_none(), "a queued dispatch has no result")
            }
            RunDispatchStatus::Claimed => {
                let held = claim.iter().all(|word| word.is_some_and(|word| !blank(word)));
                rule(
                    held && self.lease_until.is_some(),
                    "a claimed dispatch has a token, a holder and a lease",
                )
            }
            RunDispatchStatus::Acked
            | RunDispatchStatus::Cancelled
            | RunDispatchStatus::Superseded
            | RunDispatchStatus::DeadLetter => {
                let kept = self.status != RunDispatchStatus::Superseded;
                rule(kept || self.has_no_result(), "a superseded dispatch has no result")?;
                rule(unclaimed, "a dispatch that has ended has no claim")?;
                rule(self.completed_at.is_some(), "a dispatch that has ended says when")
            }
        }
    }

    /// The rules for a row that is to be enqueued: it waits, and every database can find it again.
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

/// Whether a thread may have this id.
pub fn validate_thread(thread_id: &str) -> Result<(), MailboxError> {
    if thread_id.trim().is_empty() || thread_id.contains('\0') {
        return Err(invalid("thread_id must not be blank and must not contain NUL"));
    }
    check_length("thread_id", thread_id, limits::DISPATCH_ID_BYTES_MAX)
}

/// As the constraints of the tables see it: what they let in must stay readable.
fn blank(text: &str) -> bool {
    text.trim_matches(' ').is_empty()
}

fn check_length(what: &str, text: &str, max: usize) -> Result<(), MailboxError> {
    if text.len() > max { Err(invalid(&format!("{what} must have at most {max} bytes"))) } else { Ok(()) }
}

/// The delay before the attempt after `failed` failed ones: doubled each time, capped, and moved by up to a fifth
/// so that what failed together does not come back together. `jitter` is between 0 and 1.
pub fn backoff_ms(failed: u32, jitter: f64) -> u64 {
    let doubled = RETRY_FIRST_MS.saturating_mul(1 << failed.saturating_sub(1).min(20));
    let base = doubled.min(RETRY_CAP_MS) as f64;
    (base * (0.8 + 0.4 * jitter.clamp(0.0, 1.0))) as u64
}

/// The pause before a server is tried again that has been away for this long: as long again, capped, and moved as that of
/// [`backoff_ms`].
pub fn outage_pause_ms(away_ms: u64, jitter: f64) -> u64 {
    let base = away_ms.clamp(RETRY_FIRST_MS, RETRY_CAP_MS) as f64;
    (base * (0.8 + 0.4 * jitter.clamp(0.0, 1.0))) as u64
}

fn invalid(words: &str) -> MailboxError {
    MailboxError::Validation(words.to_owned())
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
    fn a_server_that_is_away_is_tried_again_after_as_long_again_up_to_the_cap() {
        let middle: Vec<u64> = [0, 250, 900, 20_000, 600_000].map(|away| outage_pause_ms(away, 0.5)).to_vec();
        assert_eq!(middle, [250, 250, 900, 20_000, 30_000]);
        assert_eq!((outage_pause_ms(0, 0.0), outage_pause_ms(0, 1.0)), (200, 300));
    }
}
