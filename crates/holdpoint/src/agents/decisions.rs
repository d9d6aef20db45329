//! Deciding about calls of tools. The core judges who may, and what counts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use holdpoint_api::ErrorDetails;
use holdpoint_api::decisions::{CallDecided, DECISION_ID_CHARS_MAX, DecideCall};
use holdpoint_api::interrupts::AnswerOutcome;
use holdpoint_core::agent::ToolCallResume;
use holdpoint_core::{Command, Heard, Interrupt, Refusal, Run, RunRef};
use holdpoint_engine::{Error, Once};

use super::{threads, translate, waiting};
use crate::app::App;
use crate::auth::{Caller, CanAnswer};
use crate::body::{Body, InPath};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, IdempotencyKey, Keyed};

pub(crate) async fn decide(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    headers: HeaderMap,
    InPath(run): InPath<String>,
    Keyed(key, Body(body)): Keyed<Body<DecideCall>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    decide_at(&app, &caller, Place::Run(of), key, (body, &headers)).await
}

/// Where the call is.
enum Place {
    Run(RunRef),
    Thread(String),
}

impl Place {
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
    Keyed(key, Body(body)): Keyed<Body<DecideCall>>,
) -> Result<ApiResponse, ApiError> {
    decide_at(&app, &caller, Place::Thread(thread), key, (body, &headers)).await
}

async fn decide_at(
    app: &App,
    caller: &Caller,
    place: Place,
    key: IdempotencyKey,
    (body, headers): (DecideCall, &HeaderMap),
) -> Result<ApiResponse, ApiError> {
    if let Some(name) = body.unknown.keys().next() {
        return Err(ApiError::invalid(name, "is not a member of a decision"));
    }
    let name = match (body.tool_call_id, body.ticket_id) {
        (Some(name), None) | (None, Some(name)) => name,
        (Some(_), Some(_)) => return Err(ApiError::invalid("ticketId", "cannot stand beside toolCallId")),
        (None, None) => return Err(ApiError::invalid("toolCallId", "is missing; or give ticketId")),
    };
    let sent_key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let decision_id = match body.decision_id.or(sent_key) {
        Some(id) => {
            translate::check_name("decisionId", &id, DECISION_ID_CHARS_MAX)?;
            id
        }
        None => translate::fresh("dec")?,
    };
    let resume = ToolCallResume {
        decision_id: decision_id.clone(),
        action: body.action,
        result: body.result.map(|result| result.0).unwrap_or_default(),
        reason: body.reason,
        updated_at: u64::try_from(app.engine.now().0).unwrap_or_default(),
    };
    let asked_for = name.clone();
    let respond =
        move |run: &Run| ApiResponse::json(StatusCode::ACCEPTED, &decided(run, &asked_for, &decision_id));
    let decide = async |once: Option<&Once<Run>>| {
        let of = place.find(app, caller).await?;
        settle(app, caller, &of, &name, (&resume, body.digest.as_ref()), once).await
    };
    key.once(app, caller.sender(), respond, decide).await
}

/// Whoever was told of the question by the store may be ahead of what is known here.
async fn settle(
    app: &App,
    caller: &Caller,
    of: &RunRef,
    name: &str,
    (resume, digest): (&ToolCallResume, Option<&String>),
    once: Option<&Once<Run>>,
) -> Result<Arc<Run>, ApiError> {
    let engine = &app.engine;
    let mut run = engine.run(of).await?;
    let decision = &resume.decision_id;
    if run.question_about(name, decision).is_none() {
        run = engine.run_since(of, run.seq + 1).await?;
    }
    let asked = run.question_about(name, decision).ok_or_else(|| ApiError::not_found("ticket"))?;
    resume.check(asked)?;
    let mut answer = caller.answer(resume.answer(asked), digest.cloned());
    answer.decision = Some(decision.clone());
    let command = Command::Resolve { answers: [(asked.id, answer)].into() };
    match engine.execute_once(of, &[command], once).await {
        Err(Error::Refused(refusal)) => Err(refused(refusal, &*engine.run(of).await?, name, decision)),
        other => Ok(other?),
    }
}

fn decided(run: &Run, name: &str, decision: &str) -> CallDecided {
    let asked = run.question_about(name, decision);
    let heard = asked.filter(|asked| asked.is_open()).and_then(|asked| asked.heard);
    let outcome = match heard {
        None => AnswerOutcome::Resolved,
        Some(Heard::Voted) => AnswerOutcome::Voted,
        Some(Heard::Repeated) => AnswerOutcome::Repeated,
        Some(Heard::Asked(_)) => AnswerOutcome::Asked,
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

/// Who comes late is told who came first; a run that has ended says so, however it ended.
fn refused(refusal: Refusal, run: &Run, name: &str, decision: &str) -> ApiError {
    let made = run.question_about(name, decision).and_then(waiting::decision);
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
