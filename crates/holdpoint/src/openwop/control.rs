//! Handlers that cancel, pause and resume runs.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::runs::{
    BULK_CANCEL_MAX, BulkCancel, BulkCancelled, CancelResult, CancelRun, PauseRun, ResumeRun, RunError,
    RunPaused, RunResumed, RunStatusNow,
};
use holdpoint_core::{Command, Run, RunRef, Status, check_reason};
use holdpoint_engine::Once;

use crate::app::App;
use crate::auth::{Caller, CanCancelRuns};
use crate::body::{InPath, JsonBody, OptionalBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody, WorkResponse};

pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    KeyedBody(key, OptionalBody(body)): KeyedBody<OptionalBody<CancelRun>>,
) -> Result<ApiResponse, ApiError> {
    let (of, by) = (caller.run(&run)?, caller.principal());
    check_reason(body.reason.as_deref())?;
    let cancel =
        async |once: Option<&Once<_>>| Ok(app.engine.runs().cancel_once(&of, body.reason, by, once).await?);
    key.once(&app, caller.sender(), cancel_response, cancel).await
}

fn cancel_response(run: &Run) -> ApiResponse {
    ApiResponse::json(StatusCode::OK, &RunStatusNow { run_id: run.id.clone(), status: run.status() })
}

pub(crate) async fn bulk_cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<BulkCancel>>,
) -> Result<ApiResponse, ApiError> {
    if !(1..=BULK_CANCEL_MAX).contains(&body.run_ids.len()) {
        return Err(ApiError::invalid("runIds", format!("must contain 1 to {BULK_CANCEL_MAX} ids")));
    }
    check_reason(body.reason.as_deref())?;
    let work = async { Ok(cancel_all(&app, &caller, &body).await) };
    key.once_in_parts(&app, caller.sender(), work).await
}

async fn cancel_all(app: &App, caller: &Caller, body: &BulkCancel) -> WorkResponse {
    let mut results = Vec::with_capacity(body.run_ids.len());
    let mut all_final = true;
    for id in &body.run_ids {
        let (result, is_final) = cancel_one(app, caller, id, body.reason.clone()).await;
        results.push(result);
        all_final &= is_final;
    }
    let response = ApiResponse::json(StatusCode::OK, &BulkCancelled { results });
    if all_final { WorkResponse::Final(response) } else { WorkResponse::Provisional(response) }
}

/// Cancels one run of a list. Returns its result, and whether a repeated request would get the same result. An error of
/// one run does not affect the others.
async fn cancel_one(app: &App, caller: &Caller, id: &str, reason: Option<String>) -> (CancelResult, bool) {
    let cancelling = async {
        let of: RunRef = caller.run(id)?;
        Ok::<_, ApiError>(app.engine.runs().cancel(&of, reason, caller.principal()).await?)
    };
    match cancelling.await {
        Ok(run) => {
            (CancelResult { run_id: id.to_owned(), ok: true, status: Some(run.status()), error: None }, true)
        }
        Err(error) => {
            let (code, is_final) = (error.code().as_str().into(), error.is_final());
            let message = error.into_message().into();
            let why = RunError { code, message, retryable: None, details: None };
            (CancelResult { run_id: id.to_owned(), ok: false, status: None, error: Some(why) }, is_final)
        }
    }
}

pub(crate) async fn pause(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    KeyedBody(key, OptionalBody(body)): KeyedBody<OptionalBody<PauseRun>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    check_reason(body.reason.as_deref())?;
    let command = Command::Pause { reason: body.reason, drain: body.drain_policy, by: caller.principal() };
    let pause =
        async |once: Option<&Once<_>>| Ok(app.engine.runs().execute_once(&of, &[command], once).await?);
    key.once(&app, caller.sender(), pause_response, pause).await
}

/// Describes a pause with the requested status. A draining run has this status when its running nodes have ended.
fn pause_response(run: &Run) -> ApiResponse {
    let paused_at = run.paused.as_ref().map(|pause| pause.at.into());
    let draining = paused_at.is_none().then_some(true);
    let paused = RunPaused { run_id: run.id.clone(), status: Status::Paused, paused_at, draining };
    ApiResponse::json(StatusCode::ACCEPTED, &paused)
}

pub(crate) async fn resume(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    KeyedBody(key, OptionalBody(_)): KeyedBody<OptionalBody<ResumeRun>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    let command = Command::Resume { by: caller.principal() };
    let resume =
        async |once: Option<&Once<_>>| Ok(app.engine.runs().execute_once(&of, &[command], once).await?);
    key.once(&app, caller.sender(), resume_response, resume).await
}

/// Describes a resume with the requested status: the run continues in the same commit and may have another status now.
fn resume_response(run: &Run) -> ApiResponse {
    let (run_id, resumed_at) = (run.id.clone(), run.updated_at.into());
    ApiResponse::json(StatusCode::ACCEPTED, &RunResumed { run_id, status: Status::Running, resumed_at })
}
