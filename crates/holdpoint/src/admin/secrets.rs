//! Secrets of signed links over HTTP: which there are, and a new one. They themselves are shown to nobody.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::admin::{RotateSecrets, Secret, SecretList};
use holdpoint_engine::{LinkSecret, Once};

use crate::app::App;
use crate::auth::CanManageTenants;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, Keyed};
use crate::links::fresh;

pub(crate) async fn list(
    State(app): State<App>,
    CanManageTenants(_): CanManageTenants,
) -> Result<Json<SecretList>, ApiError> {
    Ok(Json(SecretList { secrets: app.engine.secrets().await?.iter().map(describe).collect() }))
}

pub(crate) async fn rotate(
    State(app): State<App>,
    CanManageTenants(caller): CanManageTenants,
    Keyed(key, OptionalBody(body)): Keyed<OptionalBody<RotateSecrets>>,
) -> Result<ApiResponse, ApiError> {
    // Goes on when the caller goes away: a secret that is revoked on disk must not stay valid in memory.
    let rotating = tokio::spawn(async move {
        let revoke = body.revoke_old.unwrap_or(false);
        let rotate = async |once: Option<&Once<LinkSecret>>| {
            let secret = fresh(app.engine.now())?;
            app.engine.rotate_secrets(&secret, revoke, once).await?;
            tracing::info!(kid = secret.kid, revoke, "links are signed with another secret");
            Ok(secret)
        };
        let respond = |secret: &LinkSecret| ApiResponse::json(StatusCode::OK, &describe(secret));
        let rotated = key.once(&app, caller.sender(), respond, rotate).await;
        app.links.ring.forget().await;
        rotated
    });
    rotating.await.map_err(ApiError::internal)?
}

fn describe(secret: &LinkSecret) -> Secret {
    Secret {
        kid: secret.kid.clone(),
        created_at: secret.created_at.into(),
        retired_at: secret.retired_at.map(Into::into),
    }
}
