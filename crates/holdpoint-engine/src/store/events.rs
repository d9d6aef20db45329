//! The `events` table: the log of each run. The events of one commit are one row.

use std::collections::{BTreeSet, HashMap};

use holdpoint_core::{Event, RunRef, Timestamp};

use super::{Database, Error, Row, Statement, event_text, params, unreadable};

pub(crate) const INSERT: &str =
    "INSERT INTO events (tenant_id, run_id, seq, at_ms, events) VALUES ($1, $2, $3, $4, $5)";
/// Finds the row that an INSERT with the same values has written.
pub(crate) const COMMITTED: &str = "SELECT tenant_id, run_id, seq FROM events
    WHERE tenant_id = $1 AND run_id = $2 AND seq = $3 AND at_ms = $4 AND events = $5";
const ALL: &str = "SELECT seq, at_ms, events FROM events WHERE tenant_id = $1 AND run_id = $2 ORDER BY seq";
/// Selects the logs of many runs.
const LOGS: &str = "SELECT e.tenant_id, e.run_id, e.seq, e.at_ms, e.events FROM events e
    WHERE e.tenant_id = $1 AND e.run_id = $2 ORDER BY e.seq";
/// Selects the log from sequence number $3 on. The row with that event starts at $3 or before.
const FROM: &str =
    "SELECT seq, at_ms, events FROM events WHERE tenant_id = $1 AND run_id = $2 AND seq >= COALESCE(
    (SELECT MAX(seq) FROM events WHERE tenant_id = $1 AND run_id = $2 AND seq <= $3), 0) ORDER BY seq LIMIT $4";
/// The maximum number of commits in one read, so that a long log is never in memory as a whole.
const COMMITS_MAX: u64 = 256;

/// An event with its position in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvent {
    /// The sequence number of the event.
    pub seq: u64,
    /// The time of the commit.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
}

/// Appends events after the first `before` events of the run. Also returns the bytes of their stored text.
pub(crate) fn append(
    of: &RunRef,
    before: u64,
    events: &[Event],
    at: Timestamp,
) -> Result<(Statement, usize), Error> {
    let text = event_text::to_stored(events, of.run.as_str())?;
    let size = text.len();
    Ok((Statement::new(INSERT, params![&of.tenant, &of.run, before, at, text]), size))
}

/// The rows of the whole log of a run, not parsed yet.
#[derive(Debug, Default)]
pub(crate) struct StoredLog(Vec<Row>);

impl StoredLog {
    /// Returns the events of the run `of`, and the bytes of their stored text.
    pub(crate) fn read(&self, of: &RunRef) -> Result<(Vec<RecordedEvent>, usize), Error> {
        let (mut recorded, mut size) = (Vec::new(), 0);
        for row in &self.0 {
            size += row.text("events")?.len();
            decode(row, of, &mut recorded)?;
        }
        Ok((recorded, size))
    }
}

/// Returns the whole logs of runs. A run without an entry does not exist.
pub(crate) async fn logs(db: &Database, of: &[RunRef]) -> Result<HashMap<RunRef, StoredLog>, Error> {
    let sets = of.iter().map(|of| params![&of.tenant, &of.run]).collect();
    let mut logs: HashMap<RunRef, StoredLog> = HashMap::new();
    for row in db.query_each(LOGS, sets).await? {
        logs.entry(super::runs::reference(&row)?).or_default().0.push(row);
    }
    Ok(logs)
}

/// Returns the whole log, and the sequence numbers of the first events of its commits.
pub(crate) async fn with_starts(
    db: &Database,
    of: &RunRef,
) -> Result<(Vec<RecordedEvent>, BTreeSet<u64>), Error> {
    let rows = db.query(ALL, params![&of.tenant, &of.run]).await?;
    let (mut recorded, mut starts) = (Vec::new(), BTreeSet::new());
    for row in &rows {
        starts.insert(row.count("seq")?);
        decode(row, of, &mut recorded)?;
    }
    Ok((recorded, starts))
}

/// Returns events from sequence number `from` on, at most those of [`COMMITS_MAX`] commits.
pub(crate) async fn from(db: &Database, of: &RunRef, from: u64) -> Result<Vec<RecordedEvent>, Error> {
    let rows = db.query(FROM, params![&of.tenant, &of.run, from, COMMITS_MAX]).await?;
    let mut recorded = Vec::new();
    for row in &rows {
        decode(row, of, &mut recorded)?;
    }
    recorded.retain(|entry| entry.seq >= from);
    Ok(recorded)
}

/// Reads the events of a row of the run `of`.
fn decode(row: &Row, of: &RunRef, into: &mut Vec<RecordedEvent>) -> Result<(), Error> {
    let (first, at) = (row.count("seq")?, Timestamp(row.int("at_ms")?));
    let json = event_text::to_json(row.text("events")?, of.run.as_str());
    let events: Vec<Event> = serde_json::from_str(&json).map_err(|error| unreadable("event", error))?;
    into.extend((first..).zip(events).map(|(seq, event)| RecordedEvent { seq, at, event }));
    Ok(())
}
