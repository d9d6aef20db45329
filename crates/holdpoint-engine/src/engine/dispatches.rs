//! Dispatches: the engine's access to the mailbox, and the operations of operators.

use holdpoint_core::mailbox::{MailboxError, RESERVED_KEY_PREFIX, RunDispatch, RunDispatchStatus};
use holdpoint_core::{Command, Principal, Refusal, RunId, RunRef, TenantId, Timestamp};
use uuid::Uuid;

use super::{CommitOutcome, Dispatches, Engine, Once};
use crate::committer::{ClaimOrder, ClaimToken, CommitReply, MailboxAction, MailboxOp, Precondition, Work};
use crate::draft::RunDraft;
use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::store::dispatches::{self, AvailableWork, StoredDispatch};
use crate::store::timers::{self, DueTimer};

/// The duration of a claim of a timer, in milliseconds.
const TIMER_CLAIM_MS: u64 = 10_000;

impl Dispatches<'_> {
    /// Cancels a queued dispatch and its run. Returns `None` if the dispatch is claimed or has ended.
    pub async fn cancel(
        self,
        tenant: &TenantId,
        dispatch_id: &str,
        by: Principal,
        once: Option<&Once<RunDispatch>>,
    ) -> Result<Option<RunDispatch>, Error> {
        loop {
            let row = self.engine.dispatch(tenant, dispatch_id).await?.row;
            if row.status != RunDispatchStatus::Queued {
                return Ok(None);
            }
            let Some((of, run)) = self.engine.run_of(&row).await? else {
                return self.engine.cancel_row(&row, once).await;
            };
            let mut draft = RunDraft::new(of, run, self.engine.now());
            let reason = Some("its dispatch was cancelled".to_owned());
            match draft.decide(&Command::Cancel { reason, by: by.clone() }) {
                Ok(()) | Err(Refusal::RunFinished(_)) => {}
                Err(refusal) => return Err(refusal.into()),
            }
            let Some(cancelled) = row.cancelled(draft.now) else { return Ok(None) };
            draft.mail = MailboxAction::Cancel(dispatch_id.to_owned());
            match self.engine.commit(draft, self.engine.new_receipt(once, &cancelled)).await? {
                CommitOutcome::Written => {
                    return Ok(Some(self.engine.dispatch(tenant, dispatch_id).await?.row));
                }
                CommitOutcome::Conflict(Precondition::Claim) => return Ok(None),
                CommitOutcome::Conflict(
                    Precondition::Sequence
                    | Precondition::Revision
                    | Precondition::Receipt
                    | Precondition::Arrival,
                ) => {}
            }
        }
    }

    /// Creates a new dispatch for the run of a dead letter.
    pub async fn requeue(
        self,
        tenant: &TenantId,
        dispatch_id: &str,
        once: Option<&Once<RunDispatch>>,
    ) -> Result<RunDispatch, Error> {
        let stored = self.engine.dispatch(tenant, dispatch_id).await?;
        let row = &stored.row;
        if row.status != RunDispatchStatus::DeadLetter {
            let dispatch_id = dispatch_id.to_owned();
            return Err(MailboxError::StaleClaim { dispatch_id, status: row.status }.into());
        }
        if let Some((_, run)) = self.engine.run_of(row).await?
            && run.finished()
        {
            return Err(Refusal::RunFinished(run.status()).into());
        }
        // Concurrent requests create one dispatch.
        let key = format!("{RESERVED_KEY_PREFIX}{dispatch_id}");
        if let Some(existing_dispatch_id) = self.engine.newer_dispatch(&stored).await? {
            return Err(MailboxError::DuplicateKey { dedupe_key: key, existing_dispatch_id }.into());
        }
        let id = Uuid::now_v7().to_string();
        let fresh = RunDispatch {
            priority: row.priority,
            max_attempts: row.max_attempts,
            dedupe_key: Some(key),
            ..RunDispatch::queued(tenant, &id, &row.thread_id, &row.run_id, self.engine.now())
        };
        let op = Work::Mail(MailboxOp::Enqueue(vec![fresh.clone()]));
        match self.engine.submit(op, once, &fresh).await? {
            CommitReply::Each(each) => Ok(each.into_iter().next().unwrap_or(Ok(fresh))?),
            _ => Err(Error::Busy),
        }
    }

    /// Returns the dispatch thread of a run. An id that is not the id of a run is returned as it is.
    pub async fn thread_of(self, tenant: &TenantId, id: &str) -> Result<String, Error> {
        let Ok(run) = RunId::parse(id) else { return Ok(id.to_owned()) };
        match self.engine.runs().get(&RunRef { tenant: tenant.clone(), run }).await {
            Ok(run) => Ok(run.thread().to_owned()),
            Err(Error::NotFound(_)) => Ok(id.to_owned()),
            Err(error) => Err(error),
        }
    }

    /// Fails if a live dispatch of the thread has the deduplication key. Only the commit of a dispatch is a reliable
    /// check; this one keeps a request that will fail from changing the thread before.
    pub async fn check_key_free(self, tenant: &TenantId, thread: &str, key: &str) -> Result<(), Error> {
        let dedupe_key = key.to_owned();
        match dispatches::by_live_key(self.engine.db(), tenant, thread, key).await? {
            Some(existing_dispatch_id) => {
                Err(MailboxError::DuplicateKey { dedupe_key, existing_dispatch_id }.into())
            }
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Returns the mailbox of a tenant.
    pub fn mailbox(&self, tenant: &TenantId) -> Mailbox {
        Mailbox::new(self.clone(), tenant.clone())
    }

    /// Cancels a dispatch whose run is not stored in this database.
    async fn cancel_row(
        &self,
        row: &RunDispatch,
        once: Option<&Once<RunDispatch>>,
    ) -> Result<Option<RunDispatch>, Error> {
        let now = self.now();
        let Some(cancelled) = row.cancelled(now) else { return Ok(None) };
        let (tenant, dispatch_id) = (row.tenant.clone(), row.dispatch_id.clone());
        let op = Work::Mail(MailboxOp::Cancel { tenant, dispatch_id, now });
        match self.submit(op, once, &cancelled).await? {
            CommitReply::Rows(rows) => Ok(rows.into_iter().next()),
            _ => Ok(None),
        }
    }

    async fn dispatch(&self, tenant: &TenantId, dispatch_id: &str) -> Result<StoredDispatch, Error> {
        let found = dispatches::by_id(self.db(), dispatch_id).await?;
        found.filter(|stored| stored.row.tenant == *tenant).ok_or(Error::NotFound("dispatch"))
    }

    /// Returns the run of a dispatch, if it is stored in this database.
    async fn run_of(
        &self,
        row: &RunDispatch,
    ) -> Result<Option<(RunRef, std::sync::Arc<holdpoint_core::Run>)>, Error> {
        let Ok(run) = RunId::parse(&row.run_id) else { return Ok(None) };
        let of = RunRef { tenant: row.tenant.clone(), run };
        match self.runs().get_stored(&of).await {
            Ok(run) => Ok(Some((of, run))),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    // For the worker and the mailbox

    /// Returns the name under which this node claims work.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        self.0.lease_ms
    }

    pub(crate) async fn mail(&self, op: MailboxOp) -> Result<CommitReply, Error> {
        self.0.committer.submit(Work::Mail(op), None).await
    }

    pub(crate) async fn claim_ready(&self, order: ClaimOrder) -> Result<Vec<RunDispatch>, Error> {
        match self.mail(MailboxOp::ClaimReady(order)).await? {
            CommitReply::Rows(rows) => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    pub(crate) async fn extend_leases(
        &self,
        tenant: Option<TenantId>,
        claims: Vec<ClaimToken>,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<bool>, Error> {
        match self.mail(MailboxOp::ExtendLeases { tenant, claims, until, now }).await? {
            CommitReply::Flags(flags) => Ok(flags),
            _ => Ok(Vec::new()),
        }
    }

    /// Deletes up to `limit` dispatches whose retention has ended.
    pub(crate) async fn purge(&self, limit: usize) -> Result<usize, Error> {
        let ms = i64::try_from(self.0.retention_ms).unwrap_or(i64::MAX);
        let before = Timestamp(self.now().0.saturating_sub(ms));
        match self.mail(MailboxOp::Purge { before, limit, unseen: false }).await? {
            CommitReply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }

    pub(crate) async fn doable(&self) -> Result<AvailableWork, Error> {
        Ok(dispatches::available_work(self.db(), self.now()).await?)
    }

    pub(crate) async fn lapsed(&self, limit: u64) -> Result<Vec<StoredDispatch>, Error> {
        Ok(dispatches::lapsed(self.db(), self.now(), limit).await?)
    }

    pub(crate) async fn unreconciled(&self, limit: u64) -> Result<Vec<StoredDispatch>, Error> {
        Ok(dispatches::unreconciled(self.db(), limit).await?)
    }

    /// Returns the dispatch that the run got after this one, if any.
    pub(crate) async fn newer_dispatch(&self, stored: &StoredDispatch) -> Result<Option<String>, Error> {
        Ok(dispatches::newer(self.db(), stored).await?)
    }

    /// Returns the next time after `since` at which a dispatch becomes ready.
    pub(crate) async fn next_dispatch(&self, since: Timestamp) -> Result<Option<Timestamp>, Error> {
        Ok(dispatches::next_wakeup(self.db(), since).await?)
    }

    pub(crate) async fn next_timer(&self, since: Timestamp) -> Result<Option<Timestamp>, Error> {
        Ok(timers::next_due(self.db(), since).await?)
    }

    /// Claims timers that are due.
    pub(crate) async fn claim_due_timers(&self, limit: u64) -> Result<Vec<DueTimer>, Error> {
        let now = self.now();
        let due = timers::due(self.db(), now, limit).await?;
        if due.is_empty() {
            return Ok(due);
        }
        let until = now.plus_ms(TIMER_CLAIM_MS);
        let sets = due.iter().map(|due| due.hold(until, now)).collect();
        match self.0.committer.submit(Work::Each(timers::HOLD, sets), None).await? {
            CommitReply::Table(rows) => Ok(rows.iter().map(timers::read).collect::<Result<_, _>>()?),
            _ => Ok(Vec::new()),
        }
    }
}
