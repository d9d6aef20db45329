//! Handlers for threads: messages, runs, interruption, cancellation.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_agents::{AgentInput, EngineAgents};
use holdpoint_api::agents::{
    CancelThread, InterruptThread, MessageList, SayInThread, ThreadRunNow, ThreadRuns,
};
use holdpoint_api::events::After;
use holdpoint_core::{Run, RunRef, check_reason};
use holdpoint_engine::{InputMode, Once, RunSummary, WaitingRun};

use super::translate::InputOptions;
use super::{translate, waiting};
use crate::app::App;
use crate::auth::{Caller, CanCancelRuns, CanCreateRuns, CanReadRuns, Permission};
use crate::body::{InPath, JsonBody, OptionalBody, PageParams, Params};
use crate::dispatch_options::{self, DispatchTarget};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody, WorkResponse};
use crate::thread_cursor;

pub(crate) async fn say(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(thread): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<SayInThread>>,
) -> Result<ApiResponse, ApiError> {
    translate::check_thread(&thread)?;
    let (mode, named) = (parse_mode(&caller, body.mode)?, body.agent_id.clone());
    let input = read_input(&app, &caller, &thread, body)?;
    let send = async |once: Option<&Once<_>>| {
        let agent = choose_agent(&app, &caller, &thread, named, mode).await?;
        let input = AgentInput { agent, once: once.cloned(), ..input };
        app.engine.agents().send_input(input, mode).await.map_err(translate::explain_failure)
    };
    key.once(&app, caller.sender(), translate::respond_accepted, send).await
}

/// Returns the input of a message for the agent that the request names.
fn read_input(app: &App, caller: &Caller, thread: &str, body: SayInThread) -> Result<AgentInput, ApiError> {
    let messages = translate::messages(caller, body.message, body.messages)?;
    let dispatch =
        dispatch_options::check_options(caller, body.dispatch, DispatchTarget::Thread, app.engine.now())?;
    let agent = body.agent_id.unwrap_or_default();
    let options = InputOptions { tags: body.tags, metadata: body.metadata, dispatch };
    Ok(translate::agent_input(caller, agent, Some(thread.to_owned()), messages, options))
}

/// Returns the mode of a message. Rejects the mode that cancels the open run if the caller lacks the scope for it, even
/// if no run is open: otherwise the caller could find out whether one is.
fn parse_mode(caller: &Caller, mode: Option<InputMode>) -> Result<InputMode, ApiError> {
    let mode = mode.unwrap_or_default();
    if mode == InputMode::InterruptThenQueue {
        caller.clone().require(CanCancelRuns::ACCESS)?;
    }
    Ok(mode)
}

/// Returns the agent of a message: the one that the request names, or that of the latest run of the thread. A message
/// for another agent than that of the open run is rejected, unless its mode cancels the open run.
async fn choose_agent(
    app: &App,
    caller: &Caller,
    thread: &str,
    named: Option<String>,
    mode: InputMode,
) -> Result<String, ApiError> {
    let latest = app.engine.threads().latest_run(caller.tenant(), thread).await?;
    let last = latest.as_ref().and_then(|run| translate::agent_of(run.workflow.as_str()));
    let Some(named) = named else {
        return match last {
            Some(last) => Ok(last.to_owned()),
            None if mode == InputMode::ResumeOpenRun => Err(ApiError::not_found("open run")),
            None => Err(ApiError::invalid("agentId", "is required for the first message of a thread")),
        };
    };
    let another = last.is_some_and(|last| last != named) && mode != InputMode::InterruptThenQueue;
    match app.engine.threads().open_run(caller.tenant(), thread).await?.filter(|_| another) {
        Some(open) => Err(translate::busy(&open.run)),
        None => Ok(named),
    }
}

pub(crate) async fn messages(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
    Params(page): Params<PageParams>,
    Params(position): Params<After>,
) -> Result<Json<MessageList>, ApiError> {
    translate::check_thread(&thread)?;
    let after = page.cursor.as_deref().or(position.after.as_deref());
    let after = after.map(|after| thread_cursor::parse("after", after)).transpose()?;
    let after = after.as_ref().map(|(run, seq)| (run, *seq));
    let mut found = app.engine.threads().messages(caller.tenant(), &thread, after, page.rows()?).await?;
    let more = page.truncate(&mut found)?;
    let messages: Vec<_> = found.into_iter().map(translate::describe_message).collect();
    let next_cursor = messages.last().filter(|_| more).map(|last| last.cursor.clone());
    Ok(Json(MessageList { messages, next_cursor }))
}

pub(crate) async fn runs(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
    Params(page): Params<PageParams>,
) -> Result<Json<ThreadRuns>, ApiError> {
    translate::check_thread(&thread)?;
    let before = page.cursor.clone();
    let mut found = app.engine.threads().runs(caller.tenant(), &thread, before, page.rows()?).await?;
    let more = page.truncate(&mut found)?;
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
    let (shown, ended) = describe_current(&app, &caller, &thread, &latest).await?;
    if ended { Err(ApiError::not_found("open run")) } else { Ok(Json(shown)) }
}

pub(crate) async fn latest(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(thread): InPath<String>,
) -> Result<Json<ThreadRunNow>, ApiError> {
    let latest = latest_of(&app, &caller, &thread).await?;
    Ok(Json(describe_current(&app, &caller, &thread, &latest).await?.0))
}

pub(super) async fn latest_of(app: &App, caller: &Caller, thread: &str) -> Result<RunSummary, ApiError> {
    translate::check_thread(thread)?;
    let found = app.engine.threads().latest_run(caller.tenant(), thread).await?;
    found.ok_or_else(|| ApiError::not_found("thread"))
}

/// Returns the current state of a run, and true if it has finished.
async fn describe_current(
    app: &App,
    caller: &Caller,
    thread: &str,
    summary: &RunSummary,
) -> Result<(ThreadRunNow, bool), ApiError> {
    let of = RunRef { tenant: caller.tenant().clone(), run: summary.run.clone() };
    let run = app.engine.runs().get(&of).await?;
    let waiting = waiting::read(app, caller, &run).await?;
    let summary = translate::describe_run(thread, summary);
    Ok((translate::describe_current(summary, &run, waiting), run.finished()))
}

/// Interrupts a thread in several commits. A repeated execution finds no run to interrupt.
pub(crate) async fn interrupt(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(thread): InPath<String>,
    KeyedBody(key, OptionalBody(body)): KeyedBody<OptionalBody<InterruptThread>>,
) -> Result<ApiResponse, ApiError> {
    translate::check_thread(&thread)?;
    let waiting = if body.keep_waiting == Some(true) { WaitingRun::Keep } else { WaitingRun::Cancel };
    let interrupt = async {
        let by = caller.principal();
        let done = app.engine.threads().interrupt(caller.tenant(), &thread, waiting, by).await?;
        let shown = translate::describe_interruption(done);
        Ok(WorkResponse::Final(ApiResponse::json(StatusCode::OK, &shown)))
    };
    key.once_in_parts(&app, caller.sender(), interrupt).await
}

pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(thread): InPath<String>,
    KeyedBody(key, OptionalBody(body)): KeyedBody<OptionalBody<CancelThread>>,
) -> Result<ApiResponse, ApiError> {
    translate::check_thread(&thread)?;
    check_reason(body.reason.as_deref())?;
    let cancel = async |once: Option<&Once<_>>| {
        let open = app.engine.threads().open_run(caller.tenant(), &thread).await?;
        let open = open.ok_or_else(|| ApiError::not_found("open run"))?;
        Ok(app.engine.runs().cancel_once(&open, body.reason, caller.principal(), once).await?)
    };
    let cancelled = |run: &Run| ApiResponse { status: StatusCode::OK, ..translate::respond_accepted(run) };
    key.once(&app, caller.sender(), cancelled, cancel).await
}
