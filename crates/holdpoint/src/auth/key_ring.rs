//! Keys this node has seen lately. What is remembered is a copy that is soon asked for again; the store decides.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use holdpoint_engine::{ApiKey, Engine};
use subtle::ConstantTimeEq;

use super::failures::Guard;
use super::minting::hash;
use crate::error::ApiError;

/// Keys that were used lately, so that not every request asks the store. Another node may revoke a key without this
/// one hearing of it: what is remembered counts for a moment only. After that the entry only says that this node knows
/// the key, so that it may be looked up however many unknown keys come from its address.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    by_hash: RwLock<HashMap<String, Remembered>>,
    /// Counts revocations, so that what was read before one is not trusted after it.
    revocations: AtomicU64,
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
    /// How long a key that was revoked elsewhere may still be taken here.
    const TRUSTED: Duration = Duration::from_secs(1);

    pub(super) async fn find(
        &self,
        engine: &Engine,
        guard: &Guard<'_>,
        key: &str,
    ) -> Result<Option<Arc<ApiKey>>, ApiError> {
        let hash = hash(key);
        if let Some(known) = self.remembered(&hash, Instant::now()) {
            return Ok(Some(known).filter(|known| same(&known.key_hash, &hash)));
        }
        if !self.by_hash.read().unwrap_or_else(PoisonError::into_inner).contains_key(&hash) {
            guard.check()?;
        }
        // The clock starts before the question: what was read is no younger than that.
        let asked = Instant::now();
        let revocations = self.revocations.load(Ordering::SeqCst);
        let Some(stored) = engine.key_by_hash(&hash).await?.filter(|stored| same(&stored.key_hash, &hash))
        else {
            guard.count();
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
            && known.revocations == self.revocations.load(Ordering::SeqCst);
        is_fresh.then(|| known.key.clone())
    }

    /// Called when a key was revoked: every key is read from the store again.
    pub(crate) fn clear(&self) {
        self.revocations.fetch_add(1, Ordering::SeqCst);
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
        assert!(engine.add_key(&key).await.unwrap());
        assert!(!engine.add_key(&key).await.unwrap(), "a stored key stays as it is");
        let (ring, limit) = (KeyRing::default(), FailureLimit::default());
        let from = Origin::from(None);
        let guard = Guard { limit: &limit, from: &from };
        let found = ring.find(&engine, &guard, "secret").await.unwrap().unwrap();
        assert_eq!(found.revoked_at, None);
        // Behind the ring's back, as another node would.
        assert!(engine.revoke_key(&tenant, &key.key_id).await.unwrap());
        let asked = ring.by_hash.read().unwrap()[&key.key_hash].asked;
        let just_before = asked + KeyRing::TRUSTED - Duration::from_millis(1);
        assert!(ring.remembered(&key.key_hash, just_before).is_some());
        assert!(ring.remembered(&key.key_hash, asked + KeyRing::TRUSTED).is_none());
        ring.by_hash.write().unwrap().get_mut(&key.key_hash).unwrap().asked = asked - KeyRing::TRUSTED;
        let again = ring.find(&engine, &guard, "secret").await.unwrap().unwrap();
        assert!(again.revoked_at.is_some());
    }
}
