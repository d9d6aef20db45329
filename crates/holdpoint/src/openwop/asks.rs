//! Questions of approvers beside a decision: what was asked, and answers to it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_core::{Ask, Command, Interrupt, NodeId, Refusal, Run};
use holdpoint_engine::{Done, Engine};
use serde_json::{Value, json};

use super::wire;
use crate::app::App;
use crate::auth::{CanAnswerAsks, CanSeePending};
use crate::body::{Body, InPath, Params};
use crate::error::ApiError;
use crate::idempotency::{Answer, Did, Sent};

pub(crate) async fn list(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    InPath((run, node)): InPath<(String, String)>,
    Params(addressed): Params<wire::InterruptQuery>,
) -> Result<Json<Value>, ApiError> {
    let run = app.engine.run(&caller.run(&run)?).await?;
    let interrupt = interrupt(&run, &node, addressed.interrupt_id.as_deref())?;
    let asks: Vec<Value> = interrupt.asks.iter().map(shown).collect();
    Ok(Json(json!({
        "runId": run.id, "nodeId": interrupt.node, "interruptId": run.interrupt_name(interrupt.id), "asks": asks,
    })))
}

pub(crate) async fn answer(
    State(app): State<App>,
    CanAnswerAsks(caller): CanAnswerAsks,
    InPath((run, node, ask)): InPath<(String, String, String)>,
    Params(addressed): Params<wire::InterruptQuery>,
    Sent(sending, Body(body)): Sent<Body<wire::AnswerAsk>>,
) -> Result<Answer, ApiError> {
    let of = caller.run(&run)?;
    let ask: u32 = ask.parse().map_err(|_| Refusal::AskNotFound)?;
    let named = addressed.or(body.interrupt_id)?;
    let interrupt = interrupt(&*app.engine.run(&of).await?, &node, named.as_deref())?.id;
    let command = Command::AnswerAsk { interrupt, ask, answer: body.answer, by: caller.principal() };
    let answer = move |done: Done<'_>| match done {
        Done::Run(run) => Answer::json(StatusCode::OK, &answered(run, interrupt, ask)),
        _ => Answer::nothing(),
    };
    let execute = async |engine: Engine| Ok(Did::Run(engine.execute(&of, &command).await?));
    sending.carry_out(&app, &caller, answer, execute).await
}

fn interrupt<'r>(run: &'r Run, node: &str, named: Option<&str>) -> Result<&'r Interrupt, ApiError> {
    let node = NodeId::parse(node).map_err(|_| Refusal::InterruptNotFound)?;
    Ok(run.addressed_interrupt(&node, named)?)
}

fn answered(run: &Run, id: holdpoint_core::InterruptId, ask: u32) -> Value {
    let Some(interrupt) = run.interrupt(id) else { return Value::Null };
    let known = interrupt.asks.iter().find(|known| known.id == ask);
    let mut answered = known.map_or_else(|| json!({}), shown);
    answered["runId"] = json!(run.id);
    answered["nodeId"] = json!(interrupt.node);
    answered["interruptId"] = json!(run.interrupt_name(id));
    answered
}

pub(super) fn shown(ask: &Ask) -> Value {
    let mut shown = json!({
        "askId": ask.id, "question": ask.question, "askedBy": ask.by, "askedAt": ask.at.to_string(),
    });
    if let Some(via) = &ask.via {
        shown["via"] = json!(via);
    }
    if let Some(reply) = &ask.reply {
        shown["answer"] = json!(reply.text);
        shown["answeredBy"] = json!(reply.by);
        shown["answeredAt"] = json!(reply.at.to_string());
    }
    shown
}
