//! The `grant_uses` table: one row for each grant that a client has used for an effect outside of Holdpoint.

use holdpoint_core::{TenantId, Timestamp};

use super::{Database, Error, Statement, params};

const INSERT: &str = "INSERT INTO grant_uses (tenant_id, grant_id, key_hash, used_by, used_ms)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant_id, grant_id) DO NOTHING";
const BY_ID: &str =
    "SELECT key_hash, used_by, used_ms FROM grant_uses WHERE tenant_id = $1 AND grant_id = $2";

/// The use of a grant by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumption {
    /// The principal that used the grant.
    pub by: String,
    /// The time of the use.
    pub at: Timestamp,
    /// SHA-256 of the client's `Idempotency-Key`.
    pub key_hash: String,
}

/// Inserts the use unless the grant was already used.
pub(crate) fn insert(tenant: &TenantId, grant_id: &str, used: &Consumption) -> Statement {
    let values = params![tenant.as_str(), grant_id, used.key_hash.as_str(), used.by.as_str(), used.at];
    Statement::new(INSERT, values)
}

/// Returns the use of a grant; None if no client has used it.
pub(crate) async fn by_id(
    db: &Database,
    tenant: &TenantId,
    grant_id: &str,
) -> Result<Option<Consumption>, Error> {
    let Some(row) = db.query_one(BY_ID, params![tenant.as_str(), grant_id]).await? else { return Ok(None) };
    Ok(Some(Consumption {
        key_hash: row.text("key_hash")?.to_owned(),
        by: row.text("used_by")?.to_owned(),
        at: Timestamp(row.int("used_ms")?),
    }))
}
