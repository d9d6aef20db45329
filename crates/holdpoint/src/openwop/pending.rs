//! Handlers that list and count pending interrupts.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdpoint_api::pending::{ListPending, PendingCounts, PendingInterrupts};

use crate::app::App;
use crate::auth::CanSeePending;
use crate::body::{PageParams, Params};
use crate::error::ApiError;

pub(crate) mod stream;
mod translate;

pub(crate) async fn list(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    Params(page): Params<PageParams>,
    Params(query): Params<ListPending>,
) -> Result<Response, ApiError> {
    let now = app.engine.now();
    let filter = translate::filter(&caller, query, page.cursor.as_deref(), now)?;
    let found = app.engine.interrupts().page(caller.tenant(), &filter, page.limit()?).await?;
    let pending = PendingInterrupts {
        interrupts: found.rows.iter().map(|row| translate::row(&app.links, row, now)).collect(),
        next_cursor: found.next.map(|next| translate::cursor(filter.order, &next)),
    };
    Ok(Json(pending).into_response())
}

pub(crate) async fn counts(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    Params(query): Params<ListPending>,
) -> Result<Json<PendingCounts>, ApiError> {
    let filter = translate::filter(&caller, query, None, app.engine.now())?;
    let counts = app.engine.interrupts().counts(caller.tenant(), &filter).await?;
    Ok(Json(translate::counts(counts)))
}
