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
    let not_ready = |why: &str| ApiError::new(ErrorCode::NotReady, why);
    if *app.stopping.borrow() {
        return Err(not_ready("the server is shutting down"));
    }
    if !app.engine.is_alive() {
        return Err(not_ready("the database no longer accepts changes; restart the server"));
    }
    match tokio::time::timeout(PING_TIME_MAX, app.engine.ping()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            return Err(not_ready("the database does not respond"));
        }
        Err(_) => return Err(not_ready("the database does not respond in time")),
    }
    Ok(Json(Health { status: HealthStatus::Ready }))
}
