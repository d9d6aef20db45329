//! The discovery document of OpenWOP: the features of this server.

use std::collections::BTreeMap;

use holdpoint_ids::{ForkMode, SubscriptionState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::basics::Supported;
use crate::webhooks::RetryPolicy;

/// The features of this server. A feature that is not listed does not exist.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    /// The version of OpenWOP.
    #[schemars(regex(pattern = r"^1\."))]
    pub protocol_version: String,
    /// The name and version of the server.
    pub implementation: Implementation,
    /// The supported types of envelopes.
    pub supported_envelopes: Vec<String>,
    /// The versions of the envelope schemas, by type.
    pub schema_versions: BTreeMap<String, u64>,
    /// The supported transports.
    pub supported_transports: Vec<String>,
    /// The limits, by name.
    #[schemars(extend("required" = ["clarificationRounds", "schemaRounds", "envelopesPerTurn"]))]
    pub limits: BTreeMap<String, u64>,
    /// The workflows for conformance tests.
    pub fixtures: Vec<String>,
    /// Features for tests.
    pub testing: TestingFeatures,
    /// The options of a run, by name, with a JSON Schema each.
    pub configurable: BTreeMap<String, Value>,
    /// The version of the engine.
    pub engine_version: u64,
    /// The version of the schema of the event log.
    pub event_log_schema_version: u32,
    /// Features of roles at gates.
    pub authorization: AuthorizationFeatures,
    /// True if debug bundles are supported.
    pub debug_bundle: Supported,
    /// Extensions of the protocol.
    pub extensions: Extensions,
    /// True if the conversation primitive is supported.
    pub conversation_primitive: bool,
    /// Features of webhooks.
    pub webhooks: Option<WebhookFeatures>,
    /// Features of triggers.
    pub trigger_bridge: Option<TriggerBridgeFeatures>,
    /// Features of dead letters.
    pub dead_letter: Option<DeadLetterFeatures>,
    /// Features of forks.
    pub replay: Option<ReplayFeatures>,
    /// Features of telemetry. Absent if the server exports none.
    pub observability: Option<Observability>,
}

/// The name and version of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Implementation {
    /// The name of the server.
    pub name: String,
    /// The version of the server.
    pub version: String,
    /// The vendor of the server.
    pub vendor: String,
}

/// Features for tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestingFeatures {
    /// The prefix of test keys.
    pub test_key_prefix: String,
    /// The available mock providers.
    pub mock_providers: Vec<String>,
}

/// Features of roles at gates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationFeatures {
    /// True if gates can require roles.
    pub supported: bool,
    /// True if a gate that requires a role rejects a principal without any role.
    pub fail_closed: bool,
}

/// Extensions of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Extensions {
    /// Features of interrupts.
    pub interrupts: InterruptFeatures,
}

/// Features of interrupts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptFeatures {
    /// The supported interrupt profiles.
    pub profiles: Vec<String>,
    /// True if signed links are supported.
    pub signed_callback_tokens: bool,
}

/// Features of webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookFeatures {
    /// True if webhooks are supported.
    pub supported: bool,
    /// The algorithms of signatures.
    pub signature_algorithms: Vec<String>,
    /// True if durable deliveries are supported.
    pub durable: bool,
    /// The retry policy of a webhook that has none of its own.
    pub retry_policy: RetryPolicy,
}

/// Features of triggers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriggerBridgeFeatures {
    /// True if triggers are supported.
    pub supported: bool,
    /// The states of triggers.
    pub subscription_states: Vec<SubscriptionState>,
    /// True if a repeated occurrence starts no second run.
    pub dedup: bool,
    /// The retry policy of a trigger that has none of its own.
    pub retry_policy: RetryPolicy,
    /// The sources of triggers that the protocol names. Events of `POST /v1/events` are an additional source.
    pub sources: Vec<String>,
}

/// Features of dead letters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterFeatures {
    /// True if dead letters can be listed.
    pub supported: bool,
    /// Whole days for which a dead letter is kept.
    pub retention_days: u64,
}

/// Features of forks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayFeatures {
    /// True if forks are supported.
    pub supported: bool,
    /// The supported modes of forks.
    pub modes: Vec<ForkMode>,
}

/// Features of telemetry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observability {
    /// Features of OpenTelemetry.
    pub otel: OtelFeatures,
}

/// Features of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtelFeatures {
    /// The protocols of the export.
    pub export_protocols: Vec<String>,
}
