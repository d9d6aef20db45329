//! What clients get: runs, events, definitions, what waits.

use serde_json::{Value, json};

pub(super) fn all() -> Value {
    let parts = [made(), log()];
    Value::Object(
        parts
            .iter()
            .filter_map(Value::as_object)
            .flatten()
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect(),
    )
}

fn made() -> Value {
    let text = json!({"type": "string"});
    json!({
        "Artifact": {
            "type": "object",
            "required": ["artifactId", "artifactType", "runId", "nodeId", "version", "data"],
            "properties": {
                "artifactId": text, "artifactType": text, "runId": text, "nodeId": text, "version": text,
                "createdAt": reference("Instant"), "data": {"type": "object"},
            },
        },
        "DebugBundle": {
            "type": "object",
            "required": [
                "bundleVersion", "generatedAt", "host", "run", "events", "spans", "metrics", "redactionApplied",
                "redactionMode",
            ],
            "properties": {
                "bundleVersion": text, "generatedAt": reference("Instant"), "host": {"type": "object"},
                "run": reference("RunSnapshot"), "events": {"type": "array", "items": reference("Event")},
                "spans": {"type": "array", "items": {"type": "object"}}, "metrics": {"type": "object"},
                "redactionApplied": {"type": "boolean"}, "redactionMode": {"type": "string", "enum": ["mask"]},
                "truncated": {"type": "boolean"},
            },
        },
    })
}

fn log() -> Value {
    json!({
        "Event": event(),
        "StreamedEvent": streamed_event(),
        "EventList": {
            "type": "object",
            "required": ["events"],
            "properties": {"events": {"type": "array", "items": reference("Event")}},
        },
        "EventPage": {
            "type": "object",
            "required": ["events", "isComplete"],
            "properties": {
                "events": {"type": "array", "items": reference("Event")},
                "isComplete": {"type": "boolean"},
            },
        },
        "ThreadEvent": thread_event(),
        "ThreadEvents": {
            "type": "object",
            "required": ["events"],
            "properties": {
                "events": {"type": "array", "items": reference("ThreadEvent")},
                "nextCursor": {"type": "string"},
            },
        },
        "StreamedThreadEvent": {
            "type": "object",
            "required": ["id", "event", "data"],
            "properties": {
                "id": {"type": "string", "description": "The cursor of the event, for Last-Event-ID."},
                "event": {"type": "string", "description": "The type of the event."},
                "data": {
                    "type": "string", "contentMediaType": "application/json",
                    "contentSchema": reference("ThreadEvent"),
                },
            },
        },
        "EventReceived": event_received(),
        "InterruptResolved": interrupt_resolved(),
        "Via": via(),
    })
}

fn interrupt_resolved() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "minimum": 1});
    json!({
        "type": "object",
        "required": ["runId", "nodeId", "status", "outcome"],
        "properties": {
            "runId": text, "nodeId": text, "interruptId": text, "status": reference("RunStatus"),
            "outcome": {"type": "string", "enum": ["resolved", "voted", "repeated", "asked"]},
            "askId": number, "requiredApprovals": number,
            "votes": {"type": "array", "items": vote()},
            "grantId": {"type": "string", "description": "The id of the grant that the decision created."},
        },
    })
}

pub(super) fn vote() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["decidedBy", "action", "at"],
        "properties": {
            "decidedBy": text, "actedBy": text, "action": text, "at": reference("Instant"), "via": reference("Via"),
            "copied": {"type": "boolean", "description": "The vote was cast in the run that this one was copied from and does not count."},
        },
    })
}

/// The credential of a decision.
pub(super) fn via() -> Value {
    json!({
        "type": "object",
        "required": ["type", "id"],
        "properties": {
            "type": {"type": "string", "enum": ["key", "session", "link", "system"]},
            "id": {
                "type": "string",
                "description": "The id of the key, the session or the link. For system: timeout, host, agent, event or replay.",
            },
        },
    })
}

fn event_received() -> Value {
    let text = json!({"type": "string"});
    let waiting = |more: Value| {
        let mut shape = json!({
            "type": "object",
            "required": ["runId", "nodeId", "interruptId"],
            "properties": {"runId": text, "nodeId": text, "interruptId": text},
        });
        for name in more.as_array().into_iter().flatten().filter_map(Value::as_str) {
            shape["properties"][name] = text.clone();
        }
        json!({"type": "array", "items": shape})
    };
    json!({
        "type": "object",
        "required": ["eventId", "status", "matched", "refused"],
        "properties": {
            "eventId": text,
            "status": {"type": "string", "enum": ["matched", "kept", "ignored"]},
            "matched": waiting(json!([])),
            "refused": waiting(json!(["error", "message"])),
            "keptUntil": reference("Instant"),
            "more": {"type": "boolean"},
        },
    })
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn event() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["eventId", "runId", "type", "payload", "timestamp", "sequence"],
        "properties": {
            "eventId": {"type": "string", "maxLength": 128}, "runId": text, "type": text, "nodeId": text,
            "payload": {}, "timestamp": reference("Instant"), "sequence": {"type": "integer", "minimum": 0},
        },
    })
}

/// An event of a run with its place in the thread.
fn thread_event() -> Value {
    let mut shown = event();
    if let Some(required) = shown["required"].as_array_mut() {
        required.insert(0, json!("cursor"));
    }
    shown["properties"]["cursor"] =
        json!({"type": "string", "description": "Where a reader who has seen it goes on, with after."});
    shown
}

fn streamed_event() -> Value {
    let shown = json!([reference("Event"), reference("RunSnapshot")]);
    let batch = json!({"type": "array", "items": {"anyOf": shown}, "minItems": 1});
    json!({
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]+$", "description": "For Last-Event-ID."},
            "event": {
                "type": "string",
                "description": "The type of the event; state.snapshot in the mode values; batch with bufferMs.",
            },
            "data": {
                "type": "string", "contentMediaType": "application/json",
                "contentSchema": {"anyOf": [reference("Event"), reference("RunSnapshot"), batch]},
            },
        },
    })
}
