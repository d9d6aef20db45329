//! Jobs that take a transaction of their own, as scripts of statements. The same for every database.

use std::collections::{BTreeSet, HashSet};
use std::future::Future;

use holdpoint_core::mailbox::{Fenced, MailboxInterrupt, Reclaimed, RunDispatch, RunDispatchStatus};
use holdpoint_core::{TenantId, Timestamp};
use uuid::Uuid;

use super::receipts::Receipts;
use super::work::{ClaimOrder, MailOp, Reply, Work};
use crate::store::dispatches::{self, Stored};
use crate::store::receipts::{self, Key, Receipt};
use crate::store::{Answer, Error, Query, Row, Statement, Tx, params};

pub(super) async fn write<T: Tx>(
    tx: &T,
    work: &Work,
    receipt: Option<&(Key, Receipt)>,
    pause: impl FnOnce() -> Result<(), Error>,
) -> Result<Reply, Error> {
    let (reply, last) = match receipt {
        Some((key, receipt)) => once(tx, work, key, receipt).await?,
        None => script(tx, work).await?,
    };
    pause()?;
    tx.commit(&last).await?;
    Ok(reply)
}

async fn script<T: Tx>(tx: &T, work: &Work) -> Script {
    match work {
        Work::Plain(statements) => plain(tx, statements).await,
        Work::Mail(op) => operate(tx, op).await,
        Work::Each(sql, sets) => {
            let answers = tx.begin(&[Query::each(sql, sets.clone())]).await?;
            Ok((Reply::Table(answers.into_iter().flat_map(|answer| answer.rows).collect()), Vec::new()))
        }
        Work::Changes(_) | Work::Rows(_) => Err(Error::Failed("this is never written alone".to_owned())),
    }
}

/// Takes the key first, then does what is to be done under it.
async fn once<T: Tx>(tx: &T, work: &Work, key: &Key, receipt: &Receipt) -> Script {
    let take = Query::one(receipts::TAKE, receipt.values(key));
    let answers = tx.begin(&[take, Query::one(receipts::BY_KEY, key.values())]).await?;
    let mut receipts = Receipts::default();
    if let [taken, found] = &answers[..] {
        receipts.add(taken, found)?;
    }
    if let Some(reply) = receipts.stands_against(key) {
        return Ok((reply, Vec::new()));
    }
    let (reply, mut last) = script(&Begun(tx), work).await?;
    if !reply.counts() {
        last.push(Query::one(receipts::DROP, key.values()));
    }
    Ok((reply, last))
}

/// A transaction in which something was asked already.
struct Begun<'t, T>(&'t T);

impl<T: Tx> Tx for Begun<'_, T> {
    const MAY_GROW: bool = T::MAY_GROW;

    fn begin(&self, first: &[Query]) -> impl Future<Output = Result<Vec<Answer>, Error>> + Send {
        self.0.all(first)
    }

    fn all(&self, queries: &[Query]) -> impl Future<Output = Result<Vec<Answer>, Error>> + Send {
        self.0.all(queries)
    }

    fn commit(&self, last: &[Query]) -> impl Future<Output = Result<(), Error>> + Send {
        self.0.commit(last)
    }

    fn rollback(&self) -> impl Future<Output = ()> + Send {
        self.0.rollback()
    }
}

/// A reply, and what is still to be written before it is true.
type Script = Result<(Reply, Vec<Query>), Error>;

async fn operate<T: Tx>(tx: &T, op: &MailOp) -> Script {
    match op {
        MailOp::Claim { tenant, thread, order } => claim(tx, tenant, thread, order).await,
        MailOp::ClaimDispatch { tenant, dispatch_id, order } => {
            claim_dispatch(tx, tenant, dispatch_id, order).await
        }
        MailOp::ExtendLeases { tenant, claims, until, now } => {
            extend(tx, tenant.as_ref(), claims, *until, *now).await
        }
        MailOp::Cancel { tenant, dispatch_id, now } => cancel(tx, tenant, dispatch_id, *now).await,
        MailOp::Interrupt { tenant, thread, now } => interrupt(tx, tenant, thread, *now).await,
        MailOp::Reclaim { now, limit, returnable } => reclaim(tx, *now, *limit, *returnable).await,
        MailOp::ReclaimAll { now } => reclaim_all(tx, *now).await,
        MailOp::Purge { before, limit, unseen } => {
            let values = params![*before, i64::from(*unseen), *limit as u64];
            let answers = tx.begin(&[Query::one(dispatches::PURGE, values)]).await?;
            Ok((Reply::Touched(answers.iter().map(|answer| answer.touched).sum()), Vec::new()))
        }
        MailOp::Enqueue(_) | MailOp::ClaimReady(_) | MailOp::Fenced { .. } => {
            Err(Error::Failed("this operation is never written alone".to_owned()))
        }
    }
}

/// How many rows the last statement touched; with no statement there is only a receipt, and that is written.
async fn plain<T: Tx>(tx: &T, statements: &[Statement]) -> Script {
    if statements.is_empty() {
        return Ok((Reply::Done, Vec::new()));
    }
    let query = |of: &Statement| Query { sql: of.sql, sets: vec![of.params.clone()], lock: None };
    let queries: Vec<Query> = statements.iter().map(query).collect();
    let answers = tx.begin(&queries).await?;
    Ok((Reply::Touched(answers.last().map_or(0, |answer| answer.touched)), Vec::new()))
}

async fn claim<T: Tx>(tx: &T, tenant: &TenantId, thread: &str, order: &ClaimOrder) -> Script {
    tx.begin(&[lock_thread(tenant, thread)]).await?;
    let values = params![tenant.as_str(), thread, order.now, order.limit as u64];
    let heads = stored(&tx.all(&[Query::one(dispatches::HEADS, values).locking_within("d")]).await?)?;
    let mut moves = Moves::default();
    let claimed = heads.iter().map(|head| moves.claim(head, order)).collect::<Result<_, _>>()?;
    Ok((Reply::Rows(claimed), moves.queries()))
}

/// For whoever carries out an activation on the spot: the row need not be available yet.
async fn claim_dispatch<T: Tx>(tx: &T, tenant: &TenantId, id: &str, order: &ClaimOrder) -> Script {
    let by_id = Query::one(dispatches::BY_ID, params![id]);
    let found = stored(&tx.begin(std::slice::from_ref(&by_id)).await?)?;
    let Some(thread) =
        found.iter().find(|found| found.row.tenant == *tenant).map(|found| &found.row.thread_id)
    else {
        return Ok((Reply::Rows(Vec::new()), Vec::new()));
    };
    // The thread's lock first, as everybody takes it; then the row as it is under that lock.
    tx.all(&[lock_thread(tenant, thread)]).await?;
    let active = Query::one(dispatches::ACTIVE, params![tenant.as_str(), thread.as_str()]);
    let answers = tx.all(&[by_id.locking("d", "d.dispatch_id"), active]).await?;
    let (found, active) = (stored(&answers[..1])?, stored(&answers[1..])?);
    let mut moves = Moves::default();
    let mut claimed = Vec::new();
    if let Some(found) = found.first().filter(|found| found.row.status == RunDispatchStatus::Queued) {
        if found.row.dispatch_epoch < found.epoch {
            moves.add(found, &found.row.overtaken(order.now), true)?;
        } else if active.is_empty() {
            claimed.push(moves.claim(found, order)?);
        }
    }
    Ok((Reply::Rows(claimed), moves.queries()))
}

/// One statement for all of them. Only for a claim that did not come back it is asked why.
async fn extend<T: Tx>(
    tx: &T,
    tenant: Option<&TenantId>,
    claims: &[(String, String)],
    until: Timestamp,
    now: Timestamp,
) -> Script {
    let owner = tenant.map_or("", TenantId::as_str);
    // In the order of their ids, as everybody locks them.
    let claims_in_order: BTreeSet<&(String, String)> = claims.iter().collect();
    let set = |(id, token): &(String, String)| params![until, now, id.as_str(), token.as_str(), owner];
    let sets = claims_in_order.into_iter().map(set).collect();
    let answers = tx.begin(&[Query::each(dispatches::EXTEND, sets)]).await?;
    let mut kept = HashSet::new();
    for row in answers.iter().flat_map(|answer| &answer.rows) {
        kept.insert((row.text(0)?.to_owned(), row.text(1)?.to_owned()));
    }
    let mut moves = Moves::default();
    let lost: Vec<_> = claims.iter().filter(|claim| !kept.contains(*claim)).collect();
    if !lost.is_empty() {
        let sets = lost.iter().map(|(id, _)| params![id.as_str()]).collect();
        let found = Query::each(dispatches::BY_ID, sets).locking("d", "d.dispatch_id");
        let found = stored(&tx.all(&[found]).await?)?;
        for found in found.iter().filter(|found| tenant.is_none_or(|tenant| found.row.tenant == *tenant)) {
            let token =
                lost.iter().find(|(id, _)| *id == found.row.dispatch_id).map_or("", |(_, token)| token);
            let denied = found.row.fenced(token, &Fenced::ExtendLease { until }, found.epoch, now);
            if let Some(superseded) = denied.err().and_then(|denied| denied.superseded) {
                moves.add(found, &superseded, true)?;
            }
        }
    }
    Ok((Reply::Flags(claims.iter().map(|claim| kept.contains(claim)).collect()), moves.queries()))
}

async fn cancel<T: Tx>(tx: &T, tenant: &TenantId, id: &str, now: Timestamp) -> Script {
    let by_id = Query::one(dispatches::BY_ID, params![id]).locking("d", "d.dispatch_id");
    let found = stored(&tx.begin(&[by_id]).await?)?;
    let mut moves = Moves::default();
    let mut cancelled = Vec::new();
    if let Some(found) = found.first().filter(|found| found.row.tenant == *tenant)
        && let Some(to) = found.row.cancelled(now)
    {
        moves.add(found, &to, true)?;
        cancelled.push(to);
    }
    Ok((Reply::Rows(cancelled), moves.queries()))
}

async fn interrupt<T: Tx>(tx: &T, tenant: &TenantId, thread: &str, now: Timestamp) -> Script {
    let key = || params![tenant.as_str(), thread];
    let raise = [Query::one(dispatches::ADD_THREAD, key()), Query::one(dispatches::RAISE_EPOCH, key())];
    let answers = tx.begin(&raise).await?;
    let raised = answers.last().and_then(|answer| answer.rows.first());
    let epoch = raised.map_or(Ok(0), |row| row.count(0))?;
    // First what is in flight: whoever is just giving it back is waited for, and then it is queued like the others.
    let active = Query::one(dispatches::ACTIVE, key()).locking_within("d");
    let queued = Query::one(dispatches::OVERTAKEN, key()).locking_within("d");
    let answers = tx.all(&[active, queued]).await?;
    let (active, queued) = (stored(&answers[..1])?, stored(&answers[1..])?);
    let mut moves = Moves::default();
    let mut superseded = Vec::with_capacity(queued.len());
    for found in &queued {
        let to = found.row.overtaken(now);
        moves.add(found, &to, true)?;
        superseded.push(to);
    }
    let reply = MailboxInterrupt {
        new_dispatch_epoch: epoch,
        active_dispatch: active.into_iter().next().map(|found| found.row),
        superseded_count: superseded.len(),
        superseded_dispatches: superseded,
    };
    Ok((Reply::Interrupted(Box::new(reply)), moves.queries()))
}

async fn reclaim<T: Tx>(tx: &T, now: Timestamp, limit: usize, returnable: bool) -> Script {
    let values = params![now, i64::from(returnable), limit as u64];
    let lapsed = Query::one(dispatches::LAPSED, values).locking_free("d");
    let mut found = stored(&tx.begin(&[lapsed]).await?)?;
    let ids = found.iter().map(|found| params![found.row.dispatch_id.as_str()]).collect();
    for row in
        tx.all(&[Query::each(dispatches::EPOCH_BY_ID, ids)]).await?.iter().flat_map(|answer| &answer.rows)
    {
        let id = row.text(0)?;
        if let Some(found) = found.iter_mut().find(|found| found.row.dispatch_id == id) {
            found.epoch = row.count(1)?;
        }
    }
    let reclaimed = found.iter().filter_map(|found| Some((found, found.row.reclaimed(found.epoch, now)?)));
    take_back(reclaimed)
}

async fn reclaim_all<T: Tx>(tx: &T, now: Timestamp) -> Script {
    let found = stored(&tx.begin(&[Query::one(dispatches::ALL_CLAIMED, Vec::new())]).await?)?;
    let why = "the process that held it has ended";
    take_back(found.iter().map(|found| (found, found.row.abandoned(why, found.epoch, now))))
}

fn take_back<'f>(found: impl Iterator<Item = (&'f Stored, Reclaimed)>) -> Script {
    let mut moves = Moves::default();
    let mut returned = Vec::new();
    for (found, reclaimed) in found {
        match reclaimed {
            Reclaimed::Superseded(to) => moves.add(found, &to, true)?,
            Reclaimed::Returned(to) => {
                moves.add(found, &to, to.status.is_terminal())?;
                returned.push(to);
            }
        }
    }
    Ok((Reply::Rows(returned), moves.queries()))
}

fn lock_thread(tenant: &TenantId, thread: &str) -> Query {
    Query::one(dispatches::THREAD, params![tenant.as_str(), thread]).locking("t", "t.tenant_id, t.thread_id")
}

fn stored(answers: &[Answer]) -> Result<Vec<Stored>, Error> {
    let rows: Vec<&Row> = answers.iter().flat_map(|answer| &answer.rows).collect();
    rows.into_iter().map(dispatches::read).collect()
}

/// Rows to be moved at the end of a script.
#[derive(Default)]
struct Moves(Vec<Query>);

impl Moves {
    fn add(&mut self, from: &Stored, to: &RunDispatch, unreconciled: bool) -> Result<(), Error> {
        let to = Stored { row: to.clone(), ..*from };
        let (sql, values) = dispatches::moved(&from.row, &to, unreconciled)?;
        match self.0.iter_mut().find(|query| query.sql == sql) {
            Some(query) => query.sets.push(values.into()),
            None => self.0.push(Query::one(sql, values)),
        }
        Ok(())
    }

    fn claim(&mut self, head: &Stored, order: &ClaimOrder) -> Result<RunDispatch, Error> {
        let token = Uuid::now_v7().to_string();
        let to = head.row.claimed(token, &order.consumer, order.lease_until, order.now);
        self.add(head, &to, false)?;
        Ok(to)
    }

    fn queries(self) -> Vec<Query> {
        self.0
    }
}
