//! Secrets of signed links over HTTP: list and rotate. No response shows their values.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::admin::{RotateSecrets, Secret, SecretList};
use holdpoint_engine::{LinkSecret, OldLinks, Once};

use crate::app::App;
use crate::auth::CanManageTenants;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};
use crate::links::new_secret;

pub(crate) async fn list(
    State(app): State<App>,
    CanManageTenants(_): CanManageTenants,
) -> Result<Json<SecretList>, ApiError> {
    Ok(Json(SecretList { secrets: app.engine.secrets().list().await?.iter().map(describe).collect() }))
}

pub(crate) async fn rotate(
    State(app): State<App>,
    CanManageTenants(caller): CanManageTenants,
    KeyedBody(key, OptionalBody(body)): KeyedBody<OptionalBody<RotateSecrets>>,
) -> Result<ApiResponse, ApiError> {
    // Runs in a separate task, so that it completes if the client disconnects: a secret that is revoked in the store
    // must not stay valid in the cache.
    let rotating = tokio::spawn(async move {
        let old = if body.revoke_old == Some(true) { OldLinks::Revoke } else { OldLinks::Keep };
        let rotate = async |once: Option<&Once<_>>| add_secret(&app, old, once).await;
        let respond = |secret: &LinkSecret| ApiResponse::json(StatusCode::OK, &describe(secret));
        let rotated = key.once(&app, caller.sender(), respond, rotate).await;
        app.links.secrets.clear().await;
        rotated
    });
    rotating.await.map_err(ApiError::internal)?
}

async fn add_secret(
    app: &App,
    old: OldLinks,
    once: Option<&Once<LinkSecret>>,
) -> Result<LinkSecret, ApiError> {
    let secret = new_secret(app.engine.now())?;
    app.engine.secrets().rotate(&secret, old, once).await?;
    let revoke = old == OldLinks::Revoke;
    tracing::info!(kid = secret.kid, revoke, "links are now signed with a new secret");
    Ok(secret)
}

fn describe(secret: &LinkSecret) -> Secret {
    Secret {
        kid: secret.kid.clone(),
        created_at: secret.created_at.into(),
        retired_at: secret.retired_at.map(Into::into),
    }
}
