//! Handlers for runs of agents: start, input, waiting state.

use axum::Json;
use axum::extract::State;
use holdpoint_agents::{AgentInput, EngineAgents};
use holdpoint_api::agents::{StartAgent, TellRun};
use holdpoint_api::decisions::RunWaitingState;
use holdpoint_engine::{ExecuteOptions, Once};

use super::translate::InputOptions;
use super::{translate, waiting};
use crate::app::App;
use crate::auth::{Caller, CanCreateRuns, CanReadRuns};
use crate::body::{InPath, JsonBody};
use crate::dispatch_options::{self, DispatchTarget};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

pub(crate) async fn start(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(agent): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<StartAgent>>,
) -> Result<ApiResponse, ApiError> {
    let input = read_input(&app, &caller, agent, body)?;
    let begin = async |once: Option<&Once<_>>| {
        let input = AgentInput { once: once.cloned(), ..input };
        app.engine.agents().start(input).await.map_err(translate::explain_failure)
    };
    key.once(&app, caller.sender(), translate::respond_accepted, begin).await
}

fn read_input(app: &App, caller: &Caller, agent: String, body: StartAgent) -> Result<AgentInput, ApiError> {
    body.thread_id.as_deref().map_or(Ok(()), translate::check_thread)?;
    let messages = translate::messages(caller, body.message, body.messages)?;
    let target = if body.thread_id.is_some() { DispatchTarget::Thread } else { DispatchTarget::NewRun };
    let dispatch = dispatch_options::check_options(caller, body.dispatch, target, app.engine.now())?;
    let options = InputOptions { tags: body.tags, metadata: body.metadata, dispatch };
    Ok(translate::agent_input(caller, agent, body.thread_id, messages, options))
}

pub(crate) async fn tell(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(run): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<TellRun>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    let messages = translate::messages(&caller, body.message, body.messages)?;
    let dispatch =
        dispatch_options::check_options(&caller, body.dispatch, DispatchTarget::Thread, app.engine.now())?;
    let send = async |once: Option<&Once<_>>| {
        let run = app.engine.runs().get(&of).await?;
        let sent = app.engine.agents().send_messages(&of, messages, ExecuteOptions { once, dispatch }).await;
        sent.map_err(|error| translate::explain_unsent(error, &run))
    };
    key.once(&app, caller.sender(), translate::respond_accepted, send).await
}

pub(crate) async fn wait(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
) -> Result<Json<RunWaitingState>, ApiError> {
    let run = app.engine.runs().get(&caller.run(&run)?).await?;
    waiting::read(&app, &caller, &run).await?.map(Json).ok_or_else(|| ApiError::not_found("waiting state"))
}
