//! The `workflows` table: every revision of every definition, as registered.

use holdpoint_core::{TenantId, Timestamp, WorkflowId};
use serde_json::Value;

use super::{Database, Error, Row, Statement, params, unreadable};

const INSERT: &str =
    "INSERT INTO workflows (tenant_id, workflow_id, revision, definition, created_ms, loops_checked)
    VALUES ($1, $2, $3, $4, $5, 1) ON CONFLICT DO NOTHING";
const LATEST: &str = "SELECT revision, definition, created_ms, loops_checked FROM workflows
    WHERE tenant_id = $1 AND workflow_id = $2 ORDER BY revision DESC LIMIT 1";
pub(crate) const LATEST_REVISION: &str = "SELECT w.tenant_id, w.workflow_id, w.revision FROM workflows w
    WHERE w.tenant_id = $1 AND w.workflow_id = $2 AND w.revision = (SELECT MAX(l.revision) FROM workflows l
        WHERE l.tenant_id = w.tenant_id AND l.workflow_id = w.workflow_id)";
const ONE: &str = "SELECT revision, definition, created_ms, loops_checked FROM workflows
    WHERE tenant_id = $1 AND workflow_id = $2 AND revision = $3";
const ALL: &str =
    "SELECT w.revision, w.definition, w.created_ms, w.loops_checked FROM workflows w WHERE w.tenant_id = $1
    AND w.revision = (SELECT MAX(l.revision) FROM workflows l
        WHERE l.tenant_id = w.tenant_id AND l.workflow_id = w.workflow_id)
    ORDER BY w.workflow_id LIMIT $2";

/// One revision of a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    pub revision: u64,
    pub definition: Value,
    pub created_at: Timestamp,
    /// The registration has checked that no loop repeats an effect with one grant.
    pub loops_checked: bool,
}

pub(crate) fn insert(tenant: &TenantId, id: &WorkflowId, registered: &Registered) -> Statement {
    let values = params![
        tenant.as_str(),
        id.as_str(),
        registered.revision,
        registered.definition.to_string(),
        registered.created_at
    ];
    Statement::new(INSERT, values)
}

pub(crate) async fn latest(
    db: &Database,
    tenant: &TenantId,
    id: &WorkflowId,
) -> Result<Option<Registered>, Error> {
    let row = db.query_one(LATEST, params![tenant.as_str(), id.as_str()]).await?;
    row.as_ref().map(read).transpose()
}

pub(crate) async fn revision(
    db: &Database,
    tenant: &TenantId,
    id: &WorkflowId,
    revision: u64,
) -> Result<Option<Registered>, Error> {
    let row = db.query_one(ONE, params![tenant.as_str(), id.as_str(), revision]).await?;
    row.as_ref().map(read).transpose()
}

pub(crate) async fn all(db: &Database, tenant: &TenantId, limit: u64) -> Result<Vec<Registered>, Error> {
    db.query(ALL, params![tenant.as_str(), limit]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Registered, Error> {
    Ok(Registered {
        revision: row.count(0)?,
        definition: serde_json::from_str(row.text(1)?).map_err(|error| unreadable("workflow", error))?,
        created_at: Timestamp(row.int(2)?),
        loops_checked: row.int(3)? == 1,
    })
}
