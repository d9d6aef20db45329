//! Renders the bodies of deliveries: events with the same bytes as in the log, and callbacks with a link to an
//! interrupt.

use std::sync::Arc;

use axum::http::StatusCode;
use holdpoint_api::webhooks::{CallbackLink, DeliveryHead, InterruptCallback};
use holdpoint_core::{Event, InterruptId, Run, RunRef};
use holdpoint_engine::{DeliveryJob, DeliveryKind, SpanContext, trace_headers};

use crate::app::AppState;
use crate::error::ApiError;
use crate::json::to_json;
use crate::links::{Intent, LinkRequest, find_allowed_intent};

/// The event type of a callback.
const CALLBACK_EVENT_TYPE: &str = "interrupt.requested";

/// The content of a delivery.
pub(super) struct DeliveryContent {
    /// Name of the event on the wire.
    pub event_type: String,
    /// The request body.
    pub body: Vec<u8>,
    /// Trace headers of the run.
    pub trace: Vec<(String, String)>,
}

/// Renders the content of a delivery. Returns None for runs and events that were deleted: their deliveries are skipped.
pub(super) async fn render(app: &AppState, job: &DeliveryJob) -> Result<Option<DeliveryContent>, ApiError> {
    let rendered = match job.kind {
        DeliveryKind::Event => render_event(app, &job.of, job.seq).await,
        DeliveryKind::Callback => render_callback(app, &job.of, job.seq).await,
    };
    match rendered {
        Err(error) if error.status() == StatusCode::NOT_FOUND => Ok(None),
        other => other,
    }
}

async fn render_event(app: &AppState, of: &RunRef, seq: u64) -> Result<Option<DeliveryContent>, ApiError> {
    let Some((kind, document, run)) = app.log.document(of, seq).await? else { return Ok(None) };
    let head = DeliveryHead { run_id: of.run.clone(), workspace_id: of.tenant.clone() };
    let around = to_json(&head).to_string();
    let mut body = around.trim_end_matches('}').as_bytes().to_vec();
    body.extend_from_slice(b",\"event\":");
    body.extend_from_slice(&document);
    body.push(b'}');
    Ok(Some(DeliveryContent { event_type: kind.into_owned(), body, trace: trace(of, &run) }))
}

/// Renders a callback, or returns None if the interrupt was answered or has expired. The link has the rights that
/// the keys which started and forked the run have now. There is no link if one of these keys has ended without a
/// successor.
async fn render_callback(app: &AppState, of: &RunRef, seq: u64) -> Result<Option<DeliveryContent>, ApiError> {
    let Some(id) = find_requested_interrupt(app, of, seq).await? else { return Ok(None) };
    let run: Arc<Run> = app.engine.runs().get(of).await?;
    let Ok(asked) = run.answerable(id, app.engine.now()) else { return Ok(None) };
    let Some(started) = &run.started else { return Ok(None) };
    let mut body = InterruptCallback {
        run_id: of.run.clone(),
        node_id: asked.node.clone(),
        interrupt_id: run.interrupt_name(asked.id),
        kind: asked.kind,
        link: None,
    };
    if let Some(right) = find_allowed_intent(&app.engine, &of.tenant, &started.credentials).await? {
        let intent = if asked.needs_key() { Intent::Inspect } else { right };
        // In the name of the owner of the run, which chose the callback URL.
        let (sub, keys) = (started.owner.principal.clone(), started.credentials.clone());
        let wanted = LinkRequest { intent, life_ms: app.links.life_ms_max(), by: sub.clone(), sub, keys };
        let minted = match app.links.mint(&app.engine, of, &run, asked, wanted).await {
            // The ids are too long for a URL. The interrupt is still in the list of pending interrupts.
            Err(error) if error.status() == StatusCode::UNPROCESSABLE_ENTITY => return Ok(None),
            other => other?,
        };
        body.link = Some(CallbackLink {
            intent,
            callback_url: minted.url,
            interrupt_token: minted.token,
            expires_at: minted.claims.expires_at.into(),
        });
    }
    let body = to_json(&body).to_string().into_bytes();
    Ok(Some(DeliveryContent { event_type: CALLBACK_EVENT_TYPE.to_owned(), body, trace: trace(of, &run) }))
}

/// Returns the headers that name the span of the run.
fn trace(of: &RunRef, run: &Run) -> Vec<(String, String)> {
    trace_headers(SpanContext::of_run(&of.tenant, run), run)
}

async fn find_requested_interrupt(
    app: &AppState,
    of: &RunRef,
    seq: u64,
) -> Result<Option<InterruptId>, ApiError> {
    let recorded = app.engine.events().list(of, seq).await?;
    let asked = recorded.into_iter().find(|one| one.seq == seq);
    Ok(asked.and_then(|one| match one.event {
        Event::InterruptRequested { id, .. } => Some(id),
        _ => None,
    }))
}
