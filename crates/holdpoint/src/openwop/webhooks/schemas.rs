//! Webhooks as the OpenAPI document describes them.

use holdpoint_core::webhook::{
    AttemptOutcome, Backoff, ChangeReason, DeliveryState, Mode, SubscriptionState,
};
use holdpoint_core::{Event, limits};
use serde_json::{Value, json};

use super::translate::{ALGORITHMS, ATTEMPTED, STATE_CHANGED};

fn words<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> Value {
    json!({"type": "string", "enum": all.iter().map(|one| word(*one)).collect::<Vec<_>>()})
}

pub(crate) fn parameters() -> Value {
    json!({
        "tenantId": {
            "name": "tenantId", "in": "query", "description": "The tenant of the key; another one is refused.",
            "schema": {"type": "string"},
        },
        "deliveryState": {
            "name": "state", "in": "query", "description": "Only deliveries in this state.",
            "schema": words(DeliveryState::ALL, DeliveryState::as_str),
        },
        "webhookEventType": {
            "name": "type", "in": "query", "description": "Which events are listed.",
            "schema": {"type": "string", "enum": [STATE_CHANGED, ATTEMPTED], "default": STATE_CHANGED},
        },
    })
}

pub(crate) fn all() -> Vec<(&'static str, Value)> {
    let list = |name: &str, of: &str| {
        json!({
            "type": "object",
            "required": [name],
            "properties": {
                name: {"type": "array", "items": {"$ref": format!("#/components/schemas/{of}")}},
                "nextCursor": {"type": "string"},
            },
        })
    };
    let mut created = webhook();
    created["properties"]["subscriptionId"] =
        json!({"type": "string", "description": "The same as webhookId."});
    created["properties"]["eventTypes"] =
        json!({"type": "array", "items": {"type": "string"}, "description": "The same as events."});
    created["properties"]["secret"] = json!({
        "type": "string", "pattern": "^[0-9a-f]{64}$",
        "description": "Shown once: not when the request is sent again under its Idempotency-Key.",
    });
    let mut with_attempts = delivery();
    with_attempts["properties"]["attempts"] = json!({"type": "array", "items": attempt()});
    with_attempts["required"].as_array_mut().into_iter().for_each(|names| names.push(json!("attempts")));
    vec![
        ("CreateWebhook", create()),
        ("WebhookCreated", created),
        ("Webhook", webhook()),
        ("RotateWebhook", rotate()),
        ("Webhooks", list("webhooks", "Webhook")),
        ("WebhookEvent", event()),
        ("WebhookEvents", list("events", "WebhookEvent")),
        ("Delivery", with_attempts),
        ("DeliveryQueued", delivery()),
        ("Deliveries", list("deliveries", "Delivery")),
        ("DeadLetter", dead_letter()),
        ("DeadLetters", list("deliveries", "DeadLetter")),
        ("ReplayWindow", replay_window()),
        (
            "Replayed",
            json!({
                "type": "object",
                "required": ["webhookId", "replayed"],
                "properties": {"webhookId": {"type": "string"}, "replayed": {"type": "integer", "minimum": 0}},
            }),
        ),
    ]
}

fn event_names() -> Value {
    json!({"type": "string", "enum": Event::NAMES})
}

fn retry_policy(nullable: bool) -> Value {
    // What callers leave out they may also send as null.
    let kind = |kind: &str| if nullable { json!([kind, "null"]) } else { json!(kind) };
    let wait = json!({"type": kind("integer"), "minimum": 0, "maximum": limits::WEBHOOK_WAIT_MS_MAX});
    let attempts = json!({"type": kind("integer"), "minimum": 1, "maximum": limits::WEBHOOK_ATTEMPTS_MAX});
    let mut backoff = words(Backoff::ALL, Backoff::as_str);
    backoff["type"] = kind("string");
    if let (true, Some(words)) = (nullable, backoff["enum"].as_array_mut()) {
        words.push(Value::Null);
    }
    json!({
        "type": kind("object"),
        "description": "Of durable webhooks. baseMs is at most maxMs.",
        "properties": {
            "maxAttempts": attempts, "backoff": backoff, "baseMs": wait, "maxMs": wait,
        },
        "additionalProperties": false,
    })
}

fn create() -> Value {
    let tag = json!({"type": "string", "minLength": 1, "maxLength": limits::TAG_CHARS_MAX});
    json!({
        "type": "object",
        "required": ["url", "events"],
        "properties": {
            "url": {
                "type": "string", "format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]://",
                "maxLength": limits::WEBHOOK_URL_CHARS_MAX,
            },
            "events": {"type": "array", "minItems": 1, "items": event_names()},
            "tenantId": {"type": ["string", "null"], "description": "The tenant of the key, unless told otherwise."},
            "tags": {
                "type": ["array", "null"], "maxItems": limits::TAGS_MAX, "items": tag,
                "description": "Only runs with one of these.",
            },
            "durable": {
                "type": ["boolean", "null"],
                "description": "true unless told otherwise: tried again until it is taken or given up. With false each event is tried once.",
            },
            "ordered": {
                "type": ["boolean", "null"],
                "description": "Whether a durable event waits for those of the same run before it; true unless told otherwise.",
            },
            "retryPolicy": retry_policy(true),
            "supportedSignatureAlgorithms": {
                "type": ["array", "null"], "items": {"type": "string"}, "contains": {"enum": ALGORITHMS},
            },
        },
        "not": {"required": ["secret"]},
        "examples": [{"url": "https://example.com/hooks", "events": ["run.completed", "run.failed"]}],
    })
}

fn webhook() -> Value {
    let (text, flag) = (json!({"type": "string"}), json!({"type": "boolean"}));
    let instant = json!({"$ref": "#/components/schemas/Instant"});
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let fingerprint = json!({"type": "string", "pattern": "^[0-9a-f]{8}$"});
    let mut reason = words(ChangeReason::ALL, ChangeReason::as_str);
    reason["description"] =
        json!("Why it is not active. Missing if it is, or if an earlier version stored it.");
    json!({
        "type": "object",
        "required": [
            "webhookId", "tenantId", "url", "events", "tags", "state", "mode", "durable", "ordered", "retryPolicy",
            "secretFingerprint", "signatureAlgorithm", "circuit", "failuresInARow", "createdAt", "updatedAt", "owner",
        ],
        "properties": {
            "webhookId": text, "tenantId": text, "url": text, "events": texts, "tags": texts,
            "state": words(SubscriptionState::ALL, SubscriptionState::as_str),
            "mode": words(Mode::ALL, Mode::as_str),
            "durable": flag, "ordered": flag, "retryPolicy": retry_policy(false),
            "secretFingerprint": fingerprint,
            "signatureAlgorithm": {"type": "string", "enum": ALGORITHMS},
            "circuit": {"type": "string", "enum": ["closed", "open"]},
            "circuitOpenUntil": instant, "failuresInARow": {"type": "integer", "minimum": 0},
            "createdAt": instant, "updatedAt": instant, "reason": reason, "owner": owner(),
            "oldSecret": {
                "type": "object",
                "description": "The secret before the last rotation, while deliveries are signed with both.",
                "required": ["fingerprint", "validUntil"],
                "properties": {"fingerprint": fingerprint, "validUntil": instant},
            },
        },
    })
}

fn rotate() -> Value {
    json!({
        "type": "object",
        "properties": {
            "overlapSeconds": {
                "type": ["integer", "null"], "minimum": 0, "maximum": limits::WEBHOOK_OVERLAP_SECONDS_MAX,
                "default": limits::WEBHOOK_OVERLAP_SECONDS_DEFAULT,
                "description": "Seconds for which deliveries are signed with the old secret, too.",
            },
        },
        "additionalProperties": false,
    })
}

fn owner() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": ["object", "null"],
        "description": "Who created the webhook or resumed it last. It is paused when the lineage of this key has no \
            active key. Null if an earlier version stored it.",
        "required": ["principal", "keyId", "lineage"],
        "properties": {"principal": text, "keyId": text, "lineage": text},
    })
}

fn delivery() -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
    let instant = json!({"$ref": "#/components/schemas/Instant"});
    json!({
        "type": "object",
        "required": [
            "deliveryId", "webhookId", "runId", "sequence", "eventType", "state", "attempt", "dedupKey", "createdAt",
        ],
        "properties": {
            "deliveryId": text, "webhookId": text, "runId": text, "sequence": number, "eventType": event_names(),
            "state": words(DeliveryState::ALL, DeliveryState::as_str),
            "attempt": number, "dedupKey": text, "createdAt": instant, "nextAttemptAt": instant, "endedAt": instant,
            "reason": text,
        },
    })
}

fn attempt() -> Value {
    json!({
        "type": "object",
        "required": ["attempt", "at", "latencyMs", "outcome"],
        "properties": {
            "attempt": {"type": "integer", "minimum": 0},
            "at": {"$ref": "#/components/schemas/Instant"},
            "latencyMs": {"type": "integer", "minimum": 0},
            "outcome": words(AttemptOutcome::ALL, AttemptOutcome::as_str),
            "status": {"type": "integer", "minimum": 100, "maximum": 999},
            "error": {"type": "string"},
        },
    })
}

fn event() -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
    let state = words(SubscriptionState::ALL, SubscriptionState::as_str);
    json!({
        "type": "object",
        "required": ["eventId", "type", "timestamp", "payload"],
        "properties": {
            "eventId": text,
            "type": {"type": "string", "enum": [STATE_CHANGED, ATTEMPTED]},
            "timestamp": {"$ref": "#/components/schemas/Instant"},
            "payload": {
                "type": "object",
                "required": ["subscriptionId"],
                "properties": {
                    "subscriptionId": text, "fromState": state, "toState": state,
                    "reason": words(ChangeReason::ALL, ChangeReason::as_str),
                    "deliveryId": text, "attempt": number, "latencyMs": number, "times": number,
                    "outcome": words(AttemptOutcome::ALL, AttemptOutcome::as_str),
                },
            },
        },
    })
}

fn dead_letter() -> Value {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
    let instant = json!({"$ref": "#/components/schemas/Instant"});
    json!({
        "type": "object",
        "required": ["subscriptionId", "deliveryId", "runId", "sequence", "eventType", "attempt", "reason", "dedupKey"],
        "properties": {
            "subscriptionId": text, "deliveryId": text, "runId": text, "sequence": number, "eventType": event_names(),
            "attempt": number, "reason": {"type": ["string", "null"]}, "dedupKey": text, "attemptEventId": text,
            "deadLetteredAt": instant, "expiresAt": instant,
        },
    })
}

fn replay_window() -> Value {
    let instant = json!({"$ref": "#/components/schemas/Instant"});
    json!({
        "type": "object",
        "required": ["from", "to"],
        "properties": {
            "from": instant, "to": instant,
            "events": {
                "type": ["array", "null"], "items": event_names(), "description": "All, unless some are named.",
            },
        },
        "additionalProperties": false,
    })
}
