//! The `timers` table: absolute deadlines. Timers that fell due while no process ran are read first.

use std::collections::BTreeMap;

use holdpoint_core::{InterruptId, NodeId, Obligation, Run, RunId, RunRef, TenantId, Timer, Timestamp, hex};
use sha2::{Digest, Sha256};

use super::trigger_deliveries::TriggerDelivery;
use super::{Database, Error, Param, Row, Statement, params, unreadable};

const INSERT: &str = "INSERT INTO timers (due_ms, tenant_id, run_id, timer) VALUES ($1, $2, $3, $4)
    ON CONFLICT DO NOTHING";
const DELETE: &str = "DELETE FROM timers WHERE due_ms = $1 AND tenant_id = $2 AND run_id = $3 AND timer = $4";
/// Deletes the timer of a schedule, unless its instant is still the next one of the trigger.
const DELETE_OF_SCHEDULE: &str = "DELETE FROM timers WHERE due_ms = $1 AND tenant_id = $2 AND run_id = $3
    AND timer = $4 AND NOT EXISTS (SELECT 1 FROM triggers t
        WHERE t.tenant_id = $2 AND t.trigger_id = $3 AND t.next_ms = $1)";
const DUE: &str = "SELECT tenant_id, run_id, timer, due_ms FROM timers WHERE due_ms <= $1 AND held_ms <= $1
    ORDER BY due_ms LIMIT $2";
/// Reserves a timer until $1, so that no other process fires it. Returns no row if another process holds it.
pub(crate) const HOLD: &str = "UPDATE timers SET held_ms = $1
    WHERE due_ms = $2 AND tenant_id = $3 AND run_id = $4 AND timer = $5 AND held_ms <= $6
    RETURNING tenant_id, run_id, timer, due_ms";
pub(crate) const RELEASE_ALL: &str = "UPDATE timers SET held_ms = 0 WHERE held_ms > 0";
/// Selects the next deadline, and the time at which a reserved overdue timer may be fired again.
const NEXT: &str = "SELECT (SELECT MIN(due_ms) FROM timers WHERE due_ms > $1) AS next_due_ms,
    (SELECT MIN(held_ms) FROM timers WHERE due_ms <= $1) AS next_held_ms";

/// The maximum length of a name. It is part of the primary key, of which PostgreSQL allows 2704 bytes in all.
const NAME_BYTES_MAX: usize = 1024;

/// Returns the statements for the timers of the obligations. For each timer, the last obligation counts.
pub(crate) fn write(of: &RunRef, obligations: &[Obligation]) -> Vec<Statement> {
    let mut last = BTreeMap::new();
    for obligation in obligations {
        let (sql, timer, due) = match obligation {
            Obligation::Activate | Obligation::StartChild { .. } | Obligation::CancelChild { .. } => continue,
            Obligation::SetTimer { timer, due } => (INSERT, timer, due),
            Obligation::ClearTimer { timer, due } => (DELETE, timer, due),
        };
        last.insert((name(timer), *due), sql);
    }
    let statement = |((timer, due), sql): ((String, Timestamp), &'static str)| {
        Statement::new(sql, params![due, &of.tenant, &of.run, timer])
    };
    last.into_iter().map(statement).collect()
}

/// Sets the timer of a delivery of a trigger.
pub(crate) fn set_for_delivery(delivery: &TriggerDelivery) -> Statement {
    Statement::new(INSERT, params![delivery.due, &delivery.tenant, delivery.id.as_str(), "delivery"])
}

/// A timer that belongs to no run. Its row has the id of the trigger or the delivery in place of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TriggerTimer {
    /// The next instant of the schedule of a trigger.
    Schedule,
    /// The next attempt of a delivery of a trigger.
    Delivery,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DueTimer {
    pub of: RunRef,
    pub due: Timestamp,
    name: String,
}

impl DueTimer {
    pub(crate) fn clear(&self) -> Statement {
        let (of, name) = (&self.of, self.name.as_str());
        Statement::new(DELETE, params![self.due, &of.tenant, &of.run, name])
    }

    /// Deletes the timer of a schedule, unless the trigger still waits for its instant: a change of the trigger that was
    /// written before may have had no effect.
    pub(crate) fn clear_of_schedule(&self) -> Statement {
        let (of, name) = (&self.of, self.name.as_str());
        Statement::new(DELETE_OF_SCHEDULE, params![self.due, &of.tenant, &of.run, name])
    }

    /// Returns the timer of a trigger or of a delivery; None for the timer of a run.
    pub(crate) fn trigger_timer(&self) -> Option<TriggerTimer> {
        match self.name.as_str() {
            "trigger" => Some(TriggerTimer::Schedule),
            "delivery" => Some(TriggerTimer::Delivery),
            _ => None,
        }
    }

    /// Returns the timer; None if the name is a digest, which only the run can resolve.
    pub(crate) fn timer(&self) -> Result<Option<Timer>, Error> {
        match self.name.split_once(':') {
            Some(("interrupt", id)) => {
                let id = id.parse().map_err(|error| unreadable("timer", error))?;
                Ok(Some(Timer::Interrupt(InterruptId(id))))
            }
            Some(("sleep", node)) => {
                let node = NodeId::parse(node).map_err(|error| unreadable("timer", error))?;
                Ok(Some(Timer::Sleep(node)))
            }
            None if self.name == "run" => Ok(Some(Timer::Run)),
            _ => Ok(None),
        }
    }

    /// Returns the timer whose name is stored as a digest.
    pub(crate) fn timer_in(&self, run: &Run) -> Result<Timer, Error> {
        let mut sleeps = run.workflow.nodes.iter().map(|node| Timer::Sleep(node.id.clone()));
        sleeps.find(|timer| name(timer) == self.name).ok_or_else(|| unreadable("timer", &self.name))
    }

    /// Returns the values of `HOLD`.
    pub(crate) fn hold(&self, until: Timestamp, now: Timestamp) -> Vec<Param> {
        params![until, self.due, &self.of.tenant, &self.of.run, self.name.as_str(), now]
    }
}

pub(crate) async fn due(db: &Database, now: Timestamp, limit: u64) -> Result<Vec<DueTimer>, Error> {
    db.query(DUE, params![now, limit]).await?.iter().map(read).collect()
}

pub(crate) async fn next_due(db: &Database, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let Some(row) = db.query_one(NEXT, params![now]).await? else { return Ok(None) };
    let moments = [row.optional_int("next_due_ms")?, row.optional_int("next_held_ms")?];
    Ok(moments.into_iter().flatten().min().map(Timestamp))
}

fn name(timer: &Timer) -> String {
    match timer {
        Timer::Run => "run".to_owned(),
        Timer::Interrupt(id) => format!("interrupt:{}", id.0),
        Timer::Sleep(node) if node.as_str().len() <= NAME_BYTES_MAX => format!("sleep:{node}"),
        // Node ids can have any length. A long one is stored as a digest and found again among the nodes of its
        // run.
        Timer::Sleep(node) => format!("sleep#{}", hex(&Sha256::digest(node.as_str()))),
    }
}

pub(crate) fn read(row: &Row) -> Result<DueTimer, Error> {
    let bad = |error: holdpoint_core::BadId| unreadable("timer", error);
    let tenant = TenantId::parse(row.text("tenant_id")?).map_err(bad)?;
    let run = RunId::parse(row.text("run_id")?).map_err(bad)?;
    Ok(DueTimer {
        of: RunRef { tenant, run },
        due: Timestamp(row.int("due_ms")?),
        name: row.text("timer")?.to_owned(),
    })
}
