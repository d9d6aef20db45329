//! The secrets as this node knows them. What is remembered is a copy that is soon read again; the store decides.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use holdpoint_core::Timestamp;
use holdpoint_engine::{Engine, LinkSecret};

use super::token::Secret;
use crate::error::ApiError;

/// Another node may rotate without this one hearing of it: what is remembered counts for a moment only. Nor is it read
/// more often than that, so that tokens that nobody has signed cost the database nothing.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    known: RwLock<Option<Known>>,
    /// Held while the store is asked: one asks, the others wait for what it hears.
    asking: tokio::sync::Mutex<()>,
    /// When the store was last asked because of an unknown secret.
    unknown_asked: Mutex<Option<Instant>>,
}

#[derive(Clone, Debug)]
struct Known {
    secrets: Arc<[Secret]>,
    signing: Option<Secret>,
    /// When the store was asked.
    asked: Instant,
}

impl Ring {
    /// How long it may take until another node's rotation counts here.
    const TRUSTED: Duration = Duration::from_secs(1);

    /// Everything that may have signed a link.
    pub(crate) async fn secrets(&self, engine: &Engine) -> Result<Arc<[Secret]>, ApiError> {
        Ok(self.known(engine).await?.secrets)
    }

    /// The one that signs; made when there is none.
    pub(crate) async fn signing(&self, engine: &Engine) -> Result<Secret, ApiError> {
        if let Some(signing) = self.known(engine).await?.signing {
            return Ok(signing);
        }
        // When another node is faster, it has stored one that is as good.
        engine.add_secret(&fresh(engine.now())?).await?;
        self.forget().await;
        self.known(engine).await?.signing.ok_or_else(|| ApiError::internal("no secret signs links"))
    }

    /// Returns the secrets read anew, because a token names one that this node does not know: another node may have
    /// rotated a moment ago. None if the store was asked for the same reason a moment ago, so that tokens which
    /// nobody has signed cost the database one query a second.
    pub(crate) async fn secrets_with(
        &self,
        engine: &Engine,
        kid: &str,
    ) -> Result<Option<Arc<[Secret]>>, ApiError> {
        let known = self.known(engine).await?;
        if known.secrets.iter().any(|secret| secret.kid == kid) {
            return Ok(Some(known.secrets));
        }
        let _asking = self.asking.lock().await;
        let now = Instant::now();
        {
            let mut last = self.unknown_asked.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| now.saturating_duration_since(last) < Self::TRUSTED) {
                // Another request may have read it while this one waited.
                let known = self.remembered(now).map(|known| known.secrets);
                return Ok(known.filter(|secrets| secrets.iter().any(|secret| secret.kid == kid)));
            }
            *last = Some(now);
        }
        Ok(Some(self.ask(engine).await?.secrets))
    }

    /// Called after a rotation. What was read before is not kept after it: whoever reads has ended by then.
    pub(crate) async fn forget(&self) {
        let _asking = self.asking.lock().await;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn known(&self, engine: &Engine) -> Result<Known, ApiError> {
        if let Some(known) = self.remembered(Instant::now()) {
            return Ok(known);
        }
        let _asking = self.asking.lock().await;
        if let Some(known) = self.remembered(Instant::now()) {
            return Ok(known);
        }
        self.ask(engine).await
    }

    /// Reads the secrets. The caller holds the lock for asking.
    async fn ask(&self, engine: &Engine) -> Result<Known, ApiError> {
        let asked = Instant::now();
        let stored = engine.secrets().await?;
        let read = |row: &LinkSecret| Secret::parse(&row.kid, &row.secret);
        let secrets: Option<Vec<Secret>> = stored.iter().map(read).collect();
        let secrets = secrets.ok_or_else(|| ApiError::internal("a secret of links cannot be read"))?;
        let signing = stored.iter().rfind(|row| row.retired_at.is_none()).and_then(read);
        let known = Known { secrets: secrets.into(), signing, asked };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
        Ok(known)
    }

    fn remembered(&self, now: Instant) -> Option<Known> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        (now.saturating_duration_since(known.asked) < Self::TRUSTED).then_some(known)
    }
}

/// A secret that nobody can guess.
pub(crate) fn fresh(now: Timestamp) -> Result<LinkSecret, ApiError> {
    let (mut kid, mut bytes) = ([0; 6], [0; Secret::BYTES]);
    getrandom::fill(&mut kid).map_err(ApiError::internal)?;
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    let secret = Secret::new(holdpoint_core::hex(&kid), bytes);
    Ok(LinkSecret { kid: secret.kid.clone(), secret: secret.to_text(), created_at: now, retired_at: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_engine::{Location, Options};

    async fn assert_rereads_for_unknown_secrets(ring: &Ring, engine: &Engine) {
        let has = |secrets: Option<Arc<[Secret]>>, kid: &str| {
            secrets.is_some_and(|secrets| secrets.iter().any(|secret| secret.kid == kid))
        };
        let fourth = fresh(engine.now()).unwrap();
        engine.rotate_secrets(&fourth, false, None).await.unwrap();
        let lags = ring.secrets(engine).await.unwrap();
        assert!(lags.iter().all(|secret| secret.kid != fourth.kid), "what is remembered does not know it");
        assert!(has(ring.secrets_with(engine, &fourth.kid).await.unwrap(), &fourth.kid));
        // Names that nobody has: the store is not asked again within the moment.
        let asked = ring.known.read().unwrap().as_ref().unwrap().asked;
        for forged in ["000000000000", "ffffffffffff"] {
            assert!(ring.secrets_with(engine, forged).await.unwrap().is_none());
        }
        assert_eq!(ring.known.read().unwrap().as_ref().unwrap().asked, asked);
        assert!(
            has(ring.secrets_with(engine, &fourth.kid).await.unwrap(), &fourth.kid),
            "what is known is known"
        );
    }

    #[tokio::test]
    async fn a_rotation_elsewhere_counts_here_after_a_moment_and_one_here_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(Options::new(location)).await.unwrap();
        let ring = Ring::default();
        let first = ring.signing(&engine).await.unwrap();
        assert_eq!(ring.signing(&engine).await.unwrap().kid, first.kid, "one is enough");
        // Behind the ring's back, as another node would.
        let second = fresh(engine.now()).unwrap();
        engine.rotate_secrets(&second, true, None).await.unwrap();
        let asked = ring.known.read().unwrap().as_ref().unwrap().asked;
        assert!(ring.remembered(asked + Ring::TRUSTED - Duration::from_millis(1)).is_some());
        assert!(ring.remembered(asked + Ring::TRUSTED).is_none());
        ring.known.write().unwrap().as_mut().unwrap().asked = asked - Ring::TRUSTED;
        assert_eq!(ring.signing(&engine).await.unwrap().kid, second.kid);
        let known: Vec<String> =
            ring.secrets(&engine).await.unwrap().iter().map(|one| one.kid.clone()).collect();
        assert_eq!(known, [second.kid], "a revoked secret is gone");
        let third = fresh(engine.now()).unwrap();
        engine.rotate_secrets(&third, false, None).await.unwrap();
        ring.forget().await;
        assert_eq!(ring.signing(&engine).await.unwrap().kid, third.kid);
        assert_eq!(ring.secrets(&engine).await.unwrap().len(), 2, "a retired one still verifies");
        assert_rereads_for_unknown_secrets(&ring, &engine).await;
        let shown = format!("{ring:?}");
        assert!(!shown.contains(&third.secret) && shown.contains(&third.kid), "{shown}");
    }
}
