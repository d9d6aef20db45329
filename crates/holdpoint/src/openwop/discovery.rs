//! The discovery document. It names what this build does and nothing else: clients hold us to it. What is a matter of
//! routes is read from their table.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use holdpoint_core::webhook::RetryPolicy;
use holdpoint_core::{AUTH_REQUIRED, limits};
use holdpoint_engine::{Engine, WebhookSettings};
use serde_json::{Value, json};

use super::routes;
use super::snapshot::EVENT_LOG_SCHEMA;
use super::webhooks::{ALGORITHMS, policy};
use crate::app::App;
use crate::auth::TEST_KEY_PREFIX;

pub(crate) async fn document(State(app): State<App>) -> impl IntoResponse {
    let mut document = described(&app.fixtures, routes::has);
    if let Some(letters) = document.get_mut("deadLetter") {
        letters["retentionDays"] = days(app.engine.webhook_settings());
    }
    document["conversationPrimitive"] = json!(app.engine.has_conversations());
    if app.telemetry.is_some() {
        document["observability"] = json!({"otel": {"exportProtocols": ["http/json", "http/protobuf"]}});
    }
    ([(header::CACHE_CONTROL, "public, max-age=300")], Json(document))
}

/// `has` tells whether there is an operation of that name.
fn described(fixtures: &[String], has: fn(&str) -> bool) -> Value {
    let mut document = json!({
        "protocolVersion": "1.0",
        "implementation": {"name": "holdpoint", "version": env!("CARGO_PKG_VERSION"), "vendor": "holdpoint"},
        "supportedEnvelopes": ["clarification.request"],
        "schemaVersions": {"clarification.request": 1},
        "supportedTransports": ["rest"],
        "limits": {
            "clarificationRounds": 3, "schemaRounds": 2, "envelopesPerTurn": 5,
            "maxRequestBodyBytes": limits::REQUEST_BYTES_MAX,
            "maxNodeExecutions": limits::NODE_EXECUTIONS_MAX,
        },
        "fixtures": fixtures,
        "testing": {"testKeyPrefix": TEST_KEY_PREFIX, "mockProviders": ["stream-text"]},
        "configurable": {
            "recursionLimit": {"type": "integer", "minimum": 1},
            "runTimeoutMs": {"type": "integer", "minimum": 0},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "maxTokens": {"type": "integer", "minimum": 1},
            "escalationThreshold": {"type": "number", "minimum": 0, "maximum": 1},
            "mockProvider": {"type": "object", "description": "For test keys: {id, config}."},
        },
        "engineVersion": Engine::VERSION,
        "eventLogSchemaVersion": EVENT_LOG_SCHEMA,
        // Who holds no role that somebody gave them is let in nowhere that takes one.
        "authorization": {"supported": true, "failClosed": true},
        "debugBundle": {"supported": has("getDebugBundle")},
        "extensions": {"interrupts": interrupts(has)},
    });
    if has("createWebhook") {
        document["webhooks"] = webhooks(has);
        document["deadLetter"] = dead_letter(has);
    }
    if has("forkRun") {
        document["replay"] = json!({"supported": true, "modes": ["replay", "branch"]});
    }
    document
}

fn webhooks(has: fn(&str) -> bool) -> Value {
    json!({
        "supported": true, "signatureAlgorithms": ALGORITHMS, "durable": has("replayDelivery"),
        "retryPolicy": policy(&RetryPolicy::default()),
    })
}

fn dead_letter(has: fn(&str) -> bool) -> Value {
    json!({"supported": has("listDeadLetters"), "retentionDays": days(&WebhookSettings::default())})
}

/// Whole days for which dead letters are kept for certain.
fn days(settings: &WebhookSettings) -> Value {
    json!(settings.keep_dead_letters.as_secs() / (24 * 3600))
}

/// Which of the protocol's interrupt profiles hold here.
fn interrupts(has: fn(&str) -> bool) -> Value {
    let links = has("inspectByToken") && has("resolveByToken");
    let mut profiles = Vec::new();
    if has("resolveInterrupt") {
        profiles.extend(["openwop-interrupt-quorum", AUTH_REQUIRED]);
    }
    // Whoever sends an external event may have nothing but a link.
    if links {
        profiles.push("openwop-interrupt-external-event");
    }
    if has("cancelRun") {
        profiles.push("openwop-interrupt-cascade-cancel");
    }
    json!({"profiles": profiles, "signedCallbackTokens": links})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_route_is_not_told_of() {
        let fixtures = ["conformance-noop".to_owned()];
        let bare = described(&fixtures, |_| false);
        assert_eq!((bare.get("replay"), &bare["debugBundle"]["supported"]), (None, &json!(false)));
        assert_eq!(bare["fixtures"], json!(fixtures));
        let full = described(&[], |_| true);
        assert_eq!(full["replay"]["modes"], json!(["replay", "branch"]));
        assert_eq!(full["debugBundle"]["supported"], true);
        assert_eq!((bare.get("webhooks"), bare.get("deadLetter")), (None, None));
        assert_eq!(full["webhooks"]["signatureAlgorithms"], json!(["v1"]));
        assert_eq!(full["deadLetter"], json!({"supported": true, "retentionDays": 30}));
        let interrupts = |document: &Value| document["extensions"]["interrupts"].clone();
        assert_eq!(interrupts(&bare), json!({"profiles": [], "signedCallbackTokens": false}));
        let named = ["quorum", "auth-required", "external-event", "cascade-cancel"];
        let named = named.map(|name| format!("openwop-interrupt-{name}"));
        assert_eq!(interrupts(&full), json!({"profiles": named, "signedCallbackTokens": true}));
        let without_links = described(&[], |id| id != "resolveByToken");
        assert_eq!(interrupts(&without_links)["signedCallbackTokens"], false);
    }
}
