//! Sessions of browsers, and links that sign in.

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
    /// The text behind `#once=` in a link that signs in.
    pub once: Option<String>,
}

/// The caller, and its session if it has one.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub principal: String,
    pub tenant: TenantId,
    pub roles: Vec<String>,
    pub groups: Vec<String>,
    pub scopes: Vec<String>,
    pub test: bool,
    /// Absent for a caller with a key.
    pub session_id: Option<String>,
    /// Moves on while the session is used.
    pub expires_at: Option<Instant>,
}

/// The body of `POST /v1/session:link`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WantedSessionLink")]
pub struct CreateSessionLink {
    /// Another key of the tenant. Requires the scope keys:manage and all scopes of that key.
    pub key_id: Option<String>,
}

/// A link that signs in once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionLink {
    /// Shown once; opened once.
    pub url: String,
    pub expires_at: Instant,
}

/// The sessions of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    pub sessions: Vec<ListedSession>,
}

/// An entry in the list of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedSession {
    pub session_id: String,
    pub created_at: Instant,
    pub used_at: Instant,
    pub expires_at: Instant,
    /// True for the session of this request.
    pub current: bool,
}
