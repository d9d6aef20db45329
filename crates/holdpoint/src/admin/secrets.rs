//! Secrets of signed links over HTTP: which there are, and a new one. They themselves are shown to nobody.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::admin::{RotateSecrets, Secret, SecretList};
use holdpoint_engine::{Done, Engine, LinkSecret};

use crate::app::App;
use crate::auth::CanManageTenants;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::idempotency::{Answer, Did, Sent};
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
    Sent(sending, OptionalBody(body)): Sent<OptionalBody<RotateSecrets>>,
) -> Result<Answer, ApiError> {
    // Goes on when the caller goes away: a secret that is revoked on disk must not stay valid in memory.
    let rotating = tokio::spawn(async move {
        let revoke = body.revoke_old.unwrap_or(false);
        let rotate = async |engine: Engine| {
            let secret = fresh(engine.now())?;
            engine.rotate_secrets(&secret, revoke).await?;
            tracing::info!(kid = secret.kid, revoke, "links are signed with another secret");
            Ok(Did::SecretsRotated(Box::new(secret)))
        };
        let rotated = sending.carry_out(&app, &caller, rotated, rotate).await;
        app.links.ring.forget().await;
        rotated
    });
    rotating.await.map_err(ApiError::internal)?
}

fn rotated(done: Done<'_>) -> Answer {
    let Done::SecretsRotated(secret) = done else { return Answer::nothing() };
    Answer::json(StatusCode::OK, &describe(secret))
}

fn describe(secret: &LinkSecret) -> Secret {
    Secret {
        kid: secret.kid.clone(),
        created_at: secret.created_at.into(),
        retired_at: secret.retired_at.map(Into::into),
    }
}
