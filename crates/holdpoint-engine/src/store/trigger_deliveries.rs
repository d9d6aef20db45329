//! The `trigger_deliveries` table: the occurrences of triggers. Each has the id of the run that it starts, so that no
//! repetition of an attempt starts a second run. Attempts are rows of `delivery_attempts`.

use holdpoint_core::webhook::DeliveryState;
use holdpoint_core::{RunId, TenantId, Timestamp};
use serde_json::Value;

use super::triggers::Trigger;
use super::webhooks::{parsed, word};
use super::{Database, Error, Row, Statement, params, timers, unreadable};

/// Inserts a delivery, unless the trigger has one with the same deduplication key. It is written in batches, whose
/// statements do not see each other's rows.
const INSERT: &str =
    "INSERT INTO trigger_deliveries (tenant_id, delivery_id, trigger_id, dedup_key, run_id, state, \
    attempt, due_ms, occurrence, sent_by, created_ms)
    VALUES ($1, $2, $3, $4, $5, 'queued', 0, $6, $7, $8, $9) ON CONFLICT DO NOTHING";
/// Inserts the delivery of an instant, if the trigger has the mark that the update before it wrote.
const INSERT_INSTANT: &str =
    "INSERT INTO trigger_deliveries (tenant_id, delivery_id, trigger_id, dedup_key, run_id, \
    state, attempt, due_ms, occurrence, sent_by, created_ms)
    SELECT t.tenant_id, CAST($1 AS TEXT), t.trigger_id, CAST($2 AS TEXT), CAST($3 AS TEXT), 'queued', 0,
        CAST($4 AS BIGINT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS BIGINT) FROM triggers t
    WHERE t.tenant_id = $8 AND t.trigger_id = $9 AND t.mark = $10 ON CONFLICT DO NOTHING";
/// Adds the timer of a delivery that is queued.
const TIMER: &str = "INSERT INTO timers (due_ms, tenant_id, run_id, timer)
    SELECT due_ms, tenant_id, delivery_id, 'delivery' FROM trigger_deliveries
    WHERE tenant_id = $1 AND delivery_id = $2 AND ended_ms IS NULL ON CONFLICT DO NOTHING";
const DUE_NOW: &str = "UPDATE trigger_deliveries SET due_ms = $1
    WHERE tenant_id = $2 AND trigger_id = $3 AND ended_ms IS NULL";
/// Adds the timers of all queued deliveries of a trigger.
const TIMERS: &str = "INSERT INTO timers (due_ms, tenant_id, run_id, timer)
    SELECT due_ms, tenant_id, delivery_id, 'delivery' FROM trigger_deliveries
    WHERE tenant_id = $1 AND trigger_id = $2 AND ended_ms IS NULL ON CONFLICT DO NOTHING";
const DELIVERED: &str = "UPDATE trigger_deliveries SET state = 'delivered', attempt = $1, ended_ms = $2,
        occurrence = '', error = NULL
    WHERE tenant_id = $3 AND delivery_id = $4 AND ended_ms IS NULL";
const DROPPED: &str =
    "UPDATE trigger_deliveries SET state = 'dropped', ended_ms = $1, occurrence = '', error = $2
    WHERE tenant_id = $3 AND delivery_id = $4 AND ended_ms IS NULL";
const DEAD: &str =
    "UPDATE trigger_deliveries SET state = 'dead-lettered', attempt = $1, ended_ms = $2, error = $3
    WHERE tenant_id = $4 AND delivery_id = $5 AND ended_ms IS NULL";
const RETRY: &str = "UPDATE trigger_deliveries SET attempt = $1, due_ms = $2, error = $3
    WHERE tenant_id = $4 AND delivery_id = $5 AND ended_ms IS NULL";
/// Queues a dead letter again, with all of its attempts.
const REQUEUE: &str =
    "UPDATE trigger_deliveries SET state = 'queued', attempt = 0, due_ms = $1, ended_ms = NULL
    WHERE tenant_id = $2 AND delivery_id = $3 AND state = 'dead-lettered'";
/// Ends the queued deliveries of a trigger that is deleted.
const DROP_ALL: &str = "UPDATE trigger_deliveries SET state = 'dropped', ended_ms = $1, occurrence = '',
        error = 'the trigger was deleted'
    WHERE tenant_id = $2 AND trigger_id = $3 AND ended_ms IS NULL";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, delivery_id, trigger_id, dedup_key, run_id, state, attempt, due_ms, occurrence,
            sent_by, error, created_ms, ended_ms FROM trigger_deliveries WHERE tenant_id = $1 ",
            $rest
        )
    };
}
const ONE: &str = select!("AND delivery_id = $2");
const PAGE: &str = select!("AND trigger_id = $2 AND delivery_id < $3 ORDER BY delivery_id DESC LIMIT $4");
const PAGE_OF_STATE: &str =
    select!("AND trigger_id = $2 AND delivery_id < $3 AND state = $4 ORDER BY delivery_id DESC LIMIT $5");
const COUNT_OPEN: &str = "SELECT COUNT(*) AS total FROM trigger_deliveries
    WHERE tenant_id = $1 AND trigger_id = $2 AND ended_ms IS NULL";
pub(crate) const PURGE: &str = "DELETE FROM trigger_deliveries WHERE (tenant_id, delivery_id) IN (
    SELECT tenant_id, delivery_id FROM trigger_deliveries WHERE ended_ms <= $1 ORDER BY ended_ms LIMIT $2)";
/// A text after all ids of deliveries.
const AFTER_ALL: &str = "~";

/// An occurrence of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerDelivery {
    /// The tenant.
    pub tenant: TenantId,
    /// The id. Newer deliveries have larger ids.
    pub id: String,
    /// The trigger.
    pub trigger: String,
    /// The deduplication key: an opaque text that is the same for the same occurrence.
    pub dedup_key: String,
    /// The id that the run has once it is started.
    pub run: RunId,
    /// The state.
    pub state: DeliveryState,
    /// The number of attempts so far.
    pub attempt: u32,
    /// The time of the next attempt of a queued delivery.
    pub due: Timestamp,
    /// The document that the input mapping reads. Null after the delivery has ended, unless it is a dead letter.
    pub occurrence: Value,
    /// The sender of the event.
    pub sent_by: Option<String>,
    /// The error of the last attempt, or the reason why the delivery was dropped.
    pub error: Option<String>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
}

/// The filter of a list of the deliveries of a trigger, the newest first.
#[derive(Clone, Debug, Default)]
pub struct TriggerDeliveryFilter {
    /// Only deliveries in this state.
    pub state: Option<DeliveryState>,
    /// The id of the last delivery of the previous page.
    pub before: Option<String>,
    /// The maximum number of deliveries.
    pub limit: u64,
}

impl TriggerDelivery {
    /// Inserts the delivery of an event, with its timer. A timer of a delivery that was not inserted has no effect.
    pub(crate) fn insert(&self) -> [Statement; 2] {
        let values = params![
            self.tenant.as_str(),
            self.id.as_str(),
            self.trigger.as_str(),
            self.dedup_key.as_str(),
            &self.run,
            self.due,
            self.occurrence.to_string(),
            self.sent_by.as_deref(),
            self.created_at
        ];
        [Statement::new(INSERT, values), timers::set_for_delivery(self)]
    }

    /// Inserts the delivery of an instant, with its timer, in the transaction that moved the trigger to its next one.
    pub(crate) fn insert_instant(&self, moved: &Trigger) -> [Statement; 2] {
        let values = params![
            self.id.as_str(),
            self.dedup_key.as_str(),
            &self.run,
            self.due,
            self.occurrence.to_string(),
            self.sent_by.as_deref(),
            self.created_at,
            self.tenant.as_str(),
            self.trigger.as_str(),
            moved.mark.as_str()
        ];
        [Statement::new(INSERT_INSTANT, values), self.set_timer()]
    }

    pub(crate) fn set_timer(&self) -> Statement {
        Statement::new(TIMER, params![self.tenant.as_str(), self.id.as_str()])
    }

    pub(crate) fn delivered(&self, attempt: u32, now: Timestamp) -> Statement {
        Statement::new(DELIVERED, params![u64::from(attempt), now, self.tenant.as_str(), self.id.as_str()])
    }

    pub(crate) fn dropped(&self, why: &str, now: Timestamp) -> Statement {
        Statement::new(DROPPED, params![now, why, self.tenant.as_str(), self.id.as_str()])
    }

    pub(crate) fn dead(&self, attempt: u32, why: &str, now: Timestamp) -> Statement {
        Statement::new(DEAD, params![u64::from(attempt), now, why, self.tenant.as_str(), self.id.as_str()])
    }

    /// Sets the time and the number of the next attempt, with its timer.
    pub(crate) fn retry(&self, attempt: u32, due: Timestamp, why: &str) -> [Statement; 2] {
        let values = params![u64::from(attempt), due, why, self.tenant.as_str(), self.id.as_str()];
        [Statement::new(RETRY, values), self.set_timer()]
    }

    /// Queues a dead letter again, with its timer. The row count of the last statement is 0 if it is none.
    pub(crate) fn requeue(&self, due: Timestamp) -> [Statement; 2] {
        let values = params![due, self.tenant.as_str(), self.id.as_str()];
        [Statement::new(REQUEUE, values), self.set_timer()]
    }
}

/// Makes the queued deliveries of a trigger due, with new timers.
pub(crate) fn make_due(tenant: &TenantId, trigger: &str, now: Timestamp) -> [Statement; 2] {
    let due = Statement::new(DUE_NOW, params![now, tenant.as_str(), trigger]);
    [due, Statement::new(TIMERS, params![tenant.as_str(), trigger])]
}

/// Ends the queued deliveries of a trigger that is deleted.
pub(crate) fn drop_all(tenant: &TenantId, trigger: &str, now: Timestamp) -> Statement {
    Statement::new(DROP_ALL, params![now, tenant.as_str(), trigger])
}

pub(crate) async fn find(
    db: &Database,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<TriggerDelivery>, Error> {
    let row = db.query_one(ONE, params![tenant.as_str(), id]).await?;
    row.as_ref().map(read).transpose()
}

pub(crate) async fn page(
    db: &Database,
    tenant: &TenantId,
    trigger: &str,
    filter: &TriggerDeliveryFilter,
) -> Result<Vec<TriggerDelivery>, Error> {
    let before = filter.before.as_deref().unwrap_or(AFTER_ALL);
    let rows = match filter.state {
        Some(state) => {
            let values = params![tenant.as_str(), trigger, before, state.as_str(), filter.limit];
            db.query(PAGE_OF_STATE, values).await?
        }
        None => db.query(PAGE, params![tenant.as_str(), trigger, before, filter.limit]).await?,
    };
    rows.iter().map(read).collect()
}

pub(crate) async fn count_open(db: &Database, tenant: &TenantId, trigger: &str) -> Result<u64, Error> {
    let row = db.query_one(COUNT_OPEN, params![tenant.as_str(), trigger]).await?;
    row.map_or(Ok(0), |row| row.count("total"))
}

fn read(row: &Row) -> Result<TriggerDelivery, Error> {
    let bad = |error: holdpoint_core::BadId| unreadable("delivery", error);
    let occurrence = row.text("occurrence")?;
    Ok(TriggerDelivery {
        tenant: TenantId::parse(row.text("tenant_id")?).map_err(bad)?,
        id: row.text("delivery_id")?.to_owned(),
        trigger: row.text("trigger_id")?.to_owned(),
        dedup_key: row.text("dedup_key")?.to_owned(),
        run: RunId::parse(row.text("run_id")?).map_err(bad)?,
        state: word(row.text("state")?, DeliveryState::parse)?,
        attempt: row.small("attempt")?,
        due: Timestamp(row.int("due_ms")?),
        occurrence: if occurrence.is_empty() { Value::Null } else { parsed(occurrence)? },
        sent_by: row.optional_text("sent_by")?.map(str::to_owned),
        error: row.optional_text("error")?.map(str::to_owned),
        created_at: Timestamp(row.int("created_ms")?),
        ended_at: row.optional_int("ended_ms")?.map(Timestamp),
    })
}
