//! Reads of the mailbox outside of transactions.

use super::queries::{BY_ID, BY_LIVE_KEY, LAPSED, THREAD, columns, dispatches};
use super::{
    Database, Error, Row, Run, RunDispatch, RunDispatchStatus, StoredDispatch, TenantId, Timestamp, params,
    read,
};
use crate::mailbox::DispatchCursor;

const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM ",
    dispatches!(),
    " WHERE d.tenant_id = $1 AND d.thread_id = $2
    AND (d.priority, d.created_ms, d.seq) > ($3, $4, $5) AND ($6 = '' OR $6 LIKE '%,' || d.status || ',%')
    ORDER BY d.priority, d.created_ms, d.seq LIMIT $7 OFFSET $8"
);
const UNRECONCILED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM ",
    dispatches!(),
    " WHERE d.unreconciled = 1 ORDER BY d.seq LIMIT $1"
);
const COUNTS: &str = "SELECT status, COUNT(*) AS total FROM dispatches WHERE tenant_id = $1 GROUP BY status";
const QUEUED_THREADS: &str =
    "SELECT DISTINCT thread_id FROM dispatches WHERE tenant_id = $1 AND status = 'queued' ORDER BY thread_id";
/// Selects the next times at which a dispatch becomes available or a lease has expired. A lease with the greatest
/// timestamp never expires, and 1 cannot be added to it.
const NEXT: &str = "SELECT
    (SELECT MIN(available_ms) FROM dispatches WHERE status = 'queued' AND available_ms > $1) AS available_ms,
    (SELECT MIN(lease_until_ms) + 1 FROM dispatches
        WHERE status = 'claimed' AND lease_until_ms >= $1 AND lease_until_ms < 9223372036854775807) AS expired_ms,
    (SELECT MIN(look_ms) FROM awaited WHERE look_ms > $1) AS awaited_ms,
    (SELECT MIN(look_ms) FROM arrivals WHERE look_ms > $1) AS arrived_ms";
/// Selects whether a worker has work at $1. One statement, because it is executed at every poll.
const NOW: &str = "SELECT
    EXISTS (SELECT 1 FROM dispatches d WHERE d.status = 'queued' AND d.available_ms <= $1
        AND NOT EXISTS (SELECT 1 FROM dispatches c
            WHERE c.tenant_id = d.tenant_id AND c.thread_id = d.thread_id AND c.status = 'claimed')) AS ready,
    EXISTS (SELECT 1 FROM dispatches WHERE status = 'claimed' AND lease_until_ms < $1) AS lapsed,
    EXISTS (SELECT 1 FROM dispatches WHERE unreconciled = 1) AS unreconciled,
    EXISTS (SELECT 1 FROM awaited WHERE look_ms <= $1) AS awaited,
    EXISTS (SELECT 1 FROM arrivals WHERE look_ms <= $1) AS arrived,
    EXISTS (SELECT 1 FROM dispatches WHERE status = 'queued' AND available_ms <= $1) AS queued";
const NEWER: &str =
    "SELECT dispatch_id FROM dispatches WHERE tenant_id = $1 AND thread_id = $2 AND run_id = $3
    AND seq > $4 ORDER BY seq DESC LIMIT 1";
const LAST_ACKED: &str =
    "SELECT dispatch_id FROM dispatches WHERE tenant_id = $1 AND thread_id = $2 AND run_id = $3
    AND status = 'acked' AND completed_ms >= $4 ORDER BY seq DESC LIMIT 1";

/// The kinds of work that a worker has at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AvailableWork {
    /// A queued dispatch is available; its thread need not be free.
    pub queued: bool,
    /// A dispatch can be claimed.
    pub ready: bool,
    /// The lease of a claim has expired.
    pub lapsed: bool,
    /// An ended dispatch must be reconciled with its run.
    pub unreconciled: bool,
    /// External events and the interrupts that wait for them must be matched.
    pub unmatched_events: bool,
}

pub(crate) async fn by_id(db: &Database, id: &str) -> Result<Option<StoredDispatch>, Error> {
    db.query_one(BY_ID, params![id]).await?.as_ref().map(read).transpose()
}

/// A page of the dispatches of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DispatchPage<'a> {
    pub thread: &'a str,
    pub statuses: Option<&'a [RunDispatchStatus]>,
    pub after: Option<DispatchCursor>,
    pub limit: usize,
    pub offset: usize,
}

/// Returns dispatches of a thread in the order of claims.
pub(crate) async fn list(
    db: &Database,
    tenant: &TenantId,
    page: DispatchPage<'_>,
) -> Result<Vec<StoredDispatch>, Error> {
    let wanted = match page.statuses {
        None => String::new(),
        Some([]) => return Ok(Vec::new()),
        Some(statuses) => statuses.iter().fold(",".to_owned(), |list, status| list + status.as_str() + ","),
    };
    let mut values = params![tenant.as_str(), page.thread];
    values.extend(match page.after {
        Some(after) => params![i64::from(after.priority), after.created_at, after.seq],
        None => params![-1_i64, i64::MIN, 0_i64],
    });
    values.extend(params![wanted, page.limit as u64, page.offset as u64]);
    stored(&db.query(LIST, values).await?)
}

/// Returns ended dispatches whose runs must be reconciled, in the order in which they were enqueued.
pub(crate) async fn unreconciled(db: &Database, limit: u64) -> Result<Vec<StoredDispatch>, Error> {
    stored(&db.query(UNRECONCILED, params![limit]).await?)
}

/// Returns claims whose lease has expired.
pub(crate) async fn lapsed(db: &Database, now: Timestamp, limit: u64) -> Result<Vec<StoredDispatch>, Error> {
    stored(&db.query(LAPSED, params![now, 0_i64, limit]).await?)
}

/// Returns the number of dispatches of a tenant in each status, in the order of `RunDispatchStatus::ALL`.
pub(crate) async fn counts(db: &Database, tenant: &TenantId) -> Result<[u64; 6], Error> {
    let mut counts = [0; 6];
    for row in db.query(COUNTS, params![tenant.as_str()]).await? {
        let status = row.text("status")?;
        if let Some(at) = RunDispatchStatus::ALL.iter().position(|known| known.as_str() == status) {
            counts[at] = row.count("total")?;
        }
    }
    Ok(counts)
}

pub(crate) async fn queued_threads(db: &Database, tenant: &TenantId) -> Result<Vec<String>, Error> {
    let rows = db.query(QUEUED_THREADS, params![tenant.as_str()]).await?;
    rows.iter().map(|row| Ok(row.text("thread_id")?.to_owned())).collect()
}

pub(crate) async fn epoch(db: &Database, tenant: &TenantId, thread: &str) -> Result<u64, Error> {
    let row = db.query_one(THREAD, params![tenant.as_str(), thread]).await?;
    row.map_or(Ok(0), |row| row.count("epoch"))
}

/// Returns the id of the live dispatch of a thread with a deduplication key.
pub(crate) async fn by_live_key(
    db: &Database,
    tenant: &TenantId,
    thread: &str,
    key: &str,
) -> Result<Option<String>, Error> {
    let row = db.query_one(BY_LIVE_KEY, params![tenant.as_str(), thread, key]).await?;
    row.map(|row| Ok(row.text("dispatch_id")?.to_owned())).transpose()
}

/// Returns the next time after `now` at which a worker has work without another event.
pub(crate) async fn next_wakeup(db: &Database, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let Some(row) = db.query_one(NEXT, params![now]).await? else { return Ok(None) };
    let columns = ["available_ms", "expired_ms", "awaited_ms", "arrived_ms"];
    let moments = columns.iter().map(|column| row.optional_int(column)).collect::<Result<Vec<_>, _>>()?;
    Ok(moments.into_iter().flatten().min().map(Timestamp))
}

pub(crate) async fn available_work(db: &Database, now: Timestamp) -> Result<AvailableWork, Error> {
    let Some(row) = db.query_one(NOW, params![now]).await? else { return Ok(AvailableWork::default()) };
    let flag = |column| Ok::<_, Error>(row.int(column)? != 0);
    let unmatched_events = flag("awaited")? || flag("arrived")?;
    Ok(AvailableWork {
        queued: flag("queued")?,
        ready: flag("ready")?,
        lapsed: flag("lapsed")?,
        unreconciled: flag("unreconciled")?,
        unmatched_events,
    })
}

/// Returns the newest dispatch of the run, if it is newer than `of`.
pub(crate) async fn newer(db: &Database, of: &StoredDispatch) -> Result<Option<String>, Error> {
    let row: &RunDispatch = &of.row;
    let values = params![row.tenant.as_str(), row.thread_id.as_str(), row.run_id.as_str(), of.seq];
    let found = db.query_one(NEWER, values).await?;
    found.map(|row| Ok(row.text("dispatch_id")?.to_owned())).transpose()
}

/// Returns the last dispatch of a run that was acknowledged at or after `since`, if it is not deleted yet.
pub(crate) async fn last_acked(
    db: &Database,
    tenant: &TenantId,
    run: &Run,
    since: Timestamp,
) -> Result<Option<String>, Error> {
    let values = params![tenant.as_str(), run.thread(), run.id.as_str(), since];
    let found = db.query_one(LAST_ACKED, values).await?;
    found.map(|row| Ok(row.text("dispatch_id")?.to_owned())).transpose()
}

fn stored(rows: &[Row]) -> Result<Vec<StoredDispatch>, Error> {
    rows.iter().map(read).collect()
}
