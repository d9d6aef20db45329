//! One attempt of a delivery: checks the subscription, sends the request, and records the result.

use std::sync::Arc;
use std::time::Instant;

use holdpoint_core::Timestamp;
use holdpoint_core::webhook::{
    AttemptOutcome, BreakerState, ChangeReason, DeadReason, DeliveryOutcome, DeliveryResponse, DeliveryState,
    Mode, RetryPolicy, SubscriptionState,
};
use uuid::Uuid;

use super::settings::millis;
use super::{
    BestEffortEvent, DeliveryContent, DeliveryEnvelope, DeliveryLane, DeliverySignature, Render, sign,
};
use crate::engine::{Engine, SigningSecrets};
use crate::error::Error;
use crate::outgoing::{Method, OutgoingRequest};
use crate::store::deliveries::attempts::{self, NewAttempt};
use crate::store::deliveries::{Delivery, DeliveryKind, EventName};
use crate::store::webhooks::Webhook;

/// The maximum size of a response. Its content is not used; a larger response is a failure.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Time beyond the attempt timeout after which a probe of an open circuit counts as lost.
const PROBE_GRACE_MS: u64 = 1000;

/// Sends deliveries and records their results.
pub(super) struct DeliverySender {
    pub engine: Engine,
    pub render: Arc<dyn Render>,
}

/// The address, the signing secrets and the retry policy of a delivery.
struct DeliveryTarget {
    url: String,
    /// None for callbacks of runs that earlier versions started: they have no secret.
    signed: Option<Signer>,
    retry: RetryPolicy,
}

/// The secrets of a subscription with the id of the subscription, or the secret of a run's callbacks.
struct Signer {
    webhook: Option<String>,
    secrets: SigningSecrets,
}

/// The result of one attempt.
struct AttemptResult {
    at: Timestamp,
    latency_ms: u64,
    status: Option<u16>,
    error: Option<String>,
    reception: DeliveryResponse,
    /// True if the request was sent. Only then does the result count for the circuit breaker.
    request_sent: bool,
}

/// The decision about a claimed delivery.
enum DeliveryPlan {
    Send(DeliveryTarget),
    Postpone,
    Drop,
    DeadLetter,
}

impl DeliverySender {
    /// Sends a claimed durable delivery. Returns whether the subscriber accepted it, or None if no request was sent.
    /// After an error, a delivery worker claims it again when its lease has expired.
    pub(super) async fn deliver(&self, mut delivery: Delivery) -> Result<Option<bool>, Error> {
        let now = self.engine.now();
        if delivery.lease.is_none_or(|lease| lease <= now) {
            return Ok(None);
        }
        let ended = |()| None;
        let target = match self.plan(&delivery).await? {
            DeliveryPlan::Send(target) => target,
            DeliveryPlan::Postpone => {
                return self.engine.write_rows(vec![delivery.give_back()]).await.map(ended);
            }
            DeliveryPlan::Drop => {
                return self.end_delivery(&delivery, DeliveryState::Dropped, now).await.map(ended);
            }
            DeliveryPlan::DeadLetter => {
                delivery.reason = Some(DeadReason::SubscriptionEnded.as_str().to_owned());
                return self.end_delivery(&delivery, DeliveryState::DeadLettered, now).await.map(ended);
            }
        };
        let sent = match self.send(&target, &delivery, true).await {
            Some(sent) => sent,
            None => return self.end_delivery(&delivery, DeliveryState::Dropped, now).await.map(ended),
        };
        delivery.attempt = delivery.attempt.saturating_add(1);
        let now = self.engine.now();
        let next = target.retry.outcome_of_attempt(delivery.attempt, sent.reception, random_bits(), now);
        let (state, due, outcome) = match next {
            DeliveryOutcome::Delivered => (DeliveryState::Delivered, delivery.due, AttemptOutcome::Delivered),
            DeliveryOutcome::RetryAt(at) => (DeliveryState::Queued, at, AttemptOutcome::Retrying),
            DeliveryOutcome::DeadLetter(reason) => {
                delivery.reason = Some(reason.as_str().to_owned());
                (DeliveryState::DeadLettered, delivery.due, AttemptOutcome::DeadLettered)
            }
        };
        let mut rows =
            vec![delivery.settle(state, due, state.ended().then_some(now)), sent.row(&delivery, outcome)];
        if delivery.ordered && !state.ended() {
            rows.push(delivery.postpone_later(due));
        }
        self.engine.write_rows(rows).await?;
        if let (DeliveryKind::Event, DeliveryOutcome::DeadLetter(reason)) = (delivery.kind, next) {
            self.record_dead_letter(&delivery, reason, now).await?;
        }
        Ok(sent.request_sent.then_some(sent.reception.succeeded()))
    }

    async fn end_delivery(
        &self,
        delivery: &Delivery,
        state: DeliveryState,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.engine.write_rows(vec![delivery.settle(state, delivery.due, Some(now))]).await
    }

    async fn plan(&self, delivery: &Delivery) -> Result<DeliveryPlan, Error> {
        let of = &delivery.of;
        if delivery.kind == DeliveryKind::Callback {
            let run = self.engine.runs().get(of).await?;
            let Some(started) = &run.started else { return Ok(DeliveryPlan::Drop) };
            let Some(url) = started.callback_url.clone() else { return Ok(DeliveryPlan::Drop) };
            let secret = started.callback_secret.as_deref().map(|sealed| self.engine.callback_secret(sealed));
            let signer = |secret| Signer { webhook: None, secrets: SigningSecrets { secret, next: None } };
            let signed = secret.transpose()?.map(signer);
            return Ok(DeliveryPlan::Send(DeliveryTarget { url, signed, retry: RetryPolicy::default() }));
        }
        let Some(hook) = self.engine.find_webhook(&of.tenant, &delivery.webhook).await? else {
            return Ok(DeliveryPlan::Drop);
        };
        match hook.state {
            SubscriptionState::Active => Ok(DeliveryPlan::Send(self.target(&hook)?)),
            SubscriptionState::Paused => {
                self.engine.pause_lapsed(&hook).await?;
                Ok(DeliveryPlan::Postpone)
            }
            SubscriptionState::Failed | SubscriptionState::DeadLettered => Ok(DeliveryPlan::DeadLetter),
        }
    }

    fn target(&self, hook: &Webhook) -> Result<DeliveryTarget, Error> {
        let secrets = self.engine.webhook_secrets(hook)?;
        let retry = match hook.mode {
            Mode::Durable => hook.retry.clone(),
            // A replayed best-effort delivery gets one more attempt.
            Mode::BestEffort => RetryPolicy { max_attempts: 1, ..hook.retry.clone() },
        };
        let signed = Some(Signer { webhook: Some(hook.id.clone()), secrets });
        Ok(DeliveryTarget { url: hook.url.clone(), signed, retry })
    }

    /// Records a dead letter. Too many of them end the subscription.
    async fn record_dead_letter(
        &self,
        delivery: &Delivery,
        reason: DeadReason,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (tenant, id) = (&delivery.of.tenant, &delivery.webhook);
        let change = |hook: &mut Webhook| {
            if hook.state != SubscriptionState::Active {
                return None;
            }
            if reason == DeadReason::Gone {
                hook.state = SubscriptionState::DeadLettered;
                return Some(ChangeReason::SourceRemoved);
            }
            hook.breaker.record_dead_letter(now);
            hook.breaker.has_failed().then(|| {
                hook.state = SubscriptionState::Failed;
                ChangeReason::RetryExhausted
            })
        };
        self.engine.change_webhook(tenant, id, change).await
    }

    /// Sends a best-effort event, with a single attempt.
    pub(super) async fn deliver_best_effort(
        &self,
        lane: &DeliveryLane,
        notice: BestEffortEvent,
    ) -> Result<(), Error> {
        let tenant = &notice.of.tenant;
        let Some(hook) = self.engine.find_webhook(tenant, &lane.webhook).await? else { return Ok(()) };
        if hook.state != SubscriptionState::Active {
            return self.engine.pause_lapsed(&hook).await;
        }
        if !self.circuit_allows(lane, &hook).await? {
            return Ok(());
        }
        let event = EventName { seq: notice.seq, name: notice.event };
        let new = Delivery::new(&notice.of, &hook.id, event, DeliveryKind::Event, notice.at);
        let target = self.target(&hook)?;
        let Some(sent) = self.send(&target, &new, false).await else { return Ok(()) };
        let now = self.engine.now();
        let accepted = sent.reception.succeeded();
        let (state, outcome) = if accepted {
            (DeliveryState::Delivered, AttemptOutcome::Delivered)
        } else {
            (DeliveryState::Dropped, AttemptOutcome::Failed)
        };
        let delivery = Delivery { state, attempt: 1, ended_at: Some(now), ..new };
        self.engine.write_rows(vec![delivery.insert(), sent.row(&delivery, outcome)]).await?;
        if accepted && (hook.breaker.consecutive_failures() > 0 || hook.breaker.is_open()) {
            lane.reset();
            let change = |hook: &mut Webhook| {
                let was_open = hook.breaker.is_open();
                hook.breaker.record_success();
                was_open.then_some(ChangeReason::CircuitClosed)
            };
            return self.engine.change_webhook(tenant, &hook.id, change).await;
        }
        if !accepted && sent.request_sent {
            return self.record_failure(lane, &hook, now).await;
        }
        Ok(())
    }

    /// Returns whether the circuit breaker allows an attempt. An open circuit allows one probe.
    async fn circuit_allows(&self, lane: &DeliveryLane, hook: &Webhook) -> Result<bool, Error> {
        let now = self.engine.now();
        let until = match hook.breaker.state_at(now) {
            BreakerState::Pass => return Ok(true),
            BreakerState::Failed => return Ok(false),
            BreakerState::Probe => {
                let within_ms = self.engine.hooks().settings.attempt_timeout_ms() + PROBE_GRACE_MS;
                let mut probing = hook.clone();
                probing.breaker.start_probe(now, within_ms);
                if self.engine.try_change_webhook(hook, probing, None).await? {
                    return Ok(true);
                }
                now
            }
            BreakerState::Skip(until) => until,
        };
        lane.count_skipped();
        lane.open_circuit_until(until);
        Ok(false)
    }

    async fn record_failure(&self, lane: &DeliveryLane, hook: &Webhook, now: Timestamp) -> Result<(), Error> {
        let cooldown_ms = self.engine.hooks().settings.cooldown_ms();
        let change = |hook: &mut Webhook| {
            let was_open = hook.breaker.is_open();
            hook.breaker.record_failure(now, cooldown_ms);
            if let Some(until) = hook.breaker.open_until() {
                lane.open_circuit_until(until);
            }
            if hook.breaker.has_failed() && hook.state == SubscriptionState::Active {
                hook.state = SubscriptionState::Failed;
                return Some(ChangeReason::RetryExhausted);
            }
            (!was_open && hook.breaker.is_open()).then_some(ChangeReason::CircuitOpened)
        };
        self.engine.change_webhook(&hook.tenant, &hook.id, change).await
    }

    /// Sends the request. Returns None if the event no longer exists.
    async fn send(
        &self,
        target: &DeliveryTarget,
        delivery: &Delivery,
        durable: bool,
    ) -> Option<AttemptResult> {
        let (at, started) = (self.engine.now(), Instant::now());
        let mut sent = AttemptResult {
            at,
            latency_ms: 0,
            status: None,
            error: None,
            reception: DeliveryResponse::Failed { retry_after_ms: None },
            request_sent: false,
        };
        let rendering = match delivery.kind {
            DeliveryKind::Event => self.render.event(&delivery.of, delivery.event_seq),
            DeliveryKind::Callback => self.render.callback(&delivery.of, delivery.event_seq),
        };
        let rendered = match rendering.await {
            Ok(rendered) => rendered?,
            Err(error) => {
                tracing::error!(%error, delivery = delivery.id, "cannot render the body of a delivery");
                sent.error = Some("the body could not be rendered".to_owned());
                return Some(sent);
            }
        };
        let settings = &self.engine.hooks().settings;
        let mut headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        headers.extend(rendered.trace.iter().cloned());
        headers.extend(self.render.headers(&envelope(target, delivery, &rendered, at, durable)));
        let request = OutgoingRequest {
            method: Method::Post,
            url: target.url.clone(),
            headers,
            body: rendered.body,
            timeout_ms: settings.attempt_timeout_ms(),
            body_bytes_max: RESPONSE_BYTES_MAX,
        };
        sent.request_sent = true;
        match self.engine.hooks().outgoing.send(request).await {
            Ok(response) => {
                let header = response.headers.iter().find(|(name, _)| name == "retry-after");
                let after = header.map(|(_, value)| value.as_str());
                sent.status = Some(response.status);
                sent.reception = DeliveryResponse::of_status(response.status, after, self.engine.now());
                sent.error = (!sent.reception.succeeded()).then(|| format!("answered {}", response.status));
            }
            Err(error) => sent.error = Some(error.to_string()),
        }
        sent.latency_ms = millis(started.elapsed());
        Some(sent)
    }
}

impl AttemptResult {
    fn row(&self, delivery: &Delivery, outcome: AttemptOutcome) -> crate::store::Statement {
        let error = self.error.as_deref();
        let attempt =
            NewAttempt { at: self.at, latency_ms: self.latency_ms, status: self.status, error, outcome };
        attempts::insert(delivery, &attempt)
    }
}

/// Returns the facts about a delivery that the renderer puts into headers.
fn envelope<'a>(
    target: &'a DeliveryTarget,
    delivery: &'a Delivery,
    rendered: &'a DeliveryContent,
    at: Timestamp,
    durable: bool,
) -> DeliveryEnvelope<'a> {
    let timestamp = at.0.div_euclid(1000);
    let sign = |secret: &str| sign(secret, timestamp, &rendered.body);
    DeliveryEnvelope {
        event_type: &rendered.event_type,
        webhook: target.signed.as_ref().and_then(|signer| signer.webhook.as_deref()),
        signature: target.signed.as_ref().map(|Signer { secrets, .. }| DeliverySignature {
            timestamp,
            current: sign(&secrets.secret),
            next: secrets.next.as_deref().map(sign),
        }),
        durable: durable.then_some((&delivery.id, &delivery.dedup_key)),
    }
}

/// Returns random bits for jitter: the second half of a UUIDv7.
fn random_bits() -> u64 {
    Uuid::now_v7().as_u64_pair().1
}
