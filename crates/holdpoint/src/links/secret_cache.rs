//! Cache of the secrets that sign links. It is trusted for one second; then the store is read again.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use holdpoint_core::Timestamp;
use holdpoint_engine::{Engine, LinkSecret};

use super::token::SigningSecret;
use crate::error::ApiError;

/// The secrets of the last read. Another node may rotate them without a notification, so they are trusted for one
/// second only. The store is not read more often than that, so that invalid tokens cause no load on the database.
#[derive(Debug, Default)]
pub(crate) struct SecretCache {
    entry: RwLock<Option<CachedSecrets>>,
    /// Held while the store is read: one request reads, the others wait for its result.
    reading: tokio::sync::Mutex<()>,
    /// The instant of the last read because of an unknown secret.
    unknown_read_at: Mutex<Option<Instant>>,
}

#[derive(Clone, Debug)]
struct CachedSecrets {
    secrets: Arc<[SigningSecret]>,
    signing: Option<SigningSecret>,
    /// The instant before the store was read.
    read_at: Instant,
}

impl SecretCache {
    /// Maximum time until this node applies a rotation of another node.
    const TRUSTED: Duration = Duration::from_secs(1);

    /// Returns all secrets that may have signed a link.
    pub(crate) async fn secrets(&self, engine: &Engine) -> Result<Arc<[SigningSecret]>, ApiError> {
        Ok(self.load(engine).await?.secrets)
    }

    /// Returns the secret that signs new links. Creates it if there is none.
    pub(crate) async fn signing(&self, engine: &Engine) -> Result<SigningSecret, ApiError> {
        if let Some(signing) = self.load(engine).await?.signing {
            return Ok(signing);
        }
        // If another node was faster, its secret is used.
        engine.secrets().add(&new_secret(engine.now())?).await?;
        self.clear().await;
        self.load(engine).await?.signing.ok_or_else(|| ApiError::internal("no secret signs links"))
    }

    /// Reads the secrets again, because a token names one that this node does not know: another node may have rotated
    /// them. Returns None if the store was read for the same reason within the last second, so that invalid tokens
    /// cause one query per second.
    pub(crate) async fn secrets_with(
        &self,
        engine: &Engine,
        kid: &str,
    ) -> Result<Option<Arc<[SigningSecret]>>, ApiError> {
        let known = self.load(engine).await?;
        if known.secrets.iter().any(|secret| secret.kid == kid) {
            return Ok(Some(known.secrets));
        }
        let _reading = self.reading.lock().await;
        let now = Instant::now();
        {
            let mut last = self.unknown_read_at.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| now.saturating_duration_since(last) < Self::TRUSTED) {
                // Another request may have read it while this one waited.
                let known = self.cached(now).map(|known| known.secrets);
                return Ok(known.filter(|secrets| secrets.iter().any(|secret| secret.kid == kid)));
            }
            *last = Some(now);
        }
        Ok(Some(self.read(engine).await?.secrets))
    }

    /// Clears the cache after a rotation. Waits for a read that is in progress: its result may be older than the
    /// rotation.
    pub(crate) async fn clear(&self) {
        let _reading = self.reading.lock().await;
        *self.entry.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn load(&self, engine: &Engine) -> Result<CachedSecrets, ApiError> {
        if let Some(known) = self.cached(Instant::now()) {
            return Ok(known);
        }
        let _reading = self.reading.lock().await;
        if let Some(known) = self.cached(Instant::now()) {
            return Ok(known);
        }
        self.read(engine).await
    }

    /// Reads the secrets. The caller holds the lock `reading`.
    async fn read(&self, engine: &Engine) -> Result<CachedSecrets, ApiError> {
        let read_at = Instant::now();
        let stored = engine.secrets().list().await?;
        let parse = |row: &LinkSecret| SigningSecret::parse(&row.kid, &row.secret);
        let secrets: Option<Vec<SigningSecret>> = stored.iter().map(parse).collect();
        let secrets = secrets.ok_or_else(|| ApiError::internal("a stored secret of links is invalid"))?;
        let signing = stored.iter().rfind(|row| row.retired_at.is_none()).and_then(parse);
        let known = CachedSecrets { secrets: secrets.into(), signing, read_at };
        *self.entry.write().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
        Ok(known)
    }

    fn cached(&self, now: Instant) -> Option<CachedSecrets> {
        let known = self.entry.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        (now.saturating_duration_since(known.read_at) < Self::TRUSTED).then_some(known)
    }
}

/// Returns a new random secret.
pub(crate) fn new_secret(now: Timestamp) -> Result<LinkSecret, ApiError> {
    let (mut kid, mut bytes) = ([0; 6], [0; SigningSecret::BYTES]);
    getrandom::fill(&mut kid).map_err(ApiError::internal)?;
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    let secret = SigningSecret::new(holdpoint_core::hex(&kid), bytes);
    Ok(LinkSecret { kid: secret.kid.clone(), secret: secret.to_text(), created_at: now, retired_at: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_engine::{Location, OldLinks, Options};

    async fn assert_rereads_for_unknown_secrets(cache: &SecretCache, engine: &Engine) {
        let has = |secrets: Option<Arc<[SigningSecret]>>, kid: &str| {
            secrets.is_some_and(|secrets| secrets.iter().any(|secret| secret.kid == kid))
        };
        let fourth = new_secret(engine.now()).unwrap();
        engine.secrets().rotate(&fourth, OldLinks::Keep, None).await.unwrap();
        let lags = cache.secrets(engine).await.unwrap();
        assert!(lags.iter().all(|secret| secret.kid != fourth.kid), "the cache does not have it");
        assert!(has(cache.secrets_with(engine, &fourth.kid).await.unwrap(), &fourth.kid));
        // Unknown ids: the store is not read again within the trusted time.
        let read_at = cache.entry.read().unwrap().as_ref().unwrap().read_at;
        for forged in ["000000000000", "ffffffffffff"] {
            assert!(cache.secrets_with(engine, forged).await.unwrap().is_none());
        }
        assert_eq!(cache.entry.read().unwrap().as_ref().unwrap().read_at, read_at);
        assert!(
            has(cache.secrets_with(engine, &fourth.kid).await.unwrap(), &fourth.kid),
            "a known secret is returned"
        );
    }

    #[tokio::test]
    async fn a_rotation_by_another_node_applies_after_the_trusted_time_and_an_own_one_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(crate::extensions::add_default(Options::new(location).manual_worker()))
            .await
            .unwrap();
        let cache = SecretCache::default();
        let first = cache.signing(&engine).await.unwrap();
        assert_eq!(cache.signing(&engine).await.unwrap().kid, first.kid, "one is enough");
        // Directly in the store, as another node would.
        let second = new_secret(engine.now()).unwrap();
        engine.secrets().rotate(&second, OldLinks::Revoke, None).await.unwrap();
        let read_at = cache.entry.read().unwrap().as_ref().unwrap().read_at;
        assert!(cache.cached(read_at + SecretCache::TRUSTED - Duration::from_millis(1)).is_some());
        assert!(cache.cached(read_at + SecretCache::TRUSTED).is_none());
        cache.entry.write().unwrap().as_mut().unwrap().read_at = read_at - SecretCache::TRUSTED;
        assert_eq!(cache.signing(&engine).await.unwrap().kid, second.kid);
        let known: Vec<String> =
            cache.secrets(&engine).await.unwrap().iter().map(|one| one.kid.clone()).collect();
        assert_eq!(known, [second.kid], "a revoked secret is gone");
        let third = new_secret(engine.now()).unwrap();
        engine.secrets().rotate(&third, OldLinks::Keep, None).await.unwrap();
        cache.clear().await;
        assert_eq!(cache.signing(&engine).await.unwrap().kid, third.kid);
        assert_eq!(cache.secrets(&engine).await.unwrap().len(), 2, "a retired one still verifies");
        assert_rereads_for_unknown_secrets(&cache, &engine).await;
        let shown = format!("{cache:?}");
        assert!(!shown.contains(&third.secret) && shown.contains(&third.kid), "{shown}");
    }
}
