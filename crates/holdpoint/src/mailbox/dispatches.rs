//! Handlers that show, cancel and requeue dispatches.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::EmptyBody;
use holdpoint_api::mailbox::{Dispatch, DispatchList, DispatchRun, ListDispatches, MailboxStats};
use holdpoint_core::mailbox::RunDispatch;
use holdpoint_core::{RunId, RunRef, TenantId};
use holdpoint_engine::{Error, Once};

use super::translate;
use crate::app::App;
use crate::auth::{Caller, CanCancelRuns, CanCreateRuns, CanReadRuns};
use crate::body::{InPath, OptionalBody, PageParams, Params};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

pub(crate) async fn list(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
    Params(page): Params<PageParams>,
    Params(filter): Params<ListDispatches>,
) -> Result<Json<DispatchList>, ApiError> {
    let statuses = translate::parse_statuses(filter.status.as_deref())?;
    let after = page.cursor.as_deref().map(translate::parse_cursor).transpose()?;
    let rows = usize::try_from(page.rows()?).unwrap_or(usize::MAX);
    let mailbox = app.engine.mailbox(caller.tenant());
    let thread = app.engine.dispatches().thread_of(caller.tenant(), &thread).await?;
    let mut found = mailbox.page(&thread, statuses.as_deref(), after, rows).await?;
    let more = page.truncate(&mut found)?;
    let next_cursor = found.last().filter(|_| more).map(|(at, _)| translate::cursor(at));
    let rows = found.into_iter().map(|(_, row)| row).collect();
    Ok(Json(DispatchList { dispatches: describe_all(&app, caller.tenant(), rows).await?, next_cursor }))
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(id): InPath<String>,
) -> Result<Json<Dispatch>, ApiError> {
    let row = find(&app, &caller, &id).await?;
    Ok(Json(describe_one(&app, &caller, row).await?))
}

pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(id): InPath<String>,
    KeyedBody(key, OptionalBody(_)): KeyedBody<OptionalBody<EmptyBody>>,
) -> Result<ApiResponse, ApiError> {
    let cancel = async |once: Option<&Once<_>>| match app
        .engine
        .dispatches()
        .cancel(caller.tenant(), &id, caller.principal(), once)
        .await?
    {
        Some(row) => Ok(row),
        None => Err(translate::not_cancelled(&find(&app, &caller, &id).await?)),
    };
    key.once(&app, caller.sender(), |row: &_| respond_with_row(StatusCode::OK, row), cancel).await
}

pub(crate) async fn requeue(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(id): InPath<String>,
    KeyedBody(key, OptionalBody(_)): KeyedBody<OptionalBody<EmptyBody>>,
) -> Result<ApiResponse, ApiError> {
    let requeue = async |once: Option<&Once<_>>| {
        translate::check_dead(&find(&app, &caller, &id).await?)?;
        Ok(app.engine.dispatches().requeue(caller.tenant(), &id, once).await?)
    };
    key.once(&app, caller.sender(), |row: &_| respond_with_row(StatusCode::CREATED, row), requeue).await
}

/// Describes the row as it was committed, without `run`: the receipt has no state of the run, which changes later.
fn respond_with_row(status: StatusCode, row: &RunDispatch) -> ApiResponse {
    ApiResponse::json(status, &translate::describe(row.clone()))
}

pub(crate) async fn stats(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
) -> Result<Json<MailboxStats>, ApiError> {
    let mailbox = app.engine.mailbox(caller.tenant());
    let counts = mailbox.count_by_status().await?;
    // The next wake-up depends on all tenants, so only a caller with tenants:manage may see it.
    let next = match caller.may("tenants:manage") {
        true => mailbox.next_wakeup(app.engine.now()).await?,
        false => None,
    };
    Ok(Json(translate::stats(counts, next)))
}

/// Returns a dispatch of the caller's tenant. A dispatch of another tenant is not found.
async fn find(app: &App, caller: &Caller, id: &str) -> Result<RunDispatch, ApiError> {
    let found = app.engine.mailbox(caller.tenant()).load_dispatch(id).await?;
    found.ok_or_else(|| ApiError::not_found("dispatch"))
}

async fn describe_one(app: &App, caller: &Caller, row: RunDispatch) -> Result<Dispatch, ApiError> {
    let run = find_run(app, caller.tenant(), &row.run_id).await?;
    Ok(Dispatch { row: translate::describe(row), run })
}

/// Describes dispatches. Each run is read once: most dispatches of a thread belong to few runs.
async fn describe_all(
    app: &App,
    tenant: &TenantId,
    rows: Vec<RunDispatch>,
) -> Result<Vec<Dispatch>, ApiError> {
    let mut runs = HashMap::new();
    let mut dispatches = Vec::with_capacity(rows.len());
    for row in rows {
        if !runs.contains_key(&row.run_id) {
            runs.insert(row.run_id.clone(), find_run(app, tenant, &row.run_id).await?);
        }
        let run = runs.get(&row.run_id).cloned().flatten();
        dispatches.push(Dispatch { row: translate::describe(row), run });
    }
    Ok(dispatches)
}

/// Returns the run of a dispatch, or None if the run is not in this database. An invalid id has no run, either.
async fn find_run(app: &App, tenant: &TenantId, id: &str) -> Result<Option<DispatchRun>, ApiError> {
    let Ok(run) = RunId::parse(id) else { return Ok(None) };
    match app.engine.runs().get(&RunRef { tenant: tenant.clone(), run }).await {
        Ok(run) => Ok(Some(translate::describe_run(&run))),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
