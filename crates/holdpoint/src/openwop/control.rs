//! Taking hold of runs: cancel one or many, let one stand still, let it go on.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_core::{Command, RunRef, Status, check_reason};
use holdpoint_engine::{Done, Engine};
use serde_json::{Value, json};

use super::wire;
use crate::app::App;
use crate::auth::{Caller, CanCancelRuns};
use crate::body::{Body, InPath, OptionalBody};
use crate::error::ApiError;
use crate::idempotency::{Answer, Did, Sent};

/// Runs of one bulk request.
const BULK_MAX: usize = 100;

pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    Sent(sending, OptionalBody(body)): Sent<OptionalBody<wire::Cancel>>,
) -> Result<Answer, ApiError> {
    let (of, by) = (caller.run(&run)?, caller.principal());
    check_reason(body.reason.as_deref())?;
    let cancel = async |engine: Engine| Ok(Did::Run(engine.cancel(&of, body.reason, by).await?));
    sending.carry_out(&app, &caller, cancelled, cancel).await
}

fn cancelled(done: Done<'_>) -> Answer {
    let Done::Run(run) = done else { return Answer::nothing() };
    Answer::json(StatusCode::OK, &json!({"runId": run.id, "status": run.status().as_str()}))
}

pub(crate) async fn bulk_cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    Sent(sending, Body(body)): Sent<Body<wire::BulkCancel>>,
) -> Result<Answer, ApiError> {
    if !(1..=BULK_MAX).contains(&body.run_ids.len()) {
        return Err(ApiError::invalid("runIds", format!("must name 1 to {BULK_MAX} runs")));
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
        (Answer::json(StatusCode::OK, &json!({"results": results})), all_final)
    };
    sending.carry_out_in_parts(&app, &caller, work).await
}

/// What came of one of many, and whether it would come to that again; a failure of one is no failure of the others.
async fn cancel_one(app: &App, caller: &Caller, id: &str, reason: Option<String>) -> (Value, bool) {
    let cancelling = async {
        let of: RunRef = caller.run(id)?;
        Ok::<_, ApiError>(app.engine.cancel(&of, reason, caller.principal()).await?)
    };
    match cancelling.await {
        Ok(run) => (json!({"runId": id, "ok": true, "status": run.status().as_str()}), true),
        Err(error) => {
            let body = error.body();
            let why = json!({"code": body["error"], "message": body["message"]});
            (json!({"runId": id, "ok": false, "error": why}), error.is_final())
        }
    }
}

pub(crate) async fn pause(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    Sent(sending, OptionalBody(body)): Sent<OptionalBody<wire::Pause>>,
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
    let mut shown = json!({"runId": run.id, "status": Status::Paused.as_str()});
    match &run.paused {
        Some(pause) => shown["pausedAt"] = json!(pause.at.to_string()),
        None => shown["draining"] = json!(true),
    }
    Answer::json(StatusCode::ACCEPTED, &shown)
}

pub(crate) async fn resume(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(run): InPath<String>,
    Sent(sending, OptionalBody(_)): Sent<OptionalBody<wire::Resume>>,
) -> Result<Answer, ApiError> {
    let of = caller.run(&run)?;
    let command = Command::Resume { by: caller.principal() };
    let resume = async |engine: Engine| Ok(Did::Run(engine.execute(&of, &command).await?));
    sending.carry_out(&app, &caller, resumed, resume).await
}

/// The run goes on in the same commit, and may be further by now; what was asked for is that it runs.
fn resumed(done: Done<'_>) -> Answer {
    let Done::Run(run) = done else { return Answer::nothing() };
    let shown = json!({"runId": run.id, "status": "running", "resumedAt": run.updated_at.to_string()});
    Answer::json(StatusCode::ACCEPTED, &shown)
}
