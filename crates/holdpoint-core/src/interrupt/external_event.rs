//! External events: what the run waits for, and which event is the one.

use serde_json::Value;

use super::BadRequest;
use crate::refusal::Refusal;

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    if data.get("eventType").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(BadRequest::new("data.eventType", "must be a non-empty string"));
    }
    if !data.get("correlation").is_some_and(Value::is_object) {
        return Err(BadRequest::new("data.correlation", "must be an object"));
    }
    Ok(())
}

/// The event is `eventPayload` when the value has one, else the value itself. A correlation member that the event
/// carries must be equal; one that it does not carry says nothing.
pub(super) fn judge(data: &Value, value: &Value) -> Result<Value, Refusal> {
    let event = value.get("eventPayload").unwrap_or(value);
    let correlation = data.get("correlation").and_then(Value::as_object);
    for (name, expected) in correlation.into_iter().flatten() {
        if event.get(name).is_some_and(|found| found != expected) {
            return Err(Refusal::CorrelationMismatch(name.clone()));
        }
    }
    Ok(value.clone())
}
