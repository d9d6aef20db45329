//! The `scopes` table: locks for runs that start exclusively in a scope. The unfinished run of a scope is read from
//! `runs`.

use holdpoint_core::TenantId;

use super::{Param, params};

/// Locks a scope until the end of the transaction.
pub(crate) const LOCK: &str = "INSERT INTO scopes (tenant_id, scope_id, used_ms) VALUES ($1, $2, $3)
    ON CONFLICT (tenant_id, scope_id) DO UPDATE SET used_ms = excluded.used_ms";
/// Selects the unfinished run of a scope, if there is one, and its newest run. Without the condition on `run_id`,
/// SQLite scans all runs of the tenant.
pub(crate) const ACTIVE: &str = "SELECT r.tenant_id, r.scope_id,
    MIN(CASE WHEN r.status <> 'completed' AND r.status <> 'failed' AND r.status <> 'cancelled' THEN r.run_id END)
        AS active_run_id,
    MAX(r.run_id) AS newest_run_id FROM runs r WHERE r.tenant_id = $1 AND r.scope_id = $2 AND r.run_id > ''
    GROUP BY r.tenant_id, r.scope_id";
pub(crate) const PURGE: &str = "DELETE FROM scopes WHERE (tenant_id, scope_id) IN (
    SELECT tenant_id, scope_id FROM scopes WHERE used_ms <= $1 LIMIT $2)";

/// The key of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ScopeKey {
    pub tenant: TenantId,
    pub scope: String,
}

impl ScopeKey {
    pub(crate) fn values(&self) -> Vec<Param> {
        params![self.tenant.as_str(), self.scope.as_str()]
    }
}
