//! `/healthz`: the process is alive. `/readyz`: it can answer, database included.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use holdpoint_api::ErrorCode;
use holdpoint_api::admin::{Health, HealthStatus};

use crate::app::App;
use crate::error::ApiError;

/// A proxy asks every few seconds and must not be kept waiting by a database that says nothing at all.
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
        return Err(not_ready("the database takes no changes any more; restart the server"));
    }
    match tokio::time::timeout(PING_TIME_MAX, app.engine.ping()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            return Err(not_ready("the database does not answer"));
        }
        Err(_) => return Err(not_ready("the database does not answer in time")),
    }
    Ok(Json(Health { status: HealthStatus::Ready }))
}
