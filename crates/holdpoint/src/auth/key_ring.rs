//! Keys this node has seen lately. What is remembered is a copy that is soon asked for again; the store decides.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use holdpoint_engine::{ApiKey, Engine};
use subtle::ConstantTimeEq;
use tokio::sync::{Semaphore, watch};

use super::failures::FailureGuard;
use super::minting::hash;
use crate::error::ApiError;

/// Keys that were used lately, so that not every request asks the store. Another node may revoke a key without this
/// one hearing of it: what is remembered counts for a moment only. After that the entry only says that this node knows
/// the key, so that it may be looked up however many unknown keys come from its address.
#[derive(Debug)]
pub(crate) struct KeyRing {
    by_hash: RwLock<HashMap<String, Remembered>>,
    /// Counts revocations, so that what was read before one is not trusted after it.
    revocations: watch::Sender<u64>,
    /// The turns of rechecks: many streams of one key that check it at the same time share one query.
    rechecks: Semaphore,
    #[cfg(test)]
    queries: std::sync::atomic::AtomicU64,
}

impl Default for KeyRing {
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
struct Remembered {
    key: Arc<ApiKey>,
    /// When the store was asked.
    asked: Instant,
    /// The count of revocations when the store was asked.
    revocations: u64,
}

impl KeyRing {
    const KEYS_MAX: usize = 10_000;
    const RECHECKS_MAX: usize = 4;
    /// How long a key that was revoked elsewhere may still be taken here.
    const TRUSTED: Duration = Duration::from_secs(1);

    pub(super) async fn find(
        &self,
        engine: &Engine,
        failures: &FailureGuard<'_>,
        key: &str,
    ) -> Result<Option<Arc<ApiKey>>, ApiError> {
        self.find_hash(engine, Some(failures), hash(key)).await
    }

    /// Returns the key again that a response depends on, by its hash.
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
        if let Some(known) = self.remembered(&hash, Instant::now()) {
            return Ok(Some(known).filter(|known| same(&known.key_hash, &hash)));
        }
        if !self.by_hash.read().unwrap_or_else(PoisonError::into_inner).contains_key(&hash) {
            failures.map_or(Ok(()), FailureGuard::check)?;
        }
        // The clock starts before the question: what was read is no younger than that.
        let asked = Instant::now();
        let revocations = *self.revocations.borrow();
        #[cfg(test)]
        self.queries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let Some(stored) = engine.key_by_hash(&hash).await?.filter(|stored| same(&stored.key_hash, &hash))
        else {
            failures.into_iter().for_each(FailureGuard::count);
            return Ok(None);
        };
        let stored = Arc::new(stored);
        let mut ring = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        if ring.len() >= Self::KEYS_MAX && !ring.contains_key(&hash) {
            ring.clear();
        }
        ring.insert(hash, Remembered { key: stored.clone(), asked, revocations });
        Ok(Some(stored))
    }

    fn remembered(&self, hash: &str, now: Instant) -> Option<Arc<ApiKey>> {
        let ring = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        let known = ring.get(hash)?;
        let is_fresh = now.saturating_duration_since(known.asked) < Self::TRUSTED
            && known.revocations == *self.revocations.borrow();
        is_fresh.then(|| known.key.clone())
    }

    /// Called when a key was revoked: every key is read from the store again.
    pub(crate) fn clear(&self) {
        self.revocations.send_modify(|count| *count += 1);
    }

    #[cfg(test)]
    pub(crate) fn queries(&self) -> u64 {
        self.queries.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Tells when a key was revoked at this node.
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
    async fn a_key_that_was_revoked_elsewhere_is_asked_for_again_after_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(Options::new(location)).await.unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let key = crate::auth::stored_key("secret", tenant.clone(), engine.now()).unwrap();
        assert!(engine.add_key(&key, None).await.unwrap());
        assert!(!engine.add_key(&key, None).await.unwrap(), "a stored key stays as it is");
        let (ring, limit) = (KeyRing::default(), FailureLimit::default());
        let from = Origin::from(None);
        let guard = FailureGuard { limit: &limit, from: &from };
        let found = ring.find(&engine, &guard, "secret").await.unwrap().unwrap();
        assert_eq!(found.revoked_at, None);
        // Behind the ring's back, as another node would.
        assert!(engine.revoke_key(&tenant, &key.key_id, None).await.unwrap());
        let asked = ring.by_hash.read().unwrap()[&key.key_hash].asked;
        let just_before = asked + KeyRing::TRUSTED - Duration::from_millis(1);
        assert!(ring.remembered(&key.key_hash, just_before).is_some());
        assert!(ring.remembered(&key.key_hash, asked + KeyRing::TRUSTED).is_none());
        ring.by_hash.write().unwrap().get_mut(&key.key_hash).unwrap().asked = asked - KeyRing::TRUSTED;
        let again = ring.find(&engine, &guard, "secret").await.unwrap().unwrap();
        assert!(again.revoked_at.is_some());
    }
}
