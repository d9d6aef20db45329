//! The operations on the mailbox of one tenant. Each call is atomic, can share its transaction with other changes, and
//! returns after the commit. The caller passes the time.

use holdpoint_core::mailbox::{
    ClaimAction, MailboxError, MailboxInterrupt, RunDispatch, RunDispatchResult, RunDispatchStatus,
    validate_thread,
};
use holdpoint_core::{TenantId, Timestamp};

use crate::committer::{ClaimOrder, ClaimToken, CommitReply, LapsedClaims, MailboxOp};
use crate::engine::Engine;
use crate::error::Error;
use crate::store;
use crate::store::dispatches::DispatchPage;

/// A handle to the mailbox of one tenant. `claim_ready`, `reclaim_expired_leases`, `purge_terminal`,
/// `list_terminal_unreconciled` and `next_wakeup` are for workers and cover all tenants.
#[derive(Clone, Debug)]
pub struct Mailbox {
    engine: Engine,
    tenant: TenantId,
}

/// The operations of workers on the mailbox of one tenant. A change of a claimed row needs the token of the claim and
/// returns the changed row.
#[derive(Clone, Copy, Debug)]
pub struct MailboxClaims<'m> {
    mailbox: &'m Mailbox,
}

type Result<T> = std::result::Result<T, MailboxError>;

/// A position in the list of a dispatch thread. The next page starts after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchCursor {
    /// Priority of the row.
    pub priority: u8,
    /// Creation time of the row.
    pub created_at: Timestamp,
    /// Sequence of the row.
    pub seq: u64,
}

impl Mailbox {
    pub(crate) fn new(engine: Engine, tenant: TenantId) -> Self {
        Self { engine, tenant }
    }

    /// Returns the operations of workers: claims, and the changes that the holder of a claim makes.
    pub fn claims(&self) -> MailboxClaims<'_> {
        MailboxClaims { mailbox: self }
    }

    /// Stores a queued dispatch with the current epoch of its thread.
    pub async fn enqueue(&self, dispatch: &RunDispatch) -> Result<RunDispatch> {
        let each = self.enqueue_many(std::slice::from_ref(dispatch)).await?;
        each.into_iter().next().unwrap_or_else(|| Err(unexpected_reply()))
    }

    /// Stores several dispatches in one transaction. Each one succeeds or fails independently.
    pub async fn enqueue_many(&self, dispatches: &[RunDispatch]) -> Result<Vec<Result<RunDispatch>>> {
        let of_tenant = |row: &RunDispatch| RunDispatch { tenant: self.tenant.clone(), ..row.clone() };
        match self.mail(MailboxOp::Enqueue(dispatches.iter().map(of_tenant).collect())).await? {
            CommitReply::Each(each) => Ok(each),
            _ => Err(unexpected_reply()),
        }
    }

    pub(crate) async fn fenced(
        &self,
        dispatch_id: &str,
        token: &str,
        what: ClaimAction,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        let (tenant, dispatch_id) = (self.tenant.clone(), dispatch_id.to_owned());
        let op = MailboxOp::ClaimAction { tenant, dispatch_id, token: token.to_owned(), what, now };
        match self.mail(op).await? {
            CommitReply::Each(each) => each.into_iter().next().unwrap_or_else(|| Err(unexpected_reply())),
            _ => Err(unexpected_reply()),
        }
    }

    /// Cancels a row that is not claimed.
    pub async fn cancel(&self, dispatch_id: &str, now: Timestamp) -> Result<Option<RunDispatch>> {
        let op = MailboxOp::Cancel { tenant: self.tenant.clone(), dispatch_id: dispatch_id.to_owned(), now };
        Ok(self.rows(op).await?.into_iter().next())
    }

    /// Increments the epoch of the thread: queued rows are superseded, and rows in flight fail at their next operation.
    pub async fn interrupt(&self, thread_id: &str, now: Timestamp) -> Result<MailboxInterrupt> {
        validate_thread(thread_id)?;
        let op = MailboxOp::Interrupt { tenant: self.tenant.clone(), thread: thread_id.to_owned(), now };
        match self.mail(op).await? {
            CommitReply::Interrupted(interrupt) => Ok(*interrupt),
            _ => Err(unexpected_reply()),
        }
    }

    /// Returns the epoch of a thread.
    pub async fn current_dispatch_epoch(&self, thread_id: &str) -> Result<u64> {
        Ok(store::dispatches::epoch(self.engine.db(), &self.tenant, thread_id).await.map_err(Error::from)?)
    }

    /// Returns a dispatch by its id.
    pub async fn load_dispatch(&self, dispatch_id: &str) -> Result<Option<RunDispatch>> {
        let found = store::dispatches::by_id(self.engine.db(), dispatch_id).await.map_err(Error::from)?;
        Ok(found.map(|stored| stored.row).filter(|row| row.tenant == self.tenant))
    }

    /// Returns the rows of a thread in claim order. Without a filter all rows, with an empty filter none.
    pub async fn list_dispatches(
        &self,
        thread_id: &str,
        filter: Option<&[RunDispatchStatus]>,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<RunDispatch>> {
        let page = self.list_page(thread_id, filter, None, limit, offset).await?;
        Ok(page.into_iter().map(|(_, row)| row).collect())
    }

    /// Returns one page of the rows of a thread, each with the cursor of the next page.
    pub async fn page(
        &self,
        thread_id: &str,
        filter: Option<&[RunDispatchStatus]>,
        after: Option<DispatchCursor>,
        limit: usize,
    ) -> Result<Vec<(DispatchCursor, RunDispatch)>> {
        self.list_page(thread_id, filter, after, limit, 0).await
    }

    async fn list_page(
        &self,
        thread_id: &str,
        filter: Option<&[RunDispatchStatus]>,
        after: Option<DispatchCursor>,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<(DispatchCursor, RunDispatch)>> {
        let page = DispatchPage { thread: thread_id, statuses: filter, after, limit, offset };
        let rows = store::dispatches::list(self.engine.db(), &self.tenant, page).await;
        let cursor = |row: &RunDispatch, seq| DispatchCursor {
            priority: row.priority,
            created_at: row.created_at,
            seq,
        };
        Ok(rows.map_err(Error::from)?.into_iter().map(|one| (cursor(&one.row, one.seq), one.row)).collect())
    }

    /// Returns the number of rows of each status, in the order of [`RunDispatchStatus::ALL`].
    pub async fn count_by_status(&self) -> Result<[u64; 6]> {
        Ok(store::dispatches::counts(self.engine.db(), &self.tenant).await.map_err(Error::from)?)
    }

    /// Returns the ids of the threads with queued rows.
    pub async fn queued_thread_ids(&self) -> Result<Vec<String>> {
        Ok(store::dispatches::queued_threads(self.engine.db(), &self.tenant).await.map_err(Error::from)?)
    }

    /// Returns the next time after `now` at which a row becomes available or a lease expires.
    pub async fn next_wakeup(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        Ok(store::dispatches::next_wakeup(self.engine.db(), now).await.map_err(Error::from)?)
    }

    /// Returns ended rows that are not reconciled with their runs yet. The worker reconciles them.
    pub async fn list_terminal_unreconciled(&self, limit: usize) -> Result<Vec<RunDispatch>> {
        let rows = self.engine.unreconciled(limit as u64).await?;
        Ok(rows.into_iter().map(|stored| stored.row).collect())
    }

    /// Reclaims claims whose lease expired before `now`, oldest lease first.
    pub async fn reclaim_expired_leases(&self, now: Timestamp, limit: usize) -> Result<Vec<RunDispatch>> {
        self.rows(MailboxOp::Reclaim { now, limit, which: LapsedClaims::All }).await
    }

    /// Deletes rows that ended and were last changed before `older_than`.
    pub async fn purge_terminal(&self, older_than: Timestamp, limit: usize) -> Result<usize> {
        match self.mail(MailboxOp::Purge { before: older_than, limit, unseen: true }).await? {
            CommitReply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Err(unexpected_reply()),
        }
    }

    async fn rows(&self, op: MailboxOp) -> Result<Vec<RunDispatch>> {
        match self.mail(op).await? {
            CommitReply::Rows(rows) => Ok(rows),
            _ => Err(unexpected_reply()),
        }
    }

    async fn mail(&self, op: MailboxOp) -> Result<CommitReply> {
        Ok(self.engine.mail(op).await?)
    }
}

impl MailboxClaims<'_> {
    /// Claims up to `limit` available rows of a thread, unless a row of the thread is in flight.
    pub async fn claim(
        self,
        thread_id: &str,
        consumer: &str,
        lease_ms: u64,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunDispatch>> {
        let order = claim_order(consumer, lease_ms, now, limit)?;
        if validate_thread(thread_id).is_err() {
            return Ok(Vec::new());
        }
        self.mailbox
            .rows(MailboxOp::Claim {
                tenant: self.mailbox.tenant.clone(),
                thread: thread_id.to_owned(),
                order,
            })
            .await
    }

    /// Claims rows of all threads, at most one per thread, highest priority first.
    pub async fn claim_ready(
        self,
        consumer: &str,
        lease_ms: u64,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunDispatch>> {
        self.mailbox.rows(MailboxOp::ClaimReady(claim_order(consumer, lease_ms, now, limit)?)).await
    }

    /// Claims one row, available or not, unless a row of its thread is in flight.
    pub async fn claim_dispatch(
        self,
        dispatch_id: &str,
        consumer: &str,
        lease_ms: u64,
        now: Timestamp,
    ) -> Result<Option<RunDispatch>> {
        let order = claim_order(consumer, lease_ms, now, 1)?;
        let op = MailboxOp::ClaimDispatch {
            tenant: self.mailbox.tenant.clone(),
            dispatch_id: dispatch_id.to_owned(),
            order,
        };
        Ok(self.mailbox.rows(op).await?.into_iter().next())
    }

    /// Acknowledges the dispatch.
    pub async fn ack(self, dispatch_id: &str, token: &str, now: Timestamp) -> Result<RunDispatch> {
        self.mailbox.fenced(dispatch_id, token, ClaimAction::Ack, now).await
    }

    /// Records a failed attempt. The row is queued again for `retry_at`, or dead-lettered if no attempts are left.
    pub async fn nack(
        self,
        dispatch_id: &str,
        token: &str,
        retry_at: Timestamp,
        error: &str,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.mailbox
            .fenced(dispatch_id, token, ClaimAction::Nack { retry_at, error: error.to_owned() }, now)
            .await
    }

    /// Queues the row again for `retry_at` without counting an attempt, because a required service is unavailable.
    pub async fn postpone(
        self,
        dispatch_id: &str,
        token: &str,
        retry_at: Timestamp,
        error: &str,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.mailbox
            .fenced(dispatch_id, token, ClaimAction::Postpone { retry_at, error: error.to_owned() }, now)
            .await
    }

    /// Dead-letters the dispatch.
    pub async fn dead_letter(
        self,
        dispatch_id: &str,
        token: &str,
        error: &str,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.mailbox
            .fenced(dispatch_id, token, ClaimAction::DeadLetter { error: error.to_owned() }, now)
            .await
    }

    /// Records the start of the execution.
    pub async fn record_dispatch_start(
        self,
        dispatch_id: &str,
        token: &str,
        instance_id: &str,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        let what = ClaimAction::RecordStart { instance_id: instance_id.to_owned() };
        self.mailbox.fenced(dispatch_id, token, what, now).await
    }

    /// Records the result of the run.
    pub async fn record_run_result(
        self,
        dispatch_id: &str,
        token: &str,
        result: &RunDispatchResult,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.mailbox.fenced(dispatch_id, token, ClaimAction::RecordResult(result.clone()), now).await
    }

    /// Records the result and acknowledges the dispatch.
    pub async fn complete(
        self,
        dispatch_id: &str,
        token: &str,
        result: &RunDispatchResult,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.mailbox.fenced(dispatch_id, token, ClaimAction::Complete(result.clone()), now).await
    }

    /// Supersedes a claimed dispatch. Returns None if the row is not claimed.
    pub async fn supersede_claimed(
        self,
        dispatch_id: &str,
        token: &str,
        now: Timestamp,
        reason: &str,
    ) -> Result<Option<RunDispatch>> {
        match self
            .mailbox
            .fenced(dispatch_id, token, ClaimAction::Supersede { reason: reason.to_owned() }, now)
            .await
        {
            Ok(row) => Ok(Some(row)),
            Err(error @ MailboxError::StaleClaim { status: RunDispatchStatus::Claimed, .. }) => Err(error),
            Err(MailboxError::StaleClaim { .. } | MailboxError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the end of the lease to `extension_ms` from `now`. Returns false if the claim is lost.
    pub async fn extend_lease(
        self,
        dispatch_id: &str,
        token: &str,
        extension_ms: u64,
        now: Timestamp,
    ) -> Result<bool> {
        let claim = ClaimToken { dispatch_id: dispatch_id.to_owned(), token: token.to_owned() };
        Ok(self.extend_leases(&[claim], extension_ms, now).await? == [true])
    }

    /// Extends the leases of several claims. Returns false for each claim that is lost.
    pub async fn extend_leases(
        self,
        claims: &[ClaimToken],
        extension_ms: u64,
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        let (tenant, until) = (Some(self.mailbox.tenant.clone()), now.plus_ms(extension_ms));
        Ok(self.mailbox.engine.extend_leases(tenant, claims.to_vec(), until, now).await?)
    }
}

fn claim_order(consumer: &str, lease_ms: u64, now: Timestamp, limit: usize) -> Result<ClaimOrder> {
    if consumer.trim().is_empty() || consumer.contains('\0') {
        return Err(MailboxError::Validation("consumer: must not be empty or contain NUL".to_owned()));
    }
    Ok(ClaimOrder { consumer: consumer.to_owned(), lease_until: now.plus_ms(lease_ms), now, limit })
}

fn unexpected_reply() -> MailboxError {
    MailboxError::Io("the committer returned an unexpected reply".to_owned())
}

impl From<Error> for MailboxError {
    fn from(error: Error) -> Self {
        match error {
            Error::Mailbox(error) => error,
            Error::Busy | Error::Store(store::Error::Busy) => Self::Busy,
            Error::Store(store::Error::Unknown(why)) => Self::CommitUnknown(why),
            Error::Store(error @ store::Error::Unreadable { .. }) => Self::Serialization(error.to_string()),
            other => Self::Io(other.to_string()),
        }
    }
}
