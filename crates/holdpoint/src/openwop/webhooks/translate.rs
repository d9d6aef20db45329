//! Between what is said about webhooks and what the engine knows of them: pure functions, no decisions.

use axum::http::StatusCode;
use holdpoint_core::webhook::{AttemptOutcome, Backoff, DeliveryState, Filter, Mode, RetryPolicy};
use holdpoint_core::{Event, Timestamp, limits};
use holdpoint_engine::{Attempt, Delivery, NewWebhook, Webhook, WebhookChange, WebhookOwner};
use serde_json::{Map, Value, json};

use super::wire;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::instants::instant;

pub(super) const STATE_CHANGED: &str = "trigger.subscription.state.changed";
pub(super) const ATTEMPTED: &str = "trigger.delivery.attempted";
/// How deliveries are signed.
pub(in crate::openwop) const ALGORITHMS: [&str; 1] = ["v1"];

pub(super) fn new_webhook(caller: &Caller, body: wire::CreateWebhook) -> Result<NewWebhook, ApiError> {
    own_tenant(caller, body.tenant_id.as_deref())?;
    if body.secret.is_some() {
        return Err(ApiError::invalid("secret", "is made here and cannot be chosen; leave it out"));
    }
    let url = body.url.ok_or_else(|| ApiError::invalid("url", "is missing"))?;
    if url.chars().count() > limits::WEBHOOK_URL_CHARS_MAX {
        let message = format!("must have at most {} characters", limits::WEBHOOK_URL_CHARS_MAX);
        return Err(ApiError::invalid("url", message));
    }
    let mut events = body.events.unwrap_or_default();
    if events.is_empty() {
        return Err(ApiError::invalid("events", "must name at least one type of events"));
    }
    check_events(&events)?;
    events.sort_unstable();
    events.dedup();
    check_tags(&body.tags)?;
    check_algorithms(body.supported_signature_algorithms.as_deref())?;
    Ok(NewWebhook {
        tenant: caller.tenant().clone(),
        url,
        filter: Filter { events, tags: body.tags },
        // As discovery says. Best effort is what the protocol's older text has.
        mode: if body.durable.unwrap_or(true) { Mode::Durable } else { Mode::BestEffort },
        ordered: body.ordered.unwrap_or(true),
        retry: retry_policy(body.retry_policy)?,
        owner: Some(WebhookOwner::from(&*caller.0)),
    })
}

/// Returns the time for which the old secret stays valid.
pub(super) fn overlap_ms(seconds: Option<u64>) -> Result<u64, ApiError> {
    let seconds = seconds.unwrap_or(limits::WEBHOOK_OVERLAP_SECONDS_DEFAULT);
    if seconds > limits::WEBHOOK_OVERLAP_SECONDS_MAX {
        let message = format!("must be 0 to {}", limits::WEBHOOK_OVERLAP_SECONDS_MAX);
        return Err(ApiError::invalid("overlapSeconds", message));
    }
    Ok(seconds * 1000)
}

/// A key belongs to one tenant, and manages the webhooks of that one only.
pub(super) fn own_tenant(caller: &Caller, named: Option<&str>) -> Result<(), ApiError> {
    if named.is_some_and(|tenant| tenant != caller.tenant().as_str()) {
        let message = "tenantId: this key belongs to another tenant";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message));
    }
    Ok(())
}

pub(super) fn check_events(events: &[String]) -> Result<(), ApiError> {
    if events.iter().all(|event| Event::NAMES.contains(&event.as_str())) {
        return Ok(());
    }
    let message =
        "events: names something that is not a type of events here; details.known lists those that are";
    Err(ApiError::new(StatusCode::BAD_REQUEST, "validation_error", message)
        .with(json!({"field": "events", "known": Event::NAMES})))
}

fn check_tags(tags: &[String]) -> Result<(), ApiError> {
    let fits = |tag: &String| !tag.is_empty() && tag.chars().count() <= limits::TAG_CHARS_MAX;
    if tags.len() <= limits::TAGS_MAX && tags.iter().all(fits) {
        return Ok(());
    }
    let message =
        format!("must be at most {} of 1 to {} characters", limits::TAGS_MAX, limits::TAG_CHARS_MAX);
    Err(ApiError::invalid("tags", message))
}

fn check_algorithms(supported: Option<&[String]>) -> Result<(), ApiError> {
    let Some(supported) = supported else { return Ok(()) };
    if supported.iter().any(|name| ALGORITHMS.contains(&name.as_str())) {
        return Ok(());
    }
    let message = format!(
        "supportedSignatureAlgorithms: none of them is known here; deliveries are signed with {}",
        ALGORITHMS.join(", ")
    );
    Err(ApiError::new(StatusCode::BAD_REQUEST, "validation_error", message)
        .with(json!({"field": "supportedSignatureAlgorithms", "supported": ALGORITHMS})))
}

fn retry_policy(said: Option<wire::RetryPolicy>) -> Result<RetryPolicy, ApiError> {
    let default = RetryPolicy::default();
    let Some(said) = said else { return Ok(default) };
    let backoff = match said.backoff.as_deref() {
        None => default.backoff,
        Some(name) => Backoff::parse(name).ok_or_else(|| {
            let known: Vec<&str> = Backoff::ALL.iter().map(|one| one.as_str()).collect();
            ApiError::invalid("retryPolicy.backoff", format!("must be one of {}", known.join(", ")))
        })?,
    };
    let max_ms = said.max_ms.unwrap_or(default.max_ms);
    let policy = RetryPolicy {
        max_attempts: said.max_attempts.unwrap_or(default.max_attempts),
        backoff,
        base_ms: said.base_ms.unwrap_or_else(|| default.base_ms.min(max_ms)),
        max_ms,
    };
    let bad = |field: &str, rule: &str| {
        ApiError::invalid(&format!("retryPolicy.{field}"), format!("must be {rule}"))
    };
    policy.check().map_err(|error| bad(error.field, &error.rule))?;
    Ok(policy)
}

pub(super) fn delivery_state(name: Option<&str>) -> Result<Option<DeliveryState>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let known = || DeliveryState::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
    let found = DeliveryState::parse(name);
    found.map(Some).ok_or_else(|| ApiError::invalid("state", format!("must be one of {}", known())))
}

/// From when to when.
pub(super) fn window(body: &wire::ReplayWindow) -> Result<(Timestamp, Timestamp), ApiError> {
    let missing =
        |field| ApiError::invalid(field, "is missing; give an instant such as 2026-05-01T10:00:00Z");
    let from = instant("from", body.from.as_deref())?.ok_or_else(|| missing("from"))?;
    let to = instant("to", body.to.as_deref())?.ok_or_else(|| missing("to"))?;
    if from >= to {
        return Err(ApiError::invalid("to", "must be after from"));
    }
    check_events(&body.events)?;
    Ok((from, to))
}

/// The cursor of lists that are counted.
pub(super) fn number(cursor: Option<&str>) -> Result<Option<u64>, ApiError> {
    let parsed = cursor.map(|text| text.parse::<u64>().ok().filter(|number| i64::try_from(*number).is_ok()));
    match parsed {
        Some(None) => Err(ApiError::invalid("cursor", "is not one of ours")),
        other => Ok(other.flatten()),
    }
}

/// A new subscription, with the names of its id and its events that published clients read.
pub(super) fn new_subscription(hook: &Webhook) -> Value {
    let mut shown = webhook(hook);
    shown["subscriptionId"] = json!(hook.id);
    shown["eventTypes"] = json!(hook.filter.events);
    shown
}

/// A subscription as its owner sees it. There is no secret in it.
pub(super) fn webhook(webhook: &Webhook) -> Value {
    let mut shown = json!({
        "webhookId": webhook.id, "tenantId": webhook.tenant, "url": webhook.url,
        "events": webhook.filter.events, "tags": webhook.filter.tags, "state": webhook.state.as_str(),
        "mode": webhook.mode.as_str(), "durable": webhook.mode == Mode::Durable, "ordered": webhook.ordered,
        "retryPolicy": policy(&webhook.retry), "secretFingerprint": webhook.fingerprint,
        "signatureAlgorithm": ALGORITHMS[0], "circuit": if webhook.breaker.is_open() { "open" } else { "closed" },
        "failuresInARow": webhook.breaker.in_a_row(), "createdAt": webhook.created_at.to_string(),
        "updatedAt": webhook.updated_at.to_string(), "owner": webhook.owner.as_ref().map(owner),
    });
    if let Some(reason) = webhook.reason {
        shown["reason"] = json!(reason.as_str());
    }
    if let Some(old) = &webhook.old_secret {
        shown["oldSecret"] = json!({"fingerprint": old.fingerprint, "validUntil": old.until.to_string()});
    }
    if let Some(until) = webhook.breaker.open_until() {
        shown["circuitOpenUntil"] = json!(until.to_string());
    }
    shown
}

fn owner(owner: &WebhookOwner) -> Value {
    json!({"principal": owner.principal, "keyId": owner.key_id, "lineage": owner.lineage})
}

pub(in crate::openwop) fn policy(policy: &RetryPolicy) -> Value {
    json!({
        "maxAttempts": policy.max_attempts, "backoff": policy.backoff.as_str(), "baseMs": policy.base_ms,
        "maxMs": policy.max_ms,
    })
}

pub(super) fn delivery(delivery: &Delivery, attempts: &[Attempt]) -> Value {
    let mut shown = delivery_alone(delivery);
    shown["attempts"] = attempts.iter().map(attempt).collect();
    shown
}

/// Without its attempts.
pub(super) fn delivery_alone(delivery: &Delivery) -> Value {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    put("deliveryId", json!(delivery.id));
    put("webhookId", json!(delivery.webhook));
    put("runId", json!(delivery.of.run));
    put("sequence", json!(delivery.event_seq));
    put("eventType", json!(delivery.event_type));
    put("state", json!(delivery.state.as_str()));
    put("attempt", json!(delivery.attempt));
    put("dedupKey", json!(delivery.dedup_key));
    put("createdAt", json!(delivery.created_at.to_string()));
    match (delivery.ended_at, delivery.state) {
        (Some(at), _) => put("endedAt", json!(at.to_string())),
        (None, DeliveryState::Queued) => put("nextAttemptAt", json!(delivery.due.to_string())),
        (None, _) => {}
    }
    if let Some(reason) = &delivery.reason {
        put("reason", json!(reason));
    }
    Value::Object(shown)
}

fn attempt(attempt: &Attempt) -> Value {
    let mut shown = json!({
        "attempt": attempt.number, "at": attempt.at.to_string(), "latencyMs": attempt.latency_ms,
        "outcome": attempt.outcome.as_str(),
    });
    if let Some(status) = attempt.status {
        shown["status"] = json!(status);
    }
    if let Some(error) = &attempt.error {
        shown["error"] = json!(error);
    }
    shown
}

pub(super) fn change(webhook: &str, change: &WebhookChange) -> Value {
    json!({
        "eventId": format!("{webhook}:{}", change.seq), "type": STATE_CHANGED, "timestamp": change.at.to_string(),
        "payload": {
            "subscriptionId": webhook, "fromState": change.from.as_str(), "toState": change.to.as_str(),
            "reason": change.reason.as_str(),
        },
    })
}

/// Told to whoever counts: no status, no words of the other side.
pub(super) fn attempted(webhook: &str, attempt: &Attempt) -> Value {
    let mut payload = json!({
        "subscriptionId": webhook, "attempt": attempt.number, "outcome": attempt.outcome.as_str(),
        "latencyMs": attempt.latency_ms,
    });
    if let Some(delivery) = &attempt.delivery {
        payload["deliveryId"] = json!(delivery);
    }
    if attempt.outcome == AttemptOutcome::Dropped {
        payload["times"] = json!(attempt.times);
    }
    let id = format!("{webhook}:attempt:{}", attempt.seq);
    json!({"eventId": id, "type": ATTEMPTED, "timestamp": attempt.at.to_string(), "payload": payload})
}

pub(super) fn dead_letter(delivery: &Delivery, last: Option<u64>, kept_until: Option<Timestamp>) -> Value {
    let mut shown = json!({
        "subscriptionId": delivery.webhook, "deliveryId": delivery.id, "runId": delivery.of.run,
        "sequence": delivery.event_seq, "eventType": delivery.event_type, "attempt": delivery.attempt,
        "reason": delivery.reason, "dedupKey": delivery.dedup_key,
    });
    // One that was given up before its turn had no attempt.
    if let Some(seq) = last {
        shown["attemptEventId"] = json!(format!("{}:attempt:{seq}", delivery.webhook));
    }
    if let Some(at) = delivery.ended_at {
        shown["deadLetteredAt"] = json!(at.to_string());
    }
    if let Some(at) = kept_until {
        shown["expiresAt"] = json!(at.to_string());
    }
    shown
}
