//! The `deliveries` table: what subscribers are still to be told, and what became of what they were told.

use holdpoint_core::webhook::DeliveryState;
use holdpoint_core::{RunId, RunRef, TenantId, Timestamp, hex};
use sha2::{Digest, Sha256};

use super::webhooks::word;
use super::{Database, Error, Param, Row, Statement, params, unreadable};

pub(crate) mod attempts;

/// Columns of `deliveries`, in the order `read` wants them.
macro_rules! columns {
    () => {
        "seq, delivery_id, tenant_id, webhook_id, run_id, event_seq, event_type, kind, state, ordered, attempt, due_ms, \
         holder, lease_ms, dedup_key, created_ms, ended_ms, reason"
    };
}

/// The condition that a row of the table may be sent now: its subscription is active, and nothing of its run comes
/// first, where that matters.
macro_rules! may_go {
    ($of:literal) => {
        concat!(
            "(kind = 'callback' OR EXISTS (SELECT 1 FROM webhooks w WHERE w.tenant_id = ",
            $of,
            ".tenant_id AND w.webhook_id = ",
            $of,
            ".webhook_id AND w.state = 'active')) AND (ordered = 0 OR NOT EXISTS (SELECT 1 FROM deliveries e
            WHERE e.webhook_id = ",
            $of,
            ".webhook_id AND e.tenant_id = ",
            $of,
            ".tenant_id AND e.run_id = ",
            $of,
            ".run_id AND e.event_seq < ",
            $of,
            ".event_seq AND e.ended_ms IS NULL))"
        )
    };
}

/// The same delivery has the same name, whoever writes it how often.
pub(crate) const INSERT: &str =
    "INSERT INTO deliveries (delivery_id, tenant_id, webhook_id, run_id, event_seq, \
    event_type, kind, state, ordered, attempt, due_ms, dedup_key, created_ms, ended_ms, reason)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING";
/// Webhooks that something is queued for, and since when it has been due. Jumps from one to the next, however many
/// rows each of them has.
const READY: &str = "WITH RECURSIVE queues(id) AS (
        SELECT MIN(f.webhook_id) FROM deliveries f WHERE f.state = 'queued' UNION ALL
        SELECT (SELECT MIN(n.webhook_id) FROM deliveries n WHERE n.state = 'queued' AND n.webhook_id > queues.id)
        FROM queues WHERE queues.id IS NOT NULL)
    SELECT q.id, (SELECT MIN(d.due_ms) FROM deliveries d WHERE d.state = 'queued' AND d.webhook_id = q.id)
    FROM queues q WHERE q.id IS NOT NULL";
const CANDIDATES: &str = concat!(
    "SELECT delivery_id FROM deliveries d WHERE webhook_id = $1 AND state = 'queued' AND due_ms <= $2 AND ",
    may_go!("d"),
    " ORDER BY due_ms, seq LIMIT $3"
);
/// Comes back empty where somebody was faster.
pub(crate) const CLAIM: &str = concat!(
    "UPDATE deliveries SET state = 'in-flight', holder = $1, lease_ms = $2
    WHERE delivery_id = $3 AND state = 'queued' AND ",
    may_go!("deliveries"),
    " RETURNING ",
    columns!()
);
const SETTLE: &str =
    "UPDATE deliveries SET state = $1, attempt = $2, due_ms = $3, ended_ms = $4, reason = $5,
    holder = NULL, lease_ms = NULL WHERE delivery_id = $6 AND holder = $7";
const GIVE_BACK: &str = "UPDATE deliveries SET state = 'queued', holder = NULL, lease_ms = NULL
    WHERE delivery_id = $1 AND holder = $2";
/// What waits behind a delivery that is put off is not looked at before.
const PUT_OFF: &str =
    "UPDATE deliveries SET due_ms = $1 WHERE webhook_id = $2 AND tenant_id = $3 AND run_id = $4
    AND event_seq > $5 AND state = 'queued' AND ordered = 1 AND due_ms < $6";
const LAPSED: &str = "SELECT MIN(lease_ms) FROM deliveries WHERE state = 'in-flight' AND lease_ms <= $1";
pub(crate) const TAKE_BACK: &str = "UPDATE deliveries SET state = 'queued', holder = NULL, lease_ms = NULL
    WHERE state = 'in-flight' AND lease_ms <= $1";
const NEXT: &str = "SELECT (SELECT MIN(due_ms) FROM deliveries WHERE state = 'queued' AND due_ms > $1),
    (SELECT MIN(lease_ms) FROM deliveries WHERE state = 'in-flight')";
/// Ends what is queued for a subscription, or all that is under way too; of much a part.
pub(crate) const END: &str =
    "UPDATE deliveries SET state = $1, ended_ms = $2, reason = $3, holder = NULL, lease_ms = NULL
    WHERE delivery_id IN (SELECT d.delivery_id FROM deliveries d WHERE d.webhook_id = $4 AND d.tenant_id = $5
        AND d.ended_ms IS NULL AND (d.state = 'queued' OR $6 = 1) LIMIT $7)";
/// Of subscriptions that are no more.
pub(crate) const END_ORPHANS: &str = "UPDATE deliveries SET state = 'dropped', ended_ms = $1, holder = NULL, lease_ms = NULL
    WHERE delivery_id IN (SELECT d.delivery_id FROM deliveries d WHERE d.ended_ms IS NULL AND d.kind = 'event'
        AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.tenant_id = d.tenant_id AND w.webhook_id = d.webhook_id)
        LIMIT $2)";
/// What ended before $1, the later of the two; of that, dead letters from before $2, and others from before $3.
pub(crate) const PURGE: &str = "DELETE FROM deliveries WHERE seq IN (SELECT d.seq FROM deliveries d
    WHERE d.ended_ms <= $1 AND ((d.state = 'dead-lettered' AND d.ended_ms <= $2)
        OR (d.state <> 'dead-lettered' AND d.ended_ms <= $3)) ORDER BY d.ended_ms LIMIT $4)";
const REPLAY: &str =
    "UPDATE deliveries SET state = 'queued', attempt = 0, due_ms = $1, ended_ms = NULL, reason = NULL
    WHERE tenant_id = $2 AND webhook_id = $3 AND delivery_id = $4 AND ended_ms IS NOT NULL";
macro_rules! in_window {
    ($before:literal, $tenant:literal, $webhook:literal, $from:literal, $to:literal, $event:literal) => {
        concat!(
            $before,
            " WHERE tenant_id = ",
            $tenant,
            " AND webhook_id = ",
            $webhook,
            " AND ended_ms IS NOT NULL AND created_ms >= ",
            $from,
            " AND created_ms < ",
            $to,
            " AND (event_type = ",
            $event,
            " OR ",
            $event,
            " = '')"
        )
    };
}
pub(crate) const REPLAY_WINDOW: &str = in_window!(
    "UPDATE deliveries SET state = 'queued', attempt = 0, due_ms = $1, ended_ms = NULL, reason = NULL",
    "$2",
    "$3",
    "$4",
    "$5",
    "$6"
);
const COUNT_WINDOW: &str = in_window!("SELECT COUNT(*) FROM deliveries", "$1", "$2", "$3", "$4", "$5");
const ONE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND delivery_id = $3"
);
const PAGE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND seq < $3 AND ($4 = '' OR state = $4)
    ORDER BY seq DESC LIMIT $5"
);

/// What a delivery is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryKind {
    /// An event for a subscription.
    Event,
    /// A question, for the address that its run was started with.
    Callback,
}

impl DeliveryKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Callback => "callback",
        }
    }
}

/// One event for one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Where it stands in lists; newer ones have larger numbers.
    pub seq: u64,
    pub id: String,
    pub of: RunRef,
    pub webhook: String,
    /// The event's number in the log of its run, and its name.
    pub event_seq: u64,
    pub event_type: String,
    pub kind: DeliveryKind,
    pub state: DeliveryState,
    pub ordered: bool,
    /// Attempts that were made, since it was last replayed.
    pub attempt: u32,
    /// Not before.
    pub due: Timestamp,
    pub dedup_key: String,
    /// When the event happened.
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Why it was given up.
    pub reason: Option<String>,
    /// Who is at it, and for how long nobody else is.
    pub(crate) holder: Option<String>,
    pub(crate) lease: Option<Timestamp>,
}

/// Which deliveries a list is about, newest first. `before` continues behind the last one of the page before.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    pub state: Option<DeliveryState>,
    pub before: Option<u64>,
    pub limit: u64,
}

impl Delivery {
    /// A delivery that nobody has tried yet. Its names follow from what it is about.
    pub(crate) fn new(
        of: &RunRef,
        webhook: &str,
        event: (u64, &str),
        kind: DeliveryKind,
        at: Timestamp,
    ) -> Self {
        let (event_seq, event_type) = event;
        let named = |what: &str| {
            let parts = [what, of.tenant.as_str(), webhook, of.run.as_str(), &event_seq.to_string()];
            hex(&Sha256::digest(parts.join("\0")))
        };
        Self {
            seq: 0,
            id: format!("dl_{}", &named("delivery")[..32]),
            of: of.clone(),
            webhook: webhook.to_owned(),
            event_seq,
            event_type: event_type.to_owned(),
            kind,
            state: DeliveryState::Queued,
            ordered: false,
            attempt: 0,
            due: at,
            dedup_key: named("dedup"),
            created_at: at,
            ended_at: None,
            reason: None,
            holder: None,
            lease: None,
        }
    }

    pub(crate) fn insert(&self) -> Statement {
        Statement::new(INSERT, self.values())
    }

    /// The values for `INSERT`.
    pub(crate) fn values(&self) -> Vec<Param> {
        params![
            self.id.as_str(),
            self.of.tenant.as_str(),
            self.webhook.as_str(),
            self.of.run.as_str(),
            self.event_seq,
            self.event_type.as_str(),
            self.kind.as_str(),
            self.state.as_str(),
            i64::from(self.ordered),
            u64::from(self.attempt),
            self.due,
            self.dedup_key.as_str(),
            self.created_at,
            self.ended_at,
            self.reason.as_deref()
        ]
    }

    /// Writes what became of it, provided that it is still held.
    pub(crate) fn settle(&self, state: DeliveryState, due: Timestamp, ended: Option<Timestamp>) -> Statement {
        let holder = self.holder.as_deref().unwrap_or_default();
        let values = params![
            state.as_str(),
            u64::from(self.attempt),
            due,
            ended,
            self.reason.as_deref(),
            self.id.as_str(),
            holder
        ];
        Statement::new(SETTLE, values)
    }

    /// Puts off what comes behind it in its run.
    pub(crate) fn put_off(&self, until: Timestamp) -> Statement {
        let (tenant, run) = (self.of.tenant.as_str(), self.of.run.as_str());
        Statement::new(PUT_OFF, params![until, self.webhook.as_str(), tenant, run, self.event_seq, until])
    }

    pub(crate) fn give_back(&self) -> Statement {
        Statement::new(GIVE_BACK, params![self.id.as_str(), self.holder.as_deref().unwrap_or_default()])
    }
}

/// Webhooks with something in their queues, each with the instant since when something is due.
pub(crate) async fn ready(db: &Database) -> Result<Vec<(String, Timestamp)>, Error> {
    let rows = db.query(READY, Vec::new()).await?;
    rows.iter().map(|row| Ok((row.text(0)?.to_owned(), Timestamp(row.int(1)?)))).collect()
}

pub(crate) async fn candidates(
    db: &Database,
    webhook: &str,
    now: Timestamp,
    limit: u64,
) -> Result<Vec<String>, Error> {
    let rows = db.query(CANDIDATES, params![webhook, now, limit]).await?;
    rows.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
}

pub(crate) async fn any_lapsed(db: &Database, now: Timestamp) -> Result<bool, Error> {
    let row = db.query_one(LAPSED, params![now]).await?;
    row.map_or(Ok(false), |row| Ok(row.optional_int(0)?.is_some()))
}

/// When something will be due, or may be taken over, that is not now.
pub(crate) async fn next(db: &Database, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let Some(row) = db.query_one(NEXT, params![now]).await? else { return Ok(None) };
    Ok([row.optional_int(0)?, row.optional_int(1)?].into_iter().flatten().min().map(Timestamp))
}

pub(crate) fn replay(tenant: &TenantId, webhook: &str, id: &str, now: Timestamp) -> Statement {
    Statement::new(REPLAY, params![now, tenant.as_str(), webhook, id])
}

pub(crate) async fn count_window(db: &Database, sets: Vec<Vec<Param>>) -> Result<u64, Error> {
    let mut found = 0;
    for set in sets {
        found += db.query_one(COUNT_WINDOW, set).await?.map_or(Ok(0), |row| row.count(0))?;
    }
    Ok(found)
}

pub(crate) async fn find(
    db: &Database,
    tenant: &TenantId,
    webhook: &str,
    id: &str,
) -> Result<Option<Delivery>, Error> {
    db.query_one(ONE, params![tenant.as_str(), webhook, id]).await?.as_ref().map(read).transpose()
}

pub(crate) async fn page(
    db: &Database,
    tenant: &TenantId,
    webhook: &str,
    filter: &DeliveryFilter,
) -> Result<Vec<Delivery>, Error> {
    let before = filter.before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let state = filter.state.map_or("", DeliveryState::as_str);
    let values = params![tenant.as_str(), webhook, before, state, filter.limit];
    db.query(PAGE, values).await?.iter().map(read).collect()
}

pub(crate) fn read(row: &Row) -> Result<Delivery, Error> {
    let bad = |error: holdpoint_core::BadId| unreadable("delivery", error);
    let tenant = TenantId::parse(row.text(2)?).map_err(bad)?;
    let run = RunId::parse(row.text(4)?).map_err(bad)?;
    Ok(Delivery {
        seq: row.count(0)?,
        id: row.text(1)?.to_owned(),
        of: RunRef { tenant, run },
        webhook: row.text(3)?.to_owned(),
        event_seq: row.count(5)?,
        event_type: row.text(6)?.to_owned(),
        kind: if row.text(7)? == "callback" { DeliveryKind::Callback } else { DeliveryKind::Event },
        state: word(row.text(8)?, DeliveryState::parse)?,
        ordered: row.int(9)? == 1,
        attempt: row.small(10)?,
        due: Timestamp(row.int(11)?),
        holder: row.optional_text(12)?.map(str::to_owned),
        lease: row.optional_int(13)?.map(Timestamp),
        dedup_key: row.text(14)?.to_owned(),
        created_at: Timestamp(row.int(15)?),
        ended_at: row.optional_int(16)?.map(Timestamp),
        reason: row.optional_text(17)?.map(str::to_owned),
    })
}
