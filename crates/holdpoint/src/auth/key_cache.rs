//! Cache of API keys. An entry is trusted for one second; then the store is read again.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use holdpoint_engine::{ApiKey, Engine};
use subtle::ConstantTimeEq;
use tokio::sync::{Semaphore, watch};

use super::failures::FailureGuard;
use super::minting::hash;
use crate::error::ApiError;

/// Recently used keys, so that not every request reads the store. Another node may revoke a key without a notification,
/// so an entry is trusted for one second only. After that the entry only shows that this node knows the key: its lookup
/// is exempt from the limit of unknown keys from its address.
#[derive(Debug)]
pub(crate) struct KeyCache {
    by_hash: RwLock<HashMap<String, CachedKey>>,
    /// Counts revocations. An entry that was read before a revocation is not trusted after it.
    revocations: watch::Sender<u64>,
    /// Limits concurrent rechecks: streams of one key that check it at the same time share one query.
    rechecks: Semaphore,
    #[cfg(test)]
    queries: std::sync::atomic::AtomicU64,
}

impl Default for KeyCache {
    fn default() -> Self {
        let rechecks = Semaphore::new(Self::RECHECKS_MAX);
        Self {
            by_hash: RwLock::default(),
            revocations: watch::Sender::new(0),
            rechecks,
            #[cfg(test)]
            queries: Default::default(),
        }
    }
}

#[derive(Debug)]
struct CachedKey {
    key: Arc<ApiKey>,
    /// The instant before the store was read.
    read_at: Instant,
    /// The count of revocations before the store was read.
    revocations: u64,
}

impl KeyCache {
    const KEYS_MAX: usize = 10_000;
    const RECHECKS_MAX: usize = 4;
    /// Maximum time for which this node accepts a key that another node revoked.
    const TRUSTED: Duration = Duration::from_secs(1);

    pub(super) async fn find(
        &self,
        engine: &Engine,
        failures: &FailureGuard<'_>,
        key: &str,
    ) -> Result<Option<Arc<ApiKey>>, ApiError> {
        self.find_hash(engine, Some(failures), hash(key)).await
    }

    /// Returns the key of an open response, by its hash. Reads the store if the entry is not trusted any more.
    pub(super) async fn recheck(&self, engine: &Engine, hash: &str) -> Result<Option<Arc<ApiKey>>, ApiError> {
        let _turn = self.rechecks.acquire().await;
        self.find_hash(engine, None, hash.to_owned()).await
    }

    async fn find_hash(
        &self,
        engine: &Engine,
        failures: Option<&FailureGuard<'_>>,
        hash: String,
    ) -> Result<Option<Arc<ApiKey>>, ApiError> {
        if let Some(known) = self.cached(&hash, Instant::now()) {
            return Ok(Some(known).filter(|known| same(&known.key_hash, &hash)));
        }
        if !self.by_hash.read().unwrap_or_else(PoisonError::into_inner).contains_key(&hash) {
            failures.map_or(Ok(()), FailureGuard::check)?;
        }
        // Read before the query, because the result may be as old as this instant.
        let read_at = Instant::now();
        let revocations = *self.revocations.borrow();
        #[cfg(test)]
        self.queries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let Some(stored) =
            engine.keys().get_by_hash(&hash).await?.filter(|stored| same(&stored.key_hash, &hash))
        else {
            failures.into_iter().for_each(FailureGuard::count);
            return Ok(None);
        };
        let stored = Arc::new(stored);
        let mut entries = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= Self::KEYS_MAX && !entries.contains_key(&hash) {
            entries.clear();
        }
        entries.insert(hash, CachedKey { key: stored.clone(), read_at, revocations });
        Ok(Some(stored))
    }

    fn cached(&self, hash: &str, now: Instant) -> Option<Arc<ApiKey>> {
        let entries = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        let known = entries.get(hash)?;
        let is_fresh = now.saturating_duration_since(known.read_at) < Self::TRUSTED
            && known.revocations == *self.revocations.borrow();
        is_fresh.then(|| known.key.clone())
    }

    /// Stops trusting all entries after a revocation, so that every key is read from the store again.
    pub(crate) fn clear(&self) {
        self.revocations.send_modify(|count| *count += 1);
    }

    #[cfg(test)]
    pub(crate) fn queries(&self) -> u64 {
        self.queries.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Subscribes to revocations on this node.
    pub(super) fn revocations(&self) -> watch::Receiver<u64> {
        self.revocations.subscribe()
    }
}

fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::failures::{FailureLimit, Origin};
    use holdpoint_core::TenantId;
    use holdpoint_engine::{Location, Options};

    #[tokio::test]
    async fn a_key_that_another_node_revoked_is_read_again_after_the_trusted_time() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(crate::extensions::add_default(Options::new(location).manual_worker()))
            .await
            .unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let key = crate::auth::stored_key("secret", tenant.clone(), engine.now()).unwrap();
        assert!(engine.keys().add(&key, None).await.unwrap());
        assert!(!engine.keys().add(&key, None).await.unwrap(), "a stored key stays as it is");
        let (cache, limit) = (KeyCache::default(), FailureLimit::default());
        let from = Origin::from(None);
        let guard = FailureGuard { limit: &limit, from: &from };
        let found = cache.find(&engine, &guard, "secret").await.unwrap().unwrap();
        assert_eq!(found.revoked_at, None);
        // Directly in the store, as another node would.
        assert!(engine.keys().revoke(&tenant, &key.key_id, None).await.unwrap());
        let read_at = cache.by_hash.read().unwrap()[&key.key_hash].read_at;
        let just_before = read_at + KeyCache::TRUSTED - Duration::from_millis(1);
        assert!(cache.cached(&key.key_hash, just_before).is_some());
        assert!(cache.cached(&key.key_hash, read_at + KeyCache::TRUSTED).is_none());
        cache.by_hash.write().unwrap().get_mut(&key.key_hash).unwrap().read_at = read_at - KeyCache::TRUSTED;
        let again = cache.find(&engine, &guard, "secret").await.unwrap().unwrap();
        assert!(again.revoked_at.is_some());
    }
}
