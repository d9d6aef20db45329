//! Renders the bodies of deliveries: events with the same bytes as in the log, and callbacks with a link to an
//! interrupt.

use std::sync::Arc;

use axum::http::StatusCode;
use holdpoint_api::webhooks::{CallbackLink, DeliveryHead, InterruptCallback};
use holdpoint_core::{Event, InterruptId, Run, RunRef};
use holdpoint_engine::{
    DeliveryContent, DeliveryEnvelope, Error, Render, RenderFuture, SpanContext, StoreError, trace_headers,
};

use crate::app::{App, AppState};
use crate::error::ApiError;
use crate::json::to_json;
use crate::links::{Intent, LinkRequest, find_allowed_intent};

/// The user agent of deliveries.
const AGENT: &str = concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION"));
/// The event type of a callback.
const CALLBACK_EVENT_TYPE: &str = "interrupt.requested";

/// Renders the bodies of deliveries.
pub(crate) struct DeliveryRenderer(pub App);

impl Render for DeliveryRenderer {
    fn headers(&self, envelope: &DeliveryEnvelope<'_>) -> Vec<(String, String)> {
        headers(envelope)
    }

    fn event<'a>(&'a self, of: &'a RunRef, seq: u64) -> RenderFuture<'a> {
        Box::pin(async move { skip_missing(self.0.event(of, seq).await) })
    }

    fn callback<'a>(&'a self, of: &'a RunRef, seq: u64) -> RenderFuture<'a> {
        Box::pin(async move { skip_missing(self.0.callback(of, seq).await) })
    }
}

/// Returns the headers. Each header of the protocol occurs with both prefixes, `X-openwop-` and `OpenWOP-`.
fn headers(envelope: &DeliveryEnvelope<'_>) -> Vec<(String, String)> {
    let mut ours = vec![("Event-Type", envelope.event_type.to_owned())];
    ours.extend(envelope.webhook.map(|id| ("Webhook-Id", id.to_owned())));
    if let Some(signature) = &envelope.signature {
        ours.extend([
            ("Timestamp", signature.timestamp.to_string()),
            ("Signature", signature.current.clone()),
            ("Signature-Algorithm", "v1".to_owned()),
        ]);
        ours.extend(signature.next.clone().map(|next| ("Signature-Next", next)));
    }
    if let Some((id, dedup_key)) = envelope.durable {
        ours.extend([("Delivery-Id", id.to_owned()), ("Dedup-Key", dedup_key.to_owned())]);
    }
    let both = |(name, value): (&str, String)| {
        [(format!("X-openwop-{name}"), value.clone()), (format!("OpenWOP-{name}"), value)]
    };
    let agent = ("User-Agent".to_owned(), AGENT.to_owned());
    std::iter::once(agent).chain(ours.into_iter().flat_map(both)).collect()
}

/// Returns None for runs and events that were deleted: their deliveries are skipped.
fn skip_missing(
    rendered: Result<Option<DeliveryContent>, ApiError>,
) -> Result<Option<DeliveryContent>, Error> {
    match rendered {
        Err(error) if error.status() == StatusCode::NOT_FOUND => Ok(None),
        Err(error) => Err(StoreError::Failed(error.into_message()).into()),
        Ok(rendered) => Ok(rendered),
    }
}

impl AppState {
    async fn event(&self, of: &RunRef, seq: u64) -> Result<Option<DeliveryContent>, ApiError> {
        let Some((kind, document, run)) = self.log.document(of, seq).await? else { return Ok(None) };
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
    async fn callback(&self, of: &RunRef, seq: u64) -> Result<Option<DeliveryContent>, ApiError> {
        let Some(id) = find_requested_interrupt(self, of, seq).await? else { return Ok(None) };
        let run: Arc<Run> = self.engine.runs().get(of).await?;
        let Ok(asked) = run.answerable(id, self.engine.now()) else { return Ok(None) };
        let Some(started) = &run.started else { return Ok(None) };
        let mut body = InterruptCallback {
            run_id: of.run.clone(),
            node_id: asked.node.clone(),
            interrupt_id: run.interrupt_name(asked.id),
            kind: asked.kind,
            link: None,
        };
        if let Some(right) = find_allowed_intent(&self.engine, &of.tenant, &started.credentials).await? {
            let intent = if asked.needs_key() { Intent::Inspect } else { right };
            // In the name of the owner of the run, which chose the callback URL.
            let (sub, keys) = (started.owner.principal.clone(), started.credentials.clone());
            let wanted =
                LinkRequest { intent, life_ms: self.links.life_ms_max(), by: sub.clone(), sub, keys };
            let minted = match self.links.mint(&self.engine, of, &run, asked, wanted).await {
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

#[cfg(test)]
mod tests {
    use holdpoint_engine::DeliverySignature;

    use super::*;

    #[test]
    fn each_header_of_the_protocol_has_both_prefixes() {
        let signature =
            DeliverySignature { timestamp: 7, current: "one".to_owned(), next: Some("two".to_owned()) };
        let envelope = DeliveryEnvelope {
            event_type: "run.started",
            webhook: Some("wh-1"),
            signature: Some(signature),
            durable: Some(("d-1", "key-1")),
        };
        let sent = headers(&envelope);
        let value =
            |name: &str| sent.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        for (name, expected) in [
            ("Event-Type", "run.started"),
            ("Webhook-Id", "wh-1"),
            ("Timestamp", "7"),
            ("Signature", "one"),
            ("Signature-Next", "two"),
            ("Signature-Algorithm", "v1"),
            ("Delivery-Id", "d-1"),
            ("Dedup-Key", "key-1"),
        ] {
            assert_eq!(value(&format!("X-openwop-{name}")), Some(expected));
            assert_eq!(value(&format!("OpenWOP-{name}")), Some(expected));
        }
        assert_eq!(sent.len(), 17, "and the user agent");
        let bare = DeliveryEnvelope { webhook: None, signature: None, durable: None, ..envelope };
        assert_eq!(headers(&bare).len(), 3, "a callback without a secret");
    }
}
