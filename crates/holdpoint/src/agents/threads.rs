//! Threads: what was said in them, their runs, and taking hold of what is at work in one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::agents::{
    CancelThread, InterruptThread, Messages, SayInThread, ThreadInterrupted, ThreadRunNow, ThreadRuns,
};
use holdpoint_api::events::After;
use holdpoint_core::{Principal, RunRef, check_reason};
use holdpoint_engine::{Done, Engine, Error, InputMode, RunSummary, Talk};

use super::{translate, waiting};
use crate::app::App;
use crate::auth::{Caller, CanCancelRuns, CanCreateRuns, CanReadRuns, Permission};
use crate::body::{Body, InPath, OptionalBody, Page, Params};
use crate::error::ApiError;
use crate::idempotency::{Answer, Did, Sent};
use crate::places;

/// How often somebody else's run may come in between.
const ATTEMPTS_MAX: usize = 16;

pub(crate) async fn say(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(thread): InPath<String>,
    Sent(sending, Body(body)): Sent<Body<SayInThread>>,
) -> Result<Answer, ApiError> {
    translate::check_thread(&thread)?;
    let messages = translate::messages(&caller, body.message, body.messages)?;
    let (mode, more) = (body.mode.unwrap_or_default(), (body.tags, body.metadata));
    if mode == InputMode::InterruptThenQueue {
        // This mode cancels the open run. The scope is required even if no run is open, so that a key without it
        // cannot find out whether one is.
        caller.clone().require(CanCancelRuns::ACCESS)?;
    }
    let speak = async |engine: Engine| {
        let agent = addressee(&app, &caller, &thread, body.agent_id, mode).await?;
        let talk = translate::talk(&caller, agent, Some(thread.clone()), messages, more);
        let run = match mode {
            InputMode::InterruptThenQueue => begin_anew(&app, &engine, &caller, &thread, talk).await?,
            InputMode::Queue | InputMode::LiveThenQueue | InputMode::ResumeOpenRun => {
                engine.input(talk, mode).await.map_err(translate::refused)?
            }
        };
        Ok(Did::Run(run))
    };
    sending.carry_out(&app, &caller, translate::taken, speak).await
}

/// Who is spoken to: whoever is named, or who was spoken to last. Nobody is told what was meant for another.
async fn addressee(
    app: &App,
    caller: &Caller,
    thread: &str,
    named: Option<String>,
    mode: InputMode,
) -> Result<String, ApiError> {
    let latest = app.engine.thread_runs(caller.tenant(), thread, None, 1).await?.into_iter().next();
    let last = latest.as_ref().and_then(|run| translate::agent_of(run.workflow.as_str()));
    let Some(named) = named else {
        return match last {
            Some(last) => Ok(last.to_owned()),
            None if mode == InputMode::ResumeOpenRun => Err(ApiError::not_found("open run")),
            None => Err(ApiError::invalid("agentId", "is needed for the first message of a thread")),
        };
    };
    let another = last.is_some_and(|last| last != named) && mode != InputMode::InterruptThenQueue;
    match app.engine.open_run(caller.tenant(), thread).await?.filter(|_| another) {
        Some(open) => Err(translate::busy(&open.run)),
        None => Ok(named),
    }
}

/// Ends what is open and begins another run. Only what begins is what the request has done: its receipt is kept with it.
async fn begin_anew(
    app: &App,
    engine: &Engine,
    caller: &Caller,
    thread: &str,
    talk: Talk,
) -> Result<std::sync::Arc<holdpoint_core::Run>, ApiError> {
    // An agent that does not exist ends nothing.
    app.engine.agent(caller.tenant(), &talk.agent).await?;
    for _ in 0..ATTEMPTS_MAX {
        if let Some(open) = app.engine.open_run(caller.tenant(), thread).await? {
            app.engine.check_growth(caller.tenant()).await?;
            let why = Some("interrupted by input".to_owned());
            app.engine.cancel(&open, why, caller.principal()).await?;
        }
        match engine.start_agent(talk.clone()).await {
            // The thread is that of a plain run, which is not ended for words that were not meant for it.
            Err(Error::ScopeBusy { active_run }) if active_run.as_str() != thread => {}
            other => return other.map_err(translate::refused),
        }
    }
    Err(Error::Busy.into())
}

pub(crate) async fn messages(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
    Params(page): Params<Page>,
    Params(behind): Params<After>,
) -> Result<Json<Messages>, ApiError> {
    translate::check_thread(&thread)?;
    let after = page.cursor.as_deref().or(behind.after.as_deref());
    let after = after.map(|after| places::parse("after", after)).transpose()?;
    let after = after.as_ref().map(|(run, seq)| (run, *seq));
    let mut found = app.engine.messages(caller.tenant(), &thread, after, page.rows()?).await?;
    let more = page.cut(&mut found)?;
    let messages: Vec<_> = found.into_iter().map(translate::describe_message).collect();
    let next_cursor = messages.last().filter(|_| more).map(|last| last.cursor.clone());
    Ok(Json(Messages { messages, next_cursor }))
}

pub(crate) async fn runs(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
    Params(page): Params<Page>,
) -> Result<Json<ThreadRuns>, ApiError> {
    translate::check_thread(&thread)?;
    let before = page.cursor.clone();
    let mut found = app.engine.thread_runs(caller.tenant(), &thread, before, page.rows()?).await?;
    let more = page.cut(&mut found)?;
    let next_cursor = found.last().filter(|_| more).map(|last| last.run.to_string());
    let runs = found.iter().map(|run| translate::describe_run(&thread, run)).collect();
    Ok(Json(ThreadRuns { runs, next_cursor }))
}

pub(crate) async fn active(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
) -> Result<Json<ThreadRunNow>, ApiError> {
    let latest = latest_of(&app, &caller, &thread).await?;
    let (shown, ended) = shown(&app, &caller, &thread, &latest).await?;
    if ended { Err(ApiError::not_found("open run")) } else { Ok(Json(shown)) }
}

pub(crate) async fn latest(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
) -> Result<Json<ThreadRunNow>, ApiError> {
    let latest = latest_of(&app, &caller, &thread).await?;
    Ok(Json(shown(&app, &caller, &thread, &latest).await?.0))
}

pub(super) async fn latest_of(app: &App, caller: &Caller, thread: &str) -> Result<RunSummary, ApiError> {
    translate::check_thread(thread)?;
    let found = app.engine.thread_runs(caller.tenant(), thread, None, 1).await?;
    found.into_iter().next().ok_or_else(|| ApiError::not_found("thread"))
}

/// A run as it is now, and whether it has ended.
async fn shown(
    app: &App,
    caller: &Caller,
    thread: &str,
    summary: &RunSummary,
) -> Result<(ThreadRunNow, bool), ApiError> {
    let of = RunRef { tenant: caller.tenant().clone(), run: summary.run.clone() };
    let run = app.engine.run(&of).await?;
    let waiting = waiting::since(app, caller, &run).await?;
    let summary = translate::describe_run(thread, summary);
    Ok((translate::describe_now(summary, &run, waiting), run.finished()))
}

/// In several commits: done again, there is nothing left to interrupt.
pub(crate) async fn interrupt(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(thread): InPath<String>,
    Sent(sending, OptionalBody(body)): Sent<OptionalBody<InterruptThread>>,
) -> Result<Answer, ApiError> {
    translate::check_thread(&thread)?;
    let by: Principal = caller.principal();
    let done =
        app.engine.interrupt_thread(caller.tenant(), &thread, body.keep_waiting.unwrap_or_default(), by);
    let told = async {
        let done = done.await?;
        let active = done.mail.active_dispatch.as_ref().map(|row| row.dispatch_id.clone());
        let nothing = done.mail.superseded_count == 0 && active.is_none() && done.cancelled.is_none();
        let shown = ThreadInterrupted {
            epoch: done.mail.new_dispatch_epoch,
            superseded_count: done.mail.superseded_count,
            active_dispatch_id: active,
            cancelled_run_id: done.cancelled,
            nothing_to_interrupt: nothing,
        };
        Ok::<_, ApiError>(Answer::json(StatusCode::OK, &shown))
    };
    let mut failed = None;
    let work = async {
        match told.await {
            Ok(answer) => (answer, true),
            Err(error) => {
                failed = Some(error);
                (Answer::nothing(), false)
            }
        }
    };
    let answer = sending.carry_out_in_parts(&app, &caller, work).await?;
    failed.map_or(Ok(answer), Err)
}

pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(thread): InPath<String>,
    Sent(sending, OptionalBody(body)): Sent<OptionalBody<CancelThread>>,
) -> Result<Answer, ApiError> {
    translate::check_thread(&thread)?;
    check_reason(body.reason.as_deref())?;
    let by = caller.principal();
    let cancel = async |engine: Engine| {
        let open = engine.open_run(caller.tenant(), &thread).await?;
        let open = open.ok_or_else(|| ApiError::not_found("open run"))?;
        Ok(Did::Run(engine.cancel(&open, body.reason, by).await?))
    };
    let cancelled = |done: Done<'_>| Answer { status: StatusCode::OK, ..translate::taken(done) };
    sending.carry_out(&app, &caller, cancelled, cancel).await
}
