//! Handlers that list and answer side questions of approvers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::interrupts::{AnswerAsk, Ask, AskAnswered, AskList, InterruptQuery};
use holdpoint_core::{Command, Interrupt, InterruptId, NodeId, Refusal, Run};
use holdpoint_engine::Once;

use super::translate;
use crate::app::App;
use crate::auth::{CanAnswerAsks, CanSeePending};
use crate::body::{InPath, JsonBody, Params};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

pub(crate) async fn list(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    InPath((run, node)): InPath<(String, String)>,
    Params(addressed): Params<InterruptQuery>,
) -> Result<Json<AskList>, ApiError> {
    let run = app.engine.runs().get(&caller.run(&run)?).await?;
    let interrupt = interrupt(&run, &node, addressed.interrupt_id.as_deref())?;
    Ok(Json(AskList {
        run_id: run.id.clone(),
        node_id: interrupt.node.clone(),
        interrupt_id: run.interrupt_name(interrupt.id),
        asks: interrupt.side_questions.iter().map(describe).collect(),
    }))
}

pub(crate) async fn answer(
    State(app): State<App>,
    CanAnswerAsks(caller): CanAnswerAsks,
    InPath((run, node, ask)): InPath<(String, String, String)>,
    Params(addressed): Params<InterruptQuery>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<AnswerAsk>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    let ask: u32 = ask.parse().map_err(|_| Refusal::SideQuestionNotFound)?;
    let named = translate::named_interrupt(addressed, body.interrupt_id)?;
    let interrupt = interrupt(&*app.engine.runs().get(&of).await?, &node, named.as_deref())?.id;
    let command = Command::AnswerSideQuestion { interrupt, ask, answer: body.answer, by: caller.principal() };
    let respond = move |run: &Run| ApiResponse::json(StatusCode::OK, &describe_answer(run, interrupt, ask));
    let answer =
        async |once: Option<&Once<_>>| Ok(app.engine.runs().execute_once(&of, &[command], once).await?);
    key.once(&app, caller.sender(), respond, answer).await
}

fn interrupt<'r>(run: &'r Run, node: &str, named: Option<&str>) -> Result<&'r Interrupt, ApiError> {
    let node = NodeId::parse(node).map_err(|_| Refusal::InterruptNotFound)?;
    Ok(run.addressed_interrupt(&node, named)?)
}

fn describe_answer(run: &Run, id: InterruptId, ask: u32) -> Option<AskAnswered> {
    let interrupt = run.interrupt(id)?;
    let ask = interrupt.side_questions.iter().find(|known| known.id == ask)?;
    let reply = ask.answer.as_ref()?;
    Some(AskAnswered {
        run_id: run.id.clone(),
        node_id: interrupt.node.clone(),
        interrupt_id: run.interrupt_name(id),
        ask_id: ask.id,
        question: ask.question.clone(),
        asked_by: ask.by.clone(),
        asked_at: ask.at.into(),
        via: ask.via.clone(),
        answer: reply.text.clone(),
        answered_by: reply.by.clone(),
        answered_at: reply.at.into(),
    })
}

pub(super) fn describe(ask: &holdpoint_core::SideQuestion) -> Ask {
    let reply = ask.answer.as_ref();
    Ask {
        ask_id: ask.id,
        question: ask.question.clone(),
        asked_by: ask.by.clone(),
        asked_at: ask.at.into(),
        via: ask.via.clone(),
        answer: reply.map(|reply| reply.text.clone()),
        answered_by: reply.map(|reply| reply.by.clone()),
        answered_at: reply.map(|reply| reply.at.into()),
    }
}
