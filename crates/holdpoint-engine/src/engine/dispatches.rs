//! The engine's own dealings with the mailbox, and what operators may do with a dispatch.

use holdpoint_core::mailbox::{MailboxError, RunDispatch, RunDispatchStatus};
use holdpoint_core::{Command, Principal, Refusal, RunId, RunRef, TenantId, Timestamp};
use uuid::Uuid;

use super::{Before, Engine, Once};
use crate::advance::Draft;
use crate::committer::{ClaimOrder, Guard, Mail, MailOp, Reply, Work};
use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::store::dispatches::{self, Doable, Stored};
use crate::store::timers::{self, Due};

/// How long others leave a timer to whoever is firing it.
const TIMER_HOLD_MS: u64 = 10_000;

impl Engine {
    pub fn mailbox(&self, tenant: &TenantId) -> Mailbox {
        Mailbox::new(self.clone(), tenant.clone())
    }

    /// Cancels a dispatch that nobody has claimed, and its run with it. Nothing when it is claimed or has ended.
    pub async fn cancel_dispatch(
        &self,
        tenant: &TenantId,
        dispatch_id: &str,
        by: Principal,
        once: Option<&Once<RunDispatch>>,
    ) -> Result<Option<RunDispatch>, Error> {
        loop {
            let row = self.dispatch(tenant, dispatch_id).await?.row;
            if row.status != RunDispatchStatus::Queued {
                return Ok(None);
            }
            let Some((of, run)) = self.run_of(&row).await? else {
                return self.cancel_row(&row, once).await;
            };
            let before = Before::of(&run);
            let mut draft = Draft::new(run, self.now());
            let reason = Some("its dispatch was cancelled".to_owned());
            match draft.decide(&Command::Cancel { reason, by: by.clone() }) {
                Ok(()) | Err(Refusal::RunFinished(_)) => {}
                Err(refusal) => return Err(refusal.into()),
            }
            let Some(cancelled) = row.cancelled(draft.now) else { return Ok(None) };
            let mail = Mail::Cancel(dispatch_id.to_owned());
            let conflict = match self.family(&of, before, draft, mail).await? {
                Ok(changes) => self.commit_as(changes, once, &cancelled).await?,
                Err(guard) => Some(guard),
            };
            match conflict {
                None => return Ok(Some(self.dispatch(tenant, dispatch_id).await?.row)),
                Some(Guard::Claim) => return Ok(None),
                Some(Guard::Sequence | Guard::Revision | Guard::Receipt | Guard::Arrival) => {}
            }
        }
    }

    /// Of a dispatch that is for no run of ours.
    async fn cancel_row(
        &self,
        row: &RunDispatch,
        once: Option<&Once<RunDispatch>>,
    ) -> Result<Option<RunDispatch>, Error> {
        let now = self.now();
        let Some(cancelled) = row.cancelled(now) else { return Ok(None) };
        let (tenant, dispatch_id) = (row.tenant.clone(), row.dispatch_id.clone());
        let op = Work::Mail(MailOp::Cancel { tenant, dispatch_id, now });
        match self.submit(op, once, &cancelled).await? {
            Reply::Rows(rows) => Ok(rows.into_iter().next()),
            _ => Ok(None),
        }
    }

    /// Gives the run of a dead letter another dispatch.
    pub async fn requeue_dispatch(
        &self,
        tenant: &TenantId,
        dispatch_id: &str,
        once: Option<&Once<RunDispatch>>,
    ) -> Result<RunDispatch, Error> {
        let stored = self.dispatch(tenant, dispatch_id).await?;
        let row = &stored.row;
        if row.status != RunDispatchStatus::DeadLetter {
            let dispatch_id = dispatch_id.to_owned();
            return Err(MailboxError::StaleClaim { dispatch_id, status: row.status }.into());
        }
        if let Some((_, run)) = self.run_of(row).await?
            && run.finished()
        {
            return Err(Refusal::RunFinished(run.status()).into());
        }
        // Two who ask at the same time get one.
        let key = format!("requeue:{dispatch_id}");
        if let Some(existing_dispatch_id) = self.newer(&stored).await? {
            return Err(MailboxError::DuplicateKey { dedupe_key: key, existing_dispatch_id }.into());
        }
        let id = Uuid::now_v7().to_string();
        let fresh = RunDispatch {
            priority: row.priority,
            max_attempts: row.max_attempts,
            dedupe_key: Some(key),
            ..RunDispatch::queued(tenant, &id, &row.thread_id, &row.run_id, self.now())
        };
        let op = Work::Mail(MailOp::Enqueue(vec![fresh.clone()]));
        match self.submit(op, once, &fresh).await? {
            Reply::Each(each) => Ok(each.into_iter().next().unwrap_or(Ok(fresh))?),
            _ => Err(Error::Busy),
        }
    }

    /// Returns the thread whose queue has the dispatches of a run. An id that is no run's is that of a thread.
    pub async fn queue_of(&self, tenant: &TenantId, id: &str) -> Result<String, Error> {
        let Ok(run) = RunId::parse(id) else { return Ok(id.to_owned()) };
        match self.run(&RunRef { tenant: tenant.clone(), run }).await {
            Ok(run) => Ok(run.thread().to_owned()),
            Err(Error::NotFound(_)) => Ok(id.to_owned()),
            Err(error) => Err(error),
        }
    }

    async fn dispatch(&self, tenant: &TenantId, dispatch_id: &str) -> Result<Stored, Error> {
        let found = dispatches::by_id(self.db(), dispatch_id).await?;
        found.filter(|stored| stored.row.tenant == *tenant).ok_or(Error::NotFound("dispatch"))
    }

    /// The run behind a dispatch, if it is one of ours.
    async fn run_of(
        &self,
        row: &RunDispatch,
    ) -> Result<Option<(RunRef, std::sync::Arc<holdpoint_core::Run>)>, Error> {
        let Ok(run) = RunId::parse(&row.run_id) else { return Ok(None) };
        let of = RunRef { tenant: row.tenant.clone(), run };
        match self.load(&of).await {
            Ok(run) => Ok(Some((of, run))),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    // For the worker and the mailbox

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        self.0.lease_ms
    }

    pub(crate) async fn mail(&self, op: MailOp) -> Result<Reply, Error> {
        self.0.committer.submit(Work::Mail(op), None).await
    }

    pub(crate) async fn claim_ready(&self, order: ClaimOrder) -> Result<Vec<RunDispatch>, Error> {
        match self.mail(MailOp::ClaimReady(order)).await? {
            Reply::Rows(rows) => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    pub(crate) async fn extend_leases(
        &self,
        tenant: Option<TenantId>,
        claims: Vec<(String, String)>,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<bool>, Error> {
        match self.mail(MailOp::ExtendLeases { tenant, claims, until, now }).await? {
            Reply::Flags(flags) => Ok(flags),
            _ => Ok(Vec::new()),
        }
    }

    /// Deletes up to `limit` dispatches that ended longer ago than they are kept.
    pub(crate) async fn purge(&self, limit: usize) -> Result<usize, Error> {
        let ms = i64::try_from(self.0.retention_ms).unwrap_or(i64::MAX);
        let before = Timestamp(self.now().0.saturating_sub(ms));
        match self.mail(MailOp::Purge { before, limit, unseen: false }).await? {
            Reply::Touched(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX)),
            _ => Ok(0),
        }
    }

    pub(crate) async fn doable(&self) -> Result<Doable, Error> {
        Ok(dispatches::doable(self.db(), self.now()).await?)
    }

    pub(crate) async fn lapsed(&self, limit: u64) -> Result<Vec<Stored>, Error> {
        Ok(dispatches::lapsed(self.db(), self.now(), limit).await?)
    }

    pub(crate) async fn unreconciled(&self, limit: u64) -> Result<Vec<Stored>, Error> {
        Ok(dispatches::unreconciled(self.db(), limit).await?)
    }

    /// The dispatch that the run got after this one, if it did.
    pub(crate) async fn newer(&self, stored: &Stored) -> Result<Option<String>, Error> {
        Ok(dispatches::newer(self.db(), stored).await?)
    }

    /// Returns when time makes something possible that was not possible at `since`.
    pub(crate) async fn next_dispatch(&self, since: Timestamp) -> Result<Option<Timestamp>, Error> {
        Ok(dispatches::next_wakeup(self.db(), since).await?)
    }

    pub(crate) async fn next_timer(&self, since: Timestamp) -> Result<Option<Timestamp>, Error> {
        Ok(timers::next_due(self.db(), since).await?)
    }

    /// Timers that have come due, each of them for us alone for a while.
    pub(crate) async fn hold_due_timers(&self, limit: u64) -> Result<Vec<Due>, Error> {
        let now = self.now();
        let due = timers::due(self.db(), now, limit).await?;
        if due.is_empty() {
            return Ok(due);
        }
        let until = now.plus_ms(TIMER_HOLD_MS);
        let sets = due.iter().map(|due| due.hold(until, now)).collect();
        match self.0.committer.submit(Work::Each(timers::HOLD, sets), None).await? {
            Reply::Table(rows) => Ok(rows.iter().map(timers::read).collect::<Result<_, _>>()?),
            _ => Ok(Vec::new()),
        }
    }
}
