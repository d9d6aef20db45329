//! Writes jobs that need a transaction of their own. Both databases use this code.

use std::collections::{BTreeSet, HashSet};
use std::future::Future;

use holdpoint_core::mailbox::{
    ClaimAction, MailboxInterrupt, ReclaimedDispatch, RunDispatch, RunDispatchStatus,
};
use holdpoint_core::{TenantId, Timestamp};
use uuid::Uuid;

use super::lock_set::missing_result;
use super::receipts::Receipts;
use super::work::{ClaimOrder, ClaimToken, CommitReply, LapsedClaims, MailboxOp, Work};
use crate::store::dispatches::{self, Reconciliation, StoredDispatch};
use crate::store::receipts::{self, NewReceipt};
use crate::store::{Error, LockScope, Query, QueryResult, Row, Statement, Tx, params};

pub(super) async fn write<T: Tx>(
    tx: &T,
    work: &Work,
    receipt: Option<&NewReceipt>,
    before_commit: impl FnOnce() -> Result<(), Error>,
) -> Result<CommitReply, Error> {
    let (reply, last) = match receipt {
        Some(receipt) => execute_once(tx, work, receipt).await?,
        None => execute(tx, work).await?,
    };
    before_commit()?;
    tx.commit(&last).await?;
    Ok(reply)
}

async fn execute<T: Tx>(tx: &T, work: &Work) -> JobResult {
    match work {
        Work::Plain(statements) => execute_statements(tx, statements).await,
        Work::Mail(op) => execute_mailbox_op(tx, op).await,
        Work::Each(sql, sets) => {
            let answers = tx.begin(&[Query::each(sql, sets.clone())]).await?;
            Ok((CommitReply::Table(answers.into_iter().flat_map(|answer| answer.rows).collect()), Vec::new()))
        }
        Work::Changes(_) | Work::Rows(_) => {
            Err(Error::Failed("work of this kind is only written in a batch".to_owned()))
        }
    }
}

/// Reserves the key of the receipt, then executes the work if the key was free.
async fn execute_once<T: Tx>(tx: &T, work: &Work, receipt: &NewReceipt) -> JobResult {
    let key = &receipt.key;
    let take = Query::one(receipts::TAKE, receipt.values());
    let by_key = Query::one(receipts::BY_KEY, key.values());
    let [taken, found] = each_result(tx.begin(&[take, by_key]).await?)?;
    let mut receipts = Receipts::default();
    receipts.add(&taken, &found)?;
    if let Some(reply) = receipts.find_conflict(key) {
        return Ok((reply, Vec::new()));
    }
    let (reply, mut last) = execute(&OpenTransaction(tx), work).await?;
    if !reply.succeeded() {
        last.push(Query::one(receipts::DROP, key.values()));
    }
    Ok((reply, last))
}

/// A transaction that has begun: `begin` only sends its queries.
struct OpenTransaction<'t, T>(&'t T);

impl<T: Tx> Tx for OpenTransaction<'_, T> {
    const LOCK_SCOPE: LockScope = T::LOCK_SCOPE;

    fn begin(&self, first: &[Query]) -> impl Future<Output = Result<Vec<QueryResult>, Error>> + Send {
        self.0.all(first)
    }

    fn all(&self, queries: &[Query]) -> impl Future<Output = Result<Vec<QueryResult>, Error>> + Send {
        self.0.all(queries)
    }

    fn commit(&self, last: &[Query]) -> impl Future<Output = Result<(), Error>> + Send {
        self.0.commit(last)
    }

    fn rollback(&self) -> impl Future<Output = ()> + Send {
        self.0.rollback()
    }
}

/// The reply, and the statements that are still to be written with the commit.
type JobResult = Result<(CommitReply, Vec<Query>), Error>;

async fn execute_mailbox_op<T: Tx>(tx: &T, op: &MailboxOp) -> JobResult {
    match op {
        MailboxOp::Claim { tenant, thread, order } => claim(tx, tenant, thread, order).await,
        MailboxOp::ClaimDispatch { tenant, dispatch_id, order } => {
            claim_dispatch(tx, tenant, dispatch_id, order).await
        }
        MailboxOp::ExtendLeases { tenant, claims, until, now } => {
            extend(tx, tenant.as_ref(), claims, *until, *now).await
        }
        MailboxOp::Cancel { tenant, dispatch_id, now } => cancel(tx, tenant, dispatch_id, *now).await,
        MailboxOp::Interrupt { tenant, thread, now } => interrupt(tx, tenant, thread, *now).await,
        MailboxOp::Reclaim { now, limit, which } => reclaim(tx, *now, *limit, *which).await,
        MailboxOp::ReclaimAll { now } => reclaim_all(tx, *now).await,
        MailboxOp::Purge { before, limit, unseen } => {
            let values = params![*before, i64::from(*unseen), *limit as u64];
            let answers = tx.begin(&[Query::one(dispatches::PURGE, values)]).await?;
            Ok((CommitReply::Touched(answers.iter().map(|answer| answer.touched).sum()), Vec::new()))
        }
        MailboxOp::Enqueue(_) | MailboxOp::ClaimReady(_) | MailboxOp::ClaimAction { .. } => {
            Err(Error::Failed("this operation is only written in a batch".to_owned()))
        }
    }
}

/// Replies with the number of rows that the last statement changed, or with `Done` if there is only a receipt to write.
async fn execute_statements<T: Tx>(tx: &T, statements: &[Statement]) -> JobResult {
    if statements.is_empty() {
        return Ok((CommitReply::Done, Vec::new()));
    }
    let query = |of: &Statement| Query { sql: of.sql, sets: vec![of.params.clone()], lock: None };
    let queries: Vec<Query> = statements.iter().map(query).collect();
    let answers = tx.begin(&queries).await?;
    Ok((CommitReply::Touched(answers.last().map_or(0, |answer| answer.touched)), Vec::new()))
}

async fn claim<T: Tx>(tx: &T, tenant: &TenantId, thread: &str, order: &ClaimOrder) -> JobResult {
    tx.begin(&[lock_thread(tenant, thread)]).await?;
    let values = params![tenant.as_str(), thread, order.now, order.limit as u64];
    let heads = stored(&tx.all(&[Query::one(dispatches::HEADS, values).locking_within("d")]).await?)?;
    let mut updates = DispatchUpdates::default();
    let claimed = heads.iter().map(|head| updates.claim(head, order)).collect::<Result<_, _>>()?;
    Ok((CommitReply::Rows(claimed), updates.queries()))
}

/// Claims a dispatch for a caller that performs it at once. The dispatch need not be available yet.
async fn claim_dispatch<T: Tx>(tx: &T, tenant: &TenantId, id: &str, order: &ClaimOrder) -> JobResult {
    let by_id = Query::one(dispatches::BY_ID, params![id]);
    let found = stored(&tx.begin(std::slice::from_ref(&by_id)).await?)?;
    let Some(thread) =
        found.iter().find(|found| found.row.tenant == *tenant).map(|found| &found.row.thread_id)
    else {
        return Ok((CommitReply::Rows(Vec::new()), Vec::new()));
    };
    // The thread is locked before the row, as in every transaction; then the row is read under that lock.
    tx.all(&[lock_thread(tenant, thread)]).await?;
    let active = Query::one(dispatches::ACTIVE, params![tenant.as_str(), thread.as_str()]);
    let [found, active] = each_result(tx.all(&[by_id.locking("d", "d.dispatch_id"), active]).await?)?;
    let (found, active) = (stored(&[found])?, stored(&[active])?);
    let mut updates = DispatchUpdates::default();
    let mut claimed = Vec::new();
    if let Some(found) = found.first().filter(|found| found.row.status == RunDispatchStatus::Queued) {
        if found.row.dispatch_epoch < found.epoch {
            let superseded = found.row.superseded_by_interrupt(order.now);
            updates.add(found, &superseded, Reconciliation::Pending)?;
        } else if active.is_empty() {
            claimed.push(updates.claim(found, order)?);
        }
    }
    Ok((CommitReply::Rows(claimed), updates.queries()))
}

/// Extends all claims with one statement. Reads only the claims that it did not return, to find superseded ones.
async fn extend<T: Tx>(
    tx: &T,
    tenant: Option<&TenantId>,
    claims: &[ClaimToken],
    until: Timestamp,
    now: Timestamp,
) -> JobResult {
    let owner = tenant.map_or("", TenantId::as_str);
    // In the order of their ids, as in every transaction.
    let claims_in_order: BTreeSet<&ClaimToken> = claims.iter().collect();
    let set =
        |claim: &ClaimToken| params![until, now, claim.dispatch_id.as_str(), claim.token.as_str(), owner];
    let sets = claims_in_order.into_iter().map(set).collect();
    let answers = tx.begin(&[Query::each(dispatches::EXTEND, sets)]).await?;
    let mut kept = HashSet::new();
    for row in answers.iter().flat_map(|answer| &answer.rows) {
        let (dispatch_id, token) = (row.text("dispatch_id")?, row.text("claim_token")?);
        kept.insert(ClaimToken { dispatch_id: dispatch_id.to_owned(), token: token.to_owned() });
    }
    let mut updates = DispatchUpdates::default();
    let lost: Vec<_> = claims.iter().filter(|claim| !kept.contains(*claim)).collect();
    if !lost.is_empty() {
        let sets = lost.iter().map(|claim| params![claim.dispatch_id.as_str()]).collect();
        let found = Query::each(dispatches::BY_ID, sets).locking("d", "d.dispatch_id");
        let found = stored(&tx.all(&[found]).await?)?;
        for found in found.iter().filter(|found| tenant.is_none_or(|tenant| found.row.tenant == *tenant)) {
            let claim = lost.iter().find(|claim| claim.dispatch_id == found.row.dispatch_id);
            let token = claim.map_or("", |claim| claim.token.as_str());
            let denied =
                found.row.apply_claim_action(token, &ClaimAction::ExtendLease { until }, found.epoch, now);
            if let Some(superseded) = denied.err().and_then(|denied| denied.superseded) {
                updates.add(found, &superseded, Reconciliation::Pending)?;
            }
        }
    }
    Ok((CommitReply::Flags(claims.iter().map(|claim| kept.contains(claim)).collect()), updates.queries()))
}

async fn cancel<T: Tx>(tx: &T, tenant: &TenantId, id: &str, now: Timestamp) -> JobResult {
    let by_id = Query::one(dispatches::BY_ID, params![id]).locking("d", "d.dispatch_id");
    let found = stored(&tx.begin(&[by_id]).await?)?;
    let mut updates = DispatchUpdates::default();
    let mut cancelled = Vec::new();
    if let Some(found) = found.first().filter(|found| found.row.tenant == *tenant)
        && let Some(to) = found.row.cancelled(now)
    {
        updates.add(found, &to, Reconciliation::Pending)?;
        cancelled.push(to);
    }
    Ok((CommitReply::Rows(cancelled), updates.queries()))
}

async fn interrupt<T: Tx>(tx: &T, tenant: &TenantId, thread: &str, now: Timestamp) -> JobResult {
    let key = || params![tenant.as_str(), thread];
    let raise = [Query::one(dispatches::ADD_THREAD, key()), Query::one(dispatches::RAISE_EPOCH, key())];
    let answers = tx.begin(&raise).await?;
    let raised = answers.last().and_then(|answer| answer.rows.first());
    let epoch = raised.map_or(Ok(0), |row| row.count("epoch"))?;
    // The claimed dispatch is locked first. If a worker returns it to the queue at this moment, this waits until the
    // queue contains it.
    let active = Query::one(dispatches::ACTIVE, key()).locking_within("d");
    let queued = Query::one(dispatches::OVERTAKEN, key()).locking_within("d");
    let [active, queued] = each_result(tx.all(&[active, queued]).await?)?;
    let (active, queued) = (stored(&[active])?, stored(&[queued])?);
    let mut updates = DispatchUpdates::default();
    let mut superseded = Vec::with_capacity(queued.len());
    for found in &queued {
        let to = found.row.superseded_by_interrupt(now);
        updates.add(found, &to, Reconciliation::Pending)?;
        superseded.push(to);
    }
    let reply = MailboxInterrupt {
        new_dispatch_epoch: epoch,
        active_dispatch: active.into_iter().next().map(|found| found.row),
        superseded_count: superseded.len(),
        superseded_dispatches: superseded,
    };
    Ok((CommitReply::Interrupted(Box::new(reply)), updates.queries()))
}

async fn reclaim<T: Tx>(tx: &T, now: Timestamp, limit: usize, which: LapsedClaims) -> JobResult {
    let values = params![now, i64::from(which == LapsedClaims::Returnable), limit as u64];
    let lapsed = Query::one(dispatches::LAPSED, values).locking_free("d");
    let mut found = stored(&tx.begin(&[lapsed]).await?)?;
    let ids = found.iter().map(|found| params![found.row.dispatch_id.as_str()]).collect();
    for row in
        tx.all(&[Query::each(dispatches::EPOCH_BY_ID, ids)]).await?.iter().flat_map(|answer| &answer.rows)
    {
        let id = row.text("dispatch_id")?;
        if let Some(found) = found.iter_mut().find(|found| found.row.dispatch_id == id) {
            found.epoch = row.count("epoch")?;
        }
    }
    let reclaimed = found.iter().filter_map(|found| Some((found, found.row.reclaimed(found.epoch, now)?)));
    update_reclaimed(reclaimed)
}

async fn reclaim_all<T: Tx>(tx: &T, now: Timestamp) -> JobResult {
    let found = stored(&tx.begin(&[Query::one(dispatches::ALL_CLAIMED, Vec::new())]).await?)?;
    let why = "the process that held it has ended";
    update_reclaimed(found.iter().map(|found| (found, found.row.force_reclaimed(why, found.epoch, now))))
}

fn update_reclaimed<'f>(found: impl Iterator<Item = (&'f StoredDispatch, ReclaimedDispatch)>) -> JobResult {
    let mut updates = DispatchUpdates::default();
    let mut returned = Vec::new();
    for (found, reclaimed) in found {
        match reclaimed {
            ReclaimedDispatch::Superseded(to) => updates.add(found, &to, Reconciliation::Pending)?,
            ReclaimedDispatch::Returned(to) => {
                updates.add(found, &to, Reconciliation::after(&to))?;
                returned.push(to);
            }
        }
    }
    Ok((CommitReply::Rows(returned), updates.queries()))
}

fn lock_thread(tenant: &TenantId, thread: &str) -> Query {
    Query::one(dispatches::THREAD, params![tenant.as_str(), thread]).locking("t", "t.tenant_id, t.thread_id")
}

/// Returns one result for each of `N` queries.
fn each_result<const N: usize>(results: Vec<QueryResult>) -> Result<[QueryResult; N], Error> {
    results.try_into().map_err(|_| missing_result())
}

fn stored(answers: &[QueryResult]) -> Result<Vec<StoredDispatch>, Error> {
    let rows: Vec<&Row> = answers.iter().flat_map(|answer| &answer.rows).collect();
    rows.into_iter().map(dispatches::read).collect()
}

/// The dispatches to update at the end of the transaction.
#[derive(Default)]
struct DispatchUpdates(Vec<Query>);

impl DispatchUpdates {
    fn add(
        &mut self,
        from: &StoredDispatch,
        to: &RunDispatch,
        reconciliation: Reconciliation,
    ) -> Result<(), Error> {
        let to = StoredDispatch { row: to.clone(), ..*from };
        let Statement { sql, params } = dispatches::update(&from.row, &to, reconciliation)?;
        match self.0.iter_mut().find(|query| query.sql == sql) {
            Some(query) => query.sets.push(params),
            None => self.0.push(Query { sql, sets: vec![params], lock: None }),
        }
        Ok(())
    }

    fn claim(&mut self, head: &StoredDispatch, order: &ClaimOrder) -> Result<RunDispatch, Error> {
        let token = Uuid::now_v7().to_string();
        let to = head.row.claimed(token, &order.consumer, order.lease_until, order.now);
        self.add(head, &to, Reconciliation::NotNeeded)?;
        Ok(to)
    }

    fn queries(self) -> Vec<Query> {
        self.0
    }
}
