//! The `deliveries` table: the deliveries of webhooks, queued, in flight or ended.

use holdpoint_core::webhook::DeliveryState;
use holdpoint_core::{RunId, RunRef, TenantId, Timestamp, hex};
use sha2::{Digest, Sha256};

use super::webhooks::word;
use super::{Database, Error, Param, Row, Statement, params, unreadable};

pub(crate) mod attempts;

/// The columns of `deliveries` that `read` needs.
macro_rules! columns {
    () => {
        "seq, delivery_id, tenant_id, webhook_id, run_id, event_seq, event_type, kind, state, ordered, attempt, due_ms, \
         holder, lease_ms, dedup_key, created_ms, ended_ms, reason"
    };
}

/// The condition that a delivery may be sent: its subscription is active, and if it is ordered, no delivery of an
/// earlier event of its run is unfinished.
macro_rules! may_be_sent {
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

pub(crate) mod queues;

/// Inserts a delivery. Its id follows from its content, so that a second insert has no effect.
pub(crate) const INSERT: &str =
    "INSERT INTO deliveries (delivery_id, tenant_id, webhook_id, run_id, event_seq, \
    event_type, kind, state, ordered, attempt, due_ms, dedup_key, created_ms, ended_ms, reason)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING";
/// Claims a delivery. Returns no row if it is claimed already.
pub(crate) const CLAIM: &str = concat!(
    "UPDATE deliveries SET state = 'in-flight', holder = $1, lease_ms = $2
    WHERE delivery_id = $3 AND state = 'queued' AND ",
    may_be_sent!("deliveries"),
    " RETURNING ",
    columns!()
);
const SETTLE: &str =
    "UPDATE deliveries SET state = $1, attempt = $2, due_ms = $3, ended_ms = $4, reason = $5,
    holder = NULL, lease_ms = NULL WHERE delivery_id = $6 AND holder = $7";
const GIVE_BACK: &str = "UPDATE deliveries SET state = 'queued', holder = NULL, lease_ms = NULL
    WHERE delivery_id = $1 AND holder = $2";
/// Postpones the ordered deliveries after one that is postponed.
const POSTPONE_LATER: &str =
    "UPDATE deliveries SET due_ms = $1 WHERE webhook_id = $2 AND tenant_id = $3 AND run_id = $4
    AND event_seq > $5 AND state = 'queued' AND ordered = 1 AND due_ms < $6";
pub(crate) const TAKE_BACK: &str = "UPDATE deliveries SET state = 'queued', holder = NULL, lease_ms = NULL
    WHERE state = 'in-flight' AND lease_ms <= $1";
/// Ends up to $7 deliveries of a subscription: the queued ones, and with $6 = 1 those in flight too.
pub(crate) const END: &str =
    "UPDATE deliveries SET state = $1, ended_ms = $2, reason = $3, holder = NULL, lease_ms = NULL
    WHERE delivery_id IN (SELECT d.delivery_id FROM deliveries d WHERE d.webhook_id = $4 AND d.tenant_id = $5
        AND d.ended_ms IS NULL AND (d.state = 'queued' OR $6 = 1) LIMIT $7)";
/// Ends deliveries of subscriptions that were deleted.
pub(crate) const END_ORPHANS: &str = "UPDATE deliveries SET state = 'dropped', ended_ms = $1, holder = NULL, lease_ms = NULL
    WHERE delivery_id IN (SELECT d.delivery_id FROM deliveries d WHERE d.ended_ms IS NULL AND d.kind = 'event'
        AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.tenant_id = d.tenant_id AND w.webhook_id = d.webhook_id)
        LIMIT $2)";
/// Deletes ended deliveries: dead letters that ended before $2, and others that ended before $3. $1 is the later of
/// both.
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
const COUNT_WINDOW: &str =
    in_window!("SELECT COUNT(*) AS total FROM deliveries", "$1", "$2", "$3", "$4", "$5");
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

/// The kind of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryKind {
    /// An event for a subscription.
    Event,
    /// An interrupt, for the callback address of its run.
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

/// One event to be sent to one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The position in lists; newer deliveries have larger numbers.
    pub seq: u64,
    /// The id of the delivery.
    pub id: String,
    /// The run of the event.
    pub of: RunRef,
    /// The id of the webhook.
    pub webhook: String,
    /// The sequence number of the event in the log of its run.
    pub event_seq: u64,
    /// The name of the event.
    pub event_type: String,
    /// The kind of the delivery.
    pub kind: DeliveryKind,
    /// The state of the delivery.
    pub state: DeliveryState,
    /// True if it is sent only after the deliveries of earlier events of its run.
    pub ordered: bool,
    /// The number of attempts since the last replay.
    pub attempt: u32,
    /// The time of the next attempt.
    pub due: Timestamp,
    /// The key by which the receiver recognizes a repeated delivery.
    pub dedup_key: String,
    /// The time of the event.
    pub created_at: Timestamp,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
    /// The reason why the delivery was given up.
    pub reason: Option<String>,
    /// The process that sends it, until the lease expires.
    pub(crate) holder: Option<String>,
    pub(crate) lease: Option<Timestamp>,
}

/// An event of a run, by its sequence number, and the name that receivers see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventName<'a> {
    pub seq: u64,
    pub name: &'a str,
}

/// The filter of a list of deliveries, the newest first.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// The `seq` of the last delivery of the previous page.
    pub before: Option<u64>,
    /// The maximum number of deliveries.
    pub limit: u64,
}

impl Delivery {
    /// Returns a queued delivery without attempts. Its id is its time and a digest of its content, so that indexes of ids
    /// grow at their end. Its deduplication key is a digest of its content.
    pub(crate) fn new(
        of: &RunRef,
        webhook: &str,
        event: EventName<'_>,
        kind: DeliveryKind,
        at: Timestamp,
    ) -> Self {
        let named = |what: &str| {
            let parts = [what, of.tenant.as_str(), webhook, of.run.as_str(), &event.seq.to_string()];
            hex(&Sha256::digest(parts.join("\0")))
        };
        Self {
            seq: 0,
            id: format!("dl_{:012x}{}", at.0.max(0), &named("delivery")[..20]),
            of: of.clone(),
            webhook: webhook.to_owned(),
            event_seq: event.seq,
            event_type: event.name.to_owned(),
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

    /// Returns the values of `INSERT`.
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

    /// Writes the result of an attempt, if the delivery is still claimed by the same holder.
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

    /// Postpones the deliveries of later events of the run.
    pub(crate) fn postpone_later(&self, until: Timestamp) -> Statement {
        let (tenant, run) = (self.of.tenant.as_str(), self.of.run.as_str());
        Statement::new(
            POSTPONE_LATER,
            params![until, self.webhook.as_str(), tenant, run, self.event_seq, until],
        )
    }

    pub(crate) fn give_back(&self) -> Statement {
        Statement::new(GIVE_BACK, params![self.id.as_str(), self.holder.as_deref().unwrap_or_default()])
    }
}

pub(crate) fn replay(tenant: &TenantId, webhook: &str, id: &str, now: Timestamp) -> Statement {
    Statement::new(REPLAY, params![now, tenant.as_str(), webhook, id])
}

pub(crate) async fn count_window(db: &Database, sets: Vec<Vec<Param>>) -> Result<u64, Error> {
    let mut found = 0;
    for set in sets {
        found += db.query_one(COUNT_WINDOW, set).await?.map_or(Ok(0), |row| row.count("total"))?;
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
    let tenant = TenantId::parse(row.text("tenant_id")?).map_err(bad)?;
    let run = RunId::parse(row.text("run_id")?).map_err(bad)?;
    Ok(Delivery {
        seq: row.count("seq")?,
        id: row.text("delivery_id")?.to_owned(),
        of: RunRef { tenant, run },
        webhook: row.text("webhook_id")?.to_owned(),
        event_seq: row.count("event_seq")?,
        event_type: row.text("event_type")?.to_owned(),
        kind: if row.text("kind")? == "callback" { DeliveryKind::Callback } else { DeliveryKind::Event },
        state: word(row.text("state")?, DeliveryState::parse)?,
        ordered: row.int("ordered")? == 1,
        attempt: row.small("attempt")?,
        due: Timestamp(row.int("due_ms")?),
        holder: row.optional_text("holder")?.map(str::to_owned),
        lease: row.optional_int("lease_ms")?.map(Timestamp),
        dedup_key: row.text("dedup_key")?.to_owned(),
        created_at: Timestamp(row.int("created_ms")?),
        ended_at: row.optional_int("ended_ms")?.map(Timestamp),
        reason: row.optional_text("reason")?.map(str::to_owned),
    })
}
