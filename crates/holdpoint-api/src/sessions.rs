//! Sessions of browsers, and sign-in links.

use holdpoint_ids::TenantId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Instant;

/// The body of `POST /v1/session`: a key, or the token of a link.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["key"], "properties": {"key": {"type": "string"}, "once": {"type": "null"}}},
    {"required": ["once"], "properties": {"once": {"type": "string"}, "key": {"type": "null"}}},
]))]
pub struct SignIn {
    /// An API key.
    pub key: Option<String>,
    /// The text after `#once=` in a sign-in link.
    pub once: Option<String>,
}

/// The caller, and its session if it has one.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The principal of the caller.
    pub principal: String,
    /// The tenant of the caller.
    pub tenant: TenantId,
    /// The roles of the principal.
    pub roles: Vec<String>,
    /// The groups of the principal.
    pub groups: Vec<String>,
    /// The scopes of the caller.
    pub scopes: Vec<String>,
    /// True if the caller has a test key.
    pub test: bool,
    /// The id of the session. Absent for a caller with a key.
    pub session_id: Option<String>,
    /// The expiry of the session, which is extended while the session is used. For a caller with a key: the expiry of
    /// the key.
    pub expires_at: Option<Instant>,
}

/// The body of `POST /v1/session:link`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WantedSessionLink")]
pub struct CreateSessionLink {
    /// The key of the session; the caller's key by default. Another key of the tenant requires the scope keys:manage
    /// and all scopes of that key.
    pub key_id: Option<String>,
}

/// A sign-in link, which works once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionLink {
    /// The URL of the link. Shown once; works once.
    pub url: String,
    /// The expiry of the link.
    pub expires_at: Instant,
}

/// The sessions of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<ListedSession>,
}

/// An entry in the list of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedSession {
    /// The id of the session.
    pub session_id: String,
    /// The instant of the sign-in.
    pub created_at: Instant,
    /// The instant of the last use.
    pub used_at: Instant,
    /// The expiry of the session.
    pub expires_at: Instant,
    /// True for the session of this request.
    pub current: bool,
}
