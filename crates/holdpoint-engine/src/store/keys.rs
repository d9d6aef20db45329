//! The `keys` and `tenants` tables. Only hashes of keys are stored.

use holdpoint_core::{TenantId, Timestamp};

use super::dependence::Dependence;
use super::{Database, Error, Param, Row, Statement, params, unreadable};

const INSERT_TENANT: &str =
    "INSERT INTO tenants (tenant_id, created_ms) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const TENANT: &str = "SELECT tenant_id FROM tenants WHERE tenant_id = $1";
const DECIDE: &str = "UPDATE tenants SET test = $1 WHERE tenant_id = $2 AND test IS NULL";
const INSERT: &str = "INSERT INTO keys (key_id, key_hash, tenant_id, principal, roles, scopes, created_ms,
        expires_ms, group_names, lineage, depends_on, test)
    SELECT $1, $2, tenant_id, $3, $4, $5, $6, $7, $8, $9, $10, test FROM tenants WHERE tenant_id = $11 AND test = $12
        AND NOT EXISTS (SELECT 1 FROM sessions WHERE revoked_ms IS NOT NULL AND $13 LIKE '% ' || session_id || ' %')
    ON CONFLICT DO NOTHING";
/// Inserts a successor if its predecessor is active.
const INSERT_SUCCESSOR: &str = "INSERT INTO keys (key_id, key_hash, tenant_id, principal, roles, scopes,
        created_ms, expires_ms, group_names, lineage, depends_on, test)
    SELECT $1, $2, tenant_id, $3, $4, $5, $6, $7, $8, $9, $10, test FROM keys WHERE tenant_id = $11 AND key_id = $12
        AND revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > $13)
        AND NOT EXISTS (SELECT 1 FROM sessions WHERE revoked_ms IS NOT NULL AND $14 LIKE '% ' || session_id || ' %')
    ON CONFLICT DO NOTHING";
/// Locks the predecessor, so that another rotation of it comes either before or after this transaction.
const LOCK_PREDECESSOR: &str = "UPDATE keys SET key_id = key_id WHERE tenant_id = $1 AND key_id = $2";
/// Ends the predecessor of a stored successor, unless it expires earlier.
const END_PREDECESSOR: &str = "UPDATE keys
    SET expires_ms = CASE WHEN expires_ms < $1 THEN expires_ms ELSE $1 END
    WHERE tenant_id = $2 AND key_id = $3 AND EXISTS (SELECT 1 FROM keys made WHERE made.key_id = $4)";
const KIND: &str = "SELECT test FROM tenants WHERE tenant_id = $1 AND test IS NOT NULL";
const BY_HASH: &str = "SELECT key_id, key_hash, tenant_id, principal, roles, scopes, created_ms, revoked_ms,
    expires_ms, test, group_names, COALESCE(lineage, key_id) AS lineage, depends_on FROM keys WHERE key_hash = $1";
const OF_TENANT: &str =
    "SELECT key_id, key_hash, tenant_id, principal, roles, scopes, created_ms, revoked_ms,
    expires_ms, test, group_names, COALESCE(lineage, key_id) AS lineage, depends_on FROM keys WHERE tenant_id = $1
    ORDER BY created_ms, key_id LIMIT $2";
const OF_LINEAGE: &str =
    "SELECT key_id, key_hash, tenant_id, principal, roles, scopes, created_ms, revoked_ms,
    expires_ms, test, group_names, COALESCE(lineage, key_id) AS lineage, depends_on FROM keys
    WHERE tenant_id = $1 AND (lineage = $2 OR key_id = $2)";
const BY_ID: &str = "SELECT key_id, key_hash, tenant_id, principal, roles, scopes, created_ms, revoked_ms,
    expires_ms, test, group_names, COALESCE(lineage, key_id) AS lineage, depends_on FROM keys WHERE tenant_id = $1 AND key_id = $2";
const REVOKE: &str =
    "UPDATE keys SET revoked_ms = COALESCE(revoked_ms, $1) WHERE tenant_id = $2 AND key_id = $3";
/// Revokes the keys that depend on a session. $2 is a pattern for its id.
const REVOKE_DEPENDENTS: &str =
    "UPDATE keys SET revoked_ms = $1 WHERE depends_on LIKE $2 AND revoked_ms IS NULL";
const OF_PRINCIPAL: &str =
    "SELECT key_id FROM keys WHERE tenant_id = $1 AND principal = $2 AND revoked_ms IS NULL LIMIT 1";
const COUNT: &str = "SELECT COUNT(*) AS total FROM keys";

/// An API key as it is stored: its hash and its properties, without the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The id of the key.
    pub key_id: String,
    /// SHA-256 of the key, in hexadecimal.
    pub key_hash: String,
    /// The tenant of the key.
    pub tenant: TenantId,
    /// The id of the first key in a chain of rotations.
    pub lineage: String,
    /// The name of the principal.
    pub principal: String,
    /// The roles of the principal.
    pub roles: Vec<String>,
    /// The groups of the principal.
    pub groups: Vec<String>,
    /// The scopes of the key.
    pub scopes: Vec<String>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its revocation.
    pub revoked_at: Option<Timestamp>,
    /// The time from which on the key is rejected.
    pub expires_at: Option<Timestamp>,
    /// True for a test key. All keys of a tenant are of the same kind.
    pub test: bool,
    /// The sessions with which the key was created. The key ends when one of them is revoked.
    pub depends_on: Dependence,
}

impl ApiKey {
    /// Returns false if the key was revoked or has expired.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| at > now)
    }
}

pub(crate) fn insert_tenant(tenant: &TenantId, now: Timestamp) -> Statement {
    Statement::new(INSERT_TENANT, params![tenant.as_str(), now])
}

/// Sets the kind of a tenant (test or live) from its first key. Has no effect on a tenant with a kind.
pub(crate) fn decide_kind(key: &ApiKey) -> Statement {
    Statement::new(DECIDE, params![i64::from(key.test), key.tenant.as_str()])
}

/// Inserts a key. A key is not stored if its hash is stored already, if the kind of its tenant differs, or if it
/// depends on a revoked session.
pub(crate) fn insert(key: &ApiKey) -> Vec<Statement> {
    let mut values = own_values(key);
    values.extend(params![key.tenant.as_str(), i64::from(key.test), key.depends_on.stored().as_deref()]);
    let mut statements: Vec<Statement> = key.depends_on.lock().collect();
    statements.push(Statement::new(INSERT, values));
    statements
}

/// Inserts the successor of a key and ends the key. The row count of the last statement is 1 if both happened.
pub(crate) fn insert_successor(key: &ApiKey, predecessor: &str, ends_at: Timestamp) -> Vec<Statement> {
    let mut values = own_values(key);
    let depends_on = key.depends_on.stored();
    values.extend(params![key.tenant.as_str(), predecessor, key.created_at, depends_on.as_deref()]);
    let end = params![ends_at, key.tenant.as_str(), predecessor, key.key_id.as_str()];
    let mut statements: Vec<Statement> = key.depends_on.lock().collect();
    statements.push(Statement::new(LOCK_PREDECESSOR, params![key.tenant.as_str(), predecessor]));
    statements.extend([Statement::new(INSERT_SUCCESSOR, values), Statement::new(END_PREDECESSOR, end)]);
    statements
}

fn own_values(key: &ApiKey) -> Vec<Param> {
    params![
        key.key_id.as_str(),
        key.key_hash.as_str(),
        key.principal.as_str(),
        key.roles.join(" "),
        key.scopes.join(" "),
        key.created_at,
        key.expires_at.map(|at| at.0),
        key.groups.join(" "),
        key.lineage.as_str(),
        key.depends_on.stored().as_deref()
    ]
}

/// Revokes the keys that depend on a session.
pub(super) fn revoke_dependents(session_id: &str, now: Timestamp) -> Statement {
    Statement::new(REVOKE_DEPENDENTS, params![now, Dependence::pattern(session_id)])
}

pub(crate) fn revoke(tenant: &TenantId, key_id: &str, now: Timestamp) -> Statement {
    Statement::new(REVOKE, params![now, tenant.as_str(), key_id])
}

pub(crate) async fn tenant_exists(db: &Database, tenant: &TenantId) -> Result<bool, Error> {
    Ok(db.query_one(TENANT, params![tenant.as_str()]).await?.is_some())
}

/// Returns true if the tenant is a test tenant; None if it has never had a key.
pub(crate) async fn tenant_is_test(db: &Database, tenant: &TenantId) -> Result<Option<bool>, Error> {
    let row = db.query_one(KIND, params![tenant.as_str()]).await?;
    row.map(|row| Ok(row.int("test")? == 1)).transpose()
}

pub(crate) async fn by_hash(db: &Database, hash: &str) -> Result<Option<ApiKey>, Error> {
    db.query_one(BY_HASH, params![hash]).await?.as_ref().map(read).transpose()
}

pub(crate) async fn of_tenant(db: &Database, tenant: &TenantId, limit: u64) -> Result<Vec<ApiKey>, Error> {
    db.query(OF_TENANT, params![tenant.as_str(), limit]).await?.iter().map(read).collect()
}

/// Returns all keys of a lineage, including those that have ended.
pub(crate) async fn of_lineage(
    db: &Database,
    tenant: &TenantId,
    lineage: &str,
) -> Result<Vec<ApiKey>, Error> {
    db.query(OF_LINEAGE, params![tenant.as_str(), lineage]).await?.iter().map(read).collect()
}

pub(crate) async fn by_id(db: &Database, tenant: &TenantId, key_id: &str) -> Result<Option<ApiKey>, Error> {
    db.query_one(BY_ID, params![tenant.as_str(), key_id]).await?.as_ref().map(read).transpose()
}

/// Returns true if the tenant has a key of that principal that was not revoked.
pub(crate) async fn has_principal(db: &Database, tenant: &TenantId, name: &str) -> Result<bool, Error> {
    Ok(db.query_one(OF_PRINCIPAL, params![tenant.as_str(), name]).await?.is_some())
}

pub(crate) async fn count(db: &Database) -> Result<u64, Error> {
    match db.query_one(COUNT, Vec::new()).await? {
        Some(row) => row.count("total"),
        None => Ok(0),
    }
}

pub(super) fn read(row: &Row) -> Result<ApiKey, Error> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Ok(ApiKey {
        key_id: row.text("key_id")?.to_owned(),
        key_hash: row.text("key_hash")?.to_owned(),
        tenant: TenantId::parse(row.text("tenant_id")?).map_err(|error| unreadable("key", error))?,
        principal: row.text("principal")?.to_owned(),
        roles: words(row.text("roles")?),
        scopes: words(row.text("scopes")?),
        created_at: Timestamp(row.int("created_ms")?),
        revoked_at: row.optional_int("revoked_ms")?.map(Timestamp),
        expires_at: row.optional_int("expires_ms")?.map(Timestamp),
        test: row.int("test")? == 1,
        groups: words(row.text("group_names")?),
        lineage: row.text("lineage")?.to_owned(),
        depends_on: Dependence::read(row.optional_text("depends_on")?),
    })
}
