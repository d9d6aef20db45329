//! The `pending` table: interrupts that are open now, oldest first.

use std::collections::BTreeSet;

use holdpoint_core::{
    Event, Interrupt, InterruptId, NodeId, Run, RunId, RunRef, TenantId, Timestamp, WorkflowId,
};

use super::{Database, Error, Row, Statement, params, unreadable};

const INSERT: &str =
    "INSERT INTO pending (tenant_id, requested_ms, run_id, interrupt_id, workflow_id, node_id, kind,
    key, title, expires_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const DELETE: &str = "DELETE FROM pending
    WHERE tenant_id = $1 AND requested_ms = $2 AND run_id = $3 AND interrupt_id = $4";
const PAGE: &str =
    "SELECT requested_ms, run_id, interrupt_id, workflow_id, node_id, kind, key, title, expires_ms
    FROM pending WHERE tenant_id = $1 AND (requested_ms, run_id, interrupt_id) > ($2, $3, $4)
    ORDER BY requested_ms, run_id, interrupt_id LIMIT $5";

/// The rows that `events` open and close; `after` is the fold behind them. What is opened and closed at once never
/// had a row.
pub(crate) fn write(of: &RunRef, after: &Run, events: &[Event]) -> Vec<Statement> {
    let (mut opened, mut closed) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        match event {
            Event::InterruptRequested { id, .. } => {
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
    let inserted = inserted.map(|interrupt| insert(of, after, interrupt));
    let deleted = closed.difference(&opened).filter_map(|id| after.interrupt(*id));
    inserted.chain(deleted.map(|interrupt| delete(of, interrupt))).collect()
}

/// The rows of a run that has none yet.
pub(crate) fn write_open(of: &RunRef, run: &Run) -> Vec<Statement> {
    if run.finished() {
        return Vec::new();
    }
    run.open_interrupts().map(|interrupt| insert(of, run, interrupt)).collect()
}

fn insert(of: &RunRef, run: &Run, interrupt: &Interrupt) -> Statement {
    let values = params![
        of.tenant.as_str(),
        interrupt.requested_at,
        of.run.as_str(),
        u64::from(interrupt.id.0),
        run.workflow.id.as_str(),
        interrupt.node.as_str(),
        interrupt.kind.as_str(),
        interrupt.key.as_str(),
        interrupt.title(),
        interrupt.expires_at()
    ];
    Statement::new(INSERT, values)
}

fn delete(of: &RunRef, interrupt: &Interrupt) -> Statement {
    let id = u64::from(interrupt.id.0);
    Statement::new(DELETE, params![of.tenant.as_str(), interrupt.requested_at, of.run.as_str(), id])
}

/// What the pending view shows of an interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub run: RunId,
    pub id: InterruptId,
    pub workflow: WorkflowId,
    pub node: NodeId,
    pub kind: String,
    pub key: String,
    pub title: String,
    pub requested_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

/// A place in the pending view; pages continue behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingCursor {
    pub requested_ms: i64,
    pub run: String,
    pub interrupt: i64,
}

pub(crate) async fn page(
    db: &Database,
    tenant: &TenantId,
    after: PendingCursor,
    limit: u64,
) -> Result<Vec<Pending>, Error> {
    let values = params![tenant.as_str(), after.requested_ms, after.run, after.interrupt, limit];
    db.query(PAGE, values).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Pending, Error> {
    let bad = |error: holdpoint_core::BadId| unreadable("pending interrupt", error);
    let id = u32::try_from(row.int(2)?).map_err(|error| unreadable("pending interrupt", error))?;
    Ok(Pending {
        requested_at: Timestamp(row.int(0)?),
        run: RunId::parse(row.text(1)?).map_err(bad)?,
        id: InterruptId(id),
        workflow: WorkflowId::parse(row.text(3)?).map_err(bad)?,
        node: NodeId::parse(row.text(4)?).map_err(bad)?,
        kind: row.text(5)?.to_owned(),
        key: row.text(6)?.to_owned(),
        title: row.text(7)?.to_owned(),
        expires_at: row.optional_int(8)?.map(Timestamp),
    })
}
