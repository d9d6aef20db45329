//! The handler that receives external events.

use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::arrivals::{EventReceived, EventRefused, EventRun, EventTarget, SendEvent};
use holdpoint_core::{EventReception, ExternalEvent, StrictValue};
use holdpoint_engine::{EventOutcome, TriggeredRun, WaitingInterrupt};
use serde_json::{Map, Value};

use crate::app::App;
use crate::auth::CanSendEvents;
use crate::body::JsonBody;
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody, WorkResponse};

pub(crate) async fn send(
    State(app): State<App>,
    CanSendEvents(caller): CanSendEvents,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<SendEvent>>,
) -> Result<ApiResponse, ApiError> {
    let event = parse_event(body)?;
    event.check()?;
    // The id of an event makes repeated requests safe, also with another idempotency key.
    let receive = async {
        let received = app.engine.events().receive(caller.tenant(), &event, &caller.principal()).await?;
        Ok(WorkResponse::Final(respond(&event, &received)))
    };
    key.once_in_parts(&app, caller.sender(), receive).await
}

fn parse_event(body: SendEvent) -> Result<ExternalEvent, ApiError> {
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

/// Describes the effect of an event. For a repeated event, that is the effect of its first arrival.
fn respond(event: &ExternalEvent, received: &EventOutcome) -> ApiResponse {
    let status = match received.reception {
        EventReception::Kept if !received.repeated => StatusCode::ACCEPTED,
        EventReception::Kept | EventReception::Matched | EventReception::Ignored => StatusCode::OK,
    };
    let refused = received.refused.iter().map(|refused| EventRefused {
        by: describe_target(&refused.by),
        error: refused.code.clone(),
        message: refused.message.clone(),
    });
    let shown = EventReceived {
        event_id: event.event_id.clone(),
        status: received.reception,
        matched: received.matched.iter().map(describe_target).collect(),
        refused: refused.collect(),
        kept_until: received.kept_until.map(Into::into),
        more: received.more.then_some(true),
        triggered: received.triggered.iter().map(describe_run).collect(),
    };
    ApiResponse::json(status, &shown)
}

fn describe_run(of: &TriggeredRun) -> EventRun {
    EventRun { subscription_id: of.trigger.clone(), delivery_id: of.delivery.clone(), run_id: of.run.clone() }
}

fn describe_target(of: &WaitingInterrupt) -> EventTarget {
    EventTarget {
        run_id: of.run.clone(),
        node_id: of.node.clone(),
        interrupt_id: format!("{}:{}", of.run, of.interrupt),
    }
}
