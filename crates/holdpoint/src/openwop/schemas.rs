//! The protocol's shapes as the OpenAPI document describes them. What clients send is described as it is judged; what
//! they get may have further members in later versions.

mod answers;
mod links;
mod waiting;

use holdpoint_core::limits;
use serde_json::{Value, json};

use super::webhooks;

pub(crate) fn parameters() -> Value {
    let mut all = json!({
        "workflowId": {
            "name": "workflowId", "in": "query", "description": "Only interrupts of runs of this workflow.",
            "schema": {"type": "string"},
        },
        "tag": {"name": "tag", "in": "query", "description": "Only interrupts of runs with this tag.", "schema": {"type": "string"}},
        "streamMode": {
            "name": "streamMode", "in": "query",
            "description": "Which events are shown: one mode, or several with commas between; values stands alone. \
                A stream shows updates unless told otherwise, a list everything.",
            "schema": {
                "type": "string",
                "pattern": r"^\s*(values|(updates|messages|debug)(\s*,\s*(updates|messages|debug))*)\s*$",
            },
        },
        "bufferMs": {
            "name": "bufferMs", "in": "query", "description": "How long a stream gathers events into one batch.",
            "schema": {"type": "integer", "minimum": 0, "maximum": 5000, "default": 0},
        },
        "lastSequence": {
            "name": "lastSequence", "in": "query", "description": "The last event that the reader has seen.",
            "schema": {"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX},
        },
        "timeout": {
            "name": "timeout", "in": "query", "description": "Seconds to wait for news.",
            "schema": {"type": "integer", "minimum": 1, "maximum": 60, "default": 30},
        },
        "Last-Event-ID": {
            "name": "Last-Event-ID", "in": "header",
            "description": "Where a reader that comes back goes on. Beyond the end of the log it goes on at the end.",
            "schema": {"type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX},
        },
    });
    for (name, parameter) in waiting::parameters() {
        all[name] = parameter;
    }
    for (name, parameter) in of_bundles() {
        all[name] = parameter;
    }
    all
}

fn of_bundles() -> [(&'static str, Value); 1] {
    [(
        "maxEvents",
        json!({
            "name": "maxEvents", "in": "query", "description": "Events in the bundle at most: the first ones.",
            "schema": {"type": "integer", "minimum": 1, "maximum": i64::MAX},
        }),
    )]
}

pub(crate) fn all() -> Value {
    let mut all = answers::all();
    for (name, schema) in waiting::all() {
        all[name] = schema;
    }
    for (name, schema) in [
        ("ResolveInterrupt", resolve_interrupt()),
        ("ResolveApproval", resolve_approval()),
        (
            "AnswerAsk",
            json!({
                "type": "object",
                "required": ["answer"],
                "properties": {
                    "answer": {"type": "string", "minLength": 1, "maxLength": limits::ASK_CHARS_MAX},
                    "interruptId": interrupt_id(),
                },
                "additionalProperties": false,
            }),
        ),
        ("MintToken", links::wanted()),
        ("TokenMinted", links::minted()),
        ("LinkedInterrupt", links::linked()),
        ("SendEvent", send_event()),
    ] {
        all[name] = schema;
    }
    for (name, schema) in webhooks::schemas::all() {
        all[name] = schema;
    }
    all
}

fn resolve_interrupt() -> Value {
    json!({
        "type": "object",
        "required": ["resumeValue"],
        "properties": {
            "resumeValue": {"description": "What the node asked for; depends on its kind."},
            "digest": digest(), "interruptId": interrupt_id(),
        },
    })
}

fn resolve_approval() -> Value {
    json!({
        "type": "object",
        "description": "The resume value itself: an action, or a decision of older clients.",
        "properties": {"digest": digest(), "interruptId": interrupt_id()},
    })
}

fn interrupt_id() -> Value {
    json!({
        "type": ["string", "null"],
        "description": "The id of the interrupt. Required if the node has several open interrupts; without it the \
            request is refused with interrupt_ambiguous.",
    })
}

fn digest() -> Value {
    json!({
        "type": ["string", "null"],
        "description": "Of what the caller was shown; one of something else is refused with payload_mismatch.",
    })
}

fn send_event() -> Value {
    let name = |max: usize| json!({"type": "string", "minLength": 1, "maxLength": max, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$"});
    json!({
        "type": "object",
        "required": ["eventType", "eventId"],
        "properties": {
            "eventType": name(limits::EVENT_TYPE_CHARS_MAX),
            "eventId": name(limits::EVENT_ID_CHARS_MAX),
            "correlation": {"type": ["object", "null"], "maxProperties": limits::CORRELATION_MEMBERS_MAX},
            "payload": {"description": "What happened, as whoever waits for it gets it."},
        },
        "additionalProperties": false,
        "examples": [{
            "eventType": "payment.settled", "eventId": "evt_1042", "correlation": {"orderId": "o-7"},
            "payload": {"amount": 30},
        }],
    })
}
