//! The mailbox of one tenant, operation by operation. Each call is one transaction, shared with whatever else is
//! written at that moment, and returns when it is on disk. Time is always an argument.

use holdpoint_core::mailbox::{
    Fenced, MailboxError, MailboxInterrupt, RunDispatch, RunDispatchResult, RunDispatchStatus,
    validate_thread,
};
use holdpoint_core::{TenantId, Timestamp};

use crate::committer::{ClaimOrder, MailOp, Reply};
use crate::engine::Engine;
use crate::error::Error;
use crate::store;

/// A handle to the queues of one tenant; clones share it. `claim_ready`, `reclaim_expired_leases`, `purge_terminal`,
/// `list_terminal_unreconciled` and `next_wakeup` are for those who work for everybody: they look across tenants.
#[derive(Clone, Debug)]
pub struct Mailbox {
    engine: Engine,
    tenant: TenantId,
}

type Result<T> = std::result::Result<T, MailboxError>;

/// A place in a thread's list; pages continue behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchCursor {
    pub priority: u8,
    pub created_at: Timestamp,
    pub seq: u64,
}

impl Mailbox {
    pub(crate) fn new(engine: Engine, tenant: TenantId) -> Self {
        Self { engine, tenant }
    }

    // Into the queue

    /// Stores a queued dispatch with its thread's epoch.
    pub async fn enqueue(&self, dispatch: &RunDispatch) -> Result<RunDispatch> {
        let each = self.enqueue_many(std::slice::from_ref(dispatch)).await?;
        each.into_iter().next().unwrap_or_else(|| Err(odd()))
    }

    /// One transaction; each succeeds or fails for itself.
    pub async fn enqueue_many(&self, dispatches: &[RunDispatch]) -> Result<Vec<Result<RunDispatch>>> {
        let of_tenant = |row: &RunDispatch| RunDispatch { tenant: self.tenant.clone(), ..row.clone() };
        match self.mail(MailOp::Enqueue(dispatches.iter().map(of_tenant).collect())).await? {
            Reply::Each(each) => Ok(each),
            _ => Err(odd()),
        }
    }

    // Out of the queue

    /// Claims up to `limit` available rows of a thread, unless something of it is in flight.
    pub async fn claim(
        &self,
        thread_id: &str,
        consumer: &str,
        lease_ms: u64,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunDispatch>> {
        let order = order(consumer, lease_ms, now, limit)?;
        if validate_thread(thread_id).is_err() {
            return Ok(Vec::new());
        }
        self.rows(MailOp::Claim { tenant: self.tenant.clone(), thread: thread_id.to_owned(), order }).await
    }

    /// Claims across threads, at most one row of each, the most urgent first.
    pub async fn claim_ready(
        &self,
        consumer: &str,
        lease_ms: u64,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunDispatch>> {
        self.rows(MailOp::ClaimReady(order(consumer, lease_ms, now, limit)?)).await
    }

    /// Claims one row, available or not, unless something of its thread is in flight.
    pub async fn claim_dispatch(
        &self,
        dispatch_id: &str,
        consumer: &str,
        lease_ms: u64,
        now: Timestamp,
    ) -> Result<Option<RunDispatch>> {
        let order = order(consumer, lease_ms, now, 1)?;
        let op =
            MailOp::ClaimDispatch { tenant: self.tenant.clone(), dispatch_id: dispatch_id.to_owned(), order };
        Ok(self.rows(op).await?.into_iter().next())
    }

    // By the holder of a claim. All return the row as it is then.

    pub async fn ack(&self, dispatch_id: &str, token: &str, now: Timestamp) -> Result<RunDispatch> {
        self.fenced(dispatch_id, token, Fenced::Ack, now).await
    }

    /// Back into the queue until `retry_at`, or a dead letter when the attempts are used up.
    pub async fn nack(
        &self,
        dispatch_id: &str,
        token: &str,
        retry_at: Timestamp,
        error: &str,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.fenced(dispatch_id, token, Fenced::Nack { retry_at, error: error.to_owned() }, now).await
    }

    /// Back into the queue until `retry_at`, without a failed attempt: the work waits for something that is away.
    pub async fn postpone(
        &self,
        dispatch_id: &str,
        token: &str,
        retry_at: Timestamp,
        error: &str,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.fenced(dispatch_id, token, Fenced::Postpone { retry_at, error: error.to_owned() }, now).await
    }

    pub async fn dead_letter(
        &self,
        dispatch_id: &str,
        token: &str,
        error: &str,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.fenced(dispatch_id, token, Fenced::DeadLetter { error: error.to_owned() }, now).await
    }

    pub async fn record_dispatch_start(
        &self,
        dispatch_id: &str,
        token: &str,
        instance_id: &str,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        let what = Fenced::RecordStart { instance_id: instance_id.to_owned() };
        self.fenced(dispatch_id, token, what, now).await
    }

    pub async fn record_run_result(
        &self,
        dispatch_id: &str,
        token: &str,
        result: &RunDispatchResult,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.fenced(dispatch_id, token, Fenced::RecordResult(result.clone()), now).await
    }

    /// The result and the ack in one.
    pub async fn complete(
        &self,
        dispatch_id: &str,
        token: &str,
        result: &RunDispatchResult,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        self.fenced(dispatch_id, token, Fenced::Complete(result.clone()), now).await
    }

    /// Nothing when the row is not claimed.
    pub async fn supersede_claimed(
        &self,
        dispatch_id: &str,
        token: &str,
        now: Timestamp,
        reason: &str,
    ) -> Result<Option<RunDispatch>> {
        match self.fenced(dispatch_id, token, Fenced::Supersede { reason: reason.to_owned() }, now).await {
            Ok(row) => Ok(Some(row)),
            Err(error @ MailboxError::StaleClaim { status: RunDispatchStatus::Claimed, .. }) => Err(error),
            Err(MailboxError::StaleClaim { .. } | MailboxError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the lease end `extension_ms` from now. False when the claim is lost.
    pub async fn extend_lease(
        &self,
        dispatch_id: &str,
        token: &str,
        extension_ms: u64,
        now: Timestamp,
    ) -> Result<bool> {
        let claim = (dispatch_id.to_owned(), token.to_owned());
        Ok(self.extend_leases(&[claim], extension_ms, now).await? == [true])
    }

    /// The same for many claims at once, each a dispatch id and its token.
    pub async fn extend_leases(
        &self,
        claims: &[(String, String)],
        extension_ms: u64,
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        let (tenant, until) = (Some(self.tenant.clone()), now.plus_ms(extension_ms));
        Ok(self.engine.extend_leases(tenant, claims.to_vec(), until, now).await?)
    }

    pub(crate) async fn fenced(
        &self,
        dispatch_id: &str,
        token: &str,
        what: Fenced,
        now: Timestamp,
    ) -> Result<RunDispatch> {
        let (tenant, dispatch_id) = (self.tenant.clone(), dispatch_id.to_owned());
        let op = MailOp::Fenced { tenant, dispatch_id, token: token.to_owned(), what, now };
        match self.mail(op).await? {
            Reply::Each(each) => each.into_iter().next().unwrap_or_else(|| Err(odd())),
            _ => Err(odd()),
        }
    }

    // By those who control

    /// Cancels a row that nobody has claimed.
    pub async fn cancel(&self, dispatch_id: &str, now: Timestamp) -> Result<Option<RunDispatch>> {
        let op = MailOp::Cancel { tenant: self.tenant.clone(), dispatch_id: dispatch_id.to_owned(), now };
        Ok(self.rows(op).await?.into_iter().next())
    }

    /// Raises the thread's epoch: what is queued is superseded, what is in flight fails at its next call.
    pub async fn interrupt(&self, thread_id: &str, now: Timestamp) -> Result<MailboxInterrupt> {
        validate_thread(thread_id)?;
        let op = MailOp::Interrupt { tenant: self.tenant.clone(), thread: thread_id.to_owned(), now };
        match self.mail(op).await? {
            Reply::Interrupted(interrupt) => Ok(*interrupt),
            _ => Err(odd()),
        }
    }

    // Reading

    pub async fn current_dispatch_epoch(&self, thread_id: &str) -> Result<u64> {
        Ok(store::dispatches::epoch(self.engine.db(), &self.tenant, thread_id).await.map_err(Error::from)?)
    }

    pub async fn load_dispatch(&self, dispatch_id: &str) -> Result<Option<RunDispatch>> {
        let found = store::dispatches::by_id(self.engine.db(), dispatch_id).await.map_err(Error::from)?;
        Ok(found.map(|stored| stored.row).filter(|row| row.tenant == self.tenant))
    }

    /// Rows of a thread in claim order. No filter means all, an empty one nothing.
    pub async fn list_dispatches(
        &self,
        thread_id: &str,
        filter: Option<&[RunDispatchStatus]>,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<RunDispatch>> {
        let page = self.listed(thread_id, filter, None, limit, offset).await?;
        Ok(page.into_iter().map(|(_, row)| row).collect())
    }

    /// The same, page by page: each row with its place, behind which the next page begins.
    pub async fn page(
        &self,
        thread_id: &str,
        filter: Option<&[RunDispatchStatus]>,
        after: Option<DispatchCursor>,
        limit: usize,
    ) -> Result<Vec<(DispatchCursor, RunDispatch)>> {
        self.listed(thread_id, filter, after, limit, 0).await
    }

    async fn listed(
        &self,
        thread_id: &str,
        filter: Option<&[RunDispatchStatus]>,
        after: Option<DispatchCursor>,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<(DispatchCursor, RunDispatch)>> {
        let place =
            |cursor: DispatchCursor| (i64::from(cursor.priority), cursor.created_at.0, whole(cursor.seq));
        let after = after.map_or((-1, i64::MIN, 0), place);
        let limits = (limit as u64, offset as u64);
        let db = self.engine.db();
        let rows = store::dispatches::list(db, &self.tenant, thread_id, filter, after, limits).await;
        let cursor = |row: &RunDispatch, seq| DispatchCursor {
            priority: row.priority,
            created_at: row.created_at,
            seq,
        };
        Ok(rows.map_err(Error::from)?.into_iter().map(|one| (cursor(&one.row, one.seq), one.row)).collect())
    }

    /// How many rows there are of each status, in the order of [`RunDispatchStatus::ALL`].
    pub async fn count_by_status(&self) -> Result<[u64; 6]> {
        Ok(store::dispatches::counts(self.engine.db(), &self.tenant).await.map_err(Error::from)?)
    }

    pub async fn queued_thread_ids(&self) -> Result<Vec<String>> {
        Ok(store::dispatches::queued_threads(self.engine.db(), &self.tenant).await.map_err(Error::from)?)
    }

    /// When, after `now`, something becomes available or a lease has run out.
    pub async fn next_wakeup(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        Ok(store::dispatches::next_wakeup(self.engine.db(), now).await.map_err(Error::from)?)
    }

    /// Ended rows whose runs somebody must still see to; the engine's worker does.
    pub async fn list_terminal_unreconciled(&self, limit: usize) -> Result<Vec<RunDispatch>> {
        let rows = self.engine.unreconciled(limit as u64).await?;
        Ok(rows.into_iter().map(|stored| stored.row).collect())
    }

    // Upkeep

    /// Takes back claims whose lease ended before `now`, those with the oldest lease first.
    pub async fn reclaim_expired_leases(&self, now: Timestamp, limit: usize) -> Result<Vec<RunDispatch>> {
        self.rows(MailOp::Reclaim { now, limit, returnable: false }).await
    }

    /// Deletes rows that ended and were last changed before `older_than`.
    pub async fn purge_terminal(&self, older_than: Timestamp, limit: usize) -> Result<usize> {
        match self.mail(MailOp::Purge { before: older_than, limit, unseen: true }).await? {
            Reply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Err(odd()),
        }
    }

    async fn rows(&self, op: MailOp) -> Result<Vec<RunDispatch>> {
        match self.mail(op).await? {
            Reply::Rows(rows) => Ok(rows),
            _ => Err(odd()),
        }
    }

    async fn mail(&self, op: MailOp) -> Result<Reply> {
        Ok(self.engine.mail(op).await?)
    }
}

fn order(consumer: &str, lease_ms: u64, now: Timestamp, limit: usize) -> Result<ClaimOrder> {
    if consumer.trim().is_empty() || consumer.contains('\0') {
        return Err(MailboxError::Validation("a consumer needs a name, without NUL".to_owned()));
    }
    Ok(ClaimOrder { consumer: consumer.to_owned(), lease_until: now.plus_ms(lease_ms), now, limit })
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn odd() -> MailboxError {
    MailboxError::Io("the committer gave an answer to another question".to_owned())
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
