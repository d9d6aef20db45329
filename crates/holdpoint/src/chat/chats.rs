//! Starting, answering and asking after graphs.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use holdpoint_api::chat::{Chat, ChatStanding};
use holdpoint_core::Owner;
use holdpoint_engine::{GraphStart, Handle, Resume, Standing};
use tokio::time::{Duration, Instant};

use super::stream;
use super::translate::{self, Wanted};
use crate::app::App;
use crate::auth::{Caller, CanAnswer, CanCancelRuns, CanCreateRuns, CanReadRuns, Permission};
use crate::body::{Body, InPath, NoBody};
use crate::error::ApiError;
use crate::idempotency::Keyed;
use crate::sse::weight;
use crate::streams::StreamPermit;

pub(crate) async fn chat(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    headers: HeaderMap,
    Keyed(_, Body(chat)): Keyed<Body<Chat>>,
) -> Result<Response, ApiError> {
    let streams = weight(&headers, "text/event-stream") > weight(&headers, "application/json");
    let within = Duration::from_millis(translate::wait_ms(chat.wait_ms)?);
    let permit = caller.open_stream(&app)?;
    let begun = carry_out(&app, &caller, translate::wanted(chat)?).await?;
    if streams {
        return Ok(stream::response(&app, permit, begun));
    }
    let Begun { handle, after, .. } = begun;
    let mut stopping = app.stopping.clone();
    let wait = async {
        tokio::select! {
            settled = app.engine.graph_settled(&handle.of, after.as_deref(), Instant::now() + within) => Ok(settled?),
            // A server that goes down answers at once; the graph continues after the restart.
            _ = stopping.wait_for(|stopping| *stopping) => Ok(Standing::Running),
        }
    };
    let StreamPermit { guard, slot: _slot } = permit;
    let settled = guard.during(wait).await?;
    let (status, outcome) = translate::answered(translate::outcome(handle.state_key, settled))?;
    Ok((status, Json(outcome)).into_response())
}

/// Something that was asked of a graph, and is under way or done.
#[derive(Debug)]
pub(super) struct Begun {
    pub handle: Handle,
    /// What the log calls the answer, where it was one.
    pub after: Option<String>,
    /// How long the log was before.
    pub from: u64,
}

async fn carry_out(app: &App, caller: &Caller, wanted: Wanted) -> Result<Begun, ApiError> {
    let engine = &app.engine;
    match wanted {
        Wanted::Start { graph, state_key, input } => {
            let owner = Owner { tenant: caller.tenant().clone(), principal: caller.principal().name };
            let start = GraphStart { owner, graph, state_key, input };
            let (handle, _) = engine.start_graph(start).await.map_err(translate::refused)?;
            Ok(Begun { handle, after: None, from: 0 })
        }
        Wanted::Resume { state_key, id, value, graph, to } => {
            caller.clone().require(CanAnswer::ACCESS)?;
            let handle = engine.handle(caller.tenant(), &state_key).await.map_err(translate::refused)?;
            if graph.is_some_and(|graph| graph != handle.graph) {
                let message =
                    format!("this stateKey belongs to {}; leave graph out of a resume", handle.graph);
                return Err(ApiError::invalid("graph", message));
            }
            let from = engine.length(&handle.of).await?;
            let resume = Resume { id, answer: caller.answer(value, None), to };
            let resumed = engine.resume_graph(caller.tenant(), &state_key, resume).await;
            let (handle, after) = resumed.map_err(translate::refused)?;
            Ok(Begun { handle, after: Some(after), from })
        }
    }
}

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(state_key): InPath<String>,
) -> Result<Json<ChatStanding>, ApiError> {
    let handle = app.engine.handle(caller.tenant(), &state_key).await.map_err(translate::refused)?;
    let standing = app.engine.graph_standing(&handle.of).await?;
    Ok(Json(translate::standing(handle, standing)))
}

/// Ends a graph, also at its provider. One that has ended stays as it is.
pub(crate) async fn cancel(
    State(app): State<App>,
    CanCancelRuns(caller): CanCancelRuns,
    InPath(state_key): InPath<String>,
    Keyed(_, NoBody): Keyed<NoBody>,
) -> Result<Json<ChatStanding>, ApiError> {
    let handle = app.engine.handle(caller.tenant(), &state_key).await.map_err(translate::refused)?;
    app.engine.cancel(&handle.of, None, caller.principal()).await?;
    let standing = app.engine.graph_standing(&handle.of).await?;
    Ok(Json(translate::standing(handle, standing)))
}
