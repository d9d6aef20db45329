//! The discovery document. It names what this build does and nothing else: clients hold us to it.

use axum::Json;
use axum::http::header;
use axum::response::IntoResponse;
use holdpoint_core::limits;
use serde_json::json;

pub(crate) async fn document() -> impl IntoResponse {
    let document = json!({
        "protocolVersion": "1.0",
        "implementation": {"name": "holdpoint", "version": env!("CARGO_PKG_VERSION"), "vendor": "holdpoint"},
        "supportedEnvelopes": ["clarification.request"],
        "schemaVersions": {"clarification.request": 1},
        "supportedTransports": ["rest"],
        "limits": {
            "clarificationRounds": 3, "schemaRounds": 2, "envelopesPerTurn": 5,
            "maxRequestBodyBytes": limits::REQUEST_BYTES_MAX,
        },
        "conversationPrimitive": false,
        "debugBundle": {"supported": false},
        "extensions": {"interrupts": {"profiles": [], "signedCallbackTokens": false}},
    });
    ([(header::CACHE_CONTROL, "public, max-age=300")], Json(document))
}
