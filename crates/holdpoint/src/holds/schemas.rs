//! Holds as the OpenAPI document describes them.

use holdpoint_core::{AUTH_REQUIRED, limits};
use serde_json::{Value, json};

use super::handlers::WAIT_SECONDS_MAX;
use super::translate::TEXT_TYPES;

pub(crate) fn parameters() -> Value {
    json!({
        "wait": {
            "name": "wait", "in": "query",
            "description": "Seconds to wait for an answer before the hold is told as it is.",
            "schema": {"type": "integer", "minimum": 0, "maximum": WAIT_SECONDS_MAX, "default": 0},
        },
    })
}

pub(crate) fn all() -> Value {
    let (text, instant) = (json!({"type": "string"}), json!({"$ref": "#/components/schemas/Instant"}));
    let statuses = ["waiting", "approved", "rejected", "answered", "timed_out", "cancelled"];
    let names =
        |most: usize| json!({"type": ["array", "null"], "items": {"type": "string"}, "maxItems": most});
    let text_types: Vec<Value> = TEXT_TYPES.map(Value::from).into_iter().chain([Value::Null]).collect();
    json!({
        "CreateHold": {
            "type": "object",
            "required": ["title"],
            "properties": {
                "title": {"type": "string", "minLength": 1, "maxLength": 500, "pattern": r"\S"},
                "description": {"type": ["string", "null"]},
                "choices": {
                    "type": ["array", "null"], "items": {"type": "string", "pattern": r"\S"},
                    "minItems": 1, "maxItems": 100, "uniqueItems": true,
                    "description": "One of these is the answer. Not together with schema.",
                },
                "schema": {"description": "A JSON Schema: the answer is anything that fits it."},
                "data": {"description": "Shown with the question."},
                "dataType": {
                    "type": ["string", "null"], "enum": text_types,
                    "description": "How data is shown that is a text: as Markdown (the default), with its lines as they are, or as a patch. Only together with such data.",
                },
                "approvers": {
                    "type": ["array", "null"], "items": {"type": "string", "pattern": r"\S"}, "minItems": 1, "maxItems": 100,
                    "description": "Who may answer: names, role:x, group:y. Anybody who may answer, without it.",
                },
                "requesterMayNotApprove": {
                    "type": ["boolean", "null"], "default": true,
                    "description": "If true, the principal that makes the hold may not answer it.",
                },
                "requiredApprovals": {
                    "type": ["integer", "null"], "minimum": 1, "maximum": limits::REQUIRED_APPROVALS_MAX, "default": 1,
                    "description": "The number of principals that must approve. More than 1 is accepted only without choices and schema.",
                },
                "profile": {
                    "type": ["string", "null"], "enum": [AUTH_REQUIRED, null],
                    "description": "Answers require a key; links are not accepted.",
                },
                "timeoutMs": {"type": ["integer", "null"], "minimum": 0},
                "tags": names(100),
            },
            "additionalProperties": false,
        },
        "Hold": {
            "type": "object",
            "required": ["holdId", "title", "status", "createdAt", "runUrl", "pageUrl", "requesterMayNotApprove"],
            "properties": {
                "holdId": {"type": "string", "description": "Also the id of a run."},
                "title": text,
                "status": {"type": "string", "enum": statuses},
                "createdAt": instant, "expiresAt": instant, "answeredAt": instant,
                "answer": {"description": "The choice, or what fits the schema; of a yes or no all that was said: action, feedback, decidedBy, decidedAt."},
                "answeredBy": text,
                "grantId": {"type": "string", "description": "The grant of an approval: see GET /v1/grants/{grantId}."},
                "via": {"$ref": "#/components/schemas/Via"},
                "requesterMayNotApprove": {"type": "boolean"},
                "requiredApprovals": {"type": "integer", "minimum": 1},
                "profile": text,
                "runUrl": text,
                "pageUrl": {"type": "string", "description": "The page on which a person answers: a path, or a URL if the server has a public one."},
                "warnings": {"type": "array", "items": text, "description": "Only in the answer that creates the hold: approvers that no key of this tenant matches."},
            },
        },
    })
}
