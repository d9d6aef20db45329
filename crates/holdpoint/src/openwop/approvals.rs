//! The path on which approvals were answered before there were other interrupts. It leads to the same place, so that no
//! rule has a way around it; only the body is unwrapped, and clients of that age know no 422.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::interrupts::{InterruptQuery, ResolveApproval, ResolveInterrupt};
use holdpoint_core::{Refusal, StrictValue};
use holdpoint_engine::Error;
use serde_json::Value;

use super::{interrupts, translate};
use crate::app::App;
use crate::auth::CanAnswer;
use crate::body::{Body, InPath, Params};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, Keyed};

pub(crate) async fn resolve(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    InPath((run, node)): InPath<(String, String)>,
    Params(addressed): Params<InterruptQuery>,
    Keyed(key, Body(body)): Keyed<Body<ResolveApproval>>,
) -> Result<ApiResponse, ApiError> {
    let interrupt_id = translate::named_interrupt(addressed, body.interrupt_id)?;
    let resume_value = StrictValue(Value::Object(body.resume_value));
    let body = ResolveInterrupt { resume_value, digest: body.digest, interrupt_id };
    interrupts::answer_node(&app, caller, (&run, &node), (key, body), in_older_words).await
}

fn in_older_words(error: Error) -> ApiError {
    match error {
        Error::Refused(refusal @ Refusal::InterruptCancelled) => {
            ApiError::from(refusal).with_status(StatusCode::CONFLICT)
        }
        other => other.into(),
    }
}
