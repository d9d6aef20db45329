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
use crate::body::{Body, InPath, OptionalBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, Keyed, Outcome};

pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    Keyed(key, OptionalBody(body)): Keyed<OptionalBody<CancelRun>>,
) -> Result<ApiResponse, ApiError> {
    let (of, by) = (caller.run(&run)?, caller.principal());
    check_reason(body.reason.as_deref())?;
    let cancel =
        async |once: Option<&Once<_>>| Ok(app.engine.cancel_once(&of, body.reason, by, once).await?);
    key.once(&app, caller.sender(), cancelled, cancel).await
}

fn cancelled(run: &Run) -> ApiResponse {
    ApiResponse::json(StatusCode::OK, &RunStatusNow { run_id: run.id.clone(), status: run.status() })
}

pub(crate) async fn bulk_cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    Keyed(key, Body(body)): Keyed<Body<BulkCancel>>,
) -> Result<ApiResponse, ApiError> {
    if !(1..=BULK_CANCEL_MAX).contains(&body.run_ids.len()) {
        return Err(ApiError::invalid("runIds", format!("must name 1 to {BULK_CANCEL_MAX} runs")));
    }
    check_reason(body.reason.as_deref())?;
    let work = async {
        let mut results = Vec::with_capacity(body.run_ids.len());
        let mut all_final = true;
        for id in &body.run_ids {
            let (result, is_final) = cancel_one(&app, &caller, id, body.reason.clone()).await;
            results.push(result);
            all_final &= is_final;
        }
        let response = ApiResponse::json(StatusCode::OK, &BulkCancelled { results });
        Ok(if all_final { Outcome::Final(response) } else { Outcome::Provisional(response) })
    };
    key.once_in_parts(&app, caller.sender(), work).await
}

/// What came of one of many, and whether it would come to that again; a failure of one is no failure of the others.
async fn cancel_one(app: &App, caller: &Caller, id: &str, reason: Option<String>) -> (CancelResult, bool) {
    let cancelling = async {
        let of: RunRef = caller.run(id)?;
        Ok::<_, ApiError>(app.engine.cancel(&of, reason, caller.principal()).await?)
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
    Keyed(key, OptionalBody(body)): Keyed<OptionalBody<PauseRun>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    check_reason(body.reason.as_deref())?;
    let command = Command::Pause { reason: body.reason, drain: body.drain_policy, by: caller.principal() };
    let pause = async |once: Option<&Once<_>>| Ok(app.engine.execute_once(&of, &[command], once).await?);
    key.once(&app, caller.sender(), paused, pause).await
}

/// The status is the one that was asked for. A run that drains has it once the nodes at work have ended.
fn paused(run: &Run) -> ApiResponse {
    let paused_at = run.paused.as_ref().map(|pause| pause.at.into());
    let draining = paused_at.is_none().then_some(true);
    let paused = RunPaused { run_id: run.id.clone(), status: Status::Paused, paused_at, draining };
    ApiResponse::json(StatusCode::ACCEPTED, &paused)
}

pub(crate) async fn resume(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    Keyed(key, OptionalBody(_)): Keyed<OptionalBody<ResumeRun>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    let command = Command::Resume { by: caller.principal() };
    let resume = async |once: Option<&Once<_>>| Ok(app.engine.execute_once(&of, &[command], once).await?);
    key.once(&app, caller.sender(), resumed, resume).await
}

/// The run goes on in the same commit, and may be further by now; what was asked for is that it runs.
fn resumed(run: &Run) -> ApiResponse {
    let (run_id, resumed_at) = (run.id.clone(), run.updated_at.into());
    ApiResponse::json(StatusCode::ACCEPTED, &RunResumed { run_id, status: Status::Running, resumed_at })
}
