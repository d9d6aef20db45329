//! Handlers that create holds, wait for them and cancel them.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::holds::{CreateHold, Hold, ShowHold, WAIT_SECONDS_MAX};
use holdpoint_core::{Run, RunRef, StartRequest, Transport, check_new_entry};
use holdpoint_engine::{Approvers, Holds, Once};
use tokio::time::Instant;

use super::translate::{describe, is_waiting, parse_request};
use crate::app::App;
use crate::auth::{Caller, CanCancelRuns, CanCreateRuns, CanReadRuns};
use crate::body::{IgnoredBody, InPath, JsonBody, Params};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};
use crate::links::Links;
use crate::streams::StreamPermit;

pub(crate) async fn create(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<CreateHold>>,
) -> Result<ApiResponse, ApiError> {
    let request = parse_request(&body)?;
    let start = StartRequest { tags: body.tags.unwrap_or_default(), ..caller.start(Transport::Rest) };
    app.engine.holds().prepare(caller.tenant()).await?;
    let unknown = find_unknown_approvers(&app, &caller, &body.approvers.unwrap_or_default()).await?;
    let begin =
        async |once: Option<&Once<_>>| Ok(app.engine.holds().create(&request, start, once.cloned()).await?);
    let shown_by = app.clone();
    key.once(&app, caller.sender(), move |run: &Run| respond_created(&shown_by.links, run, &unknown), begin)
        .await
}

/// Returns the approvers that no key of the tenant matches. Rejects names that no key can have.
async fn find_unknown_approvers(
    app: &App,
    caller: &Caller,
    named: &[String],
) -> Result<Vec<String>, ApiError> {
    let unknown = app.engine.approvers().find_unknown(caller.tenant(), named).await?;
    for name in &unknown {
        check_new_entry(name).map_err(|bad| ApiError::invalid("approvers", bad))?;
    }
    Ok(unknown)
}

/// Returns the response with a new hold, with a warning for each approver that no key of the tenant matches.
fn respond_created(links: &Links, run: &Run, unknown: &[String]) -> ApiResponse {
    let mut hold = describe(links, run);
    if let Some(hold) = hold.as_mut().filter(|_| !unknown.is_empty()) {
        hold.warnings = Some(unknown.iter().map(|name| Approvers::describe_unknown(name)).collect());
    }
    ApiResponse::json(StatusCode::CREATED, &hold)
}

/// Returns a hold. With `wait`, returns it when it no longer waits, or after that time.
pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(hold): InPath<String>,
    Params(asked): Params<ShowHold>,
) -> Result<Json<Hold>, ApiError> {
    let seconds = asked.wait.unwrap_or_default();
    if seconds > WAIT_SECONDS_MAX {
        return Err(ApiError::invalid("wait", format!("must be 0 to {WAIT_SECONDS_MAX}")));
    }
    let of = parse_hold(&caller, &hold)?;
    let wait = wait_until_settled(&app, &of, Instant::now() + Duration::from_secs(seconds));
    let StreamPermit { guard, slot: _slot } = caller.open_stream(&app)?;
    let run = guard.during(wait).await?;
    describe(&app.links, &run).map(Json).ok_or_else(no_hold)
}

/// Returns the reference of the run of a hold. An invalid id gets the error of an unknown hold.
fn parse_hold(caller: &Caller, hold: &str) -> Result<RunRef, ApiError> {
    caller.run(hold).map_err(|_| no_hold())
}

fn no_hold() -> ApiError {
    ApiError::not_found("hold")
}

async fn load_hold(app: &App, of: &RunRef) -> Result<Arc<Run>, ApiError> {
    let run = match app.engine.runs().get(of).await {
        Err(holdpoint_engine::Error::NotFound(_)) => return Err(no_hold()),
        other => other?,
    };
    if Holds::interrupt(&run).is_some() { Ok(run) } else { Err(no_hold()) }
}

async fn wait_until_settled(app: &App, of: &RunRef, until: Instant) -> Result<Arc<Run>, ApiError> {
    let mut news = app.engine.events().subscribe(of);
    let mut stopping = app.stopping.clone();
    loop {
        let run = load_hold(app, of).await?;
        let waits = Holds::interrupt(&run).is_some_and(|held| is_waiting(&run, held));
        if !waits || Instant::now() >= until || *stopping.borrow() {
            return Ok(run);
        }
        tokio::select! {
            () = news.changed() => {}
            () = tokio::time::sleep_until(until) => {}
            _ = stopping.changed() => {}
        }
    }
}

pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(hold): InPath<String>,
    KeyedBody(key, IgnoredBody): KeyedBody<IgnoredBody>,
) -> Result<ApiResponse, ApiError> {
    let of = parse_hold(&caller, &hold)?;
    let cancel = async |once: Option<&Once<_>>| {
        load_hold(&app, &of).await?;
        let reason = Some("the hold was cancelled".to_owned());
        Ok(app.engine.runs().cancel_once(&of, reason, caller.principal(), once).await?)
    };
    let shown_by = app.clone();
    let respond = move |run: &Run| ApiResponse::json(StatusCode::OK, &describe(&shown_by.links, run));
    key.once(&app, caller.sender(), respond, cancel).await
}
