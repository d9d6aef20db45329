//! The discovery document. It lists only features that this build has, because clients rely on it. Features with routes
//! are derived from the route table.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use holdpoint_api::basics::Supported;
use holdpoint_api::discovery::{
    AuthorizationFeatures, DeadLetterFeatures, Discovery, Extensions, Implementation, InterruptFeatures,
    Observability, OtelFeatures, ReplayFeatures, TestingFeatures, TriggerBridgeFeatures, WebhookFeatures,
};
use holdpoint_core::webhook::{RetryPolicy, SubscriptionState};
use holdpoint_core::{AUTH_REQUIRED, ForkMode, limits};
use holdpoint_engine::{Engine, WebhookSettings};
use schemars::json_schema;
use serde_json::Value;

use super::routes;
use super::snapshot::EVENT_LOG_SCHEMA;
use super::webhooks::{ALGORITHMS, policy};
use crate::app::App;
use crate::auth::TEST_KEY_PREFIX;

pub(crate) async fn document(State(app): State<App>) -> impl IntoResponse {
    let mut document = describe(&app.fixtures, routes::has_operation);
    if let Some(letters) = &mut document.dead_letter {
        letters.retention_days = days(app.engine.webhooks().settings());
    }
    document.conversation_primitive = app.engine.workflows().has_conversations();
    document.observability = app.telemetry.is_some().then(|| Observability {
        otel: OtelFeatures { export_protocols: texts(&["http/json", "http/protobuf"]) },
    });
    ([(header::CACHE_CONTROL, "public, max-age=300")], Json(document))
}

/// Returns the name and version of this server.
pub(super) fn implementation() -> Implementation {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Implementation { name: "holdpoint".to_owned(), version, vendor: "holdpoint".to_owned() }
}

/// Describes the features of a server. `has` returns whether an operation exists.
fn describe(fixtures: &[String], has: fn(&str) -> bool) -> Discovery {
    Discovery {
        protocol_version: "1.0".to_owned(),
        implementation: implementation(),
        supported_envelopes: texts(&["clarification.request"]),
        schema_versions: numbers(&[("clarification.request", 1)]),
        supported_transports: texts(&["rest"]),
        limits: numbers(&[
            ("clarificationRounds", 3),
            ("schemaRounds", 2),
            ("envelopesPerTurn", 5),
            ("maxRequestBodyBytes", limits::REQUEST_BYTES_MAX as u64),
            ("maxNodeExecutions", limits::NODE_EXECUTIONS_MAX),
        ]),
        fixtures: fixtures.to_vec(),
        testing: TestingFeatures {
            test_key_prefix: TEST_KEY_PREFIX.to_owned(),
            mock_providers: texts(&["stream-text"]),
        },
        configurable: configurable(),
        engine_version: Engine::VERSION,
        event_log_schema_version: EVENT_LOG_SCHEMA,
        authorization: AuthorizationFeatures { supported: true, fail_closed: true },
        debug_bundle: Supported { supported: has("getDebugBundle") },
        extensions: Extensions { interrupts: interrupts(has) },
        conversation_primitive: false,
        webhooks: has("createWebhook").then(|| webhooks(has)),
        trigger_bridge: has("createTrigger").then(trigger_bridge),
        dead_letter: has("createWebhook").then(|| DeadLetterFeatures {
            supported: has("listDeadLetters"),
            retention_days: days(&WebhookSettings::default()),
        }),
        replay: has("forkRun")
            .then(|| ReplayFeatures { supported: true, modes: vec![ForkMode::Replay, ForkMode::Branch] }),
        observability: None,
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn numbers(numbers: &[(&str, u64)]) -> BTreeMap<String, u64> {
    numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

/// Returns the schemas of the run options that the engine supports.
fn configurable() -> BTreeMap<String, Value> {
    let options = [
        ("recursionLimit", json_schema!({"type": "integer", "minimum": 1})),
        ("runTimeoutMs", json_schema!({"type": "integer", "minimum": 0})),
        ("temperature", json_schema!({"type": "number", "minimum": 0, "maximum": 2})),
        ("maxTokens", json_schema!({"type": "integer", "minimum": 1})),
        ("escalationThreshold", json_schema!({"type": "number", "minimum": 0, "maximum": 1})),
        ("mockProvider", json_schema!({"type": "object", "description": "For test keys: {id, config}."})),
    ];
    options.into_iter().map(|(name, schema)| (name.to_owned(), schema.to_value())).collect()
}

fn webhooks(has: fn(&str) -> bool) -> WebhookFeatures {
    WebhookFeatures {
        supported: true,
        signature_algorithms: texts(&ALGORITHMS),
        durable: has("replayDelivery"),
        retry_policy: policy(&RetryPolicy::default()),
    }
}

/// Returns the features of triggers. The protocol has no name for the source `event`.
fn trigger_bridge() -> TriggerBridgeFeatures {
    TriggerBridgeFeatures {
        supported: true,
        subscription_states: vec![
            SubscriptionState::Active,
            SubscriptionState::Paused,
            SubscriptionState::Failed,
        ],
        dedup: true,
        retry_policy: policy(&RetryPolicy::default()),
        sources: texts(&["schedule"]),
    }
}

/// Returns the number of whole days for which dead letters are kept.
fn days(settings: &WebhookSettings) -> u64 {
    settings.keep_dead_letters.as_secs() / (24 * 3600)
}

/// Returns the interrupt profiles of the protocol that the server supports.
fn interrupts(has: fn(&str) -> bool) -> InterruptFeatures {
    let links = has("inspectByToken") && has("resolveByToken");
    let mut profiles = Vec::new();
    if has("resolveInterrupt") {
        profiles.extend(["openwop-interrupt-quorum", AUTH_REQUIRED]);
    }
    // The sender of an external event may have only a link.
    if links {
        profiles.push("openwop-interrupt-external-event");
    }
    if has("cancelRun") {
        profiles.push("openwop-interrupt-cascade-cancel");
    }
    InterruptFeatures { profiles: texts(&profiles), signed_callback_tokens: links }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn describe(fixtures: &[String], has: fn(&str) -> bool) -> Value {
        json!(super::describe(fixtures, has))
    }

    #[test]
    fn features_without_a_route_are_not_listed() {
        let fixtures = ["conformance-noop".to_owned()];
        let bare = describe(&fixtures, |_| false);
        assert_eq!((bare.get("replay"), &bare["debugBundle"]["supported"]), (None, &json!(false)));
        assert_eq!(bare["fixtures"], json!(fixtures));
        let full = describe(&[], |_| true);
        assert_eq!(full["replay"]["modes"], json!(["replay", "branch"]));
        assert_eq!(full["debugBundle"]["supported"], true);
        assert_eq!((bare.get("webhooks"), bare.get("deadLetter")), (None, None));
        assert_eq!(bare.get("triggerBridge"), None);
        assert_eq!(full["triggerBridge"]["subscriptionStates"], json!(["active", "paused", "failed"]));
        assert_eq!(full["triggerBridge"]["sources"], json!(["schedule"]));
        assert_eq!(full["webhooks"]["signatureAlgorithms"], json!(["v1"]));
        assert_eq!(full["deadLetter"], json!({"supported": true, "retentionDays": 30}));
        let interrupts = |document: &Value| document["extensions"]["interrupts"].clone();
        assert_eq!(interrupts(&bare), json!({"profiles": [], "signedCallbackTokens": false}));
        let named = ["quorum", "auth-required", "external-event", "cascade-cancel"];
        let named = named.map(|name| format!("openwop-interrupt-{name}"));
        assert_eq!(interrupts(&full), json!({"profiles": named, "signedCallbackTokens": true}));
        let without_links = describe(&[], |id| id != "resolveByToken");
        assert_eq!(interrupts(&without_links)["signedCallbackTokens"], false);
    }
}
