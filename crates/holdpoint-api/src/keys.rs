//! API keys.

use holdpoint_ids::TenantId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Instant;

/// Every scope. `tenants:manage` makes an administrator.
pub const SCOPES: [&str; 14] = [
    "manifest:read",
    "manifest:write",
    "runs:create",
    "runs:read",
    "runs:cancel",
    "runs:prioritize",
    "artifacts:read",
    "approvals:respond",
    "approvals:act-as",
    "events:send",
    "webhooks:manage",
    "triggers:manage",
    "keys:manage",
    "tenants:manage",
];

/// The scopes of a new key if the request names none: all but answering, acting for others, prioritizing, and
/// managing triggers and keys.
/// Requesters do not get the scope to answer by default.
pub const SCOPES_DEFAULT: [&str; 8] = [
    "manifest:read",
    "manifest:write",
    "runs:create",
    "runs:read",
    "runs:cancel",
    "artifacts:read",
    "events:send",
    "webhooks:manage",
];

/// The longest lifetime of a key in seconds: 100 years.
pub const LIFE_SECONDS_MAX: u64 = 100 * 365 * 24 * 3600;
/// The default time for which a key stays valid in parallel with its successor, in seconds.
pub const OVERLAP_SECONDS_DEFAULT: u64 = 24 * 3600;
/// The longest time for which a key stays valid in parallel with its successor, in seconds.
pub const OVERLAP_SECONDS_MAX: u64 = 30 * 24 * 3600;

/// The pattern of the name of a tenant, a principal, a role or a group.
const WORD: &str = r"^[^\s,\u0000-\u001f\u007f-\u009f]{1,128}$";

/// The body of `POST /v1/keys`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateKey {
    /// The tenant of the key. Another tenant than the caller's requires tenants:manage.
    #[schemars(regex(pattern = WORD))]
    pub tenant: Option<String>,
    /// The principal that the key stands for; the id of the key by default. Stored in normalization form NFKC. Control
    /// and format characters and mixed scripts are rejected.
    #[schemars(regex(pattern = WORD))]
    pub principal: Option<String>,
    /// Roles of the principal, which lists of approvers may name.
    #[schemars(inner(regex(pattern = WORD)))]
    pub roles: Option<Vec<String>>,
    /// Groups of the principal, which lists of approvers may name.
    #[schemars(inner(regex(pattern = WORD)))]
    pub groups: Option<Vec<String>>,
    /// The scopes of the key, each of which the caller must have.
    #[schemars(extend("items" = {"type": "string", "enum": SCOPES}))]
    pub scopes: Option<Vec<String>>,
    /// Scopes in addition to the default scopes. Not together with scopes.
    #[schemars(extend("items" = {"type": "string", "enum": SCOPES}))]
    pub add_scopes: Option<Vec<String>>,
    /// The expiry. Not together with expiresInSeconds.
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
    /// The lifetime in seconds. Not together with expiresAt.
    #[schemars(range(min = 1, max = LIFE_SECONDS_MAX))]
    pub expires_in_seconds: Option<u64>,
    /// True to create a test key. The default is the kind of the caller's key.
    pub test: Option<bool>,
}

/// The body of `POST /v1/keys/{keyId}:rotate`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateKey {
    /// Seconds for which the old key stays valid.
    #[schemars(range(min = 0, max = OVERLAP_SECONDS_MAX), extend("default" = OVERLAP_SECONDS_DEFAULT))]
    pub overlap_seconds: Option<u64>,
    /// The expiry of the successor. Not together with expiresInSeconds.
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
    /// The lifetime of the successor in seconds. Not together with expiresAt.
    #[schemars(range(min = 1, max = LIFE_SECONDS_MAX))]
    pub expires_in_seconds: Option<u64>,
}

/// An API key without its secret.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// The id of the key.
    pub key_id: String,
    /// The id of the first key in a chain of rotations. Links become invalid when their lineage has no active key.
    pub lineage: String,
    /// The tenant of the key.
    pub tenant: TenantId,
    /// The principal that the key stands for.
    pub principal: String,
    /// The roles of the principal.
    pub roles: Vec<String>,
    /// The groups of the principal.
    pub groups: Vec<String>,
    /// The scopes of the key.
    pub scopes: Vec<String>,
    /// True for a test key. A tenant has either test keys or live keys.
    pub test: bool,
    /// The instant of the creation.
    pub created_at: Instant,
    /// The instant of the expiry.
    pub expires_at: Option<Instant>,
    /// The instant of the revocation.
    pub revoked_at: Option<Instant>,
}

/// A new API key.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyCreated {
    /// The key without its secret.
    #[serde(flatten)]
    pub stored: Key,
    /// The key itself. Shown once: not when the request is sent again under its Idempotency-Key.
    pub key: Option<String>,
}

/// The keys of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyList {
    /// The keys, without their secrets.
    pub keys: Vec<Key>,
}
