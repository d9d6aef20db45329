//! What can be asked of the committer, and what it answers.

use std::sync::Arc;

use holdpoint_core::mailbox::{Fenced, MailboxError, MailboxInterrupt, RunDispatch};
use holdpoint_core::{Event, Obligation, Run, RunId, RunRef, TenantId, Timestamp};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::hands::Taking;
use crate::store::arrivals;
use crate::store::receipts::{Key, Receipt};
use crate::store::{self, Param, Row, Statement};

/// Everything that happens to one run at one instant: all of it or none.
#[derive(Debug)]
pub(crate) struct Change {
    pub of: RunRef,
    /// The number of events the change was decided on.
    pub before: u64,
    /// The fold that the events begin with, behind the history; none when the run begins with them.
    pub from: Option<Arc<Run>>,
    pub after: Arc<Run>,
    /// Of a run that begins as a copy: what happened before, with its times.
    pub history: Vec<(Timestamp, Vec<Event>)>,
    pub events: Arc<[Event]>,
    pub obligations: Vec<Obligation>,
    pub mail: Mail,
    /// Other runs of the tenant that a worker must look at because of it.
    pub nudges: Vec<RunId>,
    pub at: Timestamp,
    /// Of a run that begins: refused while another run of its scope is unfinished.
    pub exclusive: bool,
    /// The event from outside that causes it, and all that is submitted with it.
    pub cause: Option<Box<Cause>>,
}

/// An event from outside that is used up by what it causes.
#[derive(Debug)]
pub(crate) struct Cause {
    pub key: arrivals::Key,
    /// As it was found. If that is no longer so, nothing happens.
    pub state: arrivals::State,
    /// What its sender is told.
    pub outcome: String,
}

impl Change {
    /// Nothing happens to the run itself, only to its dispatch.
    pub(crate) fn is_silent(&self) -> bool {
        self.events.is_empty() && self.history.is_empty()
    }

    pub(crate) fn is_birth(&self) -> bool {
        self.before == 0 && !self.is_silent()
    }

    /// A copy keeps the revision of the run that it is made from; anything else begins with the newest.
    pub(super) fn wants_newest_revision(&self) -> bool {
        self.is_birth() && self.after.started.as_ref().is_none_or(|started| started.fork.is_none())
    }

    /// The thread that others have named for a run that begins.
    pub(crate) fn begins_in_thread(&self) -> Option<&str> {
        self.after.started.as_ref().filter(|_| self.is_birth())?.thread.as_deref()
    }

    /// The scope of a run that begins.
    pub(super) fn scope(&self) -> Option<(TenantId, String)> {
        let started = self.after.started.as_ref().filter(|_| self.is_birth())?;
        Some((self.of.tenant.clone(), started.scope.clone()?))
    }
}

/// What a change does to the mailbox.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    /// Nothing: the run has nothing to do, or a live dispatch will find it.
    None,
    /// A worker must pick the run up.
    Enqueue(String),
    /// The same, and a worker of this process has a hand free for it.
    Take(Arc<Taking>),
    /// The activation was carried out in this very change.
    Performed(String),
    /// Something a worker does under its claim.
    Held { claim: Arc<Claim>, what: Fenced },
    /// The dispatch is taken from a holder whose lease ran out.
    Reclaim(String),
    /// The dispatch is cancelled, provided that nobody has claimed it.
    Cancel(String),
    /// The run of this ended dispatch is seen to.
    Reconcile(String),
}

impl Mail {
    /// Whether a row of the mailbox is written.
    pub(super) fn writes(&self) -> bool {
        match self {
            Self::None => false,
            Self::Held { what, .. } => *what != Fenced::Touch,
            Self::Enqueue(_)
            | Self::Take(_)
            | Self::Performed(_)
            | Self::Reclaim(_)
            | Self::Cancel(_)
            | Self::Reconcile(_) => true,
        }
    }
}

/// A dispatch that a worker holds; the token fences everything it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub run: RunRef,
    pub dispatch_id: String,
    pub token: String,
    /// Names this attempt in the dispatch's projection.
    pub instance: String,
    /// Attempts that failed before this one, and how many there may be.
    pub attempts: u32,
    pub max_attempts: u32,
}

impl Claim {
    /// Nobody's: what is written under it is never written.
    pub(crate) fn none() -> Self {
        let nobody = TenantId::parse("nobody").expect("a valid id");
        let run = RunId::parse("nothing").expect("a valid id");
        let (dispatch_id, token, instance) = Default::default();
        let run = RunRef { tenant: nobody, run };
        Self { run, dispatch_id, token, instance, attempts: 0, max_attempts: 0 }
    }

    /// What a claimed row gives the right to; nothing when it is for no run of ours.
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

/// Who claims, until when, and how much.
#[derive(Clone, Debug)]
pub(crate) struct ClaimOrder {
    pub consumer: String,
    pub lease_until: Timestamp,
    pub now: Timestamp,
    pub limit: usize,
}

/// An operation on the mailbox that belongs to no change of a run.
#[derive(Debug)]
pub(crate) enum MailOp {
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
    Fenced {
        tenant: TenantId,
        dispatch_id: String,
        token: String,
        what: Fenced,
        now: Timestamp,
    },
    /// Of one tenant, or of whoever they are.
    ExtendLeases {
        tenant: Option<TenantId>,
        claims: Vec<(String, String)>,
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
    /// With `returnable` only what has attempts left.
    Reclaim {
        now: Timestamp,
        limit: usize,
        returnable: bool,
    },
    /// Takes every claim back, for a database that nobody else has open.
    ReclaimAll {
        now: Timestamp,
    },
    /// With `unseen` also rows whose runs nobody has seen to.
    Purge {
        before: Timestamp,
        limit: usize,
        unseen: bool,
    },
}

#[derive(Debug)]
pub(crate) enum Work {
    /// A change of a run, and after it what it does to runs around it: all of it or nothing.
    Changes(Vec<Change>),
    Mail(MailOp),
    /// Statements that belong to no run: keys and definitions.
    Plain(Vec<Statement>),
    /// Statements that rely on nothing and can be written twice.
    Rows(Vec<Statement>),
    /// One statement for many sets of values, and what it returns.
    Each(&'static str, Vec<Vec<Param>>),
}

/// Something that a change relies on and that was not so when it came to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The run is at the sequence number the change was decided on.
    Sequence,
    /// The dispatch is as the change takes it to be: held with this token, lapsed, queued.
    Claim,
    /// The run starts with the newest revision of its workflow.
    Revision,
    /// Nobody else does something under the same key at this moment.
    Receipt,
    /// The event from outside is still there to be used.
    Arrival,
}

#[derive(Debug)]
pub(crate) enum Reply {
    Done,
    /// Whether it happened could not be found out.
    Unsure(String),
    /// What did not hold; nothing of this change was written.
    Conflict(Guard),
    /// Something was done under this key before, and this is what was answered. Nothing was written.
    Duplicate(Box<Receipt>),
    /// This run is at work in the scope. Nothing was written.
    ScopeBusy(RunId),
    /// How many rows the last plain statement touched.
    Touched(u64),
    Table(Vec<Row>),
    Rows(Vec<RunDispatch>),
    Each(Vec<Result<RunDispatch, MailboxError>>),
    Flags(Vec<bool>),
    Interrupted(Box<MailboxInterrupt>),
}

impl Reply {
    /// Whether what was asked for was done, so that a receipt for it may stay.
    pub(super) fn counts(&self) -> bool {
        match self {
            Self::Done | Self::Table(_) | Self::Flags(_) | Self::Interrupted(_) => true,
            Self::Unsure(_) | Self::Conflict(_) | Self::Duplicate(_) | Self::ScopeBusy(_) => false,
            Self::Touched(rows) => *rows > 0,
            Self::Rows(rows) => !rows.is_empty(),
            Self::Each(each) => each.iter().all(Result::is_ok),
        }
    }
}

#[derive(Debug)]
pub(super) struct Job {
    pub work: Work,
    /// To be written with the work.
    pub receipt: Option<Box<(Key, Receipt)>>,
    /// The rows of the changes besides their dispatches.
    pub writes: Vec<Statement>,
    /// Bytes of the events of each change.
    pub sizes: Vec<usize>,
    /// It was tried before, and nobody knows whether that has landed.
    pub doubtful: bool,
    pub reply: oneshot::Sender<Result<Reply, store::Error>>,
}

impl Work {
    /// Whether it is written together with others. The rest takes a transaction of its own: it is rare, and it
    /// locks in an order of its own.
    pub(super) fn flows(&self) -> bool {
        match self {
            Self::Changes(_) | Self::Rows(_) => true,
            Self::Mail(op) => match op {
                MailOp::Enqueue(_) | MailOp::ClaimReady(_) | MailOp::Fenced { .. } => true,
                MailOp::Claim { order, .. } => order.limit <= 1,
                MailOp::ClaimDispatch { .. }
                | MailOp::ExtendLeases { .. }
                | MailOp::Cancel { .. }
                | MailOp::Interrupt { .. }
                | MailOp::Reclaim { .. }
                | MailOp::ReclaimAll { .. }
                | MailOp::Purge { .. } => false,
            },
            Self::Plain(_) | Self::Each(..) => false,
        }
    }
}
