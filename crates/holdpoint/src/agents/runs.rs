//! Runs of agents: beginning them, telling them more, seeing what they wait for.

use axum::Json;
use axum::extract::State;
use holdpoint_api::agents::{StartAgent, TellRun};
use holdpoint_api::decisions::RunWaitingState;
use holdpoint_engine::{Error, Once, Talk};

use super::{translate, waiting};
use crate::app::App;
use crate::auth::{CanCreateRuns, CanReadRuns};
use crate::body::{Body, InPath};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, Keyed};

pub(crate) async fn start(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(agent): InPath<String>,
    Keyed(key, Body(body)): Keyed<Body<StartAgent>>,
) -> Result<ApiResponse, ApiError> {
    if let Some(thread) = &body.thread_id {
        translate::check_thread(thread)?;
    }
    let messages = translate::messages(&caller, body.message, body.messages)?;
    let talk = translate::talk(&caller, agent, body.thread_id, messages, (body.tags, body.metadata));
    let begin = async |once: Option<&Once<_>>| {
        app.engine.start_agent(Talk { once: once.cloned(), ..talk }).await.map_err(translate::refused)
    };
    key.once(&app, caller.sender(), translate::taken, begin).await
}

pub(crate) async fn tell(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(run): InPath<String>,
    Keyed(key, Body(body)): Keyed<Body<TellRun>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    let messages = translate::messages(&caller, body.message, body.messages)?;
    let say = async |once: Option<&Once<_>>| {
        let run = app.engine.run(&of).await?;
        match app.engine.say(&of, messages, once).await {
            // The run has no agent left that would listen: the error says why.
            Err(Error::NotFound("agent")) => Err(translate::deaf(&run)),
            other => Ok(other?),
        }
    };
    key.once(&app, caller.sender(), translate::taken, say).await
}

pub(crate) async fn wait(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
) -> Result<Json<RunWaitingState>, ApiError> {
    let run = app.engine.run(&caller.run(&run)?).await?;
    waiting::since(&app, &caller, &run)
        .await?
        .map(Json)
        .ok_or_else(|| ApiError::not_found("what the run would wait for"))
}
