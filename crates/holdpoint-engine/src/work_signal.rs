//! The signal that wakes the worker of this process when there may be work. The worker polls the store when it is
//! woken and when a deadline comes. The backstop, a periodic poll, is for signals that were lost outside of this
//! process: no row that becomes ready in this process waits for it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use holdpoint_core::mailbox::ClaimAction;
use holdpoint_core::{Obligation, Timestamp};
use tokio::sync::Notify;

use crate::committer::{CommitReply, MailboxAction, MailboxOp};
use crate::store::dispatches::AvailableWork;

#[cfg(test)]
mod exploration;
#[cfg(test)]
mod model;

/// The signal to the worker of this process.
#[derive(Debug)]
pub(crate) struct WorkSignal {
    raised: Notify,
    /// Set when the signal is raised, cleared when a poll begins.
    pending: AtomicBool,
    /// Set while the worker waits for the next signal.
    asleep: AtomicBool,
    /// The time at which the worker polls again without a signal.
    next_poll: AtomicI64,
    claim_ends: Condition,
    free_slots: Condition,
}

impl Default for WorkSignal {
    fn default() -> Self {
        Self {
            raised: Notify::new(),
            pending: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            next_poll: AtomicI64::new(i64::MAX),
            claim_ends: Condition::default(),
            free_slots: Condition::default(),
        }
    }
}

/// A kind of occurrence that wakes the worker only while a queued row depends on it. Most claims end while no row
/// waits for them, and a poll for each would cost more than the work.
#[derive(Debug)]
struct Condition {
    awaited: AtomicBool,
    occurred: AtomicU64,
}

impl Default for Condition {
    /// Returns an awaited condition: until a worker has polled, any row may depend on it.
    fn default() -> Self {
        Self { awaited: AtomicBool::new(true), occurred: AtomicU64::new(0) }
    }
}

impl Condition {
    /// Records one occurrence. Returns true if a row depends on it.
    fn occur(&self) -> bool {
        self.occurred.fetch_add(1, Ordering::SeqCst);
        self.awaited.load(Ordering::SeqCst)
    }

    fn begin_poll(&self) -> u64 {
        self.awaited.store(false, Ordering::SeqCst);
        self.occurred.load(Ordering::SeqCst)
    }

    /// Ends a poll after which a row depends on the condition. Returns true if it occurred during the poll.
    fn await_since(&self, before: u64) -> bool {
        // The flag is stored before the count is read, and `occur` counts before it reads the flag: one sees the other.
        self.awaited.store(true, Ordering::SeqCst);
        self.occurred.load(Ordering::SeqCst) != before
    }
}

/// The counts of occurrences when a poll began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PollMark {
    claim_ends: u64,
    free_slots: u64,
}

/// The reasons why available rows stay in the queue after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shortage {
    /// Threads are free, but the worker has no free slot.
    slots: bool,
    /// Their threads have a claimed dispatch.
    threads: bool,
}

impl Shortage {
    pub(crate) fn of(available: &AvailableWork, free_slots: usize) -> Self {
        let slots = available.ready && free_slots == 0;
        // A worker that waits for a slot polls again anyway.
        Self { slots, threads: available.queued && !slots }
    }
}

impl WorkSignal {
    /// Wakes the worker, or makes it poll once more if it is awake.
    pub(crate) fn raise(&self) {
        self.pending.store(true, Ordering::SeqCst);
        self.raised.notify_one();
    }

    /// Waits until the signal is raised. Returns at once if it was raised since the last poll began.
    pub(crate) async fn wait(&self) {
        self.raised.notified().await;
    }

    // Called by the worker.

    /// Begins a poll. From here on every new timer raises the signal: a timer that is written after the read of the
    /// poll would be missed otherwise.
    pub(crate) fn begin_poll(&self) -> PollMark {
        self.asleep.store(false, Ordering::SeqCst);
        self.pending.store(false, Ordering::SeqCst);
        self.next_poll.store(i64::MAX, Ordering::SeqCst);
        PollMark { claim_ends: self.claim_ends.begin_poll(), free_slots: self.free_slots.begin_poll() }
    }

    /// Ends a poll. Raises the signal if a condition occurred meanwhile on which a row depends.
    pub(crate) fn end_poll(&self, mark: PollMark, shortage: Shortage) {
        let claim_ended = shortage.threads && self.claim_ends.await_since(mark.claim_ends);
        let slot_freed = shortage.slots && self.free_slots.await_since(mark.free_slots);
        if slot_freed || claim_ended {
            self.raise();
        }
    }

    /// Sets the time of the next poll without a signal. With None, every new timer raises the signal.
    pub(crate) fn sleep_until(&self, next_poll: Option<Timestamp>) {
        self.next_poll.store(next_poll.map_or(i64::MAX, |at| at.0), Ordering::SeqCst);
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// Called when the worker stops. After it, the end of each of its claims is announced to the other processes.
    pub(crate) fn stop_polling(&self) {
        self.claim_ends.awaited.store(true, Ordering::SeqCst);
    }

    /// Returns true if the worker sleeps and the signal is not raised.
    pub(crate) fn is_idle(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) && !self.pending.load(Ordering::SeqCst)
    }

    // Called by the committer and the slots of the worker. The functions return true if other processes must be
    // notified.

    /// Records the end of a claim. Its thread may have more dispatches.
    pub(crate) fn claim_ended(&self) -> bool {
        let awaited = self.claim_ends.occur();
        if awaited {
            self.raise();
        }
        awaited
    }

    /// Records that a slot of the worker is free again.
    pub(crate) fn slot_freed(&self) {
        if self.free_slots.occur() {
            self.raise();
        }
    }

    /// Records a committed change.
    pub(crate) fn change_committed(&self, mail: &MailboxAction, obligations: &[Obligation]) -> bool {
        let work = match mail {
            MailboxAction::Enqueue(_) | MailboxAction::Reclaim(_) | MailboxAction::Cancel(_) => true,
            MailboxAction::HandOff(pending_claim) => !pending_claim.is_claimed(),
            MailboxAction::ClaimAction { what, .. } => self.creates_work(what),
            MailboxAction::None
            | MailboxAction::Activated
            | MailboxAction::Performed(_)
            | MailboxAction::Reconcile(_) => false,
        };
        let sooner = obligations.iter().any(|obligation| match obligation {
            Obligation::SetTimer { due, .. } => due.0 < self.next_poll.load(Ordering::SeqCst),
            Obligation::Activate
            | Obligation::ClearTimer { .. }
            | Obligation::StartChild { .. }
            | Obligation::CancelChild { .. } => false,
        });
        if work || sooner {
            self.raise();
        }
        work
    }

    /// Records an operation on the mailbox that was committed or rejected.
    pub(crate) fn mailbox_changed(&self, op: &MailboxOp, reply: &CommitReply) -> bool {
        let work = match (op, reply) {
            (MailboxOp::ClaimAction { what, .. }, CommitReply::Each(each)) => {
                // An operation of a worker whose claim was superseded is rejected, and this ends the claim.
                each.iter().any(Result::is_err) || self.creates_work(what)
            }
            (MailboxOp::ExtendLeases { .. }, CommitReply::Flags(kept)) => kept.contains(&false),
            (MailboxOp::Enqueue(_), CommitReply::Each(each)) => each.iter().any(Result::is_ok),
            (MailboxOp::Cancel { .. } | MailboxOp::Reclaim { .. }, CommitReply::Rows(rows)) => {
                !rows.is_empty()
            }
            // The runs of superseded dispatches must be reconciled.
            (MailboxOp::Interrupt { .. }, _) => true,
            _ => false,
        };
        if work {
            self.raise();
        }
        work
    }

    /// Returns true if an operation of a worker on its claim creates work.
    fn creates_work(&self, what: &ClaimAction) -> bool {
        match what {
            // The dispatch is in the queue again, or its run must be reconciled.
            ClaimAction::Nack { .. }
            | ClaimAction::Postpone { .. }
            | ClaimAction::DeadLetter { .. }
            | ClaimAction::Supersede { .. } => true,
            ClaimAction::Ack | ClaimAction::Complete(_) => self.claim_ended(),
            ClaimAction::Touch
            | ClaimAction::RecordStart { .. }
            | ClaimAction::RecordResult(_)
            | ClaimAction::ExtendLease { .. } => false,
        }
    }
}
