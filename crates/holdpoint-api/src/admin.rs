//! The resources of operators: secrets of signed links, quotas, health.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Instant;

/// The body of `POST /v1/secrets:rotate`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateSecrets {
    /// True to end every link that was signed before, at once.
    pub revoke_old: Option<bool>,
}

/// The id and the times of a secret that signs links. The secret itself is never shown.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// The id of the secret.
    pub kid: String,
    /// The instant of the creation.
    pub created_at: Instant,
    /// The instant from which the secret signs no new links.
    pub retired_at: Option<Instant>,
}

/// The secrets that sign links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretList {
    /// The secrets, without their values.
    pub secrets: Vec<Secret>,
}

/// The quotas of a tenant and its use of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Runs that have not ended.
    pub open_runs: Quota,
    /// Bytes of the events of all runs.
    pub stored_bytes: Quota,
    /// Stored revisions of workflows and agents.
    pub definitions: Quota,
    /// Durable deliveries that have not ended, counted up to the limit.
    pub deliveries: Quota,
    /// Streams and long polls that are open at this node.
    pub streams: Quota,
    /// Runs that one run starts, directly or through its child runs.
    pub family_runs: UsageLimit,
    /// Bytes of the events of a run that is forked.
    pub fork_bytes: UsageLimit,
    /// Tokens that models have used on this UTC day.
    pub tokens_per_day: Quota,
}

/// A limit of a tenant with its use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quota {
    /// The current use.
    pub used: u64,
    /// The limit. Null if there is none.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// A limit of a single run or request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageLimit {
    /// The limit. Null if there is none.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// The state of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// The state of the server.
    pub status: HealthStatus,
}

/// The state of the server in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum HealthStatus {
    /// The process runs.
    Ok,
    /// The server accepts requests.
    Ready,
}
