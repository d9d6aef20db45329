//! The path on which approvals were answered before there were other interrupts. It leads to the same place, so that no
//! rule has a way around it; only the body is unwrapped, and clients of that age know no 422.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_core::Refusal;
use holdpoint_engine::Error;

use super::{interrupts, wire};
use crate::app::App;
use crate::auth::CanAnswer;
use crate::body::{Body, InPath, Params};
use crate::error::ApiError;
use crate::idempotency::{Answer, Sent};

pub(crate) async fn resolve(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    InPath((run, node)): InPath<(String, String)>,
    Params(addressed): Params<wire::InterruptQuery>,
    Sent(sending, Body(wire::Unwrapped(mut body))): Sent<Body<wire::Unwrapped>>,
) -> Result<Answer, ApiError> {
    body.interrupt_id = addressed.or(body.interrupt_id)?;
    interrupts::answer_node(&app, caller, (&run, &node), (sending, body), in_older_words).await
}

fn in_older_words(error: Error) -> ApiError {
    match error {
        Error::Refused(refusal @ Refusal::InterruptCancelled) => {
            ApiError::new(StatusCode::CONFLICT, refusal.code(), refusal.to_string())
        }
        other => other.into(),
    }
}
