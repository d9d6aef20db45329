//! Runs of agents: beginning them, telling them more, seeing what they wait for.

use axum::Json;
use axum::extract::State;
use holdpoint_api::agents::{StartAgent, TellRun};
use holdpoint_api::decisions::RunWaitingState;
use holdpoint_engine::{Engine, Error};

use super::{translate, waiting};
use crate::app::App;
use crate::auth::{CanCreateRuns, CanReadRuns};
use crate::body::{Body, InPath};
use crate::error::ApiError;
use crate::idempotency::{Answer, Did, Sent};

pub(crate) async fn start(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(agent): InPath<String>,
    Sent(sending, Body(body)): Sent<Body<StartAgent>>,
) -> Result<Answer, ApiError> {
    if let Some(thread) = &body.thread_id {
        translate::check_thread(thread)?;
    }
    let messages = translate::messages(&caller, body.message, body.messages)?;
    let talk = translate::talk(&caller, agent, body.thread_id, messages, (body.tags, body.metadata));
    let begin =
        async |engine: Engine| Ok(Did::Run(engine.start_agent(talk).await.map_err(translate::refused)?));
    sending.carry_out(&app, &caller, translate::taken, begin).await
}

pub(crate) async fn tell(
    State(app): State<App>,
    CanCreateRuns(caller): CanCreateRuns,
    InPath(run): InPath<String>,
    Sent(sending, Body(body)): Sent<Body<TellRun>>,
) -> Result<Answer, ApiError> {
    let of = caller.run(&run)?;
    let messages = translate::messages(&caller, body.message, body.messages)?;
    let say = async |engine: Engine| {
        let run = engine.run(&of).await?;
        // Which has no agent left that would listen: say why, and not that there is none.
        match engine.say(&of, messages).await {
            Err(Error::NotFound("agent")) => Err(translate::deaf(&run)),
            other => Ok(Did::Run(other?)),
        }
    };
    sending.carry_out(&app, &caller, translate::taken, say).await
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
