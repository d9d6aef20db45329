//! Handler of the older path that answers approvals. It calls the same code as the current path, so that all rules
//! apply. Only the form of the body differs, and a 409 replaces a 422, which older clients do not know.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::interrupts::{InterruptQuery, ResolveApproval, ResolveInterrupt};
use holdpoint_core::{Refusal, StrictValue};
use holdpoint_engine::Error;
use serde_json::Value;

use super::{interrupts, translate};
use crate::app::App;
use crate::auth::CanAnswer;
use crate::body::{InPath, JsonBody, Params};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

pub(crate) async fn resolve(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    InPath((run, node)): InPath<(String, String)>,
    Params(addressed): Params<InterruptQuery>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<ResolveApproval>>,
) -> Result<ApiResponse, ApiError> {
    let interrupt_id = translate::named_interrupt(addressed, body.interrupt_id)?;
    let resume_value = StrictValue(Value::Object(body.resume_value));
    let body = ResolveInterrupt { resume_value, digest: body.digest, interrupt_id };
    interrupts::answer_node(&app, caller, &run, &node, key, body, to_legacy_error).await
}

fn to_legacy_error(error: Error) -> ApiError {
    match error {
        Error::Refused(refusal @ Refusal::InterruptCancelled) => {
            ApiError::from(refusal).with_status(StatusCode::CONFLICT)
        }
        other => other.into(),
    }
}
