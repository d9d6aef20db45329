//! The life of a dispatch. Each function takes the row as it is stored and returns the row as it should be.

use super::{MailboxError, RunDispatch, RunDispatchResult, RunDispatchStatus, RunStatus, invalid};
use crate::Timestamp;

/// What a holder may do with its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// Shows that the claim still holds and changes nothing but the time of the last change.
    Touch,
    Ack,
    Nack {
        retry_at: Timestamp,
        error: String,
    },
    /// Back to the queue without a failed attempt: the work waits for a server that is away.
    Postpone {
        retry_at: Timestamp,
        error: String,
    },
    DeadLetter {
        error: String,
    },
    RecordStart {
        instance_id: String,
    },
    RecordResult(RunDispatchResult),
    /// The result and the ack in one.
    Complete(RunDispatchResult),
    ExtendLease {
        until: Timestamp,
    },
    Supersede {
        reason: String,
    },
}

/// Why a holder may not. An epoch that fell behind closes the row all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub error: MailboxError,
    pub superseded: Option<Box<RunDispatch>>,
}

/// What became of a dispatch whose lease ran out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    /// Back in the queue, or a dead letter when its attempts are used up.
    Returned(RunDispatch),
    /// An interrupt had overtaken it.
    Superseded(RunDispatch),
}

impl RunDispatch {
    /// Checked in this order: status and token, then epoch, then what is asked.
    pub fn fenced(&self, token: &str, what: &Fenced, epoch: u64, now: Timestamp) -> Result<Self, Denied> {
        let deny = |error| Err(Denied { error, superseded: None });
        if self.status != RunDispatchStatus::Claimed || self.claim_token.as_deref() != Some(token) {
            return deny(MailboxError::StaleClaim {
                dispatch_id: self.dispatch_id.clone(),
                status: self.status,
            });
        }
        if let Fenced::Supersede { reason } = what {
            return Ok(self.superseded(reason, epoch, now));
        }
        if self.dispatch_epoch < epoch {
            let error = MailboxError::EpochConflict {
                dispatch_id: self.dispatch_id.clone(),
                dispatch_epoch: self.dispatch_epoch,
                current_epoch: epoch,
            };
            let superseded = self.superseded(OVERTAKEN, self.dispatch_epoch, now);
            return Err(Denied { error, superseded: Some(Box::new(superseded)) });
        }
        if let Fenced::RecordResult(result) | Fenced::Complete(result) = what
            && result.run_id != self.run_id
        {
            return deny(invalid("the result is of another run"));
        }
        Ok(self.moved(what, now))
    }

    fn moved(&self, what: &Fenced, now: Timestamp) -> Self {
        let mut row = Self { updated_at: now, ..self.clone() };
        match what {
            Fenced::Touch | Fenced::Supersede { .. } => row,
            Fenced::Ack => row.ended(RunDispatchStatus::Acked, now),
            Fenced::Nack { retry_at, error } => row.failed(error, *retry_at, now),
            Fenced::Postpone { retry_at, error } => row.returned(error, *retry_at),
            Fenced::DeadLetter { error } => {
                row.last_error = Some(error.clone());
                row.ended(RunDispatchStatus::DeadLetter, now)
            }
            Fenced::RecordStart { instance_id } => {
                row.unproject();
                row.dispatch_instance_id = Some(instance_id.clone());
                row.run_status = Some(RunStatus::Running);
                row
            }
            Fenced::RecordResult(result) => row.with(result, now),
            Fenced::Complete(result) => row.with(result, now).ended(RunDispatchStatus::Acked, now),
            Fenced::ExtendLease { until } => {
                row.lease_until = Some(*until);
                row
            }
        }
    }

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

    /// Only what is queued can be cancelled: work in flight is stopped by its holder.
    pub fn cancelled(&self, now: Timestamp) -> Option<Self> {
        let queued = self.status == RunDispatchStatus::Queued;
        queued.then(|| Self { updated_at: now, ..self.clone() }.ended(RunDispatchStatus::Cancelled, now))
    }

    /// Closed because something newer counts; what it had to show for itself goes with it.
    #[must_use]
    pub fn superseded(&self, reason: &str, epoch: u64, now: Timestamp) -> Self {
        let mut row = Self { updated_at: now, ..self.clone() };
        row.unproject();
        row.last_error = Some(reason.to_owned());
        row.dispatch_epoch = row.dispatch_epoch.max(epoch);
        row.ended(RunDispatchStatus::Superseded, now)
    }

    /// Superseded by an interrupt of its thread; the epoch it stood in stays visible.
    #[must_use]
    pub fn overtaken(&self, now: Timestamp) -> Self {
        self.superseded(OVERTAKEN, self.dispatch_epoch, now)
    }

    /// Taken from a holder whose lease ran out before `now`; nothing while it has not.
    pub fn reclaimed(&self, epoch: u64, now: Timestamp) -> Option<Reclaimed> {
        let lapsed = self.lease_until.is_some_and(|until| until < now);
        (self.status == RunDispatchStatus::Claimed && lapsed).then(|| self.abandoned(LAPSED, epoch, now))
    }

    /// Taken from a holder that is known to be gone, whatever its lease says.
    pub fn abandoned(&self, why: &str, epoch: u64, now: Timestamp) -> Reclaimed {
        if self.dispatch_epoch < epoch {
            return Reclaimed::Superseded(self.overtaken(now));
        }
        Reclaimed::Returned(Self { updated_at: now, ..self.clone() }.failed(why, now, now))
    }

    fn failed(mut self, error: &str, retry_at: Timestamp, now: Timestamp) -> Self {
        // A row may come with all its attempts used up; what it is given all the same does not count.
        self.attempt_count = self.attempt_count.saturating_add(1).min(self.max_attempts);
        if self.attempt_count >= self.max_attempts {
            self.unproject();
            self.last_error = Some(error.to_owned());
            return self.ended(RunDispatchStatus::DeadLetter, now);
        }
        self.returned(error, retry_at)
    }

    fn returned(mut self, error: &str, retry_at: Timestamp) -> Self {
        self.unproject();
        self.last_error = Some(error.to_owned());
        self.status = RunDispatchStatus::Queued;
        self.available_at = retry_at;
        self.unclaim();
        self
    }

    fn with(mut self, result: &RunDispatchResult, now: Timestamp) -> Self {
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
        self.unclaim();
        self
    }

    fn unclaim(&mut self) {
        self.claim_token = None;
        self.claimed_by = None;
        self.lease_until = None;
    }

    fn unproject(&mut self) {
        self.dispatch_instance_id = None;
        self.run_status = None;
        self.termination = None;
        self.run_response = None;
        self.run_error = None;
        self.completed_at = None;
    }
}

const OVERTAKEN: &str = "the thread was interrupted";
const LAPSED: &str = "the lease ran out before the work was done";
