//! The queued deliveries of each webhook, and the deliveries that may be claimed.

use holdpoint_core::Timestamp;

use super::super::{Database, Error, params};

/// Selects the webhooks with queued deliveries, each with its earliest due time and its earliest due time after $1, and a
/// row without a webhook. Each row has the earliest end of a lease. Skips from one webhook to the next, however many
/// deliveries each has.
const QUEUES: &str = "WITH RECURSIVE queues(id) AS (
        SELECT MIN(f.webhook_id) FROM deliveries f WHERE f.state = 'queued' UNION ALL
        SELECT (SELECT MIN(n.webhook_id) FROM deliveries n WHERE n.state = 'queued' AND n.webhook_id > queues.id)
        FROM queues WHERE queues.id IS NOT NULL)
    SELECT q.id AS webhook_id,
        (SELECT MIN(d.due_ms) FROM deliveries d WHERE d.state = 'queued' AND d.webhook_id = q.id) AS due_ms,
        (SELECT MIN(d.due_ms) FROM deliveries d
            WHERE d.state = 'queued' AND d.webhook_id = q.id AND d.due_ms > $1) AS next_due_ms,
        (SELECT MIN(l.lease_ms) FROM deliveries l WHERE l.state = 'in-flight') AS lease_ms
    FROM queues q";
const CANDIDATES: &str = concat!(
    "SELECT delivery_id FROM deliveries d WHERE webhook_id = $1 AND state = 'queued' AND due_ms <= $2 AND ",
    may_be_sent!("d"),
    " ORDER BY due_ms, seq LIMIT $3"
);

/// The unfinished deliveries at a time.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// The queues of the webhooks that have one.
    pub webhooks: Vec<QueueSummary>,
    /// The earliest end of a lease.
    pub lease: Option<Timestamp>,
}

/// The queued deliveries of a webhook.
#[derive(Debug)]
pub(crate) struct QueueSummary {
    pub webhook: String,
    /// The earliest due time.
    pub due: Timestamp,
    /// The earliest due time after the time of the query.
    pub next_due: Option<Timestamp>,
}

impl Queues {
    /// Returns the next time at which a delivery becomes due or a lease expires.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.webhooks.iter().filter_map(|queue| queue.next_due).chain(self.lease).min()
    }
}

pub(crate) async fn read(db: &Database, now: Timestamp) -> Result<Queues, Error> {
    let mut queues = Queues::default();
    for row in db.query(QUEUES, params![now]).await? {
        let time = |column| Ok::<_, Error>(row.optional_int(column)?.map(Timestamp));
        queues.lease = time("lease_ms")?;
        let (Some(webhook), Some(due)) = (row.optional_text("webhook_id")?, time("due_ms")?) else {
            continue;
        };
        queues.webhooks.push(QueueSummary {
            webhook: webhook.to_owned(),
            due,
            next_due: time("next_due_ms")?,
        });
    }
    Ok(queues)
}

/// Returns the ids of queued deliveries that are due and may be sent, in the order of their due times.
pub(crate) async fn candidates(
    db: &Database,
    webhook: &str,
    now: Timestamp,
    limit: u64,
) -> Result<Vec<String>, Error> {
    let rows = db.query(CANDIDATES, params![webhook, now, limit]).await?;
    rows.iter().map(|row| Ok(row.text("delivery_id")?.to_owned())).collect()
}
