//! The `timers` table: absolute deadlines. A row that fell due while nobody ran is simply the first to be read.

use holdpoint_core::{InterruptId, NodeId, Obligation, RunId, RunRef, TenantId, Timer, Timestamp};

use super::{Database, Error, Row, Statement, params, unreadable};

const INSERT: &str = "INSERT INTO timers (due_ms, tenant_id, run_id, timer) VALUES ($1, $2, $3, $4)
    ON CONFLICT DO NOTHING";
const DELETE: &str = "DELETE FROM timers WHERE due_ms = $1 AND tenant_id = $2 AND run_id = $3 AND timer = $4";
const DUE: &str =
    "SELECT tenant_id, run_id, timer, due_ms FROM timers WHERE due_ms <= $1 ORDER BY due_ms LIMIT $2";
const NEXT: &str = "SELECT MIN(due_ms) FROM timers";

pub(crate) fn write(of: &RunRef, obligation: &Obligation) -> Option<Statement> {
    let (sql, timer, due) = match obligation {
        Obligation::Activate => return None,
        Obligation::SetTimer { timer, due } => (INSERT, timer, due),
        Obligation::ClearTimer { timer, due } => (DELETE, timer, due),
    };
    Some(Statement::new(sql, params![*due, of.tenant.as_str(), of.run.as_str(), name(timer)]))
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub of: RunRef,
    pub timer: Timer,
    pub due: Timestamp,
}

impl Due {
    pub(crate) fn clear(&self) -> Option<Statement> {
        write(&self.of, &Obligation::ClearTimer { timer: self.timer.clone(), due: self.due })
    }
}

pub(crate) async fn due(db: &Database, now: Timestamp, limit: u64) -> Result<Vec<Due>, Error> {
    db.query(DUE, params![now, limit]).await?.iter().map(read).collect()
}

pub(crate) async fn next_due(db: &Database) -> Result<Option<Timestamp>, Error> {
    match db.query_one(NEXT, Vec::new()).await? {
        Some(row) => Ok(row.optional_int(0)?.map(Timestamp)),
        None => Ok(None),
    }
}

fn name(timer: &Timer) -> String {
    match timer {
        Timer::Interrupt(id) => format!("interrupt:{}", id.0),
        Timer::Sleep(node) => format!("sleep:{node}"),
    }
}

fn read(row: &Row) -> Result<Due, Error> {
    let bad = |error: holdpoint_core::BadId| unreadable("timer", error);
    let tenant = TenantId::parse(row.text(0)?).map_err(bad)?;
    let run = RunId::parse(row.text(1)?).map_err(bad)?;
    let timer = match row.text(2)?.split_once(':') {
        Some(("interrupt", id)) => {
            Timer::Interrupt(InterruptId(id.parse().map_err(|error| unreadable("timer", error))?))
        }
        Some(("sleep", node)) => Timer::Sleep(NodeId::parse(node).map_err(bad)?),
        _ => return Err(unreadable("timer", row.text(2)?)),
    };
    Ok(Due { of: RunRef { tenant, run }, timer, due: Timestamp(row.int(3)?) })
}
