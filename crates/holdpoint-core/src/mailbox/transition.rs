//! Transitions of a dispatch. Each function takes the stored row and returns the new row.

use super::{MailboxError, RunDispatch, RunDispatchResult, RunDispatchStatus, RunStatus, invalid};
use crate::Timestamp;

/// An operation of a worker on its claimed dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimAction {
    /// Verifies the claim. Changes only the time of the last change.
    Touch,
    /// Acknowledges the dispatch.
    Ack,
    /// Records a failed attempt. The dispatch returns to the queue, or becomes a dead letter after the last attempt.
    Nack {
        /// The time of the next attempt.
        retry_at: Timestamp,
        /// The error of the attempt.
        error: String,
    },
    /// Returns the dispatch to the queue without a failed attempt: the work waits for a server that is unreachable.
    Postpone {
        /// The time of the next attempt.
        retry_at: Timestamp,
        /// The error of the attempt.
        error: String,
    },
    /// Makes the dispatch a dead letter.
    DeadLetter {
        /// The reason.
        error: String,
    },
    /// Records the start of an attempt.
    RecordStart {
        /// The id of the attempt.
        instance_id: String,
    },
    /// Records the result of the activation.
    RecordResult(RunDispatchResult),
    /// Records the result and acknowledges the dispatch.
    Complete(RunDispatchResult),
    /// Extends the lease.
    ExtendLease {
        /// The new end of the lease.
        until: Timestamp,
    },
    /// Closes the dispatch because a newer one replaces it.
    Supersede {
        /// The reason.
        reason: String,
    },
}

/// The rejection of a claim action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRejection {
    /// The reason of the rejection.
    pub error: MailboxError,
    /// The row to write despite the rejection: a dispatch with an old epoch is superseded.
    pub superseded: Option<Box<RunDispatch>>,
}

/// A dispatch whose claim was taken from its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReclaimedDispatch {
    /// The dispatch is queued again, or a dead letter if it has no attempts left.
    Returned(RunDispatch),
    /// The dispatch is superseded, because its thread was interrupted.
    Superseded(RunDispatch),
}

impl RunDispatch {
    /// Returns the row after an action of the worker that holds the claim. Checks the status and the token first, then
    /// the epoch, then the action.
    pub fn apply_claim_action(
        &self,
        token: &str,
        what: &ClaimAction,
        epoch: u64,
        now: Timestamp,
    ) -> Result<Self, ClaimRejection> {
        let deny = |error| Err(ClaimRejection { error, superseded: None });
        if self.status != RunDispatchStatus::Claimed || self.claim_token.as_deref() != Some(token) {
            return deny(MailboxError::StaleClaim {
                dispatch_id: self.dispatch_id.clone(),
                status: self.status,
            });
        }
        if let ClaimAction::Supersede { reason } = what {
            return Ok(self.superseded(reason, epoch, now));
        }
        if self.dispatch_epoch < epoch {
            let error = MailboxError::EpochConflict {
                dispatch_id: self.dispatch_id.clone(),
                dispatch_epoch: self.dispatch_epoch,
                current_epoch: epoch,
            };
            let superseded = self.superseded(THREAD_INTERRUPTED, self.dispatch_epoch, now);
            return Err(ClaimRejection { error, superseded: Some(Box::new(superseded)) });
        }
        if let ClaimAction::RecordResult(result) | ClaimAction::Complete(result) = what
            && result.run_id != self.run_id
        {
            return deny(invalid("run_id of the result is not that of the dispatch"));
        }
        Ok(self.with_claim_action(what, now))
    }

    fn with_claim_action(&self, what: &ClaimAction, now: Timestamp) -> Self {
        let mut row = Self { updated_at: now, ..self.clone() };
        match what {
            ClaimAction::Touch | ClaimAction::Supersede { .. } => row,
            ClaimAction::Ack => row.ended(RunDispatchStatus::Acked, now),
            ClaimAction::Nack { retry_at, error } => row.failed(error, *retry_at, now),
            ClaimAction::Postpone { retry_at, error } => row.returned(error, *retry_at),
            ClaimAction::DeadLetter { error } => {
                row.last_error = Some(error.clone());
                row.ended(RunDispatchStatus::DeadLetter, now)
            }
            ClaimAction::RecordStart { instance_id } => {
                row.clear_result();
                row.dispatch_instance_id = Some(instance_id.clone());
                row.run_status = Some(RunStatus::Running);
                row
            }
            ClaimAction::RecordResult(result) => row.with_result(result, now),
            ClaimAction::Complete(result) => {
                row.with_result(result, now).ended(RunDispatchStatus::Acked, now)
            }
            ClaimAction::ExtendLease { until } => {
                row.lease_until = Some(*until);
                row
            }
        }
    }

    /// Returns the row with a claim of `consumer`.
    #[must_use]
    pub fn claimed(&self, token: String, consumer: &str, lease_until: Timestamp, now: Timestamp) -> Self {
        Self {
            status: RunDispatchStatus::Claimed,
            claim_token: Some(token),
            claimed_by: Some(consumer.to_owned()),
            lease_until: Some(lease_until),
            updated_at: now,
            ..self.clone()
        }
    }

    /// Returns the cancelled row. None if the dispatch is not queued: only its worker can stop a claimed dispatch.
    pub fn cancelled(&self, now: Timestamp) -> Option<Self> {
        let queued = self.status == RunDispatchStatus::Queued;
        queued.then(|| Self { updated_at: now, ..self.clone() }.ended(RunDispatchStatus::Cancelled, now))
    }

    /// Returns the superseded row, without a result.
    #[must_use]
    pub fn superseded(&self, reason: &str, epoch: u64, now: Timestamp) -> Self {
        let mut row = Self { updated_at: now, ..self.clone() };
        row.clear_result();
        row.last_error = Some(reason.to_owned());
        row.dispatch_epoch = row.dispatch_epoch.max(epoch);
        row.ended(RunDispatchStatus::Superseded, now)
    }

    /// Returns the row superseded by an interruption of its thread. It keeps its epoch.
    #[must_use]
    pub fn superseded_by_interrupt(&self, now: Timestamp) -> Self {
        self.superseded(THREAD_INTERRUPTED, self.dispatch_epoch, now)
    }

    /// Takes the claim from its worker if the lease has expired. None if it has not.
    pub fn reclaimed(&self, epoch: u64, now: Timestamp) -> Option<ReclaimedDispatch> {
        let expired = self.lease_until.is_some_and(|until| until < now);
        (self.status == RunDispatchStatus::Claimed && expired)
            .then(|| self.force_reclaimed(LEASE_EXPIRED, epoch, now))
    }

    /// Takes the claim from a worker that is known to have stopped, even if the lease has not expired.
    pub fn force_reclaimed(&self, why: &str, epoch: u64, now: Timestamp) -> ReclaimedDispatch {
        if self.dispatch_epoch < epoch {
            return ReclaimedDispatch::Superseded(self.superseded_by_interrupt(now));
        }
        ReclaimedDispatch::Returned(Self { updated_at: now, ..self.clone() }.failed(why, now, now))
    }

    fn failed(mut self, error: &str, retry_at: Timestamp, now: Timestamp) -> Self {
        // A stored row may already have no attempts left. A further attempt does not increase the count.
        self.attempt_count = self.attempt_count.saturating_add(1).min(self.max_attempts);
        if self.attempt_count >= self.max_attempts {
            self.clear_result();
            self.last_error = Some(error.to_owned());
            return self.ended(RunDispatchStatus::DeadLetter, now);
        }
        self.returned(error, retry_at)
    }

    fn returned(mut self, error: &str, retry_at: Timestamp) -> Self {
        self.clear_result();
        self.last_error = Some(error.to_owned());
        self.status = RunDispatchStatus::Queued;
        self.available_at = retry_at;
        self.clear_claim();
        self
    }

    fn with_result(mut self, result: &RunDispatchResult, now: Timestamp) -> Self {
        self.dispatch_instance_id.clone_from(&result.dispatch_instance_id);
        self.run_status = Some(result.status);
        self.termination.clone_from(&result.termination);
        self.run_response.clone_from(&result.response);
        self.run_error.clone_from(&result.error);
        self.completed_at = Some(now);
        self
    }

    fn ended(mut self, status: RunDispatchStatus, now: Timestamp) -> Self {
        self.status = status;
        self.completed_at = Some(self.completed_at.unwrap_or(now));
        self.clear_claim();
        self
    }

    fn clear_claim(&mut self) {
        self.claim_token = None;
        self.claimed_by = None;
        self.lease_until = None;
    }

    fn clear_result(&mut self) {
        self.dispatch_instance_id = None;
        self.run_status = None;
        self.termination = None;
        self.run_response = None;
        self.run_error = None;
        self.completed_at = None;
    }
}

const THREAD_INTERRUPTED: &str = "the thread was interrupted";
const LEASE_EXPIRED: &str = "the lease expired before the work was done";
