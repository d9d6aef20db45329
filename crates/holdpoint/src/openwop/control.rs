//! Handlers that cancel, pause and resume runs.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::runs::{
    BULK_CANCEL_MAX, BulkCancel, BulkCancelled, CancelResult, CancelRun, PauseRun, ResumeRun, RunError,
    RunPaused, RunResumed, RunStatusNow,
};
use holdpoint_core::{Command, RunRef, Status, check_reason};
use holdpoint_engine::{Done, Engine};

use crate::app::App;
use crate::auth::{Caller, CanCancelRuns};
use crate::body::{Body, InPath, OptionalBody};
use crate::error::ApiError;
use crate::idempotency::{Answer, Did, Sent};

pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    Sent(sending, OptionalBody(body)): Sent<OptionalBody<CancelRun>>,
) -> Result<Answer, ApiError> {
    let (of, by) = (caller.run(&run)?, caller.principal());
    check_reason(body.reason.as_deref())?;
    let cancel = async |engine: Engine| Ok(Did::Run(engine.cancel(&of, body.reason, by).await?));
    sending.carry_out(&app, &caller, cancelled, cancel).await
}

fn cancelled(done: Done<'_>) -> Answer {
    let Done::Run(run) = done else { return Answer::nothing() };
    Answer::json(StatusCode::OK, &RunStatusNow { run_id: run.id.clone(), status: run.status() })
}

pub(crate) async fn bulk_cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    Sent(sending, Body(body)): Sent<Body<BulkCancel>>,
) -> Result<Answer, ApiError> {
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
        (Answer::json(StatusCode::OK, &BulkCancelled { results }), all_final)
    };
    sending.carry_out_in_parts(&app, &caller, work).await
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
    Sent(sending, OptionalBody(body)): Sent<OptionalBody<PauseRun>>,
) -> Result<Answer, ApiError> {
    let of = caller.run(&run)?;
    check_reason(body.reason.as_deref())?;
    let command = Command::Pause { reason: body.reason, drain: body.drain_policy, by: caller.principal() };
    let pause = async |engine: Engine| Ok(Did::Run(engine.execute(&of, &command).await?));
    sending.carry_out(&app, &caller, paused, pause).await
}

/// The status is the one that was asked for. A run that drains has it once the nodes at work have ended.
fn paused(done: Done<'_>) -> Answer {
    let Done::Run(run) = done else { return Answer::nothing() };
    let paused_at = run.paused.as_ref().map(|pause| pause.at.into());
    let draining = paused_at.is_none().then_some(true);
    let paused = RunPaused { run_id: run.id.clone(), status: Status::Paused, paused_at, draining };
    Answer::json(StatusCode::ACCEPTED, &paused)
}

pub(crate) async fn resume(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    Sent(sending, OptionalBody(_)): Sent<OptionalBody<ResumeRun>>,
) -> Result<Answer, ApiError> {
    let of = caller.run(&run)?;
    let command = Command::Resume { by: caller.principal() };
    let resume = async |engine: Engine| Ok(Did::Run(engine.execute(&of, &command).await?));
    sending.carry_out(&app, &caller, resumed, resume).await
}

/// The run goes on in the same commit, and may be further by now; what was asked for is that it runs.
fn resumed(done: Done<'_>) -> Answer {
    let Done::Run(run) = done else { return Answer::nothing() };
    let (run_id, resumed_at) = (run.id.clone(), run.updated_at.into());
    Answer::json(StatusCode::ACCEPTED, &RunResumed { run_id, status: Status::Running, resumed_at })
}
