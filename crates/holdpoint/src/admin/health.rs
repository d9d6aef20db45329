//! `/healthz`: the process is alive. `/readyz`: the server accepts requests and its database responds.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use holdpoint_api::ErrorCode;
use holdpoint_api::admin::{Health, HealthStatus};

use crate::app::App;
use crate::error::ApiError;

/// Maximum time for the response of the database. Proxies poll every few seconds and must not wait for longer.
const PING_TIME_MAX: Duration = Duration::from_secs(3);

pub(crate) async fn alive() -> Json<Health> {
    Json(Health { status: HealthStatus::Ok })
}

pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Health>, ApiError> {
    check_ready(&app).await.map_err(|why| ApiError::new(ErrorCode::NotReady, why))?;
    Ok(Json(Health { status: HealthStatus::Ready }))
}

/// Returns the reason why the server is not ready.
async fn check_ready(app: &App) -> Result<(), &'static str> {
    if *app.stopping.borrow() {
        return Err("the server is shutting down");
    }
    if !app.engine.is_alive() {
        return Err("the database no longer accepts changes; restart the server");
    }
    match tokio::time::timeout(PING_TIME_MAX, app.engine.ping()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            Err("the database does not respond")
        }
        Err(_) => Err("the database does not respond in time"),
    }
}
