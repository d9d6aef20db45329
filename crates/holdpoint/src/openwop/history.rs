//! Handler that lists the interrupts of a run in order, with votes, side questions and decisions.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdpoint_api::interrupts::{InterruptHistory, InterruptRecord, InterruptStatus};
use holdpoint_core::{Interrupt, Resolution, Run};
use holdpoint_engine::Engine;

use super::{documents, side_questions, translate};
use crate::app::App;
use crate::auth::CanSeePending;
use crate::body::{InPath, PageParams, Params};
use crate::error::ApiError;
use crate::grants;

pub(crate) async fn list(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    InPath(run): InPath<String>,
    Params(page): Params<PageParams>,
) -> Result<Response, ApiError> {
    let run = app.engine.runs().get(&caller.run(&run)?).await?;
    let after = page.cursor.as_deref().map_or(Ok(0), parse_cursor)?;
    let behind = run.interrupts.iter().filter(|interrupt| interrupt.id.0 > after);
    let mut found: Vec<&Interrupt> = behind.map(AsRef::as_ref).take(rows(&page)?).collect();
    let more = page.truncate(&mut found)?;
    let interrupts = found.iter().map(|interrupt| describe(&app.engine, &run, interrupt)).collect();
    let next_cursor = found.last().filter(|_| more).map(|last| last.id.0.to_string());
    Ok(Json(InterruptHistory { run_id: run.id.clone(), interrupts, next_cursor }).into_response())
}

fn rows(page: &PageParams) -> Result<usize, ApiError> {
    Ok(usize::try_from(page.rows()?).unwrap_or(usize::MAX))
}

/// Parses a cursor: the number of the last interrupt of the previous page.
fn parse_cursor(text: &str) -> Result<u32, ApiError> {
    text.parse()
        .map_err(|_| ApiError::invalid("cursor", "is invalid; use the nextCursor of the previous page"))
}

fn describe<'a>(engine: &Engine, run: &Run, interrupt: &'a Interrupt) -> InterruptRecord<'a> {
    let required = interrupt.required_approvals();
    InterruptRecord {
        interrupt_id: run.interrupt_name(interrupt.id),
        node_id: interrupt.node.clone(),
        kind: interrupt.kind,
        key: Cow::Borrowed(&interrupt.key),
        title: Cow::Borrowed(interrupt.title()),
        data: Cow::Borrowed(&interrupt.data),
        digest: interrupt.digest.as_deref().map(Cow::Borrowed),
        requested_at: interrupt.requested_at.into(),
        timeout_ms: interrupt.timeout_ms,
        expires_at: interrupt.expires_at().map(Into::into),
        resume_schema: interrupt.resume_schema.as_deref().map(Cow::Borrowed),
        status: status(run, interrupt),
        assignees: interrupt.assignees(&run.requesters()).entries(),
        required_approvals: (required > 1).then_some(required),
        votes: translate::votes(interrupt),
        repeated_votes: interrupt.repeated,
        asks: interrupt.side_questions.iter().map(side_questions::describe).collect(),
        decision: documents::decision(run, interrupt),
        permits: grants::permits(engine, run, interrupt),
        grant_id: interrupt.is_granted().then(|| run.grant_id(interrupt.id)),
    }
}

/// Returns the state of an interrupt. The end of a run cancels its open interrupts.
fn status(run: &Run, interrupt: &Interrupt) -> InterruptStatus {
    match &interrupt.resolution {
        Some(Resolution::Answered { .. }) => InterruptStatus::Answered,
        Some(Resolution::TimedOut { .. }) => InterruptStatus::TimedOut,
        None if run.finished() => InterruptStatus::Cancelled,
        None => InterruptStatus::Open,
    }
}
