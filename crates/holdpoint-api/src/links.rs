//! Signed links: they show one interrupt, and answer it without a key.

use holdpoint_ids::{Kind, NodeId, RunId, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use std::borrow::Cow;

use crate::Instant;
use crate::grants::Permit;
use crate::interrupts::{Ask, Vote};

/// The longest life of a link, in seconds.
pub const LINK_LIFE_SECONDS_MAX: u64 = limits::LINK_LIFE_MS_MAX / 1000;

/// The use of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LinkIntent")]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// The link shows the interrupt and answers it.
    #[default]
    Resolve,
    /// The link only shows the interrupt.
    Inspect,
}

/// The body of `POST /v1/runs/{runId}/interrupts/{nodeId}/tokens`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("not" = {
    "required": ["ttlMs", "expiresInSeconds"],
    "properties": {"ttlMs": {"type": "integer"}, "expiresInSeconds": {"type": "integer"}},
}))]
pub struct MintToken {
    /// resolve, the default: the link shows the interrupt and answers it. inspect: the link only shows it.
    pub intent: Option<Intent>,
    /// Half an hour by default. The operator may allow less than the maximum.
    #[schemars(range(min = 1, max = LINK_LIFE_SECONDS_MAX))]
    pub expires_in_seconds: Option<u64>,
    /// The same in milliseconds, instead of expiresInSeconds.
    #[schemars(range(min = 1, max = limits::LINK_LIFE_MS_MAX))]
    pub ttl_ms: Option<u64>,
    /// The principal in whose name the link answers. Another name than the caller's requires approvals:act-as.
    #[serde(rename = "for")]
    #[schemars(regex(pattern = r"^[^\s,\u0000-\u001f\u007f-\u009f]{1,128}$"))]
    pub sub: Option<String>,
    /// The id of the interrupt. Required if the node has several open interrupts; without it the request is rejected
    /// with interrupt_ambiguous.
    pub interrupt_id: Option<String>,
}

/// The contents of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenClaims {
    pub run_id: RunId,
    pub node_id: NodeId,
    pub interrupt_id: String,
    pub intent: Intent,
    /// The principal in whose name the link answers.
    #[serde(rename = "for")]
    pub sub: String,
    pub expires_at: Instant,
}

/// A new link.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenMinted {
    #[serde(flatten)]
    pub claims: TokenClaims,
    /// Identifies the link in decisions that were made with it.
    pub link_id: String,
    /// Shown once: not when the request is sent again under its Idempotency-Key.
    pub token: Option<String>,
    /// The URL of the link. Shown once, like the token.
    pub url: Option<String>,
}

/// The interrupt that a link is for.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkedInterrupt<'a> {
    #[serde(flatten)]
    pub claims: TokenClaims,
    pub state: LinkState,
    #[schemars(with = "String")]
    pub kind: Kind,
    pub key: Cow<'a, str>,
    pub title: Cow<'a, str>,
    pub data: Cow<'a, Value>,
    pub requested_at: Instant,
    pub interrupt_expires_at: Option<Instant>,
    pub timeout_ms: Option<u64>,
    /// The JSON Schema of the answer.
    #[schemars(extend("type" = ["object", "boolean"]))]
    pub resume_schema: Option<Cow<'a, Value>>,
    pub assignees: Option<Vec<String>>,
    pub digest: Option<Cow<'a, str>>,
    /// The number of approvals, if more than one is required.
    #[schemars(range(min = 2))]
    pub required_approvals: Option<u64>,
    pub votes: Option<Vec<Vote>>,
    pub asks: Option<Vec<Ask>>,
    pub permits: Option<Vec<Permit>>,
}

/// The state of an interrupt that a link shows. An interrupt that is no longer open is an error with 409 or 410;
/// details.state is then answered, cancelled or expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    Open,
}
