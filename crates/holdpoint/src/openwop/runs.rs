//! Handlers that create, show and list runs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdpoint_api::runs::{
    CALLBACK_SECRET_CHARS_MAX, CALLBACK_SECRET_CHARS_MIN, CreateRun, ListRuns, RunCreated, RunList,
    RunSummary,
};
use holdpoint_core::{HoldStatus, Run, RunId, RunRef, StartRequest, Status, WorkflowId};
use holdpoint_engine::{Error, Holds, Once, RunFilter, StartOptions};

use super::start_headers::{StartHeaders, check_configurable};
use super::{links, snapshot, translate};
use crate::app::App;
use crate::auth::{Caller, CanCreateRuns, CanReadRuns};
use crate::body::{InPath, JsonBody, PageParams, Params};
use crate::dispatch_options::{self, DispatchTarget};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};
use crate::instants::parse_instant;
use crate::links::NewLink;

pub(crate) async fn create(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    options: StartHeaders,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<CreateRun>>,
) -> Result<ApiResponse, ApiError> {
    let workflow = WorkflowId::parse(&body.workflow_id).map_err(|_| unknown_workflow())?;
    let exclusive = check_request(&app, &caller, &options, &body)?;
    let (start, made_secret) = draft_start(&app, &caller, options, body)?;
    let begin = async |once: Option<&Once<_>>| {
        let options = StartOptions { exclusive, once: once.cloned(), ..StartOptions::default() };
        let started = app.engine.runs().create_with(&workflow, start, options).await;
        Ok((started.map_err(explain_failure)?, made_secret))
    };
    key.once_with_secret(&app, caller.sender(), create_response, begin).await
}

/// The message does not contain the id: a caller may have sent a secret by mistake.
fn unknown_workflow() -> ApiError {
    ApiError::invalid("workflowId", "no such workflow in this tenant")
}

/// Returns the error for a run that was not started.
fn explain_failure(error: Error) -> ApiError {
    if let Error::NotFound(_) = error { unknown_workflow() } else { error.into() }
}

/// Checks the options of a start. Returns whether the run must be the only one of its scope.
fn check_request(
    app: &App,
    caller: &Caller,
    options: &StartHeaders,
    body: &CreateRun,
) -> Result<bool, ApiError> {
    options.check_test_options(caller)?;
    let exclusive = options.is_exclusive()?;
    if exclusive && body.scope_id.is_none() {
        return Err(ApiError::invalid("scopeId", "is required with X-Dedup: enforce"));
    }
    if let Some(configurable) = &body.configurable {
        check_configurable(caller, &configurable.0)?;
    }
    if let Some(url) = &body.callback_url {
        let refused = |refused| translate::refused_url("callbackUrl", &refused);
        app.outgoing.check_url(url).map_err(refused)?;
    }
    Ok(exclusive)
}

/// Returns the start of a run, and its callback secret if the caller did not choose one.
fn draft_start(
    app: &App,
    caller: &Caller,
    options: StartHeaders,
    body: CreateRun,
) -> Result<(StartRequest, Option<String>), ApiError> {
    let given = check_callback_secret(&body)?;
    let dispatch = dispatch_options::check_options(
        caller,
        body.dispatch.clone(),
        DispatchTarget::NewRun,
        app.engine.now(),
    )?;
    let mut start = StartRequest { dispatch, ..translate::start(caller, body)? };
    (start.trace, start.trace_state) = (options.sent.traceparent, options.sent.tracestate);
    if start.callback_url.is_none() {
        return Ok((start, None));
    }
    let (is_given, (sealed, secret)) = (given.is_some(), app.engine.webhooks().seal_callback_secret(given)?);
    start.callback_secret = Some(sealed);
    Ok((start, (!is_given).then_some(secret)))
}

/// Checks the callback secret that the caller chose.
fn check_callback_secret(body: &CreateRun) -> Result<Option<String>, ApiError> {
    let Some(secret) = &body.callback_secret else { return Ok(None) };
    if body.callback_url.is_none() {
        return Err(ApiError::invalid("callbackSecret", "requires callbackUrl"));
    }
    let (min, max) = (CALLBACK_SECRET_CHARS_MIN, CALLBACK_SECRET_CHARS_MAX);
    if !(min..=max).contains(&secret.chars().count()) {
        return Err(ApiError::invalid("callbackSecret", format!("must be {min} to {max} characters")));
    }
    Ok(Some(secret.clone()))
}

fn create_response(run: &Run, callback_secret: Option<String>) -> ApiResponse {
    let status_url = format!("/v1/runs/{}", run.id);
    let created = RunCreated {
        run_id: run.id.clone(),
        status: run.status(),
        events_url: format!("{status_url}/events"),
        status_url,
        callback_secret,
    };
    ApiResponse::json(StatusCode::CREATED, &created)
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
) -> Result<Response, ApiError> {
    let of = caller.run(&run)?;
    let run = app.engine.runs().get(&of).await?;
    let mut shown = snapshot::describe(&run);
    if caller.may("approvals:respond")
        && let Some(link) = mint_link(&app, &caller, &of, &run).await
    {
        snapshot::add_link(&mut shown, link);
    }
    Ok(Json(shown).into_response())
}

/// Creates the link of a snapshot. The approver must see the run even without a link.
async fn mint_link(app: &App, caller: &Caller, of: &RunRef, run: &Run) -> Option<NewLink> {
    links::mint_for_snapshot(app, caller, of, run).await.unwrap_or_else(|error| {
        // The failure was logged where it occurred.
        let status = error.status().as_u16();
        tracing::warn!(status, run = %of.run, "cannot create a link; the run is shown without one");
        None
    })
}

fn describe_summary(run: &holdpoint_engine::RunSummary) -> RunSummary {
    RunSummary {
        run_id: run.run.clone(),
        workflow_id: run.workflow.clone(),
        status: run.status,
        created_at: run.created_at.into(),
        updated_at: run.updated_at.into(),
        scope_id: run.scope.clone(),
        parent_run_id: run.parent.clone(),
        error_code: run.error_code.clone(),
        title: None,
        outcome: run.timed_out.then_some(HoldStatus::TimedOut),
    }
}

/// Adds the titles and outcomes of holds. The run of a hold completes even if the hold is rejected or times out.
async fn describe_holds(app: &App, caller: &Caller, runs: &mut [RunSummary]) -> Result<(), ApiError> {
    let holds = runs.iter_mut().filter(|run| run.workflow_id.as_str() == Holds::WORKFLOW);
    let (of, shown): (Vec<RunRef>, Vec<&mut RunSummary>) =
        holds.map(|run| (RunRef { tenant: caller.tenant().clone(), run: run.run_id.clone() }, run)).unzip();
    for (run, shown) in app.engine.runs().get_each(&of).await?.iter().zip(shown) {
        let Some(held) = Holds::interrupt(run) else { continue };
        shown.title = Some(held.title().to_owned());
        if run.status() == Status::Completed {
            shown.outcome = Some(Holds::status(run, held));
        }
    }
    Ok(())
}

pub(crate) async fn list(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    Params(page): Params<PageParams>,
    Params(filter): Params<ListRuns>,
) -> Result<Json<RunList>, ApiError> {
    let mut found = app.engine.runs().list(caller.tenant(), parse_filter(filter, &page)?).await?;
    let more = page.truncate(&mut found)?;
    let mut runs: Vec<RunSummary> = found.iter().map(describe_summary).collect();
    describe_holds(&app, &caller, &mut runs).await?;
    let last = runs.last().filter(|_| more);
    Ok(Json(RunList { next_cursor: last.map(|last| format!("{BEFORE}{}", last.run_id)), runs }))
}

fn parse_filter(filter: ListRuns, page: &PageParams) -> Result<RunFilter, ApiError> {
    if let Some(status) = &filter.status
        && Status::parse(status).is_none()
    {
        let known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        return Err(ApiError::invalid("status", format!("must be one of {}", known.join(", "))));
    }
    Ok(RunFilter {
        status: filter.status,
        workflow: filter.workflow_id,
        scope: filter.scope_id,
        parent: filter.parent_run_id,
        tag: filter.tag,
        created_from: parse_instant("createdAfter", filter.created_after.as_deref())?,
        created_to: parse_instant("createdBefore", filter.created_before.as_deref())?,
        before: page.cursor.as_deref().map(parse_cursor).transpose()?,
        limit: page.rows()?,
    })
}

/// The prefix of a cursor. The id of the last run of the page follows.
const BEFORE: &str = "before-";

fn parse_cursor(text: &str) -> Result<String, ApiError> {
    let run = text.strip_prefix(BEFORE).and_then(|id| RunId::parse(id).ok());
    let run = run
        .ok_or_else(|| ApiError::invalid("cursor", "is invalid; use the nextCursor of the previous page"))?;
    Ok(run.to_string())
}
