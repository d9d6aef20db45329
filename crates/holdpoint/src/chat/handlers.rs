//! Handlers that start, resume, show and cancel graphs.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use holdpoint_api::chat::{Chat, ChatHistory, ChatStanding};
use holdpoint_core::{Owner, RequestSource, Transport};
use holdpoint_providers::{EngineGraphs, GraphHandle, GraphResume, GraphStart, GraphStatus};
use serde_json::Value;
use tokio::time::{Duration, Instant};

use super::stream;
use super::translate::{self, ChatCommand};
use crate::app::App;
use crate::auth::{Caller, CanAnswer, CanCancelRuns, CanCreateRuns, CanReadRuns, Permission};
use crate::body::{IgnoredBody, InPath, JsonBody, PageParams, Params};
use crate::error::ApiError;
use crate::idempotency::KeyedBody;
use crate::streams::{StreamPermit, accept_weight};

pub(crate) async fn chat(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    headers: HeaderMap,
    KeyedBody(_, JsonBody(chat)): KeyedBody<JsonBody<Chat>>,
) -> Result<Response, ApiError> {
    let within = Duration::from_millis(translate::wait_ms(chat.wait_ms)?);
    let permit = caller.open_stream(&app)?;
    let execution = start_or_resume(&app, &caller, translate::parse_command(chat)?).await?;
    if wants_stream(&headers) {
        return Ok(stream::response(&app, permit, execution));
    }
    let StreamPermit { guard, slot: _slot } = permit;
    let settled = guard.during(wait_for_graph(&app, &execution, Instant::now() + within)).await?;
    let (status, outcome) = translate::with_status(translate::outcome(execution.handle.state_key, settled))?;
    Ok((status, Json(outcome)).into_response())
}

fn wants_stream(headers: &HeaderMap) -> bool {
    accept_weight(headers, "text/event-stream") > accept_weight(headers, "application/json")
}

/// Waits until a graph waits or ends. A server that shuts down responds at once; the graph continues after the restart.
async fn wait_for_graph(
    app: &App,
    execution: &ChatExecution,
    until: Instant,
) -> Result<GraphStatus, ApiError> {
    let ChatExecution { handle, after, .. } = execution;
    let mut stopping = app.stopping.clone();
    tokio::select! {
        settled = app.engine.graphs().wait(&handle.of, after.as_deref(), until) => Ok(settled?),
        _ = stopping.wait_for(|stopping| *stopping) => Ok(GraphStatus::Running),
    }
}

/// A start or a resume that the engine accepted.
#[derive(Debug)]
pub(super) struct ChatExecution {
    pub handle: GraphHandle,
    /// The id of the answer in the log, for a resume.
    pub after: Option<String>,
    /// The length of the log before the request.
    pub from: u64,
}

async fn start_or_resume(
    app: &App,
    caller: &Caller,
    command: ChatCommand,
) -> Result<ChatExecution, ApiError> {
    let engine = &app.engine;
    match command {
        ChatCommand::Start { graph, state_key, input, turn_id } => {
            let start = GraphStart { graph, state_key, turn_id, ..new_turn(caller, input) };
            let (handle, _) = engine.graphs().start(start).await.map_err(translate::to_api_error)?;
            Ok(ChatExecution { handle, after: None, from: 0 })
        }
        ChatCommand::NextTurn { state_key, input, turn_id } => {
            let (state_key, turn_id) = (Some(state_key), Some(turn_id));
            let start = GraphStart { state_key, turn_id, ..new_turn(caller, input) };
            let (handle, _) = engine.graphs().next_turn(start).await.map_err(translate::to_api_error)?;
            Ok(ChatExecution { handle, after: None, from: 0 })
        }
        ChatCommand::Resume { state_key, id, value, graph, to } => {
            caller.clone().require(CanAnswer::ACCESS)?;
            let handle =
                engine.graphs().handle(caller.tenant(), &state_key).await.map_err(translate::to_api_error)?;
            if graph.is_some_and(|graph| graph != handle.graph) {
                let message =
                    format!("this stateKey belongs to {}; leave graph out of a resume", handle.graph);
                return Err(ApiError::invalid("graph", message));
            }
            let (from, last) = (engine.events().count(&handle.of).await?, handle.of);
            let resume = GraphResume { id, answer: caller.answer(value, None), to };
            let resumed = engine.graphs().resume(caller.tenant(), &state_key, resume).await;
            let (handle, after) = resumed.map_err(translate::to_api_error)?;
            // The log of an earlier turn is shown from its beginning.
            let from = if handle.of == last { from } else { 0 };
            Ok(ChatExecution { handle, after: Some(after), from })
        }
    }
}

fn new_turn(caller: &Caller, input: Value) -> GraphStart {
    let owner = Owner { tenant: caller.tenant().clone(), principal: caller.name().to_owned() };
    let source = RequestSource::user(Transport::Chat);
    GraphStart { owner, graph: String::new(), state_key: None, input, turn_id: None, source }
}

pub(crate) async fn history(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(state_key): InPath<String>,
    Params(page): Params<PageParams>,
) -> Result<Json<ChatHistory>, ApiError> {
    let before = translate::parse_cursor(page.cursor.as_deref())?;
    let turns = app.engine.graphs().history(caller.tenant(), &state_key, before, page.rows()?).await;
    let turns = turns.map_err(translate::to_api_error)?;
    Ok(Json(translate::history(state_key, turns, &page)?))
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(state_key): InPath<String>,
) -> Result<Json<ChatStanding>, ApiError> {
    let handle =
        app.engine.graphs().handle(caller.tenant(), &state_key).await.map_err(translate::to_api_error)?;
    let standing = app.engine.graphs().status(&handle.of).await?;
    Ok(Json(translate::standing(handle, standing)))
}

/// Ends a conversation: cancels its graph and deletes its state, also at its provider. The outcome of a graph that has
/// ended does not change.
pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(state_key): InPath<String>,
    KeyedBody(_, IgnoredBody): KeyedBody<IgnoredBody>,
) -> Result<Json<ChatStanding>, ApiError> {
    let closed = app.engine.graphs().close(caller.tenant(), &state_key, caller.principal()).await;
    let handle = closed.map_err(translate::to_api_error)?;
    let standing = app.engine.graphs().status(&handle.of).await?;
    Ok(Json(translate::standing(handle, standing)))
}
