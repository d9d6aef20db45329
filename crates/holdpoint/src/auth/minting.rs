//! Creates API keys. A key is random text; the server stores only its hash.

use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::{TenantId, Timestamp, hex};
use holdpoint_engine::{ApiKey, Dependence};
use sha2::{Digest, Sha256};

use super::{Caller, SCOPES};
use crate::error::ApiError;

/// Prefix of test keys, by which people and programs distinguish them from live keys.
pub(crate) const TEST_KEY_PREFIX: &str = "hp_test_";
const LIVE_KEY_PREFIX: &str = "hp_";

/// The kind of a key. All keys of a tenant have the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Live,
    Test,
}

impl KeyKind {
    pub(crate) fn of(key: &ApiKey) -> Self {
        if key.test { Self::Test } else { Self::Live }
    }
}

/// Returns a new random key.
pub(crate) fn fresh_secret(kind: KeyKind) -> Result<String, ApiError> {
    let prefix = match kind {
        KeyKind::Live => LIVE_KEY_PREFIX,
        KeyKind::Test => TEST_KEY_PREFIX,
    };
    Ok(format!("{prefix}{}", random_hex(24)?))
}

/// Returns the record of a key: all scopes, its id as the principal, no expiry.
pub(crate) fn stored_key(secret: &str, tenant: TenantId, now: Timestamp) -> Result<ApiKey, ApiError> {
    let key_id = format!("key_{}", random_hex(8)?);
    Ok(ApiKey {
        principal: key_id.clone(),
        lineage: key_id.clone(),
        key_id,
        key_hash: hash(secret),
        tenant,
        roles: Vec::new(),
        groups: Vec::new(),
        scopes: SCOPES.iter().map(ToString::to_string).collect(),
        created_at: now,
        revoked_at: None,
        expires_at: None,
        test: secret.starts_with(TEST_KEY_PREFIX),
        depends_on: Dependence::default(),
    })
}

/// Returns the scopes if they are known and the caller holds them: a caller can only grant scopes that it has.
pub(crate) fn check_scopes(
    caller: &Caller,
    field: &str,
    wanted: Vec<String>,
) -> Result<Vec<String>, ApiError> {
    for scope in &wanted {
        if !SCOPES.contains(&scope.as_str()) {
            let message = format!("contains an unknown scope; known scopes: {}", SCOPES.join(", "));
            return Err(ApiError::invalid(field, message));
        }
        if !caller.may(scope) {
            let message = format!("cannot grant {scope}: your own key does not have it");
            let details = ErrorDetails::of_scope(scope);
            return Err(ApiError::new(ErrorCode::Forbidden, message).with(details));
        }
    }
    Ok(wanted)
}

/// Returns the hash under which a key or a token is stored.
pub(super) fn hash(key: &str) -> String {
    hex(&Sha256::digest(key.as_bytes()))
}

pub(super) fn random_hex(length: usize) -> Result<String, ApiError> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    Ok(hex(&bytes))
}
