//! `/healthz`: the process is alive. `/readyz`: it can answer, database included.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;

pub(crate) async fn alive() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let not_ready = |why: &str| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", why);
    if *app.stopping.borrow() {
        return Err(not_ready("the server is shutting down"));
    }
    if !app.engine.is_alive() {
        return Err(not_ready("the database takes no changes any more; restart the server"));
    }
    app.engine.key_count().await.map_err(|_| not_ready("the database does not answer"))?;
    Ok(Json(json!({"status": "ready"})))
}
