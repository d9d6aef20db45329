//! The `awaited` table: the topics under which open interrupts wait for external events.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_core::{Event, Interrupt, InterruptId, Kind, Run, RunId, RunRef, TenantId, Timestamp};

use super::{Database, Error, Param, Row, Statement, params, unreadable};

pub(crate) const INSERT: &str =
    "INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
const DELETE: &str =
    "DELETE FROM awaited WHERE tenant_id = $1 AND topic = $2 AND run_id = $3 AND interrupt_id = $4";
const PAGE: &str = "SELECT run_id, interrupt_id, topics FROM awaited
    WHERE tenant_id = $1 AND topic = $2 AND (run_id, interrupt_id) > ($3, $4)
    ORDER BY run_id, interrupt_id LIMIT $5";
const DUE: &str =
    "SELECT tenant_id, run_id, interrupt_id, topic, topics, look_ms FROM awaited WHERE look_ms <= $1
    ORDER BY look_ms LIMIT $2";
/// Selects the rows that have an event with their topic.
const EXPECTED: &str =
    "SELECT w.tenant_id, w.run_id, w.interrupt_id, w.topic, w.topics, w.look_ms FROM awaited w
    WHERE w.tenant_id = $1 AND w.topic = $2 AND w.run_id = $3 AND w.interrupt_id = $4
    AND EXISTS (SELECT 1 FROM arrivals a WHERE a.tenant_id = w.tenant_id AND a.topic = w.topic)";
/// Sets the time of the next match; NULL if none is due. Changes no row that was scheduled again meanwhile.
pub(crate) const RESCHEDULE: &str = "UPDATE awaited SET look_ms = $1
    WHERE tenant_id = $2 AND topic = $3 AND run_id = $4 AND interrupt_id = $5 AND look_ms = $6";
/// Schedules a match of the rows after a position, which the last match did not read. A row that is scheduled already
/// gets another time, so that `RESCHEDULE` of a concurrent match does not clear it.
const SCHEDULE_AFTER: &str = "UPDATE awaited SET look_ms = COALESCE(look_ms + 1, $1)
    WHERE tenant_id = $2 AND topic = $3 AND (run_id, interrupt_id) > ($4, $5)";
pub(crate) const SCHEDULE_NOW: &str = "UPDATE awaited SET look_ms = 0 WHERE look_ms > 0";
/// Inserts a row with a topic for a row without one, if that row still exists.
const INSERT_TOPIC: &str = "INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
    SELECT tenant_id, CAST($1 AS TEXT), run_id, interrupt_id, CAST($2 AS TEXT), CAST($3 AS BIGINT) FROM awaited
    WHERE tenant_id = $4 AND topic = '' AND run_id = $5 AND interrupt_id = $6 ON CONFLICT DO NOTHING";

/// Returns the statements for the interrupts that `events` open and close. `after` is the run after the events.
pub(crate) fn write(of: &RunRef, after: &Run, events: &[Event]) -> Vec<Statement> {
    let (mut opened, mut closed) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        match event {
            Event::InterruptRequested { id, kind: Kind::ExternalEvent, .. } => {
                opened.insert(*id);
            }
            Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                closed.insert(*id);
            }
            _ => {}
        }
    }
    if after.finished() {
        closed.extend(after.open_interrupts().map(|interrupt| interrupt.id));
    }
    let inserted = opened.difference(&closed).filter_map(|id| after.interrupt(*id));
    let mut statements: Vec<Statement> = inserted.flat_map(|interrupt| insert(of, interrupt)).collect();
    for interrupt in closed.difference(&opened).filter_map(|id| after.interrupt(*id)) {
        statements.extend(interrupt.topics().iter().map(|topic| delete(of, interrupt.id, topic)));
    }
    statements
}

/// Returns the statements that insert all waiting interrupts of a run that has no rows yet.
pub(crate) fn write_open(of: &RunRef, run: &Run) -> Vec<Statement> {
    if run.finished() {
        return Vec::new();
    }
    run.open_interrupts().flat_map(|interrupt| insert(of, interrupt)).collect()
}

/// Inserts the rows of an interrupt. Only the first row is scheduled for a match, on behalf of all of them.
fn insert(of: &RunRef, interrupt: &Interrupt) -> Vec<Statement> {
    let topics = interrupt.topics();
    let all = topics.join(" ");
    let row = |(place, topic): (usize, &String)| {
        let look = (place == 0).then_some(interrupt.requested_at.0);
        let key = (of.tenant.as_str(), topic.as_str(), of.run.as_str());
        let values = params![key.0, key.1, key.2, u64::from(interrupt.id.0), all.as_str(), look];
        Statement::new(INSERT, values)
    };
    topics.iter().enumerate().map(row).collect()
}

fn delete(of: &RunRef, id: InterruptId, topic: &str) -> Statement {
    Statement::new(DELETE, params![&of.tenant, topic, &of.run, u64::from(id.0)])
}

/// A row of the table: an interrupt that waits for an event, with one of its topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AwaitedEvent {
    pub of: RunRef,
    pub id: InterruptId,
    pub topic: String,
    pub topics: BTreeSet<String>,
    /// The time of the next match when the row was read.
    look_ms: Option<i64>,
}

impl AwaitedEvent {
    fn key(&self, topic: &str) -> Vec<Param> {
        params![&self.of.tenant, topic, &self.of.run, u64::from(self.id.0)]
    }

    /// Returns the values of `RESCHEDULE`.
    pub(crate) fn reschedule(&self, at: Option<Timestamp>) -> Vec<Param> {
        let mut values = params![at.map(|at| at.0)];
        values.extend(self.key(&self.topic));
        values.extend(params![self.look_ms]);
        values
    }

    /// Returns true if the row was written before topics were stored.
    pub(crate) fn has_no_topic(&self) -> bool {
        self.topic.is_empty()
    }

    /// Replaces the row without a topic by the rows of these topics. An empty list means that the interrupt no
    /// longer waits.
    pub(crate) fn insert_topics(&self, topics: &[String]) -> Vec<Statement> {
        let all = topics.join(" ");
        let row = |(place, topic): (usize, &String)| {
            let look = (place == 0).then_some(0_i64);
            let (tenant, run) = (self.of.tenant.as_str(), self.of.run.as_str());
            let values = params![topic.as_str(), all.as_str(), look, tenant, run, u64::from(self.id.0)];
            Statement::new(INSERT_TOPIC, values)
        };
        let mut statements: Vec<Statement> = topics.iter().enumerate().map(row).collect();
        statements.push(delete(&self.of, self.id, ""));
        statements
    }
}

pub(crate) async fn due(db: &Database, now: Timestamp, limit: u64) -> Result<Vec<AwaitedEvent>, Error> {
    db.query(DUE, params![now, limit]).await?.iter().map(read).collect()
}

/// Schedules a match of all interrupts with this topic after a position.
pub(crate) fn schedule_after(
    tenant: &TenantId,
    topic: &str,
    run: &RunId,
    id: InterruptId,
    now: Timestamp,
) -> Statement {
    Statement::new(SCHEDULE_AFTER, params![now, tenant, topic, run.as_str(), u64::from(id.0)])
}

/// Returns, for each of these interrupts, its topics that have events.
pub(crate) async fn expected(
    db: &Database,
    waits: &[AwaitedEvent],
) -> Result<BTreeMap<(RunRef, u32), Vec<String>>, Error> {
    let keys = |wait: &AwaitedEvent| wait.topics.iter().map(|topic| wait.key(topic)).collect::<Vec<_>>();
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for row in db.query_each(EXPECTED, waits.iter().flat_map(keys).collect()).await? {
        let wait = read(&row)?;
        found.entry((wait.of, wait.id.0)).or_default().push(wait.topic);
    }
    Ok(found)
}

fn read(row: &Row) -> Result<AwaitedEvent, Error> {
    let bad = |error: holdpoint_core::BadId| unreadable("awaited event", error);
    let tenant = TenantId::parse(row.text("tenant_id")?).map_err(bad)?;
    let run = RunId::parse(row.text("run_id")?).map_err(bad)?;
    let of = RunRef { tenant, run };
    let topics = row.text("topics")?.split(' ').filter(|topic| !topic.is_empty()).map(str::to_owned);
    let (topic, look_ms) = (row.text("topic")?.to_owned(), row.optional_int("look_ms")?);
    let id = InterruptId(row.small("interrupt_id")?);
    Ok(AwaitedEvent { of, id, topic, topics: topics.collect(), look_ms })
}

/// A search for the interrupts that have all given topics, in the order of their runs.
#[derive(Debug)]
pub(crate) struct AwaitedSearch {
    tenant: TenantId,
    topics: Vec<String>,
    /// The position of the last interrupt that was read; None at the end.
    place: Option<(String, i64)>,
}

impl AwaitedSearch {
    pub(crate) fn new(tenant: &TenantId, topics: Vec<String>) -> Self {
        Self { tenant: tenant.clone(), topics, place: Some((String::new(), 0)) }
    }

    /// Returns the next interrupts, or None at the end. Every row contains all topics of its interrupt, so that the
    /// page of `rows` rows that reaches furthest is enough: a rare topic is found at once, however common the others
    /// are.
    pub(crate) async fn next(
        &mut self,
        db: &Database,
        rows: u64,
    ) -> Result<Option<Vec<(RunId, InterruptId)>>, Error> {
        let Some((run, interrupt)) = self.place.take() else { return Ok(None) };
        let (mut furthest, mut end) = (Vec::new(), false);
        let mut reached = (run.clone(), interrupt);
        for topic in &self.topics {
            let values = params![&self.tenant, topic.as_str(), run.as_str(), interrupt, rows];
            let page = db.query(PAGE, values).await?;
            let place =
                |row: &Row| Ok::<_, Error>((row.text("run_id")?.to_owned(), row.int("interrupt_id")?));
            let last = page.last().map(place).transpose()?;
            if (page.len() as u64) < rows {
                (furthest, end) = (page, true);
                break;
            }
            if let Some(last) = last.filter(|last| *last > reached) {
                (reached, furthest) = (last, page);
            }
        }
        self.place = (!end).then_some(reached);
        let mut found = Vec::new();
        for row in &furthest {
            let all: BTreeSet<&str> = row.text("topics")?.split(' ').collect();
            if self.topics.iter().all(|topic| all.contains(topic.as_str())) {
                let run = RunId::parse(row.text("run_id")?);
                let run = run.map_err(|error| unreadable("awaited event", error))?;
                found.push((run, InterruptId(row.small("interrupt_id")?)));
            }
        }
        Ok(Some(found))
    }
}
