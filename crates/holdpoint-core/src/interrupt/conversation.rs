//! Checks the data of the three conversation kinds. `decide/conversation.rs` checks that the conversation is open.

use serde_json::Value;

use super::BadRequest;
use crate::limits;
use crate::schema::Schema;

/// Checks the members that the three kinds share. Without a `conversationId`, the run selects the conversation.
pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    if !data.is_object() {
        return Err(BadRequest::new("data", "must be an object"));
    }
    if let Some(id) = data.get("conversationId") {
        let max = limits::CONVERSATION_ID_CHARS_MAX;
        if id.as_str().is_none_or(|id| id.is_empty() || id.chars().count() > max) {
            let message = format!("must be a string of 1 to {max} characters");
            return Err(BadRequest::new("data.conversationId", message));
        }
    }
    for field in ["title", "initialPrompt", "reason"] {
        if data.get(field).is_some_and(|text| !text.is_string()) {
            return Err(BadRequest::new(&format!("data.{field}"), "must be a string"));
        }
    }
    Ok(())
}

pub(super) fn check_exchange(data: &Value) -> Result<(), BadRequest> {
    check_data(data)?;
    if data.get("prompt").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(BadRequest::new("data.prompt", "must be a non-empty string"));
    }
    if data.get("turnIndex").is_some_and(|turn| turn.as_u64().is_none_or(|turn| turn > limits::TURNS_MAX)) {
        let message = format!("must be a whole number from 0 to {}", limits::TURNS_MAX);
        return Err(BadRequest::new("data.turnIndex", message));
    }
    match data.get("outcomeSchema") {
        Some(schema) => {
            Schema::register(schema).map(drop).map_err(|why| BadRequest::new("data.outcomeSchema", why))
        }
        None => Ok(()),
    }
}
