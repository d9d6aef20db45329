//! Signed links: what is asked for, what is made, and what one shows.

use holdpoint_engine::Engine;
use serde_json::{Value, json};

pub(super) fn wanted() -> Value {
    json!({
        "type": "object",
        "properties": {
            "intent": {
                "type": ["string", "null"], "enum": ["resolve", "inspect", null],
                "description": "resolve, to see and to answer, unless told otherwise; inspect, to see only.",
            },
            "expiresInSeconds": {
                "type": ["integer", "null"], "minimum": 1, "maximum": Engine::LINK_LIFE_MS_MAX / 1000,
                "description": "Half an hour unless told otherwise; the operator may allow less than the maximum.",
            },
            "ttlMs": {
                "type": ["integer", "null"], "minimum": 1, "maximum": Engine::LINK_LIFE_MS_MAX,
                "description": "The same in milliseconds, instead of expiresInSeconds.",
            },
            "for": {
                "type": ["string", "null"], "pattern": r"^[^\s,\u0000-\u001f\u007f-\u009f]{1,128}$",
                "description": "In whose name the link answers. Another name than one's own needs approvals:act-as.",
            },
            "interruptId": super::interrupt_id(),
        },
        "not": {
            "required": ["ttlMs", "expiresInSeconds"],
            "properties": {"ttlMs": {"type": "integer"}, "expiresInSeconds": {"type": "integer"}},
        },
        "additionalProperties": false,
    })
}

pub(super) fn minted() -> Value {
    let mut properties = claims();
    properties["token"] = json!({
        "type": "string", "description": "Shown once: not when the request is sent again under its Idempotency-Key.",
    });
    properties["linkId"] =
        json!({"type": "string", "description": "Identifies the link in decisions that were made with it."});
    properties["url"] = json!({"type": "string", "description": "Where the link leads; shown once, too."});
    let always = ["runId", "nodeId", "interruptId", "intent", "for", "expiresAt", "linkId"];
    json!({"type": "object", "required": always, "properties": properties})
}

/// What stands in a token.
fn claims() -> Value {
    let (text, instant) = (json!({"type": "string"}), json!({"$ref": "#/components/schemas/Instant"}));
    json!({
        "runId": text, "nodeId": text, "interruptId": text,
        "intent": {"type": "string", "enum": ["resolve", "inspect"]},
        "for": {"type": "string", "description": "In whose name the link answers."},
        "expiresAt": instant,
    })
}

pub(super) fn linked() -> Value {
    let (text, instant) = (json!({"type": "string"}), json!({"$ref": "#/components/schemas/Instant"}));
    let list = json!({"type": "array", "items": {"type": "object"}});
    let mut properties = claims();
    for (name, schema) in [
        (
            "state",
            json!({"type": "string", "const": "open", "description": "What is not open any more is told with 409 or 410; details.state is then answered, cancelled or expired."}),
        ),
        ("assignees", json!({"type": "array", "items": {"type": "string"}})),
        ("kind", text.clone()),
        ("key", text.clone()),
        ("title", text.clone()),
        ("data", json!({})),
        ("requestedAt", instant.clone()),
        ("interruptExpiresAt", instant),
        ("timeoutMs", json!({"type": "integer", "minimum": 0})),
        ("resumeSchema", json!({"type": ["object", "boolean"]})),
        ("digest", text),
        ("requiredApprovals", json!({"type": "integer", "minimum": 2})),
        ("votes", list.clone()),
        ("asks", list),
        ("permits", json!({"type": "array", "items": {"$ref": "#/components/schemas/Permit"}})),
    ] {
        properties[name] = schema;
    }
    let always = [
        "runId",
        "nodeId",
        "interruptId",
        "intent",
        "for",
        "expiresAt",
        "state",
        "kind",
        "key",
        "title",
        "data",
        "requestedAt",
    ];
    json!({"type": "object", "required": always, "properties": properties})
}
