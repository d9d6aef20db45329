//! The routes for operators.

use axum::Router;
use axum::routing::get;
use holdpoint_api::admin::{Health, RotateSecrets, Secret, SecretList, Usage};
use holdpoint_api::keys::{CreateKey, KeyCreated, KeyList, RotateKey};

use super::{health, keys, metrics, secrets, usage};
use crate::app::App;
use crate::routes::Content::{Nothing, Text};
use crate::routes::Route;

pub(crate) fn all() -> Vec<Route> {
    vec![
        Route::post("/v1/keys", "createKey", keys::create)
            .says("Create an API key; it is shown once")
            .body::<CreateKey>()
            .response::<KeyCreated>(201)
            .fails(&[409]),
        Route::get("/v1/keys", "listKeys", keys::list)
            .says("List the keys of the tenant, without their secrets")
            .response::<KeyList>(200),
        Route::delete("/v1/keys/{keyId}", "revokeKey", keys::revoke)
            .says("Revoke a key")
            .answers(204, Nothing),
        Route::post("/v1/keys/{keyId}:rotate", "rotateKey", keys::rotate)
            .says(
                "Create the successor of a key, with its rights and its lineage; the key ends after an overlap",
            )
            .optional_body::<RotateKey>()
            .response::<KeyCreated>(201)
            .fails(&[409]),
        Route::get("/v1/secrets", "listSecrets", secrets::list)
            .says("List the secrets that sign links, without their values")
            .response::<SecretList>(200),
        Route::post("/v1/secrets:rotate", "rotateSecrets", secrets::rotate)
            .says(
                "Sign links with a new secret; links that were signed before stay good unless told otherwise",
            )
            .optional_body::<RotateSecrets>()
            .response::<Secret>(200),
        Route::get("/v1/usage", "getUsage", usage::show)
            .says("Get the quotas of the tenant and their usage")
            .response::<Usage>(200),
        Route::get_public("/healthz", "isAlive", health::alive)
            .says("Check that the process responds")
            .response::<Health>(200),
        Route::get_public("/readyz", "isReady", health::ready)
            .says("Check that the database responds")
            .response::<Health>(200)
            .fails(&[503]),
        Route::get_public("/metrics", "metrics", metrics::beside)
            .says("Get metrics in Prometheus' text format; the operator may require a key or serve them at another address")
            .answers(200, Text("text/plain"))
            .fails(&[401, 403, 404]),
    ]
}

/// The paths of the address for metrics.
pub(crate) fn for_metrics() -> Router<App> {
    Router::new()
        .route("/metrics", get(metrics::text))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
}
