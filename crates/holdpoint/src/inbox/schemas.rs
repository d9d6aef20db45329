//! Sessions as the OpenAPI document describes them.

use serde_json::{Value, json};

pub(crate) fn all() -> Value {
    let (text, instant) = (json!({"type": "string"}), json!({"$ref": "#/components/schemas/Instant"}));
    let strings = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "SignIn": {
            "type": "object",
            "oneOf": [
                {"required": ["key"], "properties": {"key": {"type": "string"}, "once": {"type": "null"}}},
                {"required": ["once"], "properties": {"once": {"type": "string"}, "key": {"type": "null"}}},
            ],
            "properties": {
                "key": {"type": ["string", "null"], "description": "An API key."},
                "once": {"type": ["string", "null"], "description": "What stands behind #once= in a link that signs in."},
            },
            "additionalProperties": false,
        },
        "Session": {
            "type": "object",
            "required": ["principal", "tenant", "roles", "groups", "scopes", "test"],
            "properties": {
                "principal": text, "tenant": text, "roles": strings, "groups": strings, "scopes": strings,
                "test": {"type": "boolean"},
                "sessionId": {"type": "string", "description": "Not there for a caller with a key."},
                "expiresAt": {"type": "string", "format": "date-time", "description": "Moves on while the session is used."},
            },
        },
        "WantedSessionLink": {
            "type": "object",
            "properties": {"keyId": {
                "type": ["string", "null"],
                "description": "Another key of the tenant. Requires the scope keys:manage and all scopes of that key.",
            }},
            "additionalProperties": false,
        },
        "SessionLink": {
            "type": "object",
            "required": ["url", "expiresAt"],
            "properties": {
                "url": {"type": "string", "description": "Shown once; opened once."}, "expiresAt": instant,
            },
        },
        "Sessions": {
            "type": "object",
            "required": ["sessions"],
            "properties": {"sessions": {"type": "array", "items": {
                "type": "object",
                "required": ["sessionId", "createdAt", "usedAt", "expiresAt", "current"],
                "properties": {
                    "sessionId": text, "createdAt": instant, "usedAt": instant, "expiresAt": instant,
                    "current": {"type": "boolean", "description": "Whether this request was made with it."},
                },
            }}},
        },
    })
}
