//! The jobs of the committer and its replies.

use std::sync::Arc;

use holdpoint_core::mailbox::{ClaimAction, DispatchOptions, MailboxError, MailboxInterrupt, RunDispatch};
use holdpoint_core::{Event, Obligation, Run, RunId, RunRef, TenantId, Timestamp};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::local_handoff::PendingClaim;
use crate::store::arrivals;
use crate::store::receipts::{NewReceipt, Receipt};
use crate::store::scopes::ScopeKey;
use crate::store::{self, Param, Row, Statement};

/// The events, rows and obligations of one run at one instant, written atomically.
#[derive(Debug)]
pub(crate) struct Change {
    pub of: RunRef,
    /// The number of events of the run when the change was decided.
    pub before: u64,
    /// The run before `events` and after `history`; None if the run starts with `events`.
    pub from: Option<Arc<Run>>,
    pub after: Arc<Run>,
    /// The events that a fork copies, each commit with its time.
    pub history: Vec<(Timestamp, Vec<Event>)>,
    pub events: Arc<[Event]>,
    pub obligations: Vec<Obligation>,
    pub mail: MailboxAction,
    /// The options of the dispatch that `mail` enqueues.
    pub dispatch: DispatchOptions,
    /// Other runs of the tenant that must be activated because of the change.
    pub runs_to_activate: Vec<RunId>,
    pub at: Timestamp,
    /// Rejects the start of the run while another run of its scope is unfinished.
    pub exclusive: bool,
    /// The external event that causes this change and the changes submitted with it.
    pub cause: Option<Box<ArrivalCause>>,
    /// Lets the handle of the run expire now.
    pub expires_handle: bool,
    /// Further statements that are written with the change.
    pub rows: Vec<Statement>,
}

/// An external event that is consumed by the change that it causes.
#[derive(Debug)]
pub(crate) struct ArrivalCause {
    pub key: arrivals::ArrivalKey,
    /// The state when the change was decided. The change is rejected if the state differs.
    pub state: arrivals::ArrivalState,
    /// The response to the sender of the event.
    pub outcome: String,
}

impl Change {
    /// Returns false if the change affects only the dispatch and not the run.
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.history.is_empty()
    }

    /// Returns the new dispatch of the run with this id.
    pub(crate) fn queued_dispatch(&self, id: &str) -> RunDispatch {
        let (thread, run) = (self.after.thread(), self.of.run.as_str());
        self.dispatch.apply(RunDispatch::queued(&self.of.tenant, id, thread, run, self.at))
    }

    pub(crate) fn starts_run(&self) -> bool {
        self.before == 0 && self.has_events()
    }

    /// Returns true if the change starts a run that is no fork. A fork keeps the revision of its origin.
    pub(super) fn requires_newest_revision(&self) -> bool {
        self.starts_run() && self.after.started.as_ref().is_none_or(|started| started.fork.is_none())
    }

    /// Returns the thread that the caller named for a run, if the change starts the run.
    pub(crate) fn started_in_thread(&self) -> Option<&str> {
        self.after.started.as_ref().filter(|_| self.starts_run())?.thread.as_deref()
    }

    /// Returns the scope of a run, if the change starts the run.
    pub(super) fn scope(&self) -> Option<ScopeKey> {
        let started = self.after.started.as_ref().filter(|_| self.starts_run())?;
        Some(ScopeKey { tenant: self.of.tenant.clone(), scope: started.scope.clone()? })
    }
}

/// The effect of a change on the mailbox.
#[derive(Clone, Debug)]
pub(crate) enum MailboxAction {
    /// No effect: the run has no work, or a live dispatch will activate it.
    None,
    /// Enqueues a dispatch with this id.
    Enqueue(String),
    /// Enqueues a dispatch and hands it to a worker of this process that has a free slot.
    HandOff(Arc<PendingClaim>),
    /// Records a dispatch whose activation was performed in this change.
    Performed(String),
    /// Writes no row: the run, which is in no thread, was activated in this change.
    Activated,
    /// An operation of a worker on the dispatch that it has claimed.
    ClaimAction { claim: Arc<Claim>, what: ClaimAction },
    /// Takes the dispatch back from a worker whose lease has expired.
    Reclaim(String),
    /// Cancels the dispatch if it is not claimed.
    Cancel(String),
    /// Marks the ended dispatch as reconciled with its run.
    Reconcile(String),
}

impl MailboxAction {
    /// Returns true if a row of the mailbox is written.
    pub(super) fn writes(&self) -> bool {
        match self {
            Self::None | Self::Activated => false,
            Self::ClaimAction { what, .. } => *what != ClaimAction::Touch,
            Self::Enqueue(_)
            | Self::HandOff(_)
            | Self::Performed(_)
            | Self::Reclaim(_)
            | Self::Cancel(_)
            | Self::Reconcile(_) => true,
        }
    }
}

/// The claim of a worker on a dispatch. The token fences all writes of the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub run: RunRef,
    pub dispatch_id: String,
    pub token: String,
    /// Id of this attempt, stored with the dispatch.
    pub instance: String,
    /// Attempts that failed before this one.
    pub attempts: u32,
    pub max_attempts: u32,
}

impl Claim {
    /// Returns the claim on a claimed row; None if its run id is invalid or the row is not claimed.
    pub(crate) fn of(row: &RunDispatch) -> Option<Self> {
        let run = RunId::parse(&row.run_id).ok()?;
        Some(Self {
            run: RunRef { tenant: row.tenant.clone(), run },
            dispatch_id: row.dispatch_id.clone(),
            token: row.claim_token.clone()?,
            instance: Uuid::now_v7().to_string(),
            attempts: row.attempt_count,
            max_attempts: row.max_attempts,
        })
    }
}

/// A dispatch and the fencing token of a claim on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimToken {
    /// The dispatch.
    pub dispatch_id: String,
    /// The fencing token.
    pub token: String,
}

impl From<&Claim> for ClaimToken {
    fn from(claim: &Claim) -> Self {
        Self { dispatch_id: claim.dispatch_id.clone(), token: claim.token.clone() }
    }
}

/// The consumer, the lease and the limit of a claim operation.
#[derive(Clone, Debug)]
pub(crate) struct ClaimOrder {
    pub consumer: String,
    pub lease_until: Timestamp,
    pub now: Timestamp,
    pub limit: usize,
}

/// The claims with expired leases that an operation reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LapsedClaims {
    All,
    /// Claims on dispatches that have attempts left.
    Returnable,
}

/// An operation on the mailbox that belongs to no change of a run.
#[derive(Debug)]
pub(crate) enum MailboxOp {
    Enqueue(Vec<RunDispatch>),
    Claim {
        tenant: TenantId,
        thread: String,
        order: ClaimOrder,
    },
    ClaimReady(ClaimOrder),
    ClaimDispatch {
        tenant: TenantId,
        dispatch_id: String,
        order: ClaimOrder,
    },
    /// An operation of the consumer on a dispatch that it has claimed.
    ClaimAction {
        tenant: TenantId,
        dispatch_id: String,
        token: String,
        what: ClaimAction,
        now: Timestamp,
    },
    /// Extends claims of one tenant, or of all tenants.
    ExtendLeases {
        tenant: Option<TenantId>,
        claims: Vec<ClaimToken>,
        until: Timestamp,
        now: Timestamp,
    },
    Cancel {
        tenant: TenantId,
        dispatch_id: String,
        now: Timestamp,
    },
    Interrupt {
        tenant: TenantId,
        thread: String,
        now: Timestamp,
    },
    /// Reclaims dispatches with expired leases.
    Reclaim {
        now: Timestamp,
        limit: usize,
        which: LapsedClaims,
    },
    /// Takes every claim back. Only for a database that no other process has open.
    ReclaimAll {
        now: Timestamp,
    },
    /// Deletes ended dispatches; with `unseen` also those that are not reconciled with their runs.
    Purge {
        before: Timestamp,
        limit: usize,
        unseen: bool,
    },
}

/// The work of one job.
#[derive(Debug)]
pub(crate) enum Work {
    /// A change of a run and the changes that it causes in related runs, written atomically.
    Changes(Vec<Change>),
    Mail(MailboxOp),
    /// Statements that belong to no run, for example about keys and definitions.
    Plain(Vec<Statement>),
    /// Statements without preconditions that can be written twice.
    Rows(Vec<Statement>),
    /// One statement for many sets of values. The reply is the rows that it returns.
    Each(&'static str, Vec<Vec<Param>>),
}

/// A precondition of a change. The reply to a rejected change names the one that did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// The run has the sequence number that the change was decided on.
    Sequence,
    /// The dispatch is in the expected state: claimed with this token, expired or queued.
    Claim,
    /// The run starts with the newest revision of its workflow.
    Revision,
    /// No other request uses the same idempotency key at the same time.
    Receipt,
    /// The external event is not consumed yet.
    Arrival,
}

/// The reply of the committer to a job.
#[derive(Debug)]
pub(crate) enum CommitReply {
    Done,
    /// The committer could not find out whether the job is stored.
    OutcomeUnknown(String),
    /// The precondition did not hold, and the job was not written.
    Conflict(Precondition),
    /// The key was used before, with this response. The job was not written.
    Duplicate(Box<Receipt>),
    /// Another run of the scope is unfinished. The job was not written.
    ScopeBusy(RunId),
    /// A live dispatch of the thread has the deduplication key. The job was not written.
    KeyInUse(MailboxError),
    /// The number of rows that the last of the statements changed.
    Touched(u64),
    Table(Vec<Row>),
    Rows(Vec<RunDispatch>),
    Each(Vec<Result<RunDispatch, MailboxError>>),
    Flags(Vec<bool>),
    Interrupted(Box<MailboxInterrupt>),
}

impl CommitReply {
    /// Returns true if the job was done. Its receipt is stored only then.
    pub(super) fn succeeded(&self) -> bool {
        match self {
            Self::Done | Self::Table(_) | Self::Flags(_) | Self::Interrupted(_) => true,
            Self::OutcomeUnknown(_)
            | Self::Conflict(_)
            | Self::Duplicate(_)
            | Self::ScopeBusy(_)
            | Self::KeyInUse(_) => false,
            Self::Touched(rows) => *rows > 0,
            Self::Rows(rows) => !rows.is_empty(),
            Self::Each(each) => each.iter().all(Result::is_ok),
        }
    }
}

#[derive(Debug)]
pub(super) struct Job {
    pub work: Work,
    /// The receipt that is written with the work.
    pub receipt: Option<Box<NewReceipt>>,
    /// The statements of the changes, without those of their dispatches.
    pub writes: Vec<Statement>,
    /// Bytes of the events of each change.
    pub sizes: Vec<usize>,
    /// True if an earlier attempt to commit the job ended with an unknown outcome.
    pub outcome_unknown: bool,
    pub reply: oneshot::Sender<Result<CommitReply, store::Error>>,
}

impl Work {
    /// Returns true if the work can share a transaction with other jobs. The rest gets a transaction of its own: it is
    /// rare, and it locks rows in another order.
    pub(super) fn is_batchable(&self) -> bool {
        match self {
            Self::Changes(_) | Self::Rows(_) => true,
            Self::Mail(op) => match op {
                MailboxOp::Enqueue(_) | MailboxOp::ClaimReady(_) | MailboxOp::ClaimAction { .. } => true,
                MailboxOp::Claim { order, .. } => order.limit <= 1,
                MailboxOp::ClaimDispatch { .. }
                | MailboxOp::ExtendLeases { .. }
                | MailboxOp::Cancel { .. }
                | MailboxOp::Interrupt { .. }
                | MailboxOp::Reclaim { .. }
                | MailboxOp::ReclaimAll { .. }
                | MailboxOp::Purge { .. } => false,
            },
            Self::Plain(_) | Self::Each(..) => false,
        }
    }
}
