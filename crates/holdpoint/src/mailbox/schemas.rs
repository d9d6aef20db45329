//! Dispatches as the OpenAPI document describes them.

use holdpoint_core::mailbox::RunDispatchStatus;
use serde_json::{Map, Value, json};

pub(crate) fn parameters() -> Value {
    let word = format!("({})", RunDispatchStatus::ALL.map(RunDispatchStatus::as_str).join("|"));
    json!({
        "dispatchStatus": {
            "name": "status", "in": "query", "description": "One or more statuses, separated by commas.",
            "schema": {"type": "string", "pattern": format!("^{word}(,{word})*$")},
        },
    })
}

pub(crate) fn all() -> Value {
    json!({
        "Nothing": {"type": "object", "description": "Nothing needs to be said.", "additionalProperties": false},
        "Dispatch": dispatch(),
        "DispatchChanged": changed_dispatch(),
        "Dispatches": {
            "type": "object",
            "required": ["dispatches"],
            "properties": {
                "dispatches": {"type": "array", "items": {"$ref": "#/components/schemas/Dispatch"}},
                "nextCursor": {"type": "string"},
            },
        },
        "MailboxStats": {
            "type": "object",
            "required": ["counts"],
            "properties": {"counts": counts(), "nextWakeupAt": {"$ref": "#/components/schemas/Instant"}},
        },
    })
}

fn counts() -> Value {
    let names = RunDispatchStatus::ALL.map(RunDispatchStatus::as_str);
    let count = json!({"type": "integer", "minimum": 0});
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), count.clone())).collect();
    json!({"type": "object", "required": names, "properties": properties, "additionalProperties": false})
}

/// Where its run stands is not told: the answer to a change is the same when it is asked for again later.
fn changed_dispatch() -> Value {
    let mut changed = dispatch();
    if let Some(required) = changed["required"].as_array_mut() {
        required.retain(|name| name != "run");
    }
    if let Some(properties) = changed["properties"].as_object_mut() {
        properties.shift_remove("run");
    }
    changed
}

fn dispatch() -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
    let instant = json!({"$ref": "#/components/schemas/Instant"});
    let statuses = RunDispatchStatus::ALL.map(RunDispatchStatus::as_str);
    json!({
        "type": "object",
        "required": [
            "dispatchId", "threadId", "runId", "status", "priority", "dispatchEpoch", "availableAt", "attemptCount",
            "maxAttempts", "createdAt", "updatedAt", "run", "projection",
        ],
        "properties": {
            "dispatchId": text, "threadId": text, "runId": text,
            "status": {"type": "string", "enum": statuses},
            "priority": {"type": "integer", "minimum": 0, "maximum": 255},
            "dedupeKey": text, "dispatchEpoch": number, "availableAt": instant, "attemptCount": number,
            "maxAttempts": number, "lastError": text, "claimedBy": text, "leaseUntil": instant,
            "createdAt": instant, "updatedAt": instant, "run": run_now(), "projection": projection(),
        },
    })
}

/// Null when there is no such run here.
fn run_now() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": ["object", "null"],
        "required": ["runId", "workflowId", "status", "statusUrl"],
        "properties": {"runId": text, "workflowId": text, "status": text, "statusUrl": text},
    })
}

fn projection() -> Value {
    let text = json!({"type": ["string", "null"]});
    json!({
        "type": "object",
        "required": ["runStatus", "termination", "response", "error", "instanceId", "completedAt"],
        "properties": {
            "runStatus": text, "termination": {}, "response": text, "error": text, "instanceId": text,
            "completedAt": {"type": ["string", "null"], "format": "date-time"},
        },
    })
}
