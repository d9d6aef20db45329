//! Between what is said about webhooks and what the engine knows of them: pure functions, no decisions.

use holdpoint_api::ids::WebhookEventType;
use holdpoint_api::webhooks::{
    self as api, Circuit, CreateWebhook, DeadLetter, DeliveryAttempt, DeliveryQueued, OldSecret,
    ReplayWindow, SIGNATURE_ALGORITHMS as ALGORITHMS, WantedRetryPolicy, WebhookEvent, WebhookEventPayload,
};
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::webhook::{AttemptOutcome, Backoff, DeliveryState, Filter, Mode, RetryPolicy};
use holdpoint_core::{Event, Timestamp, limits};
use holdpoint_engine::{Attempt, Delivery, NewWebhook, Webhook, WebhookChange, WebhookOwner};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::instants::instant;

pub(super) fn new_webhook(caller: &Caller, body: CreateWebhook) -> Result<NewWebhook, ApiError> {
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
    let tags = body.tags.unwrap_or_default();
    check_tags(&tags)?;
    check_algorithms(body.supported_signature_algorithms.as_deref())?;
    Ok(NewWebhook {
        tenant: caller.tenant().clone(),
        url,
        filter: Filter { events, tags },
        // As discovery says. Best effort is what the protocol's older text has.
        mode: if body.durable.unwrap_or(true) { Mode::Durable } else { Mode::BestEffort },
        ordered: body.ordered.unwrap_or(true),
        retry: retry_policy(body.retry_policy)?,
        owner: Some(WebhookOwner::from(&*caller.0)),
        once: None,
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
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    Ok(())
}

pub(super) fn check_events(events: &[String]) -> Result<(), ApiError> {
    if events.iter().all(|event| Event::NAMES.contains(&event.as_str())) {
        return Ok(());
    }
    let message =
        "events: names something that is not a type of events here; details.known lists those that are";
    let known = Some(Event::NAMES.iter().map(|name| (*name).into()).collect());
    let details = ErrorDetails { known, ..ErrorDetails::of_field("events") };
    Err(ApiError::new(ErrorCode::ValidationError, message).with(details))
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
    let supported = Some(ALGORITHMS.map(Into::into).to_vec());
    let details = ErrorDetails { supported, ..ErrorDetails::of_field("supportedSignatureAlgorithms") };
    Err(ApiError::new(ErrorCode::ValidationError, message).with(details))
}

fn retry_policy(said: Option<WantedRetryPolicy>) -> Result<RetryPolicy, ApiError> {
    let default = RetryPolicy::default();
    let Some(said) = said else { return Ok(default) };
    let backoff = match said.backoff.as_deref() {
        None => default.backoff,
        Some(name) => Backoff::parse(name).ok_or_else(|| {
            let known = Backoff::ALL.map(Backoff::as_str).join(", ");
            ApiError::invalid("retryPolicy.backoff", format!("must be one of {known}"))
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
    let known = || DeliveryState::ALL.map(DeliveryState::as_str).join(", ");
    let found = DeliveryState::parse(name);
    found.map(Some).ok_or_else(|| ApiError::invalid("state", format!("must be one of {}", known())))
}

/// Returns the type of events that a list is about: changes of the state by default.
pub(super) fn event_type(name: Option<&str>) -> Result<WebhookEventType, ApiError> {
    let Some(name) = name else { return Ok(WebhookEventType::StateChanged) };
    let known = || WebhookEventType::ALL.map(WebhookEventType::as_str).join(" or ");
    WebhookEventType::parse(name).ok_or_else(|| ApiError::invalid("type", format!("must be {}", known())))
}

/// From when to when.
pub(super) fn window(body: &ReplayWindow) -> Result<(Timestamp, Timestamp), ApiError> {
    let missing =
        |field| ApiError::invalid(field, "is missing; give an instant such as 2026-05-01T10:00:00Z");
    let from = instant("from", body.from.as_deref())?.ok_or_else(|| missing("from"))?;
    let to = instant("to", body.to.as_deref())?.ok_or_else(|| missing("to"))?;
    if from >= to {
        return Err(ApiError::invalid("to", "must be after from"));
    }
    check_events(body.events.as_deref().unwrap_or_default())?;
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

/// Describes a subscription. Its secret is not part of it.
pub(super) fn describe(webhook: &Webhook) -> api::Webhook {
    let old_secret = webhook.old_secret.as_ref();
    api::Webhook {
        webhook_id: webhook.id.clone(),
        tenant_id: webhook.tenant.clone(),
        url: webhook.url.clone(),
        events: webhook.filter.events.clone(),
        tags: webhook.filter.tags.clone(),
        state: webhook.state,
        mode: webhook.mode,
        durable: webhook.mode == Mode::Durable,
        ordered: webhook.ordered,
        retry_policy: policy(&webhook.retry),
        secret_fingerprint: webhook.fingerprint.clone(),
        signature_algorithm: ALGORITHMS[0].to_owned(),
        circuit: if webhook.breaker.is_open() { Circuit::Open } else { Circuit::Closed },
        circuit_open_until: webhook.breaker.open_until().map(Into::into),
        failures_in_a_row: webhook.breaker.in_a_row(),
        created_at: webhook.created_at.into(),
        updated_at: webhook.updated_at.into(),
        reason: webhook.reason,
        owner: webhook.owner.as_ref().map(describe_owner),
        old_secret: old_secret
            .map(|old| OldSecret { fingerprint: old.fingerprint.clone(), valid_until: old.until.into() }),
    }
}

fn describe_owner(owner: &WebhookOwner) -> api::WebhookOwner {
    api::WebhookOwner {
        principal: owner.principal.clone(),
        key_id: owner.key_id.clone(),
        lineage: owner.lineage.clone(),
    }
}

pub(in crate::openwop) fn policy(policy: &RetryPolicy) -> api::RetryPolicy {
    api::RetryPolicy {
        max_attempts: policy.max_attempts,
        backoff: policy.backoff,
        base_ms: policy.base_ms,
        max_ms: policy.max_ms,
    }
}

pub(super) fn describe_delivery(delivery: &Delivery, attempts: &[Attempt]) -> api::Delivery {
    api::Delivery { row: delivery_alone(delivery), attempts: attempts.iter().map(describe_attempt).collect() }
}

/// Without its attempts.
pub(super) fn delivery_alone(delivery: &Delivery) -> DeliveryQueued {
    let is_queued = delivery.ended_at.is_none() && delivery.state == DeliveryState::Queued;
    DeliveryQueued {
        delivery_id: delivery.id.clone(),
        webhook_id: delivery.webhook.clone(),
        run_id: delivery.of.run.clone(),
        sequence: delivery.event_seq,
        event_type: delivery.event_type.clone(),
        state: delivery.state,
        attempt: delivery.attempt,
        dedup_key: delivery.dedup_key.clone(),
        created_at: delivery.created_at.into(),
        next_attempt_at: is_queued.then(|| delivery.due.into()),
        ended_at: delivery.ended_at.map(Into::into),
        reason: delivery.reason.clone(),
    }
}

fn describe_attempt(attempt: &Attempt) -> DeliveryAttempt {
    DeliveryAttempt {
        attempt: attempt.number,
        at: attempt.at.into(),
        latency_ms: attempt.latency_ms,
        outcome: attempt.outcome,
        status: attempt.status,
        error: attempt.error.clone(),
    }
}

pub(super) fn describe_change(webhook: &str, change: &WebhookChange) -> WebhookEvent {
    WebhookEvent {
        event_id: format!("{webhook}:{}", change.seq),
        kind: WebhookEventType::StateChanged,
        timestamp: change.at.into(),
        payload: WebhookEventPayload {
            subscription_id: webhook.to_owned(),
            from_state: Some(change.from),
            to_state: Some(change.to),
            reason: Some(change.reason),
            ..WebhookEventPayload::default()
        },
    }
}

/// Describes an attempt for statistics: without the status and the text of the receiver.
pub(super) fn attempted(webhook: &str, attempt: &Attempt) -> WebhookEvent {
    WebhookEvent {
        event_id: attempt_id(webhook, attempt.seq),
        kind: WebhookEventType::Attempted,
        timestamp: attempt.at.into(),
        payload: WebhookEventPayload {
            subscription_id: webhook.to_owned(),
            delivery_id: attempt.delivery.clone(),
            attempt: Some(attempt.number),
            latency_ms: Some(attempt.latency_ms),
            times: (attempt.outcome == AttemptOutcome::Dropped).then_some(attempt.times),
            outcome: Some(attempt.outcome),
            ..WebhookEventPayload::default()
        },
    }
}

fn attempt_id(webhook: &str, seq: u64) -> String {
    format!("{webhook}:attempt:{seq}")
}

/// A delivery that was given up before its turn has no last attempt.
pub(super) fn dead_letter(
    delivery: &Delivery,
    last: Option<u64>,
    kept_until: Option<Timestamp>,
) -> DeadLetter {
    DeadLetter {
        subscription_id: delivery.webhook.clone(),
        delivery_id: delivery.id.clone(),
        run_id: delivery.of.run.clone(),
        sequence: delivery.event_seq,
        event_type: delivery.event_type.clone(),
        attempt: delivery.attempt,
        reason: delivery.reason.clone(),
        dedup_key: delivery.dedup_key.clone(),
        attempt_event_id: last.map(|seq| attempt_id(&delivery.webhook, seq)),
        dead_lettered_at: delivery.ended_at.map(Into::into),
        expires_at: kept_until.map(Into::into),
    }
}
