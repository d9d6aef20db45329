//! Handler that answers interrupts of nodes.

use std::sync::{Arc, OnceLock};

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::interrupts::{InterruptQuery, ResolveInterrupt};
use holdpoint_core::{Command, NodeId, Refusal, Run};
use holdpoint_engine::{AnswerAddress, Error, Once};

use super::translate;
use crate::app::App;
use crate::auth::{Caller, CanAnswer};
use crate::body::{InPath, JsonBody, Params};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, IdempotencyKey, KeyedBody};

pub(crate) async fn resolve(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    InPath((run, node)): InPath<(String, String)>,
    Params(addressed): Params<InterruptQuery>,
    KeyedBody(key, JsonBody(mut body)): KeyedBody<JsonBody<ResolveInterrupt>>,
) -> Result<ApiResponse, ApiError> {
    body.interrupt_id = translate::named_interrupt(addressed, body.interrupt_id)?;
    answer_node(&app, caller, &run, &node, key, body, ApiError::from).await
}

/// Passes an answer to the core, which applies all rules. `refused` translates the error.
pub(super) async fn answer_node(
    app: &App,
    caller: Caller,
    run: &str,
    node: &str,
    key: IdempotencyKey,
    body: ResolveInterrupt,
    refused: impl Fn(Error) -> ApiError,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(run)?;
    let node = NodeId::parse(node).map_err(|_| Refusal::InterruptNotFound)?;
    let interrupt = body.interrupt_id;
    let mut answer = caller.answer(body.resume_value.0, body.digest);
    if let Some(name) = answer.other_named_principal().filter(|_| answer.acting_as) {
        answer.decider_known = app.engine.keys().has_principal(caller.tenant(), name).await?;
    }
    // The address is read only if no response is stored.
    let known = Arc::new(OnceLock::new());
    let address = known.clone();
    let respond = move |run: &Run| match known.get() {
        Some(AnswerAddress { node, interrupt, .. }) => {
            let answered = translate::describe_node_answer(run, node, interrupt.as_deref());
            ApiResponse::json(StatusCode::OK, &answered)
        }
        None => ApiResponse::empty(),
    };
    let resolve = async |once: Option<&Once<_>>| {
        let below = app.engine.interrupts().of_child(&of, &node, interrupt.as_deref()).await;
        let below = below.map_err(&refused)?.unwrap_or(AnswerAddress { of, node, interrupt });
        let AnswerAddress { of, node, interrupt } = address.get_or_init(|| below).clone();
        let command = Command::ResolveNode { node, interrupt, answer };
        app.engine.runs().execute_once(&of, &[command], once).await.map_err(refused)
    };
    key.once(app, caller.sender(), respond, resolve).await
}
