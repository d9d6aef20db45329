//! The chat contract as the OpenAPI document describes it.

use holdpoint_engine::STATE_KEY_CHARS_MAX;
use serde_json::{Value, json};

use super::translate::WAIT_MS_MAX;

const NO_CONTROL: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

pub(crate) fn all() -> Value {
    let name =
        json!({"type": "string", "minLength": 1, "maxLength": STATE_KEY_CHARS_MAX, "pattern": NO_CONTROL});
    let outcome = outcome();
    let mut standing = outcome.clone();
    for member in ["graph", "createdAt", "expiresAt"] {
        standing["properties"][member] = json!({"type": "string"});
    }
    standing["properties"]["lastError"] = json!({"type": "object"});
    standing["required"] = json!(["outcome", "stateKey", "graph", "createdAt", "expiresAt"]);
    json!({
        "Chat": {
            "type": "object",
            "additionalProperties": false,
            "description": "A start has graph; a resume has stateKey, resumeValue and resumeId.",
            "properties": {
                "graph": name, "stateKey": name, "resumeId": name,
                "input": {"description": "What the graph is started with."},
                "messages": {"type": "array", "description": "The same as input {messages}."},
                "resumeValue": {"description": "At most 65536 bytes of compact JSON."},
                "interrupt": {
                    "type": "object",
                    "description": "What is answered, as it was shown; anything else is not.",
                    "required": ["kind", "data"],
                    "additionalProperties": false,
                    "properties": {"kind": {"type": "string"}, "data": {}},
                },
                "waitMs": {"type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX},
            },
        },
        "ChatOutcome": outcome,
        "ChatStanding": standing,
        "ChatStream": {
            "type": "object",
            "description": "Events `progress`, and at last one `outcome`, whose data is a ChatOutcome.",
            "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
        },
    })
}

fn outcome() -> Value {
    json!({
        "type": "object",
        "required": ["outcome", "stateKey"],
        "properties": {
            "outcome": {"enum": ["completed", "needs_input", "error", "running"]},
            "stateKey": {"type": "string"},
            "output": {},
            "interrupt": {
                "type": "object",
                "required": ["kind", "data"],
                "additionalProperties": false,
                "properties": {"kind": {"type": "string"}, "data": {}},
            },
            "error": {
                "type": "object",
                "required": ["code", "message", "retryable"],
                "properties": {
                    "code": {"type": "string"}, "message": {"type": "string"}, "retryable": {"type": "boolean"},
                },
            },
        },
    })
}
