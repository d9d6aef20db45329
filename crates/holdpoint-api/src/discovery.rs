//! The discovery document of OpenWOP: the features of this server.

use std::collections::BTreeMap;

use holdpoint_ids::ForkMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::basics::Supported;
use crate::webhooks::RetryPolicy;

/// The features of this server. A feature that is not named does not exist.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    #[schemars(regex(pattern = r"^1\."))]
    pub protocol_version: String,
    pub implementation: Implementation,
    pub supported_envelopes: Vec<String>,
    pub schema_versions: BTreeMap<String, u64>,
    pub supported_transports: Vec<String>,
    #[schemars(extend("required" = ["clarificationRounds", "schemaRounds", "envelopesPerTurn"]))]
    pub limits: BTreeMap<String, u64>,
    /// The workflows for conformance tests.
    pub fixtures: Vec<String>,
    pub testing: TestingFeatures,
    /// The options of a run, by name, with a JSON Schema each.
    pub configurable: BTreeMap<String, Value>,
    pub engine_version: u64,
    pub event_log_schema_version: u32,
    pub authorization: AuthorizationFeatures,
    pub debug_bundle: Supported,
    pub extensions: Extensions,
    pub conversation_primitive: bool,
    pub webhooks: Option<WebhookFeatures>,
    pub dead_letter: Option<DeadLetterFeatures>,
    pub replay: Option<ReplayFeatures>,
    pub observability: Option<Observability>,
}

/// The name and version of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Implementation {
    pub name: String,
    pub version: String,
    pub vendor: String,
}

/// Features for tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestingFeatures {
    pub test_key_prefix: String,
    pub mock_providers: Vec<String>,
}

/// Features of roles at gates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationFeatures {
    pub supported: bool,
    /// A gate that requires a role rejects a principal without any role.
    pub fail_closed: bool,
}

/// Extensions of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Extensions {
    pub interrupts: InterruptFeatures,
}

/// Features of interrupts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptFeatures {
    pub profiles: Vec<String>,
    pub signed_callback_tokens: bool,
}

/// Features of webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookFeatures {
    pub supported: bool,
    pub signature_algorithms: Vec<String>,
    pub durable: bool,
    /// The retry policy of a webhook that has none of its own.
    pub retry_policy: RetryPolicy,
}

/// Features of dead letters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterFeatures {
    pub supported: bool,
    /// Whole days for which a dead letter is kept.
    pub retention_days: u64,
}

/// Features of forks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayFeatures {
    pub supported: bool,
    pub modes: Vec<ForkMode>,
}

/// Features of telemetry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observability {
    pub otel: OtelFeatures,
}

/// Features of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtelFeatures {
    pub export_protocols: Vec<String>,
}
