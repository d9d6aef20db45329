//! The `scopes` table: what runs want to have to themselves. A row is only a lock; who is at work stands in `runs`.

/// Locks a scope until the end of the transaction.
pub(crate) const LOCK: &str = "INSERT INTO scopes (tenant_id, scope_id, used_ms) VALUES ($1, $2, $3)
    ON CONFLICT (tenant_id, scope_id) DO UPDATE SET used_ms = excluded.used_ms";
/// An unfinished run of a scope, if there is one, and the last of all its runs. Without the word about run ids, SQLite
/// looks through all runs of the tenant.
pub(crate) const ACTIVE: &str = "SELECT r.tenant_id, r.scope_id,
    MIN(CASE WHEN r.status <> 'completed' AND r.status <> 'failed' AND r.status <> 'cancelled' THEN r.run_id END),
    MAX(r.run_id) FROM runs r WHERE r.tenant_id = $1 AND r.scope_id = $2 AND r.run_id > ''
    GROUP BY r.tenant_id, r.scope_id";
pub(crate) const PURGE: &str = "DELETE FROM scopes WHERE (tenant_id, scope_id) IN (
    SELECT tenant_id, scope_id FROM scopes WHERE used_ms <= $1 LIMIT $2)";
