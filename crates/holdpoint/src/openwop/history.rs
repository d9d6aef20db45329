//! Everything a run has asked, in its order: who said what, and what came of it. Told from the fold.

use axum::Json;
use axum::extract::State;
use holdpoint_core::{Interrupt, Resolution, Run};
use holdpoint_engine::Engine;
use serde_json::{Value, json};

use super::{asks, documents, translate};
use crate::app::App;
use crate::auth::CanSeePending;
use crate::body::{InPath, Page, Params};
use crate::error::ApiError;
use crate::grants;

pub(crate) async fn list(
    State(app): State<App>,
    CanSeePending(caller): CanSeePending,
    InPath(run): InPath<String>,
    Params(page): Params<Page>,
) -> Result<Json<Value>, ApiError> {
    let run = app.engine.run(&caller.run(&run)?).await?;
    let after = page.cursor.as_deref().map(parse_cursor).transpose()?.unwrap_or(0);
    let behind = run.interrupts.iter().filter(|interrupt| interrupt.id.0 > after);
    let mut found: Vec<&Interrupt> = behind.map(AsRef::as_ref).take(rows(&page)?).collect();
    let more = page.cut(&mut found)?;
    let shown: Vec<Value> = found.iter().map(|interrupt| entry(&app.engine, &run, interrupt)).collect();
    let mut shown = json!({"runId": run.id, "interrupts": shown});
    if let (true, Some(last)) = (more, found.last()) {
        shown["nextCursor"] = json!(last.id.0.to_string());
    }
    Ok(Json(shown))
}

fn rows(page: &Page) -> Result<usize, ApiError> {
    Ok(usize::try_from(page.rows()?).unwrap_or(usize::MAX))
}

/// The number of the last interrupt that was shown.
fn parse_cursor(text: &str) -> Result<u32, ApiError> {
    text.parse().map_err(|_| ApiError::invalid("cursor", "is not one that this server handed out"))
}

fn entry(engine: &Engine, run: &Run, interrupt: &Interrupt) -> Value {
    let questions: Vec<Value> = interrupt.asks.iter().map(asks::shown).collect();
    let mut shown = json!({
        "interruptId": run.interrupt_name(interrupt.id), "nodeId": interrupt.node, "kind": interrupt.kind.as_str(),
        "key": interrupt.key, "title": interrupt.title(), "data": interrupt.data,
        "requestedAt": interrupt.requested_at.to_string(), "status": status(run, interrupt),
        "assignees": interrupt.assignees(&run.requesters()).entries(), "votes": translate::votes(interrupt), "repeatedVotes": interrupt.repeated,
        "asks": questions,
    });
    if interrupt.required_approvals() > 1 {
        shown["requiredApprovals"] = json!(interrupt.required_approvals());
    }
    for (member, value) in [
        ("digest", interrupt.digest.as_ref().map(|digest| json!(digest))),
        ("timeoutMs", interrupt.timeout_ms.map(|ms| json!(ms))),
        ("expiresAt", interrupt.expires_at().map(|at| json!(at.to_string()))),
        ("resumeSchema", interrupt.resume_schema.clone()),
        ("decision", documents::decision(run, interrupt)),
        ("permits", grants::permits(engine, run, interrupt).map(|permits| json!(permits))),
        ("grantId", interrupt.is_granted().then(|| json!(run.grant_id(interrupt.id)))),
    ] {
        if let Some(value) = value {
            shown[member] = value;
        }
    }
    shown
}

/// What became of it. A run that ends takes its open questions along.
fn status(run: &Run, interrupt: &Interrupt) -> &'static str {
    match &interrupt.resolution {
        Some(Resolution::Answered { .. }) => "answered",
        Some(Resolution::TimedOut { .. }) => "timed-out",
        None if run.finished() => "cancelled",
        None => "open",
    }
}
