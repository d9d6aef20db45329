//! Wakes the worker of this process when there may be something to do. The worker looks at the store when it is woken and
//! when a deadline comes. The backstop, a look now and then, is for what was lost outside of this process: no row that
//! becomes ready here waits for it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use holdpoint_core::mailbox::Fenced;
use holdpoint_core::{Obligation, Timestamp};
use tokio::sync::Notify;

use crate::committer::{Mail, MailOp, Reply};
use crate::store::dispatches::Doable;

#[cfg(test)]
mod exploration;
#[cfg(test)]
mod world;

#[derive(Debug)]
pub(crate) struct WorkSignal {
    raised: Notify,
    /// Set when it is raised, cleared when a look begins.
    pending: AtomicBool,
    /// Set while the worker waits for the next signal.
    asleep: AtomicBool,
    /// When the worker looks again without being woken.
    next_look: AtomicI64,
    claim_ends: Condition,
    free_hands: Condition,
}

impl Default for WorkSignal {
    fn default() -> Self {
        Self {
            raised: Notify::new(),
            pending: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            next_look: AtomicI64::new(i64::MAX),
            claim_ends: Condition::default(),
            free_hands: Condition::default(),
        }
    }
}

/// An event that wakes the worker only while a queued row depends on it. Most claims end with nothing queued behind them,
/// and a look for each of them would cost more than the work.
#[derive(Debug)]
struct Condition {
    awaited: AtomicBool,
    occurred: AtomicU64,
}

impl Default for Condition {
    /// Awaited: until a worker has looked, any row may depend on it.
    fn default() -> Self {
        Self { awaited: AtomicBool::new(true), occurred: AtomicU64::new(0) }
    }
}

impl Condition {
    /// Records one event and returns whether something depends on it.
    fn occur(&self) -> bool {
        self.occurred.fetch_add(1, Ordering::SeqCst);
        self.awaited.load(Ordering::SeqCst)
    }

    fn begin_look(&self) -> u64 {
        self.awaited.store(false, Ordering::SeqCst);
        self.occurred.load(Ordering::SeqCst)
    }

    /// Returns whether an event came during the look that found something which depends on it.
    fn end_look(&self, awaited: bool, before: u64) -> bool {
        // Stored before the count is read, as an event counts before it reads: one of the two sees the other.
        self.awaited.store(awaited, Ordering::SeqCst);
        awaited && self.occurred.load(Ordering::SeqCst) != before
    }
}

/// The events that had come when a look began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LookMark {
    claim_ends: u64,
    free_hands: u64,
}

/// The reasons why available rows stay in the queue, as a look found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shortage {
    /// Threads are free, and no hand is.
    hands: bool,
    /// Something of their threads is in flight.
    threads: bool,
}

impl Shortage {
    pub(crate) fn of(doable: &Doable, free_hands: usize) -> Self {
        let hands = doable.ready && free_hands == 0;
        // A worker that waits for a hand looks again anyway.
        Self { hands, threads: doable.queued && !hands }
    }
}

impl WorkSignal {
    /// Wakes the worker, or makes it look once more if it is awake.
    pub(crate) fn raise(&self) {
        self.pending.store(true, Ordering::SeqCst);
        self.raised.notify_one();
    }

    /// Returns when the signal was raised since the last look began.
    pub(crate) async fn wait(&self) {
        self.raised.notified().await;
    }

    // By the worker

    /// From here on every new timer raises the signal: one that is written after the look would be missed otherwise.
    pub(crate) fn begin_look(&self) -> LookMark {
        self.asleep.store(false, Ordering::SeqCst);
        self.pending.store(false, Ordering::SeqCst);
        self.next_look.store(i64::MAX, Ordering::SeqCst);
        LookMark { claim_ends: self.claim_ends.begin_look(), free_hands: self.free_hands.begin_look() }
    }

    pub(crate) fn end_look(&self, mark: LookMark, shortage: Shortage) {
        let claim_ended = self.claim_ends.end_look(shortage.threads, mark.claim_ends);
        if self.free_hands.end_look(shortage.hands, mark.free_hands) || claim_ended {
            self.raise();
        }
    }

    /// Says when the worker looks again by itself. Without a time it wants to hear of every timer.
    pub(crate) fn sleep_until(&self, next_look: Option<Timestamp>) {
        self.next_look.store(next_look.map_or(i64::MAX, |at| at.0), Ordering::SeqCst);
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// The worker goes down and looks no more: the end of each of its claims is for other nodes to hear of.
    pub(crate) fn end_looks(&self) {
        self.claim_ends.awaited.store(true, Ordering::SeqCst);
    }

    /// Returns whether the worker sleeps and nothing has woken it.
    pub(crate) fn is_idle(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) && !self.pending.load(Ordering::SeqCst)
    }

    // By the committer and the hands. The functions that return something say whether other nodes must hear of it.

    /// A claim has ended. Its thread may have more to do.
    pub(crate) fn claim_ended(&self) -> bool {
        let awaited = self.claim_ends.occur();
        if awaited {
            self.raise();
        }
        awaited
    }

    /// A hand of the worker is free again.
    pub(crate) fn hand_freed(&self) {
        if self.free_hands.occur() {
            self.raise();
        }
    }

    /// A change is on disk.
    pub(crate) fn changed(&self, mail: &Mail, obligations: &[Obligation]) -> bool {
        let work = match mail {
            Mail::Enqueue(_) | Mail::Reclaim(_) | Mail::Cancel(_) => true,
            Mail::Take(taking) => !taking.is_taken(),
            Mail::Held { what, .. } => self.moved(what),
            Mail::None | Mail::Performed(_) | Mail::Reconcile(_) => false,
        };
        let sooner = obligations.iter().any(|obligation| match obligation {
            Obligation::SetTimer { due, .. } => due.0 < self.next_look.load(Ordering::SeqCst),
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

    /// An operation on the mailbox is on disk, or was refused.
    pub(crate) fn operated(&self, op: &MailOp, reply: &Reply) -> bool {
        let work = match (op, reply) {
            (MailOp::Fenced { what, .. }, Reply::Each(each)) => {
                // A holder that an interrupt has overtaken is refused, and its claim ends all the same.
                each.iter().any(Result::is_err) || self.moved(what)
            }
            (MailOp::ExtendLeases { .. }, Reply::Flags(kept)) => kept.contains(&false),
            (MailOp::Enqueue(_), Reply::Each(each)) => each.iter().any(Result::is_ok),
            (MailOp::Cancel { .. } | MailOp::Reclaim { .. }, Reply::Rows(rows)) => !rows.is_empty(),
            // The runs of what was superseded must be ended.
            (MailOp::Interrupt { .. }, _) => true,
            _ => false,
        };
        if work {
            self.raise();
        }
        work
    }

    /// Returns whether what a holder did with its claim makes work.
    fn moved(&self, what: &Fenced) -> bool {
        match what {
            // Back in the queue, or its run must be seen to.
            Fenced::Nack { .. }
            | Fenced::Postpone { .. }
            | Fenced::DeadLetter { .. }
            | Fenced::Supersede { .. } => true,
            Fenced::Ack | Fenced::Complete(_) => self.claim_ended(),
            Fenced::Touch
            | Fenced::RecordStart { .. }
            | Fenced::RecordResult(_)
            | Fenced::ExtendLease { .. } => false,
        }
    }
}
