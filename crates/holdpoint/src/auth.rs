//! Who calls and what they may do. Keys are compared by their hashes, in constant time; scopes imply nothing else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use holdpoint_core::{Principal, RunId, RunRef, TenantId};
use holdpoint_engine::{ApiKey, Engine};
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::app::App;
use crate::error::ApiError;

/// Every scope there is. `tenants:manage` makes an administrator.
pub(crate) const SCOPES: [&str; 8] = [
    "manifest:read",
    "manifest:write",
    "runs:create",
    "runs:read",
    "runs:cancel",
    "approvals:respond",
    "keys:manage",
    "tenants:manage",
];

/// What a key may do when nobody says otherwise: everything but handing out keys.
pub(crate) const SCOPES_DEFAULT: [&str; 6] =
    ["manifest:read", "manifest:write", "runs:create", "runs:read", "runs:cancel", "approvals:respond"];

/// What is stored of a key.
pub(crate) fn hash(key: &str) -> String {
    hex(&Sha256::digest(key.as_bytes()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Keys that were used lately, so that not every request asks the store. Another node may revoke a key without this
/// one hearing of it: what is remembered counts for a moment only.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    by_hash: RwLock<HashMap<String, Remembered>>,
    /// Counts revocations, so that what was read before one is not kept after it.
    revocations: AtomicU64,
}

#[derive(Debug)]
struct Remembered {
    key: Arc<ApiKey>,
    /// When the store was asked.
    asked: Instant,
}

impl KeyRing {
    const KEYS_MAX: usize = 10_000;
    /// How long a key that was revoked elsewhere may still be taken here.
    const TRUSTED: Duration = Duration::from_secs(1);

    async fn find(&self, engine: &Engine, key: &str) -> Result<Option<Arc<ApiKey>>, ApiError> {
        let hash = hash(key);
        if let Some(known) = self.remembered(&hash, Instant::now()) {
            return Ok(Some(known).filter(|known| same(&known.key_hash, &hash)));
        }
        // The clock starts before the question: what was read is no younger than that.
        let asked = Instant::now();
        let before = self.revocations.load(Ordering::SeqCst);
        let Some(stored) = engine.key_by_hash(&hash).await?.filter(|stored| same(&stored.key_hash, &hash))
        else {
            return Ok(None);
        };
        let stored = Arc::new(stored);
        let mut ring = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        if ring.len() >= Self::KEYS_MAX {
            ring.clear();
        }
        if self.revocations.load(Ordering::SeqCst) == before {
            ring.insert(hash, Remembered { key: stored.clone(), asked });
        }
        Ok(Some(stored))
    }

    fn remembered(&self, hash: &str, now: Instant) -> Option<Arc<ApiKey>> {
        let ring = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        let known = ring.get(hash)?;
        (now.saturating_duration_since(known.asked) < Self::TRUSTED).then(|| known.key.clone())
    }

    /// Called when a key was revoked.
    pub(crate) fn clear(&self) {
        let mut ring = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        self.revocations.fetch_add(1, Ordering::SeqCst);
        ring.clear();
    }
}

fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// An authenticated caller.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub Arc<ApiKey>);

impl Caller {
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.0.tenant
    }

    pub(crate) fn principal(&self) -> Principal {
        Principal { name: self.0.principal.clone(), roles: self.0.roles.clone() }
    }

    pub(crate) fn may(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|held| held == scope)
    }

    /// A run of the caller's tenant. An id that cannot be one is simply not found.
    pub(crate) fn run(&self, id: &str) -> Result<RunRef, ApiError> {
        let run = RunId::parse(id).map_err(|_| ApiError::not_found("run"))?;
        Ok(RunRef { tenant: self.tenant().clone(), run })
    }

    fn require(self, scopes: &[&str]) -> Result<Self, ApiError> {
        if scopes.iter().any(|scope| self.may(scope)) {
            return Ok(self);
        }
        let message = format!("this key lacks the scope {}", scopes.join(" or "));
        let details = json!({"scopeRequired": scopes[0]});
        Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message).with(details))
    }

    async fn authenticate(parts: &Parts, app: &App) -> Result<Self, ApiError> {
        let unknown = |message: &str| ApiError::new(StatusCode::UNAUTHORIZED, "unauthenticated", message);
        let Some(header) = parts.headers.get(header::AUTHORIZATION) else {
            return Err(unknown("send an API key: Authorization: Bearer <key>"));
        };
        let text = header.to_str().ok().and_then(|text| text.split_once(' '));
        let Some((_, key)) = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
            return Err(unknown("the Authorization header must read: Bearer <key>"));
        };
        let found = app.keys.find(&app.engine, key.trim()).await?;
        let key = found.ok_or_else(|| unknown("this API key is not known here"))?;
        if key.revoked_at.is_some() {
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, "key_revoked", "this API key was revoked"));
        }
        Ok(Self(key))
    }
}

/// A handler that takes one of these can only be reached with the scope.
macro_rules! permission {
    ($($name:ident: $($scope:literal)|+),+ $(,)?) => {$(
        #[derive(Clone, Debug)]
        pub(crate) struct $name(pub Caller);

        impl FromRequestParts<App> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
                Caller::authenticate(parts, app).await?.require(&[$($scope),+]).map(Self)
            }
        }
    )+};
}

permission! {
    CanReadWorkflows: "manifest:read",
    CanWriteWorkflows: "manifest:write",
    CanCreateRuns: "runs:create",
    CanReadRuns: "runs:read",
    CanCancelRuns: "runs:cancel",
    CanAnswer: "approvals:respond",
    CanSeePending: "approvals:respond" | "runs:read",
    CanManageKeys: "keys:manage",
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_engine::{Location, Options};

    #[tokio::test]
    async fn a_key_that_was_revoked_elsewhere_is_asked_for_again_after_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::Sqlite(folder.path().join("holdpoint.db"));
        let engine = Engine::open(Options::new(location)).await.unwrap();
        let tenant = TenantId::parse("default").unwrap();
        let key = crate::admin::keys::stored_key("secret", tenant.clone(), engine.now()).unwrap();
        assert!(engine.add_key(&key).await.unwrap());
        assert!(!engine.add_key(&key).await.unwrap(), "a stored key stays as it is");
        let ring = KeyRing::default();
        let found = ring.find(&engine, "secret").await.unwrap().unwrap();
        assert_eq!(found.revoked_at, None);
        // Behind the ring's back, as another node would.
        assert!(engine.revoke_key(&tenant, &key.key_id).await.unwrap());
        let asked = ring.by_hash.read().unwrap()[&key.key_hash].asked;
        let just_before = asked + KeyRing::TRUSTED - Duration::from_millis(1);
        assert!(ring.remembered(&key.key_hash, just_before).is_some());
        assert!(ring.remembered(&key.key_hash, asked + KeyRing::TRUSTED).is_none());
        ring.by_hash.write().unwrap().get_mut(&key.key_hash).unwrap().asked = asked - KeyRing::TRUSTED;
        let again = ring.find(&engine, "secret").await.unwrap().unwrap();
        assert!(again.revoked_at.is_some());
    }
}
