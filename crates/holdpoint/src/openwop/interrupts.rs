//! Answers to what nodes ask.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_core::{NodeId, Refusal};
use holdpoint_engine::{Done, Engine};

use super::{translate, wire};
use crate::app::App;
use crate::auth::CanAnswer;
use crate::body::{Body, InPath};
use crate::error::ApiError;
use crate::idempotency::{Answer, Did, Sent};

pub(crate) async fn resolve(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    InPath((run, node)): InPath<(String, String)>,
    Sent(sending, Body(body)): Sent<Body<wire::Resolve>>,
) -> Result<Answer, ApiError> {
    let of = caller.run(&run)?;
    let node = NodeId::parse(&node).map_err(|_| Refusal::InterruptNotFound)?;
    let asks = body.asks();
    let command = translate::resolve(&node, body, &caller);
    let answer = move |done: Done<'_>| match done {
        Done::Run(run) if asks => Answer::json(StatusCode::OK, &translate::raised(run, &node)),
        Done::Run(run) => Answer::json(StatusCode::OK, &translate::resolved(run, &node)),
        _ => Answer::nothing(),
    };
    let resolve = async |engine: Engine| Ok(Did::Run(engine.execute(&of, &command).await?));
    sending.carry_out(&app, &caller, answer, resolve).await
}
