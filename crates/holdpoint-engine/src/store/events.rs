//! The `events` table: the log. What one commit appended to a run is one row, written and read together.

use std::collections::{BTreeSet, HashMap};

use holdpoint_core::{Event, RunRef, Timestamp};

use super::{Database, Error, Row, Statement, params, unreadable};

pub(crate) const INSERT: &str =
    "INSERT INTO events (tenant_id, run_id, seq, at_ms, events) VALUES ($1, $2, $3, $4, $5)";
/// Finds the row that an insertion with the same values left.
pub(crate) const LANDED: &str = "SELECT tenant_id, run_id, seq FROM events
    WHERE tenant_id = $1 AND run_id = $2 AND seq = $3 AND at_ms = $4 AND events = $5";
const ALL: &str = "SELECT seq, at_ms, events FROM events WHERE tenant_id = $1 AND run_id = $2 ORDER BY seq";
/// The same for many runs.
const LOGS: &str = "SELECT e.tenant_id, e.run_id, e.seq, e.at_ms, e.events FROM events e
    WHERE e.tenant_id = $1 AND e.run_id = $2 ORDER BY e.seq";
// The row that holds sequence $3 began at or before it.
const FROM: &str =
    "SELECT seq, at_ms, events FROM events WHERE tenant_id = $1 AND run_id = $2 AND seq >= COALESCE(
    (SELECT MAX(seq) FROM events WHERE tenant_id = $1 AND run_id = $2 AND seq <= $3), 0) ORDER BY seq LIMIT $4";
/// Commits read at a time, so that a long log is not held in memory at once.
const COMMITS_MAX: u64 = 256;

/// An event with its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub seq: u64,
    pub at: Timestamp,
    pub event: Event,
}

/// The row for events that follow the first `before` ones, and its size.
pub(crate) fn append(
    of: &RunRef,
    before: u64,
    events: &[Event],
    at: Timestamp,
) -> Result<(Statement, usize), Error> {
    let text = serde_json::to_string(events).map_err(|error| unreadable("event", error))?;
    let size = text.len();
    Ok((Statement::new(INSERT, params![of.tenant.as_str(), of.run.as_str(), before, at, text]), size))
}

/// A whole log as it is stored; whoever wants it reads it.
#[derive(Debug, Default)]
pub(crate) struct Stored(Vec<Row>);

impl Stored {
    /// The events and their size in bytes of JSON.
    pub(crate) fn read(&self) -> Result<(Vec<Recorded>, usize), Error> {
        let (mut recorded, mut size) = (Vec::new(), 0);
        for row in &self.0 {
            size += row.text(4)?.len();
            decode(row.count(2)?, Timestamp(row.int(3)?), row.text(4)?, &mut recorded)?;
        }
        Ok((recorded, size))
    }
}

/// The whole logs of runs; one that is not here does not exist.
pub(crate) async fn logs(db: &Database, of: &[RunRef]) -> Result<HashMap<RunRef, Stored>, Error> {
    let sets = of.iter().map(|of| params![of.tenant.as_str(), of.run.as_str()]).collect();
    let mut logs: HashMap<RunRef, Stored> = HashMap::new();
    for row in db.query_each(LOGS, sets).await? {
        logs.entry(super::runs::reference(&row)?).or_default().0.push(row);
    }
    Ok(logs)
}

/// The whole log, and the numbers at which its commits begin.
pub(crate) async fn with_starts(db: &Database, of: &RunRef) -> Result<(Vec<Recorded>, BTreeSet<u64>), Error> {
    let rows = db.query(ALL, params![of.tenant.as_str(), of.run.as_str()]).await?;
    let (mut recorded, mut starts) = (Vec::new(), BTreeSet::new());
    for row in &rows {
        starts.insert(row.count(0)?);
        decode(row.count(0)?, Timestamp(row.int(1)?), row.text(2)?, &mut recorded)?;
    }
    Ok((recorded, starts))
}

/// Events from sequence number `from` on; of a long log the first part.
pub(crate) async fn from(db: &Database, of: &RunRef, from: u64) -> Result<Vec<Recorded>, Error> {
    let rows = db.query(FROM, params![of.tenant.as_str(), of.run.as_str(), from, COMMITS_MAX]).await?;
    let mut recorded = Vec::new();
    for row in &rows {
        decode(row.count(0)?, Timestamp(row.int(1)?), row.text(2)?, &mut recorded)?;
    }
    recorded.retain(|entry| entry.seq >= from);
    Ok(recorded)
}

fn decode(first: u64, at: Timestamp, text: &str, into: &mut Vec<Recorded>) -> Result<(), Error> {
    let events: Vec<Event> = serde_json::from_str(text).map_err(|error| unreadable("event", error))?;
    into.extend((first..).zip(events).map(|(seq, event)| Recorded { seq, at, event }));
    Ok(())
}
