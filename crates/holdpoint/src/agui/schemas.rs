//! AG-UI as the OpenAPI document describes it: the frame of it. The protocol's own documents say the rest.

use holdpoint_core::limits;
use serde_json::{Value, json};

const NO_CONTROL: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

pub(crate) fn all() -> Value {
    let text = json!({"type": "string"});
    json!({
        "RunAgentInput": input(),
        "AgUiStream": {
            "type": "object",
            "description": "Events of AG-UI 1.0; the data of each is JSON with a type.",
            "properties": {"data": text},
        },
        "AgUiThread": {
            "type": "object",
            "required": [
                "threadId", "runId", "status", "running", "state", "messages", "interrupts", "pendingToolCallIds",
            ],
            "properties": {
                "threadId": text, "runId": text, "status": {"$ref": "#/components/schemas/RunStatus"},
                "running": {"type": "boolean", "description": "Whether the stream has more to tell."},
                "state": {"type": "object"},
                "messages": {"type": "array", "items": message()},
                "interrupts": {"type": "array", "items": interrupt()},
                "pendingToolCallIds": {"type": "array", "items": text},
            },
        },
        "AgUiCapabilities": {
            "type": "object",
            "required": ["identity", "transport", "tools", "state", "humanInTheLoop"],
            "properties": {
                "identity": {"type": "object", "required": ["name"]},
                "humanInTheLoop": {"type": "object", "required": ["supported", "interrupts", "approveWithEdits"]},
            },
        },
    })
}

/// Members that are not known are taken, and left alone.
fn input() -> Value {
    let list = json!({"type": ["array", "null"]});
    json!({
        "type": "object",
        "required": ["threadId", "runId"],
        "properties": {
            "threadId": {
                "type": "string", "minLength": 1, "maxLength": limits::THREAD_CHARS_MAX, "pattern": NO_CONTROL,
            },
            "runId": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": NO_CONTROL},
            "protocolVersion": {"type": ["string", "null"]},
            "state": {}, "tools": list, "context": list, "forwardedProps": {},
            "messages": {"type": ["array", "null"], "items": told()},
            "resume": {"type": ["array", "null"], "maxItems": 256, "items": {
                "type": "object",
                "required": ["interruptId", "status"],
                "properties": {
                    "interruptId": {"type": "string"},
                    "status": {"type": "string", "enum": ["resolved", "cancelled"]},
                    "payload": {}, "metadata": {},
                },
            }},
        },
        "examples": [{"threadId": "t1", "runId": "r1", "messages": [{"id": "m1", "role": "user", "content": "Hello"}]}],
    })
}

/// Only what is said to agents is read; what they say themselves is known here.
fn told() -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 128, "pattern": NO_CONTROL});
    let content = json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]});
    json!({
        "type": "object",
        "required": ["role"],
        "properties": {
            "role": {"type": "string"}, "id": {"type": ["string", "null"]}, "toolCallId": {"type": ["string", "null"]},
        },
        "if": {"properties": {"role": {"enum": ["user", "system", "developer"]}}},
        "then": {"required": ["id", "content"], "properties": {"id": name, "content": content}},
    })
}

fn message() -> Value {
    json!({
        "type": "object",
        "required": ["id", "role"],
        "properties": {
            "id": {"type": "string"},
            "role": {"type": "string", "enum": ["developer", "system", "user", "assistant", "tool"]},
        },
    })
}

fn interrupt() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["id", "reason"],
        "properties": {
            "id": text, "reason": text, "message": text, "toolCallId": text, "responseSchema": {"type": "object"},
            "expiresAt": {"$ref": "#/components/schemas/Instant"}, "metadata": {"type": "object"},
        },
    })
}
