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

/// The longest lifetime of a link, in seconds.
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
    /// The lifetime of the link in seconds; half an hour by default. The operator may set a lower maximum.
    #[schemars(range(min = 1, max = LINK_LIFE_SECONDS_MAX))]
    pub expires_in_seconds: Option<u64>,
    /// The lifetime in milliseconds. Not together with expiresInSeconds.
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
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the node.
    pub node_id: NodeId,
    /// The id of the interrupt.
    pub interrupt_id: String,
    /// The purpose of the link.
    pub intent: Intent,
    /// The principal in whose name the link answers.
    #[serde(rename = "for")]
    pub sub: String,
    /// The expiry of the link.
    pub expires_at: Instant,
}

/// A new link.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenMinted {
    /// The contents of the token.
    #[serde(flatten)]
    pub claims: TokenClaims,
    /// Identifies the link in decisions that were made with it.
    pub link_id: String,
    /// The token of the link. Shown once: not when the request is sent again under its Idempotency-Key.
    pub token: Option<String>,
    /// The URL of the link. Shown once, like the token.
    pub url: Option<String>,
}

/// The interrupt that a link is for.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkedInterrupt<'a> {
    /// The contents of the token.
    #[serde(flatten)]
    pub claims: TokenClaims,
    /// The state of the interrupt.
    pub state: LinkState,
    /// The kind of the interrupt.
    #[schemars(with = "String")]
    pub kind: Kind,
    /// The key of the interrupt, unique in the run.
    pub key: Cow<'a, str>,
    /// The title of the interrupt.
    pub title: Cow<'a, str>,
    /// The data that the interrupt shows.
    pub data: Cow<'a, Value>,
    /// The instant at which the interrupt opened.
    pub requested_at: Instant,
    /// The deadline of the interrupt.
    pub interrupt_expires_at: Option<Instant>,
    /// The time until the deadline, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The JSON Schema of the answer.
    #[schemars(extend("type" = ["object", "boolean"]))]
    pub resume_schema: Option<Cow<'a, Value>>,
    /// The principals that may answer: names, role:x or group:y.
    pub assignees: Option<Vec<String>>,
    /// The digest of the data.
    pub digest: Option<Cow<'a, str>>,
    /// The number of approvals, if more than one is required.
    #[schemars(range(min = 2))]
    pub required_approvals: Option<u64>,
    /// The votes in the order in which they were cast.
    pub votes: Option<Vec<Vote>>,
    /// The side questions in the order in which they were asked.
    pub asks: Option<Vec<Ask>>,
    /// The effects that an approval permits.
    pub permits: Option<Vec<Permit>>,
}

/// The state of an interrupt that a link shows. An interrupt that is no longer open is an error with 409 or 410;
/// details.state is then answered, cancelled or expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// The interrupt waits for an answer.
    Open,
}
