//! The routes for operators.

use axum::Router;
use axum::routing::get;
use holdpoint_api::admin::{Health, RotateSecrets, Secret, SecretList, Usage};
use holdpoint_api::keys::{CreateKey, KeyCreated, KeyList, RotateKey};

use super::{health, keys, metrics, secrets, usage};
use crate::app::App;
use crate::routes::Content::{Empty, Text};
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/v1/keys", "createKey", keys::create)
            .summary("Create an API key; only this response shows it")
            .body::<CreateKey>()
            .response::<KeyCreated>(201)
            .errors(&[409]),
        Route::get("/v1/keys", "listKeys", keys::list)
            .summary("List the keys of the tenant, without their secrets")
            .response::<KeyList>(200),
        Route::delete("/v1/keys/{keyId}", "revokeKey", keys::revoke)
            .summary("Revoke a key")
            .response_content(204, Empty),
        Route::post("/v1/keys/{keyId}:rotate", "rotateKey", keys::rotate)
            .summary(
                "Create the successor of a key, with its rights and its lineage; the old key expires after an overlap",
            )
            .optional_body::<RotateKey>()
            .response::<KeyCreated>(201)
            .errors(&[409]),
        Route::get("/v1/secrets", "listSecrets", secrets::list)
            .summary("List the secrets that sign links, without their values")
            .response::<SecretList>(200),
        Route::post("/v1/secrets:rotate", "rotateSecrets", secrets::rotate)
            .summary(
                "Sign links with a new secret; earlier links stay valid unless revokeOld is true",
            )
            .optional_body::<RotateSecrets>()
            .response::<Secret>(200),
        Route::get("/v1/usage", "getUsage", usage::show)
            .summary("Get the quotas of the tenant and their usage")
            .response::<Usage>(200),
        Route::get_public("/healthz", "isAlive", health::alive)
            .summary("Check that the process responds")
            .response::<Health>(200),
        Route::get_public("/readyz", "isReady", health::ready)
            .summary("Check that the database responds")
            .response::<Health>(200)
            .errors(&[503]),
        Route::get_public("/metrics", "metrics", metrics::main_address)
            .summary("Get metrics in Prometheus' text format; the operator may require a key or serve them at another address")
            .response_content(200, Text("text/plain"))
            .errors(&[401, 403, 404]),
    ]
}

/// Returns the router of the separate address for metrics.
pub(crate) fn for_metrics() -> Router<App> {
    Router::new()
        .route("/metrics", get(metrics::text))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
}
