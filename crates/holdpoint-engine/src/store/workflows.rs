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
/// Writes the summary of a revision, unless a newer one is stored.
const SUMMARIZE: &str =
    "INSERT INTO workflow_summaries (tenant_id, workflow_id, revision, name, version, created_ms)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant_id, workflow_id) DO UPDATE SET
    revision = excluded.revision, name = excluded.name, version = excluded.version,
    created_ms = excluded.created_ms WHERE workflow_summaries.revision < excluded.revision";
const NAME: &str = "UPDATE workflow_summaries SET name = $1, version = $2
    WHERE tenant_id = $3 AND workflow_id = $4 AND revision = $5";
const SUMMARIES: &str = "SELECT workflow_id, revision, name, version, created_ms FROM workflow_summaries
    WHERE tenant_id = $1 ORDER BY workflow_id LIMIT $2";
/// The maximum number of characters of a name or a version in lists.
const SHOWN_CHARS_MAX: usize = 256;

/// One revision of a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowRevision {
    /// The number of the revision, from 1.
    pub revision: u64,
    /// The definition as registered.
    pub definition: Value,
    /// The time of the registration.
    pub created_at: Timestamp,
    /// True if the registration has checked that no loop repeats an effect with one grant.
    pub loops_checked: bool,
}

pub(crate) fn insert(tenant: &TenantId, id: &WorkflowId, registered: &WorkflowRevision) -> Statement {
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
) -> Result<Option<WorkflowRevision>, Error> {
    let row = db.query_one(LATEST, params![tenant.as_str(), id.as_str()]).await?;
    row.as_ref().map(read).transpose()
}

pub(crate) async fn revision(
    db: &Database,
    tenant: &TenantId,
    id: &WorkflowId,
    revision: u64,
) -> Result<Option<WorkflowRevision>, Error> {
    let row = db.query_one(ONE, params![tenant.as_str(), id.as_str(), revision]).await?;
    row.as_ref().map(read).transpose()
}

/// The latest revision of a definition, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowSummary {
    /// The id of the workflow.
    pub id: WorkflowId,
    /// The number of the latest revision.
    pub revision: u64,
    /// The first characters of the name.
    pub name: String,
    /// The first characters of the version.
    pub version: String,
    /// The time of the registration of the latest revision.
    pub created_at: Timestamp,
}

/// Writes the summary of a revision.
pub(crate) fn summarize(tenant: &TenantId, id: &WorkflowId, registered: &WorkflowRevision) -> Statement {
    let (name, version) = names(&registered.definition);
    let (revision, at) = (registered.revision, registered.created_at);
    Statement::new(SUMMARIZE, params![tenant.as_str(), id.as_str(), revision, name, version, at])
}

/// Fills in the names of a revision that an older version has stored without a summary.
pub(crate) fn name(tenant: &TenantId, summary: &WorkflowSummary) -> Statement {
    let (name, version) = (summary.name.as_str(), summary.version.as_str());
    let values = params![name, version, tenant.as_str(), summary.id.as_str(), summary.revision];
    Statement::new(NAME, values)
}

/// Returns the name and the version of a definition, cut to the length that lists show.
pub(crate) fn names(definition: &Value) -> (String, String) {
    let text = |member: &str| {
        let text = definition.get(member).and_then(Value::as_str).unwrap_or_default();
        text.chars().take(SHOWN_CHARS_MAX).collect::<String>()
    };
    (text("name"), text("version"))
}

/// Returns the latest revisions of the definitions of a tenant, each with false if its names are not filled in yet.
pub(crate) async fn summaries(
    db: &Database,
    tenant: &TenantId,
    limit: u64,
) -> Result<Vec<(WorkflowSummary, bool)>, Error> {
    let rows = db.query(SUMMARIES, params![tenant.as_str(), limit]).await?;
    rows.iter().map(|row| Ok((summary(row)?, row.optional_text("name")?.is_some()))).collect()
}

fn summary(row: &Row) -> Result<WorkflowSummary, Error> {
    let text = |column: &str| Ok::<_, Error>(row.optional_text(column)?.unwrap_or_default().to_owned());
    Ok(WorkflowSummary {
        id: WorkflowId::parse(row.text("workflow_id")?).map_err(|error| unreadable("workflow", error))?,
        revision: row.count("revision")?,
        name: text("name")?,
        version: text("version")?,
        created_at: Timestamp(row.int("created_ms")?),
    })
}

fn read(row: &Row) -> Result<WorkflowRevision, Error> {
    Ok(WorkflowRevision {
        revision: row.count("revision")?,
        definition: serde_json::from_str(row.text("definition")?)
            .map_err(|error| unreadable("workflow", error))?,
        created_at: Timestamp(row.int("created_ms")?),
        loops_checked: row.int("loops_checked")? == 1,
    })
}
