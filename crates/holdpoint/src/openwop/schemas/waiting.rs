//! What clients get about questions: those that wait, those of a run, and what approvers ask beside them.

use holdpoint_core::Kind;
use serde_json::{Value, json};

use super::answers::{reference, vote};
use crate::openwop::pending::ORDERS;
use crate::openwop::pending::stream::LIFE_SECONDS_MAX;

pub(super) fn all() -> [(&'static str, Value); 6] {
    [
        ("PendingInterrupts", pending()),
        ("PendingCounts", counts()),
        ("StreamedPendingCounts", streamed_counts()),
        ("InterruptHistory", history()),
        ("Asks", asks()),
        ("AskAnswered", answered()),
    ]
}

fn streamed_counts() -> Value {
    json!({
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"type": "string", "const": "counts"},
            "data": {
                "type": "string", "contentMediaType": "application/json",
                "contentSchema": {"$ref": "#/components/schemas/PendingCounts"},
            },
        },
    })
}

pub(super) fn parameters() -> [(&'static str, Value); 8] {
    [
        (
            "seconds",
            json!({
                "name": "seconds", "in": "query",
                "description": "How long the stream stays open; whoever wants to go on opens it again.",
                "schema": {"type": "integer", "minimum": 1, "maximum": LIFE_SECONDS_MAX, "default": LIFE_SECONDS_MAX},
            }),
        ),
        (
            "kind",
            json!({
                "name": "kind", "in": "query", "description": "Only these kinds, with commas between.",
                "style": "form", "explode": false,
                "schema": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": Kind::ALL.map(Kind::as_str)}},
            }),
        ),
        (
            "interruptId",
            json!({
                "name": "interruptId", "in": "query",
                "description": "The id of the interrupt. Required here or in the body if the node has several open \
                    interrupts.",
                "schema": {"type": "string"},
            }),
        ),
        (
            "assignee",
            json!({
                "name": "assignee", "in": "query",
                "description": "Only what names this entry: a name, role:x or group:y. me: what the caller may decide and \
                    has not voted on, also what anybody may decide.",
                "schema": {"type": "string"},
            }),
        ),
        (
            "olderThanSeconds",
            json!({
                "name": "olderThanSeconds", "in": "query", "description": "Only what was asked at least so long ago.",
                "schema": {"type": "integer", "minimum": 0, "maximum": u64::MAX},
            }),
        ),
        (
            "newerThanSeconds",
            json!({
                "name": "newerThanSeconds", "in": "query", "description": "Only what was asked at most so long ago.",
                "schema": {"type": "integer", "minimum": 0, "maximum": u64::MAX},
            }),
        ),
        (
            "expiresBefore",
            json!({
                "name": "expiresBefore", "in": "query", "description": "Only what has a deadline before.",
                "schema": {"type": "string", "format": "date-time"},
            }),
        ),
        (
            "pendingOrder",
            json!({
                "name": "order", "in": "query",
                "description": "deadline shows only what has one, the next first; so does expiresBefore, unless told otherwise.",
                "schema": {"type": "string", "enum": ORDERS.map(|(name, ..)| name), "default": "oldest"},
            }),
        ),
    ]
}

fn kind() -> Value {
    json!({"type": "string", "enum": Kind::ALL.map(Kind::as_str)})
}

fn pending() -> Value {
    let (text, count) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
    let texts = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "required": ["interrupts"],
        "properties": {"nextCursor": text, "interrupts": {"type": "array", "items": {
            "type": "object",
            "required": [
                "runId", "nodeId", "interruptId", "kind", "key", "workflowId", "title", "requestedAt", "ageMs",
                "assignees", "openAsks", "statusUrl", "links",
            ],
            "properties": {
                "runId": text, "nodeId": text, "interruptId": text, "kind": kind(), "key": text, "workflowId": text,
                "title": text, "excerpt": text, "requestedAt": reference("Instant"), "ageMs": {"type": "integer"},
                "statusUrl": text, "expiresAt": reference("Instant"), "digest": text, "assignees": texts,
                "requiredApprovals": count, "openAsks": count, "tags": texts,
                "votes": {
                    "type": "object",
                    "required": ["approvals", "rejections", "voters"],
                    "properties": {"approvals": count, "rejections": count, "voters": texts},
                },
                "links": {
                    "type": "object",
                    "required": ["run", "resolve", "page"],
                    "properties": {
                        "run": text, "resolve": text,
                        "page": {"type": "string", "description": "The page on which a person answers: a path, or a URL if the server has a public one."},
                    },
                },
            },
        }}},
    })
}

fn counts() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    json!({
        "type": "object",
        "required": ["total", "byKind", "overdue", "dueSoon", "isComplete"],
        "properties": {
            "total": count, "byKind": {"type": "object", "additionalProperties": count}, "overdue": count,
            "dueSoon": count, "isComplete": {"type": "boolean"}, "oldestRequestedAt": reference("Instant"),
        },
    })
}

fn history() -> Value {
    let (text, count) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let decision = json!({
        "type": "object",
        "required": ["value", "by", "at"],
        "properties": {
            "value": {}, "by": text, "at": reference("Instant"), "action": text, "decision": text, "reason": text,
            "via": reference("Via"),
        },
    });
    let entry = json!({
        "type": "object",
        "required": [
            "interruptId", "nodeId", "kind", "key", "title", "data", "requestedAt", "status", "assignees", "votes",
            "repeatedVotes", "asks",
        ],
        "properties": {
            "interruptId": text, "nodeId": text, "kind": kind(), "key": text, "title": text, "data": {},
            "digest": text, "requestedAt": reference("Instant"), "timeoutMs": count,
            "expiresAt": reference("Instant"), "resumeSchema": {"type": ["object", "boolean"]},
            "status": {"type": "string", "enum": ["open", "answered", "timed-out", "cancelled"]},
            "assignees": texts, "requiredApprovals": count, "votes": {"type": "array", "items": vote()},
            "repeatedVotes": count, "asks": {"type": "array", "items": ask()}, "decision": decision,
            "permits": {"type": "array", "items": reference("Permit")}, "grantId": text,
        },
    });
    json!({
        "type": "object",
        "required": ["runId", "interrupts"],
        "properties": {"runId": text, "nextCursor": text, "interrupts": {"type": "array", "items": entry}},
    })
}

fn ask() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["askId", "question", "askedBy", "askedAt"],
        "properties": {
            "askId": {"type": "integer", "minimum": 1}, "question": text, "askedBy": text,
            "askedAt": reference("Instant"), "answer": text, "answeredBy": text, "answeredAt": reference("Instant"),
            "via": reference("Via"),
        },
    })
}

fn asks() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["runId", "nodeId", "interruptId", "asks"],
        "properties": {
            "runId": text, "nodeId": text, "interruptId": text, "asks": {"type": "array", "items": ask()},
        },
    })
}

/// A question with its answer, and where it stands.
fn answered() -> Value {
    let mut answered = ask();
    for member in ["runId", "nodeId", "interruptId"] {
        answered["properties"][member] = json!({"type": "string"});
    }
    answered["required"] = json!([
        "runId",
        "nodeId",
        "interruptId",
        "askId",
        "question",
        "askedBy",
        "askedAt",
        "answer",
        "answeredBy",
        "answeredAt",
    ]);
    answered
}
