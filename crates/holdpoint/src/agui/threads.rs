//! Threads for clients that lost their memory: what was said, where the thread stands, and its stream once more.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use holdpoint_core::{Run, RunId, RunRef, limits};
use holdpoint_engine::Error;
use serde_json::{Value, json};

use super::history::History;
use super::stream::{self, Audience};
use super::target::Target;
use super::translate::{Rest, Translator};
use super::{input, interrupts, run, state};
use crate::app::App;
use crate::auth::{Caller, CanReadRuns};
use crate::body::InPath;
use crate::error::ApiError;

/// The newest run of a thread.
pub(super) type Latest = Option<(RunRef, Arc<Run>)>;

pub(super) async fn latest(app: &App, caller: &Caller, thread: &str) -> Result<Latest, ApiError> {
    let found = app.engine.thread_runs(caller.tenant(), thread, None, 1).await?;
    let id = match found.into_iter().next() {
        Some(summary) => summary.run,
        // A run that nobody put into a thread is alone in one that has its name.
        None => match RunId::parse(thread) {
            Ok(own) => own,
            Err(_) => return Ok(None),
        },
    };
    let of = RunRef { tenant: caller.tenant().clone(), run: id };
    match app.engine.run(&of).await {
        Ok(run) => Ok(Some((of, run)).filter(|(_, run)| run.thread() == thread)),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath((agent, thread)): InPath<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let target = Target::find(&app.engine, caller.tenant(), &agent).await?;
    input::check_name("threadId", &thread, limits::THREAD_CHARS_MAX)?;
    let (_, run) = latest(&app, &caller, &thread).await?.ok_or_else(|| ApiError::not_found("thread"))?;
    let history = History::read(&app.engine, caller.tenant(), &thread, &target).await?;
    let open: Vec<_> = interrupts::open(&run).map(|asked| interrupts::shown(&run, asked)).collect();
    let pending: Vec<_> = interrupts::of_client(&run).map(|(call, _)| call).collect();
    Ok(Json(json!({
        "threadId": thread, "runId": run.id, "status": run.status().as_str(),
        "running": Rest::of(&run).is_none(), "state": *state::of(&run), "messages": history.snapshot(),
        "interrupts": open, "pendingToolCallIds": pending,
    })))
}

/// A run at work is told from its beginning; one that waits or has ended only says so.
pub(crate) async fn stream(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath((agent, thread)): InPath<(String, String)>,
) -> Result<Response, ApiError> {
    let target = Target::find(&app.engine, caller.tenant(), &agent).await?;
    input::check_name("threadId", &thread, limits::THREAD_CHARS_MAX)?;
    let (of, run) = latest(&app, &caller, &thread).await?.ok_or_else(|| ApiError::not_found("thread"))?;
    let segment = match Rest::of(&run) {
        Some(_) => run::restate((of, run.clone())),
        None => {
            let history = History::read(&app.engine, caller.tenant(), &thread, &target).await?;
            run::join(&of, &run, history)
        }
    };
    // Nobody said which version the reader is of, so that it is told only what all of them know.
    let translator = Translator::new(&thread, run.id.as_str(), false, Value::Null);
    let audience = Audience { tenant: caller.tenant().clone(), thread, target, translator };
    Ok(stream::response(&app, audience, segment))
}
