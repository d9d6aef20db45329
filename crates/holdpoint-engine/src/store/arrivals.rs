//! The `arrivals` table: events from outside, for as long as somebody may come who waits for them, or who sends them
//! again.

use std::collections::BTreeSet;

use holdpoint_core::{ExternalEvent, TenantId, Timestamp};
use serde_json::{Value, json};

use super::{Database, Error, Param, Row, Statement, params, unreadable};

/// Comes back empty when the id was used before and is not forgotten yet. Whoever comes second waits here for the end
/// of the first one's transaction.
pub(crate) const TAKE: &str = "INSERT INTO arrivals (tenant_id, event_id, body_hash, event, sent_by, topic, topics,
        state, outcome, received_ms, kept_until_ms, forget_ms, look_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', NULL, $8, $9, $10, $11)
    ON CONFLICT (tenant_id, event_id) DO UPDATE SET body_hash = excluded.body_hash, event = excluded.event,
        sent_by = excluded.sent_by, topic = excluded.topic, topics = excluded.topics, state = excluded.state,
        outcome = excluded.outcome, received_ms = excluded.received_ms, kept_until_ms = excluded.kept_until_ms,
        forget_ms = excluded.forget_ms, look_ms = excluded.look_ms
    WHERE arrivals.forget_ms <= excluded.received_ms
    RETURNING event_id";
const BY_KEY: &str = "SELECT body_hash, event, sent_by, topics, state, outcome, kept_until_ms FROM arrivals
    WHERE tenant_id = $1 AND event_id = $2";
/// To be locked.
pub(crate) const STATE: &str = "SELECT a.tenant_id, a.event_id, a.state FROM arrivals a
    WHERE a.tenant_id = $1 AND a.event_id = $2";
const BY_TOPIC: &str = "SELECT event_id, topics, received_ms FROM arrivals
    WHERE tenant_id = $1 AND topic = $2 AND (received_ms, event_id) > ($3, $4)
    AND (state = 'open' OR kept_until_ms > $5) ORDER BY received_ms, event_id LIMIT $6";
const CROWD: &str = "SELECT COUNT(*) FROM (SELECT 1 AS one FROM arrivals WHERE tenant_id = $1 AND topic = $2
    LIMIT 32) AS some_of_them";
const USED: &str = "UPDATE arrivals SET state = 'used', topic = NULL, look_ms = NULL, event = '',
    outcome = COALESCE(outcome, $1) WHERE tenant_id = $2 AND event_id = $3";
const KEPT: &str = "UPDATE arrivals SET state = 'kept', look_ms = NULL, outcome = $1
    WHERE tenant_id = $2 AND event_id = $3 AND state = 'open'";
const IGNORED: &str = "UPDATE arrivals SET state = 'ignored', topic = NULL, look_ms = NULL, event = '',
    outcome = $1 WHERE tenant_id = $2 AND event_id = $3 AND state = 'open'";
/// Nobody takes it, and there is no room to keep it.
const TURNED_AWAY: &str = "DELETE FROM arrivals WHERE tenant_id = $1 AND event_id = $2 AND state = 'open'";
const HOW_MANY: &str = "SELECT COUNT(*) FROM (SELECT 1 AS one FROM arrivals WHERE tenant_id = $1
    AND topic IS NOT NULL AND (state = 'open' OR kept_until_ms > $2) LIMIT $3) AS some_of_them";
const TO_LOOK: &str =
    "SELECT tenant_id, event_id FROM arrivals WHERE look_ms <= $1 ORDER BY look_ms LIMIT $2";
pub(crate) const LOOK_AGAIN: &str = "UPDATE arrivals SET look_ms = $1
    WHERE tenant_id = $2 AND event_id = $3 AND look_ms IS NOT NULL";
pub(crate) const LOOK_NOW: &str = "UPDATE arrivals SET look_ms = 0 WHERE look_ms > 0";
pub(crate) const PURGE: &str = "DELETE FROM arrivals WHERE (tenant_id, event_id) IN (
    SELECT tenant_id, event_id FROM arrivals WHERE forget_ms <= $1 ORDER BY forget_ms LIMIT $2)";

/// Under which an event is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub tenant: TenantId,
    pub event_id: String,
}

impl Key {
    pub(crate) fn values(&self) -> Vec<Param> {
        params![self.tenant.as_str(), self.event_id.as_str()]
    }

    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        let tenant = TenantId::parse(row.text(0)?).map_err(|error| unreadable("event", error))?;
        Ok(Self { tenant, event_id: row.text(1)?.to_owned() })
    }

    /// The values for `LOOK_AGAIN`.
    pub(crate) fn look_again(&self, at: Timestamp) -> Vec<Param> {
        let mut values = params![at];
        values.extend(self.values());
        values
    }

    /// Somebody who waited got it. What its sender was told before stays said.
    pub(crate) fn used(&self, outcome: &str) -> Statement {
        self.moved(USED, outcome)
    }

    /// Nobody waits for it. Touches nothing when somebody came meanwhile.
    pub(crate) fn put_aside(&self, kept: bool, outcome: &str) -> Statement {
        self.moved(if kept { KEPT } else { IGNORED }, outcome)
    }

    /// It was never there, unless somebody else gave it to somebody meanwhile.
    pub(crate) fn turn_away(&self) -> Statement {
        Statement::new(TURNED_AWAY, self.values())
    }

    fn moved(&self, sql: &'static str, outcome: &str) -> Statement {
        let mut values = params![outcome];
        values.extend(self.values());
        Statement::new(sql, values)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody has looked yet who waits for it.
    Open,
    /// For the first who comes.
    Kept,
    /// Somebody got it, or nobody will.
    Over,
}

impl State {
    pub(crate) fn read(text: &str) -> Result<Self, Error> {
        match text {
            "open" => Ok(Self::Open),
            "kept" => Ok(Self::Kept),
            "used" | "ignored" => Ok(Self::Over),
            other => Err(unreadable("event", other)),
        }
    }
}

/// An event that is written down before anything is done with it.
#[derive(Debug)]
pub(crate) struct Fresh<'a> {
    pub key: &'a Key,
    pub event: &'a ExternalEvent,
    pub sent_by: &'a str,
    /// The topic under which it is found.
    pub topic: &'a str,
    pub received: Timestamp,
    pub kept_until: Timestamp,
    pub forget: Timestamp,
    pub look: Timestamp,
}

impl Fresh<'_> {
    /// The values for `TAKE`.
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

/// A stored event.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub body_hash: String,
    /// None once it is over.
    pub event: Option<ExternalEvent>,
    pub sent_by: String,
    pub topics: Vec<String>,
    pub state: State,
    pub outcome: Option<String>,
    pub kept_until: Timestamp,
}

pub(crate) async fn find(db: &Database, key: &Key) -> Result<Option<Arrival>, Error> {
    let Some(row) = db.query_one(BY_KEY, key.values()).await? else { return Ok(None) };
    let event = match row.text(1)? {
        "" => None,
        text => Some(read_event(&key.event_id, text)?),
    };
    Ok(Some(Arrival {
        body_hash: row.text(0)?.to_owned(),
        event,
        sent_by: row.text(2)?.to_owned(),
        topics: row.text(3)?.split(' ').map(str::to_owned).collect(),
        state: State::read(row.text(4)?)?,
        outcome: row.optional_text(5)?.map(str::to_owned),
        kept_until: Timestamp(row.int(6)?),
    }))
}

fn read_event(id: &str, text: &str) -> Result<ExternalEvent, Error> {
    let bad = |why: &str| unreadable("event", why);
    let mut read: Value = serde_json::from_str(text).map_err(|error| unreadable("event", error))?;
    let event_type = read["type"].as_str().ok_or_else(|| bad("it has no type"))?.to_owned();
    let Value::Object(correlation) = read["correlation"].take() else {
        return Err(bad("it has no correlation"));
    };
    Ok(ExternalEvent { event_type, event_id: id.to_owned(), correlation, payload: read["payload"].take() })
}

/// Where an event stands among those that are there: when it was received, and its id.
pub(crate) type Place = (i64, String);

/// Events that an interrupt with these topics may wait for, oldest first, behind a place: up to some more than `limit` of
/// each of those topics under which there are some. And where to go on, unless these are all.
pub(crate) async fn expected(
    db: &Database,
    tenant: &TenantId,
    (under, of): (&[String], &BTreeSet<String>),
    (after, now): (Option<&Place>, Timestamp),
    limit: usize,
) -> Result<(Vec<Place>, Option<Place>), Error> {
    const ROWS: u64 = 256;
    let (mut found, mut reached): (Vec<Place>, Option<Place>) = (Vec::new(), None);
    for topic in under {
        let (mut place, mut fitting) = (after.cloned().unwrap_or((i64::MIN, String::new())), 0);
        loop {
            let values = params![tenant.as_str(), topic.as_str(), place.0, place.1.as_str(), now, ROWS];
            let page = db.query(BY_TOPIC, values).await?;
            for row in &page {
                place = (row.int(2)?, row.text(0)?.to_owned());
                if row.text(1)?.split(' ').all(|topic| of.contains(topic)) {
                    found.push(place.clone());
                    fitting += 1;
                }
            }
            if (page.len() as u64) < ROWS {
                break;
            }
            if fitting >= limit {
                reached = Some(reached.map_or(place.clone(), |before| before.min(place.clone())));
                break;
            }
        }
    }
    found.sort();
    // Behind the nearest end of a list there may be older ones in that list.
    found.retain(|place| reached.as_ref().is_none_or(|reached| place <= reached));
    Ok((found, reached))
}

/// How many events are found under a topic, counted no further than matters.
pub(crate) async fn crowd(db: &Database, tenant: &TenantId, topic: &str) -> Result<u64, Error> {
    let row = db.query_one(CROWD, params![tenant.as_str(), topic]).await?;
    row.map_or(Ok(0), |row| row.count(0))
}

/// How many events of a tenant are there for somebody, counted up to `most`.
pub(crate) async fn kept(db: &Database, tenant: &TenantId, now: Timestamp, most: u64) -> Result<u64, Error> {
    let row = db.query_one(HOW_MANY, params![tenant.as_str(), now, most]).await?;
    row.map_or(Ok(0), |row| row.count(0))
}

/// Events whose senders went away before it was looked who waits for them.
pub(crate) async fn to_look(db: &Database, now: Timestamp, limit: u64) -> Result<Vec<Key>, Error> {
    db.query(TO_LOOK, params![now, limit]).await?.iter().map(Key::read).collect()
}
