//! The view of what waits for an answer: lists and counts.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::wire;
use crate::app::App;
use crate::auth::CanSeePending;
use crate::body::{Page, Params};
use crate::error::ApiError;

pub(crate) mod stream;
mod translate;

pub(crate) use translate::ORDERS;

pub(crate) async fn list(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    Params(page): Params<Page>,
    Params(asked): Params<wire::ListPending>,
) -> Result<Json<Value>, ApiError> {
    let now = app.engine.now();
    let filter = translate::filter(&caller, asked, page.cursor.as_deref(), now)?;
    let found = app.engine.pending_page(caller.tenant(), &filter, page.limit()?).await?;
    let shown: Vec<Value> = found.rows.iter().map(|row| translate::row(&app.links, row, now)).collect();
    let mut shown = json!({"interrupts": shown});
    if let Some(next) = found.next {
        shown["nextCursor"] = json!(translate::cursor(filter.order, &next));
    }
    Ok(Json(shown))
}

pub(crate) async fn counts(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    Params(asked): Params<wire::ListPending>,
) -> Result<Json<Value>, ApiError> {
    let filter = translate::filter(&caller, asked, None, app.engine.now())?;
    let counts = app.engine.pending_counts(caller.tenant(), &filter).await?;
    Ok(Json(translate::counts(&counts)))
}
