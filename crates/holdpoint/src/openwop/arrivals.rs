//! Events from outside, sent by whoever saw them happen.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_core::{ExternalEvent, StrictValue};
use holdpoint_engine::{Received, Reception, Taker};
use serde_json::{Map, Value, json};

use super::wire;
use crate::app::App;
use crate::auth::CanSendEvents;
use crate::body::Body;
use crate::error::ApiError;
use crate::idempotency::{Answer, Sent};

pub(crate) async fn send(
    State(app): State<App>,
    CanSendEvents(caller): CanSendEvents,
    Sent(sending, Body(body)): Sent<Body<wire::SendEvent>>,
) -> Result<Answer, ApiError> {
    let event = event(body)?;
    event.check()?;
    let mut failed = None;
    // Its own id makes it safe to send an event again, with another key, too.
    let work = async {
        match app.engine.receive(caller.tenant(), &event, &caller.principal()).await {
            Ok(received) => (answer(&event, &received), true),
            Err(error) => {
                failed = Some(ApiError::from(error));
                (Answer::nothing(), false)
            }
        }
    };
    let answer = sending.carry_out_in_parts(&app, &caller, work).await?;
    failed.map_or(Ok(answer), Err)
}

fn event(body: wire::SendEvent) -> Result<ExternalEvent, ApiError> {
    let text = |field: &str, given: Option<StrictValue>| match given.map(|value| value.0) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(ApiError::invalid(field, "must be a string")),
        None => Err(ApiError::invalid(field, "is required")),
    };
    let event_type = text("eventType", body.event_type)?;
    let event_id = text("eventId", body.event_id)?;
    let correlation = match body.correlation.map(|value| value.0) {
        Some(Value::Object(members)) => members,
        None => Map::new(),
        Some(_) => return Err(ApiError::invalid("correlation", "must be an object")),
    };
    let payload = body.payload.map_or(Value::Null, |payload| payload.0);
    Ok(ExternalEvent { event_type, event_id, correlation, payload })
}

/// What was said when the event came first is said again, and that it was taken in is no longer news.
fn answer(event: &ExternalEvent, received: &Received) -> Answer {
    let (word, status) = match received.reception {
        Reception::Matched => ("matched", StatusCode::OK),
        Reception::Kept if received.repeated => ("kept", StatusCode::OK),
        Reception::Kept => ("kept", StatusCode::ACCEPTED),
        Reception::Ignored => ("ignored", StatusCode::OK),
    };
    let refused = received.refused.iter().map(|refused| {
        let mut shown = waiting(&refused.by);
        shown["error"] = json!(refused.code);
        shown["message"] = json!(refused.message);
        shown
    });
    let mut shown = json!({
        "eventId": event.event_id,
        "status": word,
        "matched": received.matched.iter().map(waiting).collect::<Vec<_>>(),
        "refused": refused.collect::<Vec<_>>(),
    });
    if let Some(until) = received.kept_until {
        shown["keptUntil"] = json!(until.to_string());
    }
    if received.more {
        shown["more"] = json!(true);
    }
    Answer::json(status, &shown)
}

fn waiting(of: &Taker) -> Value {
    json!({"runId": of.run, "nodeId": of.node, "interruptId": format!("{}:{}", of.run, of.interrupt)})
}
