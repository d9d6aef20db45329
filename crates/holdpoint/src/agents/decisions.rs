//! Handlers for decisions about tool calls. The core checks who may decide and which decision counts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use holdpoint_api::ErrorDetails;
use holdpoint_api::decisions::{CallDecided, DECISION_ID_CHARS_MAX, DecideCall};
use holdpoint_api::interrupts::AnswerOutcome;
use holdpoint_core::agent::ToolCallResume;
use holdpoint_core::{Command, Interrupt, Refusal, Run, RunRef, UndecidedAnswer};
use holdpoint_engine::{Error, Once};

use super::{threads, translate, waiting};
use crate::app::App;
use crate::auth::{Caller, CanAnswer};
use crate::body::{InPath, JsonBody};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, IdempotencyKey, KeyedBody};

pub(crate) async fn decide(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    headers: HeaderMap,
    InPath(run): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<DecideCall>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    decide_at(&app, &caller, CallLocation::Run(of), key, body, &headers).await
}

/// The run or the thread of a tool call.
enum CallLocation {
    Run(RunRef),
    Thread(String),
}

impl CallLocation {
    async fn find(self, app: &App, caller: &Caller) -> Result<RunRef, ApiError> {
        match self {
            Self::Run(of) => Ok(of),
            Self::Thread(thread) => {
                let latest = threads::latest_of(app, caller, &thread).await?;
                Ok(RunRef { tenant: caller.tenant().clone(), run: latest.run })
            }
        }
    }
}

pub(crate) async fn decide_in_thread(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    headers: HeaderMap,
    InPath(thread): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<DecideCall>>,
) -> Result<ApiResponse, ApiError> {
    decide_at(&app, &caller, CallLocation::Thread(thread), key, body, &headers).await
}

async fn decide_at(
    app: &App,
    caller: &Caller,
    place: CallLocation,
    key: IdempotencyKey,
    body: DecideCall,
    headers: &HeaderMap,
) -> Result<ApiResponse, ApiError> {
    if let Some(name) = body.unknown.keys().next() {
        return Err(ApiError::invalid(name, "is not a member of a decision"));
    }
    let name = match (body.tool_call_id, body.ticket_id) {
        (Some(name), None) | (None, Some(name)) => name,
        (Some(_), Some(_)) => return Err(ApiError::invalid("ticketId", "give this or toolCallId, not both")),
        (None, None) => return Err(ApiError::invalid("toolCallId", "is missing; or give ticketId")),
    };
    let sent_key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let decision_id = match body.decision_id.or(sent_key) {
        Some(id) => {
            translate::check_name("decisionId", &id, DECISION_ID_CHARS_MAX)?;
            id
        }
        None => translate::random_id("dec")?,
    };
    let resume = ToolCallResume {
        decision_id: decision_id.clone(),
        action: body.action,
        result: body.result.map(|result| result.0).unwrap_or_default(),
        reason: body.reason,
        updated_at: u64::try_from(app.engine.now().0).unwrap_or_default(),
    };
    let asked_for = name.clone();
    let respond = move |run: &Run| {
        ApiResponse::json(StatusCode::ACCEPTED, &describe_decision(run, &asked_for, &decision_id))
    };
    let decide = async |once: Option<&Once<Run>>| {
        let of = place.find(app, caller).await?;
        execute_decision(app, caller, &of, &name, &resume, body.digest.as_ref(), once).await
    };
    key.once(app, caller.sender(), respond, decide).await
}

/// Executes the decision. The caller may have read the interrupt before this node has loaded it: then the run is read
/// again from the store.
async fn execute_decision(
    app: &App,
    caller: &Caller,
    of: &RunRef,
    name: &str,
    resume: &ToolCallResume,
    digest: Option<&String>,
    once: Option<&Once<Run>>,
) -> Result<Arc<Run>, ApiError> {
    let engine = &app.engine;
    let mut run = engine.runs().get(of).await?;
    let decision = &resume.decision_id;
    if run.find_call_interrupt(name, decision).is_none() {
        run = engine.runs().get_since(of, run.seq + 1).await?;
    }
    let asked = run.find_call_interrupt(name, decision).ok_or_else(|| ApiError::not_found("ticket"))?;
    resume.check(asked)?;
    let mut answer = caller.answer(resume.answer(asked), digest.cloned());
    answer.decision = Some(decision.clone());
    let command = Command::Resolve { answers: [(asked.id, answer)].into() };
    match engine.runs().execute_once(of, &[command], once).await {
        Err(Error::Refused(refusal)) => {
            Err(explain_refusal(refusal, &*engine.runs().get(of).await?, name, decision))
        }
        other => Ok(other?),
    }
}

fn describe_decision(run: &Run, name: &str, decision: &str) -> CallDecided {
    let asked = run.find_call_interrupt(name, decision);
    let undecided = asked.filter(|asked| asked.is_open()).and_then(|asked| asked.undecided_answer);
    let outcome = match undecided {
        None => AnswerOutcome::Resolved,
        Some(UndecidedAnswer::Voted) => AnswerOutcome::Voted,
        Some(UndecidedAnswer::Repeated) => AnswerOutcome::Repeated,
        Some(UndecidedAnswer::Asked(_)) => AnswerOutcome::Asked,
    };
    CallDecided {
        run_id: run.id.clone(),
        thread_id: run.thread().to_owned(),
        decision_id: decision.to_owned(),
        status: run.status(),
        outcome,
        ticket_id: asked.and_then(Interrupt::ticket_id).map(str::to_owned),
        tool_call_id: asked.and_then(Interrupt::call_id).map(str::to_owned),
    }
}

/// Returns the error for a refused decision, with the decision that was accepted first, if there is one. A call of a
/// finished run is refused with `RunFinished`.
fn explain_refusal(refusal: Refusal, run: &Run, name: &str, decision: &str) -> ApiError {
    let made = run.find_call_interrupt(name, decision).and_then(waiting::decision);
    match (refusal, made) {
        (Refusal::AlreadyResolved | Refusal::Expired, Some(made)) => {
            let details = ErrorDetails { decision: Some(made), ..Default::default() };
            ApiError::from(Refusal::AlreadyResolved).with(details)
        }
        (Refusal::AlreadyResolved | Refusal::InterruptCancelled | Refusal::InterruptGone, None)
            if run.finished() =>
        {
            Refusal::RunFinished(run.status()).into()
        }
        (other, _) => other.into(),
    }
}
