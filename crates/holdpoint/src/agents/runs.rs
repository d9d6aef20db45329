//! Handlers for runs of agents: start, input, waiting state.

use axum::Json;
use axum::extract::State;
use holdpoint_api::agents::{StartAgent, TellRun};
use holdpoint_api::decisions::RunWaitingState;
use holdpoint_engine::{AgentInput, Error, Once};

use super::{translate, waiting};
use crate::app::App;
use crate::auth::{CanCreateRuns, CanReadRuns};
use crate::body::{InPath, JsonBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

pub(crate) async fn start(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(agent): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<StartAgent>>,
) -> Result<ApiResponse, ApiError> {
    if let Some(thread) = &body.thread_id {
        translate::check_thread(thread)?;
    }
    let messages = translate::messages(&caller, body.message, body.messages)?;
    let input = translate::agent_input(&caller, agent, body.thread_id, messages, (body.tags, body.metadata));
    let begin = async |once: Option<&Once<_>>| {
        app.engine
            .start_agent(AgentInput { once: once.cloned(), ..input })
            .await
            .map_err(translate::explain_failure)
    };
    key.once(&app, caller.sender(), translate::respond_accepted, begin).await
}

pub(crate) async fn tell(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(run): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<TellRun>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    let messages = translate::messages(&caller, body.message, body.messages)?;
    let send = async |once: Option<&Once<_>>| {
        let run = app.engine.run(&of).await?;
        match app.engine.send_messages(&of, messages, once).await {
            // No agent of the run accepts messages: the error gives the reason.
            Err(Error::NotFound("agent")) => Err(translate::no_agent(&run)),
            other => Ok(other?),
        }
    };
    key.once(&app, caller.sender(), translate::respond_accepted, send).await
}

pub(crate) async fn wait(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
) -> Result<Json<RunWaitingState>, ApiError> {
    let run = app.engine.run(&caller.run(&run)?).await?;
    waiting::read(&app, &caller, &run).await?.map(Json).ok_or_else(|| ApiError::not_found("waiting state"))
}
