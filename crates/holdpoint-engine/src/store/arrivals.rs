//! The `arrivals` table: external events, for as long as an interrupt may wait for them or their sender may repeat
//! them.

use std::collections::BTreeSet;

use holdpoint_core::{ExternalEvent, TenantId, Timestamp};
use serde_json::{Value, json};

use super::{Database, Error, Param, Row, Statement, params, unreadable};

/// Inserts an event. Returns no row if its id is in use. A second transaction with the same id waits here for the end
/// of the first.
pub(crate) const TAKE: &str = "INSERT INTO arrivals (tenant_id, event_id, body_hash, event, sent_by, topic, topics,
        state, outcome, received_ms, kept_until_ms, forget_ms, look_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', NULL, $8, $9, $10, $11)
    ON CONFLICT (tenant_id, event_id) DO UPDATE SET body_hash = excluded.body_hash, event = excluded.event,
        sent_by = excluded.sent_by, topic = excluded.topic, topics = excluded.topics, state = excluded.state,
        outcome = excluded.outcome, received_ms = excluded.received_ms, kept_until_ms = excluded.kept_until_ms,
        forget_ms = excluded.forget_ms, look_ms = excluded.look_ms
    WHERE arrivals.forget_ms <= excluded.received_ms
    RETURNING event_id";
const BY_KEY: &str =
    "SELECT body_hash, event, sent_by, topics, state, outcome, received_ms, kept_until_ms FROM arrivals
    WHERE tenant_id = $1 AND event_id = $2";
/// Selects the state of an event, with a lock.
pub(crate) const STATE: &str = "SELECT a.tenant_id, a.event_id, a.state FROM arrivals a
    WHERE a.tenant_id = $1 AND a.event_id = $2";
const BY_TOPIC: &str = "SELECT event_id, topics, received_ms FROM arrivals
    WHERE tenant_id = $1 AND topic = $2 AND (received_ms, event_id) > ($3, $4)
    AND (state = 'open' OR kept_until_ms > $5) ORDER BY received_ms, event_id LIMIT $6";
const COUNT_BY_TOPIC: &str =
    "SELECT COUNT(*) AS total FROM (SELECT 1 AS one FROM arrivals WHERE tenant_id = $1 AND topic = $2
    LIMIT 32) AS some_of_them";
const USED: &str = "UPDATE arrivals SET state = 'used', topic = NULL, look_ms = NULL, event = '',
    outcome = COALESCE(outcome, $1) WHERE tenant_id = $2 AND event_id = $3";
const KEPT: &str = "UPDATE arrivals SET state = 'kept', look_ms = NULL, outcome = $1
    WHERE tenant_id = $2 AND event_id = $3 AND state = 'open'";
const IGNORED: &str = "UPDATE arrivals SET state = 'ignored', topic = NULL, look_ms = NULL, event = '',
    outcome = $1 WHERE tenant_id = $2 AND event_id = $3 AND state = 'open'";
/// Locks an open event, so that rows of other tables are written after the lock, as in a commit of the committer.
const LOCK: &str =
    "UPDATE arrivals SET look_ms = look_ms WHERE tenant_id = $1 AND event_id = $2 AND state = 'open'";
/// Deletes an event that no interrupt takes and that cannot be kept, because the limit is reached.
const DISCARD: &str = "DELETE FROM arrivals WHERE tenant_id = $1 AND event_id = $2 AND state = 'open'";
const COUNT_KEPT: &str = "SELECT COUNT(*) AS total FROM (SELECT 1 AS one FROM arrivals WHERE tenant_id = $1
    AND topic IS NOT NULL AND (state = 'open' OR kept_until_ms > $2) LIMIT $3) AS some_of_them";
const DUE: &str = "SELECT tenant_id, event_id FROM arrivals WHERE look_ms <= $1 ORDER BY look_ms LIMIT $2";
pub(crate) const RESCHEDULE: &str = "UPDATE arrivals SET look_ms = $1
    WHERE tenant_id = $2 AND event_id = $3 AND look_ms IS NOT NULL";
pub(crate) const SCHEDULE_NOW: &str = "UPDATE arrivals SET look_ms = 0 WHERE look_ms > 0";
pub(crate) const PURGE: &str = "DELETE FROM arrivals WHERE (tenant_id, event_id) IN (
    SELECT tenant_id, event_id FROM arrivals WHERE forget_ms <= $1 ORDER BY forget_ms LIMIT $2)";

/// The key of an external event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ArrivalKey {
    pub tenant: TenantId,
    pub event_id: String,
}

impl ArrivalKey {
    pub(crate) fn values(&self) -> Vec<Param> {
        params![self.tenant.as_str(), self.event_id.as_str()]
    }

    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        let tenant = TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("event", error))?;
        Ok(Self { tenant, event_id: row.text("event_id")?.to_owned() })
    }

    /// Returns the values of `RESCHEDULE`.
    pub(crate) fn reschedule(&self, at: Timestamp) -> Vec<Param> {
        let mut values = params![at];
        values.extend(self.values());
        values
    }

    /// Marks the event as used by an interrupt. An outcome that was already returned to the sender is not replaced.
    pub(crate) fn mark_used(&self, outcome: &str) -> Statement {
        self.with_outcome(USED, outcome)
    }

    /// Marks an event that no interrupt waits for as kept. Changes no row if its state has changed meanwhile.
    pub(crate) fn keep(&self, outcome: &str) -> Statement {
        self.with_outcome(KEPT, outcome)
    }

    /// Marks an event that no interrupt waits for as ignored. Changes no row if its state has changed meanwhile.
    pub(crate) fn ignore(&self, outcome: &str) -> Statement {
        self.with_outcome(IGNORED, outcome)
    }

    /// Locks the event, if it is still open.
    pub(crate) fn lock(&self) -> Statement {
        Statement::new(LOCK, self.values())
    }

    /// Deletes the event, unless its state has changed meanwhile.
    pub(crate) fn discard(&self) -> Statement {
        Statement::new(DISCARD, self.values())
    }

    fn with_outcome(&self, sql: &'static str, outcome: &str) -> Statement {
        let mut values = params![outcome];
        values.extend(self.values());
        Statement::new(sql, values)
    }
}

/// The state of an external event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivalState {
    /// The event is not matched with the waiting interrupts yet.
    Open,
    /// No interrupt waited for the event. The first one that does gets it.
    Kept,
    /// The event is used or ignored.
    Over,
}

impl ArrivalState {
    pub(crate) fn read(text: &str) -> Result<Self, Error> {
        match text {
            "open" => Ok(Self::Open),
            "kept" => Ok(Self::Kept),
            "used" | "ignored" => Ok(Self::Over),
            other => Err(unreadable("event", other)),
        }
    }
}

/// An external event that is stored before it is matched.
#[derive(Debug)]
pub(crate) struct NewArrival<'a> {
    pub key: &'a ArrivalKey,
    pub event: &'a ExternalEvent,
    pub sent_by: &'a str,
    /// The topic by which the event is found.
    pub topic: &'a str,
    pub received: Timestamp,
    pub kept_until: Timestamp,
    pub forget: Timestamp,
    pub look: Timestamp,
}

impl NewArrival<'_> {
    /// Returns the values of `TAKE`.
    pub(crate) fn values(&self) -> Vec<Param> {
        let Self { event, .. } = self;
        let text =
            json!({"type": event.event_type, "correlation": event.correlation, "payload": event.payload});
        let mut values = self.key.values();
        values.extend(params![
            event.digest(),
            text.to_string(),
            self.sent_by,
            self.topic,
            event.topics().join(" "),
            self.received,
            self.kept_until,
            self.forget,
            self.look
        ]);
        values
    }
}

/// A stored external event.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub body_hash: String,
    /// None if the event is used or ignored.
    pub event: Option<ExternalEvent>,
    pub sent_by: String,
    pub topics: Vec<String>,
    pub state: ArrivalState,
    pub outcome: Option<String>,
    pub received: Timestamp,
    pub kept_until: Timestamp,
}

pub(crate) async fn find(db: &Database, key: &ArrivalKey) -> Result<Option<Arrival>, Error> {
    let Some(row) = db.query_one(BY_KEY, key.values()).await? else { return Ok(None) };
    let event = match row.text("event")? {
        "" => None,
        text => Some(read_event(&key.event_id, text)?),
    };
    Ok(Some(Arrival {
        body_hash: row.text("body_hash")?.to_owned(),
        event,
        sent_by: row.text("sent_by")?.to_owned(),
        topics: row.text("topics")?.split(' ').map(str::to_owned).collect(),
        state: ArrivalState::read(row.text("state")?)?,
        outcome: row.optional_text("outcome")?.map(str::to_owned),
        received: Timestamp(row.int("received_ms")?),
        kept_until: Timestamp(row.int("kept_until_ms")?),
    }))
}

fn read_event(id: &str, text: &str) -> Result<ExternalEvent, Error> {
    let bad = |why: &str| unreadable("event", why);
    let mut read: Value = serde_json::from_str(text).map_err(|error| unreadable("event", error))?;
    let event_type = read["type"].as_str().ok_or_else(|| bad("the type is missing"))?.to_owned();
    let Value::Object(correlation) = read["correlation"].take() else {
        return Err(bad("the correlation is missing"));
    };
    Ok(ExternalEvent { event_type, event_id: id.to_owned(), correlation, payload: read["payload"].take() })
}

/// The position of an event in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArrivalCursor {
    pub received_ms: i64,
    pub event_id: String,
}

/// A search for events that an interrupt may wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivalSearch<'a> {
    pub tenant: &'a TenantId,
    /// The topics of the interrupt that have events.
    pub under: &'a [String],
    /// All topics of the interrupt. The topics of an event are among them.
    pub topics: &'a BTreeSet<String>,
    /// The position to start after.
    pub after: Option<&'a ArrivalCursor>,
    pub now: Timestamp,
    /// About the maximum number of events for each topic of `under`.
    pub limit: usize,
}

/// The events that a search has found, the oldest first.
#[derive(Debug)]
pub(crate) struct ArrivalPage {
    pub events: Vec<ArrivalCursor>,
    /// The position for the next search; None if there are no more events.
    pub next: Option<ArrivalCursor>,
}

impl ArrivalSearch<'_> {
    pub(crate) async fn page(&self, db: &Database) -> Result<ArrivalPage, Error> {
        let (mut events, mut next): (Vec<ArrivalCursor>, Option<ArrivalCursor>) = (Vec::new(), None);
        for topic in self.under {
            if let Some(reached) = self.add_events(db, topic, &mut events).await? {
                next = Some(next.map_or(reached.clone(), |before| before.min(reached)));
            }
        }
        events.sort();
        // Events after the smallest position may be missing from the list that ended there.
        events.retain(|place| next.as_ref().is_none_or(|next| place <= next));
        Ok(ArrivalPage { events, next })
    }

    /// Adds the events of one topic. Returns the position of the last one if there may be more.
    async fn add_events(
        &self,
        db: &Database,
        topic: &str,
        events: &mut Vec<ArrivalCursor>,
    ) -> Result<Option<ArrivalCursor>, Error> {
        const ROWS: u64 = 256;
        let start = ArrivalCursor { received_ms: i64::MIN, event_id: String::new() };
        let (mut place, mut fitting) = (self.after.cloned().unwrap_or(start), 0);
        loop {
            let ArrivalCursor { received_ms, event_id } = &place;
            let values =
                params![self.tenant.as_str(), topic, *received_ms, event_id.as_str(), self.now, ROWS];
            let page = db.query(BY_TOPIC, values).await?;
            for row in &page {
                let (received_ms, event_id) = (row.int("received_ms")?, row.text("event_id")?.to_owned());
                place = ArrivalCursor { received_ms, event_id };
                if row.text("topics")?.split(' ').all(|topic| self.topics.contains(topic)) {
                    events.push(place.clone());
                    fitting += 1;
                }
            }
            if (page.len() as u64) < ROWS {
                return Ok(None);
            }
            if fitting >= self.limit {
                return Ok(Some(place));
            }
        }
    }
}

/// Counts the events with a topic, up to 32.
pub(crate) async fn count_by_topic(db: &Database, tenant: &TenantId, topic: &str) -> Result<u64, Error> {
    let row = db.query_one(COUNT_BY_TOPIC, params![tenant.as_str(), topic]).await?;
    row.map_or(Ok(0), |row| row.count("total"))
}

/// Counts the events of a tenant that are open or kept, up to `most`.
pub(crate) async fn count_kept(
    db: &Database,
    tenant: &TenantId,
    now: Timestamp,
    most: u64,
) -> Result<u64, Error> {
    let row = db.query_one(COUNT_KEPT, params![tenant.as_str(), now, most]).await?;
    row.map_or(Ok(0), |row| row.count("total"))
}

/// Returns events that are due for a match, because their reception did not complete.
pub(crate) async fn due(db: &Database, now: Timestamp, limit: u64) -> Result<Vec<ArrivalKey>, Error> {
    db.query(DUE, params![now, limit]).await?.iter().map(ArrivalKey::read).collect()
}
