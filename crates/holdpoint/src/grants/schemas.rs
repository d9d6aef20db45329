//! Grants as the OpenAPI document describes them.

use serde_json::{Value, json};

pub(crate) fn all() -> Value {
    let mut all = of_grants();
    if let (Value::Object(all), Value::Object(permits)) = (&mut all, of_permits()) {
        all.extend(permits);
    }
    all
}

fn of_grants() -> Value {
    let (text, instant) = (json!({"type": "string"}), json!({"$ref": "#/components/schemas/Instant"}));
    let count = json!({"type": "integer", "minimum": 1});
    json!({
        "ConsumeGrant": {
            "type": "object",
            "required": ["digest"],
            "properties": {
                "digest": {
                    "type": "string",
                    "description": "SHA-256 of the RFC 8785 form of the payload that the client acts on: the artifact that was shown, or the artifact as the approver edited it.",
                },
            },
            "additionalProperties": false,
        },
        "Grant": {
            "type": "object",
            "required": [
                "grantId", "runId", "nodeId", "interruptId", "visit", "deciders", "digest", "transferred", "uses",
            ],
            "properties": {
                "grantId": text, "runId": text, "nodeId": text, "interruptId": text, "visit": count,
                "callId": {"type": "string", "description": "The tool call that was allowed."},
                "deciders": {"type": "array", "items": text},
                "decidedAt": instant,
                "digest": {"type": "string", "description": "The digest of the payload that was granted."},
                "shownDigest": {"type": "string", "description": "The digest of all data that the approver was shown."},
                "covers": {"description": "The nodes that the gate covers. Without it, the gate covers every effect that it leads to."},
                "transferred": {
                    "type": "boolean",
                    "description": "The run is a copy and its source received the decision: the copy cannot use the grant.",
                },
                "uses": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["nodeId", "visit", "at"],
                        "properties": {"nodeId": text, "visit": count, "callId": text, "at": instant},
                    },
                },
                "consumed": {
                    "type": "object",
                    "description": "The use by a client, for an effect outside of Holdpoint.",
                    "required": ["by", "at"],
                    "properties": {"by": text, "at": instant},
                },
            },
        },
    })
}

/// Schemas of the effects that the gates of a definition permit.
fn of_permits() -> Value {
    let (text, count) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 1}));
    json!({
        "Permits": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["nodeId", "typeId", "payload", "repeat"],
                "properties": {
                    "nodeId": text, "typeId": text,
                    "payload": {"enum": [
                        "fixed by this approval", "body fixed by this approval, other inputs not",
                        "payload not fixed by this approval", "needs no grant",
                    ]},
                    "repeat": {"type": "boolean"},
                },
            },
        },
        "WorkflowGrants": {
            "type": "object",
            "required": ["workflowId", "revision", "gates", "notes"],
            "properties": {
                "workflowId": text, "revision": count,
                "gates": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["nodeId", "permits"],
                        "properties": {"nodeId": text, "permits": {"$ref": "#/components/schemas/Permits"}},
                    },
                },
                "notes": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["nodeId", "message"],
                        "properties": {"nodeId": text, "message": text},
                    },
                },
            },
        },
    })
}
