//! The `delivery_attempts` table: the result of every attempt, and the number of events without an attempt.

use holdpoint_core::webhook::AttemptOutcome;
use holdpoint_core::{TenantId, Timestamp};
use uuid::Uuid;

use super::super::trigger_deliveries::TriggerDelivery;
use super::super::webhooks::word;
use super::super::{Database, Error, Row, Statement, params};
use super::Delivery;

const INSERT: &str =
    "INSERT INTO delivery_attempts (attempt_id, tenant_id, webhook_id, delivery_id, run_id, event_seq, \
    event_type, attempt, at_ms, latency_ms, status, error, outcome, times)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING";
const PAGE: &str =
    "SELECT seq, delivery_id, run_id, event_seq, event_type, attempt, at_ms, latency_ms, status, error,
    outcome, times FROM delivery_attempts WHERE tenant_id = $1 AND webhook_id = $2 AND seq < $3
    ORDER BY seq DESC LIMIT $4";
/// The condition on the webhook is an expression, so that SQLite uses the index of the delivery: a webhook can have many
/// more attempts.
const OF_DELIVERY: &str =
    "SELECT seq, delivery_id, run_id, event_seq, event_type, attempt, at_ms, latency_ms, status,
    error, outcome, times FROM delivery_attempts WHERE tenant_id = $1 AND webhook_id || '' = $2 AND delivery_id = $3
    AND seq < $4 ORDER BY seq DESC LIMIT $5";
/// Deletes those of the first $1 attempts that were made before $2. Attempts are written in about the order of their
/// times.
const PURGE: &str = "DELETE FROM delivery_attempts WHERE seq IN (SELECT f.seq FROM
    (SELECT seq, at_ms FROM delivery_attempts ORDER BY seq LIMIT $1) f WHERE f.at_ms <= $2)";
/// The delivery id of events that were dropped without an attempt. Not NULL, so that a row that is written twice is
/// stored once.
const NO_DELIVERY: &str = "";

/// One attempt of a delivery, or a number of events that were dropped without an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The position in lists; newer attempts have larger numbers.
    pub seq: u64,
    /// The id of the delivery; None for dropped events.
    pub delivery: Option<String>,
    /// The run of the event.
    pub run: Option<String>,
    /// The sequence number of the event.
    pub event_seq: Option<u64>,
    /// The name of the event.
    pub event_type: Option<String>,
    /// The number of the attempt, from 1; 0 for dropped events.
    pub number: u32,
    /// The time of the attempt.
    pub at: Timestamp,
    /// The duration of the attempt in milliseconds.
    pub latency_ms: u64,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// The reason of a failure.
    pub error: Option<String>,
    /// The outcome of the attempt.
    pub outcome: AttemptOutcome,
    /// 1, or the number of dropped events.
    pub times: u64,
}

/// The filter of a list of attempts of a webhook, the newest first.
#[derive(Clone, Debug, Default)]
pub struct AttemptFilter {
    /// Only attempts of this delivery.
    pub delivery: Option<String>,
    /// The `seq` of the last attempt of the previous page.
    pub before: Option<u64>,
    /// The maximum number of attempts.
    pub limit: u64,
}

/// The latest attempt of a delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewAttempt<'a> {
    pub at: Timestamp,
    pub latency_ms: u64,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    pub error: Option<&'a str>,
    pub outcome: AttemptOutcome,
}

pub(crate) fn insert(delivery: &Delivery, attempt: &NewAttempt<'_>) -> Statement {
    let values = params![
        Uuid::now_v7().to_string(),
        delivery.of.tenant.as_str(),
        delivery.webhook.as_str(),
        delivery.id.as_str(),
        delivery.of.run.as_str(),
        delivery.event_seq,
        delivery.event_type.as_str(),
        u64::from(delivery.attempt),
        attempt.at,
        attempt.latency_ms,
        attempt.status.map(i64::from),
        attempt.error,
        attempt.outcome.as_str(),
        1_i64
    ];
    Statement::new(INSERT, values)
}

/// Inserts the attempt of a trigger to start a run.
pub(crate) fn insert_of_trigger(delivery: &TriggerDelivery, attempt: &NewAttempt<'_>) -> Statement {
    let values = params![
        Uuid::now_v7().to_string(),
        delivery.tenant.as_str(),
        delivery.trigger.as_str(),
        delivery.id.as_str(),
        &delivery.run,
        None::<i64>,
        None::<&str>,
        u64::from(delivery.attempt),
        attempt.at,
        attempt.latency_ms,
        None::<i64>,
        attempt.error,
        attempt.outcome.as_str(),
        1_i64
    ];
    Statement::new(INSERT, values)
}

/// Inserts a number of events that were dropped without an attempt.
pub(crate) fn insert_dropped(
    tenant: &TenantId,
    webhook: &str,
    at: Timestamp,
    times: u64,
    why: &str,
) -> Statement {
    let values = params![
        Uuid::now_v7().to_string(),
        tenant.as_str(),
        webhook,
        NO_DELIVERY,
        None::<&str>,
        None::<i64>,
        None::<&str>,
        0_i64,
        at,
        0_i64,
        None::<i64>,
        Some(why),
        AttemptOutcome::Dropped.as_str(),
        times
    ];
    Statement::new(INSERT, values)
}

/// Deletes up to `limit` attempts that were made before `old`.
pub(crate) fn purge(old: Timestamp, limit: u64) -> Statement {
    Statement::new(PURGE, params![limit, old])
}

pub(crate) async fn page(
    db: &Database,
    tenant: &TenantId,
    webhook: &str,
    filter: &AttemptFilter,
) -> Result<Vec<Attempt>, Error> {
    let before = filter.before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let rows = match &filter.delivery {
        Some(delivery) => {
            let values = params![tenant.as_str(), webhook, delivery.as_str(), before, filter.limit];
            db.query(OF_DELIVERY, values).await?
        }
        None => db.query(PAGE, params![tenant.as_str(), webhook, before, filter.limit]).await?,
    };
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Attempt, Error> {
    let text = |column| Ok::<_, Error>(row.optional_text(column)?.map(str::to_owned));
    Ok(Attempt {
        seq: row.count("seq")?,
        delivery: text("delivery_id")?.filter(|id| id != NO_DELIVERY),
        run: text("run_id")?,
        event_seq: row.optional_int("event_seq")?.and_then(|seq| u64::try_from(seq).ok()),
        event_type: text("event_type")?,
        number: row.small("attempt")?,
        at: Timestamp(row.int("at_ms")?),
        latency_ms: row.count("latency_ms")?,
        status: row.optional_int("status")?.and_then(|status| u16::try_from(status).ok()),
        error: text("error")?,
        outcome: word(row.text("outcome")?, AttemptOutcome::parse)?,
        times: row.count("times")?,
    })
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use crate::location::Location;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_attempts_of_a_delivery_are_read_from_the_index_of_deliveries() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(Location::Sqlite(folder.path().join("db"))).manual_worker();
        let engine = Engine::open(options).await.unwrap();
        let plan = engine.db().plan(OF_DELIVERY, params!["t", "wh", "dl", i64::MAX, 10_i64]).await.unwrap();
        assert!(plan.contains("INDEX delivery_attempts_by_delivery (delivery_id=?)"), "{plan}");
        engine.close().await;
    }
}
