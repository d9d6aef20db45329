//! Tenants and their API keys.

use holdpoint_core::{TenantId, Timestamp};

use super::{Keys, Once};
use crate::committer::{CommitReply, Work};
use crate::error::Error;
use crate::store::keys::{self, ApiKey};

impl Keys<'_> {
    /// Stores a key, and its tenant if it is new. Returns false without a change if the key is already stored, if the
    /// tenant has keys of the other kind (live or test), or if the key depends on a revoked session.
    pub async fn add(self, key: &ApiKey, once: Option<&Once<ApiKey>>) -> Result<bool, Error> {
        let tenant = keys::insert_tenant(&key.tenant, key.created_at);
        let mut rows = vec![tenant, keys::decide_kind(key)];
        rows.extend(keys::insert(key));
        Ok(matches!(self.engine.submit(Work::Plain(rows), once, key).await?, CommitReply::Touched(1)))
    }

    /// Stores the first key of a tenant and the key of its owner. Returns true if the first key was stored.
    pub async fn add_first(self, key: &ApiKey, owner: &ApiKey) -> Result<bool, Error> {
        let tenant = keys::insert_tenant(&key.tenant, key.created_at);
        let mut rows = vec![tenant, keys::decide_kind(key)];
        rows.extend([owner, key].into_iter().flat_map(keys::insert));
        Ok(matches!(self.engine.write(rows).await?, CommitReply::Touched(1)))
    }

    /// Stores the successor of a key and ends the key at `ends_at`, or earlier if it expires before. Returns false if
    /// the key has already ended.
    pub async fn rotate(
        self,
        successor: &ApiKey,
        predecessor: &str,
        ends_at: Timestamp,
        once: Option<&Once<ApiKey>>,
    ) -> Result<bool, Error> {
        let rows = keys::insert_successor(successor, predecessor, ends_at);
        Ok(matches!(self.engine.submit(Work::Plain(rows), once, successor).await?, CommitReply::Touched(1)))
    }

    /// Returns whether the tenant exists.
    pub async fn tenant_exists(self, tenant: &TenantId) -> Result<bool, Error> {
        Ok(keys::tenant_exists(&self.engine.0.db, tenant).await?)
    }

    /// Returns whether a tenant is a test tenant, as decided by its first key. `None` before the first key.
    pub async fn tenant_is_test(self, tenant: &TenantId) -> Result<Option<bool>, Error> {
        Ok(keys::tenant_is_test(&self.engine.0.db, tenant).await?)
    }

    /// Returns the key with this hash.
    pub async fn get_by_hash(self, hash: &str) -> Result<Option<ApiKey>, Error> {
        Ok(keys::by_hash(&self.engine.0.db, hash).await?)
    }

    /// Returns a key of a tenant by its id.
    pub async fn get(self, tenant: &TenantId, key_id: &str) -> Result<Option<ApiKey>, Error> {
        Ok(keys::by_id(&self.engine.0.db, tenant, key_id).await?)
    }

    /// Returns all keys of a lineage, including those that have ended.
    pub async fn lineage(self, tenant: &TenantId, lineage: &str) -> Result<Vec<ApiKey>, Error> {
        Ok(keys::of_lineage(&self.engine.0.db, tenant, lineage).await?)
    }

    /// Returns the keys of a tenant.
    pub async fn list(self, tenant: &TenantId, limit: u64) -> Result<Vec<ApiKey>, Error> {
        Ok(keys::of_tenant(&self.engine.0.db, tenant, limit).await?)
    }

    /// Returns whether a principal with this name has a key of the tenant that was not revoked.
    pub async fn has_principal(self, tenant: &TenantId, name: &str) -> Result<bool, Error> {
        Ok(keys::has_principal(&self.engine.0.db, tenant, name).await?)
    }

    /// Returns the number of keys of all tenants.
    pub async fn count(self) -> Result<u64, Error> {
        Ok(keys::count(&self.engine.0.db).await?)
    }

    /// Revokes a key. Returns false if the tenant has no such key.
    pub async fn revoke(
        self,
        tenant: &TenantId,
        key_id: &str,
        once: Option<&Once<()>>,
    ) -> Result<bool, Error> {
        let revoke = Work::Plain(vec![keys::revoke(tenant, key_id, self.engine.now())]);
        let revoked = self.engine.submit(revoke, once, &()).await?;
        Ok(matches!(revoked, CommitReply::Touched(rows) if rows > 0))
    }
}
