//! One attempt of a delivery: checks the subscription, calls the courier, and records the result.

use std::sync::Arc;
use std::time::Instant;

use holdpoint_core::Timestamp;
use holdpoint_core::webhook::{
    AttemptOutcome, BreakerState, ChangeReason, DeadReason, DeliveryOutcome, DeliveryResponse, DeliveryState,
    Mode, RetryPolicy, SubscriptionState,
};
use uuid::Uuid;

use super::courier::{AttemptClient, AttemptResult, Courier, DeliveryJob};
use super::{BestEffortEvent, DeliveryLane};
use crate::engine::{Engine, SigningSecrets};
use crate::error::Error;
use crate::store::deliveries::{Delivery, DeliveryKind, EventName};
use crate::store::webhooks::Webhook;

/// Time beyond the attempt timeout after which a probe of an open circuit counts as lost.
const PROBE_GRACE_MS: u64 = 1000;

/// Sends deliveries and records their results.
pub(super) struct DeliverySender {
    pub engine: Engine,
    pub courier: Arc<Courier>,
}

/// The address, the signing secrets and the retry policy of a delivery.
struct DeliveryTarget {
    url: String,
    /// None for callbacks of runs that earlier versions started: they have no secret.
    secrets: Option<SigningSecrets>,
    retry: RetryPolicy,
}

/// The decision about a claimed delivery.
enum DeliveryPlan {
    Send(DeliveryTarget),
    Postpone,
    Drop,
    DeadLetter,
}

impl DeliverySender {
    /// Sends a claimed durable delivery. Returns the response of the subscriber, or None if no request was sent. After
    /// an error, a delivery worker claims it again when its lease has expired.
    pub(super) async fn deliver(
        &self,
        lane: &DeliveryLane,
        mut delivery: Delivery,
    ) -> Result<Option<DeliveryResponse>, Error> {
        let now = self.engine.now();
        if delivery.lease.is_none_or(|lease| lease <= now) {
            return Ok(None);
        }
        let ended = |()| None;
        let target = match self.plan(lane, &delivery).await? {
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
        let retry = target.retry.clone();
        let dedup_key = Some(delivery.dedup_key.clone());
        let Some(sent) = self.send(target, &delivery, dedup_key).await else {
            return self.end_delivery(&delivery, DeliveryState::Dropped, now).await.map(ended);
        };
        delivery.attempt = delivery.attempt.saturating_add(1);
        let now = self.engine.now();
        let next = retry.outcome_of_attempt(delivery.attempt, sent.response, random_bits(), now);
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
        Ok(sent.request_sent.then_some(sent.response))
    }

    async fn end_delivery(
        &self,
        delivery: &Delivery,
        state: DeliveryState,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.engine.write_rows(vec![delivery.settle(state, delivery.due, Some(now))]).await
    }

    async fn plan(&self, lane: &DeliveryLane, delivery: &Delivery) -> Result<DeliveryPlan, Error> {
        let of = &delivery.of;
        if delivery.kind == DeliveryKind::Callback {
            let run = self.engine.runs().get(of).await?;
            let Some(started) = &run.started else { return Ok(DeliveryPlan::Drop) };
            let Some(url) = started.callback_url.clone() else { return Ok(DeliveryPlan::Drop) };
            let secret = started.callback_secret.as_deref().map(|sealed| self.engine.callback_secret(sealed));
            let secrets = secret.transpose()?.map(|secret| SigningSecrets { secret, next: None });
            return Ok(DeliveryPlan::Send(DeliveryTarget { url, secrets, retry: RetryPolicy::default() }));
        }
        let Some(hook) = lane.find_webhook(&self.engine).await? else { return Ok(DeliveryPlan::Drop) };
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
        let secrets = Some(self.engine.webhook_secrets(hook)?);
        let retry = match hook.mode {
            Mode::Durable => hook.retry.clone(),
            // A replayed best-effort delivery gets one more attempt.
            Mode::BestEffort => RetryPolicy { max_attempts: 1, ..hook.retry.clone() },
        };
        Ok(DeliveryTarget { url: hook.url.clone(), secrets, retry })
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
        let Some(hook) = lane.find_webhook(&self.engine).await? else { return Ok(()) };
        if hook.state != SubscriptionState::Active {
            return self.engine.pause_lapsed(&hook).await;
        }
        if !self.circuit_allows(lane, &hook).await? {
            return Ok(());
        }
        let event = EventName { seq: notice.seq, name: notice.event };
        let new = Delivery::new(&notice.of, &hook.id, event, DeliveryKind::Event, notice.at);
        let target = self.target(&hook)?;
        let Some(sent) = self.send(target, &new, None).await else { return Ok(()) };
        let now = self.engine.now();
        let accepted = sent.response.succeeded();
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

    /// Makes an attempt. Returns None if the event no longer exists. `dedup_key` is the key of a durable delivery.
    async fn send(
        &self,
        target: DeliveryTarget,
        delivery: &Delivery,
        dedup_key: Option<String>,
    ) -> Option<AttemptResult> {
        let (at, id) = (self.engine.now(), &delivery.id);
        let client = AttemptClient {
            engine: self.engine.clone(),
            url: target.url,
            delivery: id.clone(),
            mode: if dedup_key.is_some() { Mode::Durable } else { Mode::BestEffort },
            at,
            started: Instant::now(),
        };
        let job = DeliveryJob {
            of: delivery.of.clone(),
            seq: delivery.event_seq,
            kind: delivery.kind,
            webhook: (delivery.kind == DeliveryKind::Event).then(|| delivery.webhook.clone()),
            secrets: target.secrets,
            id: id.clone(),
            dedup_key,
            at,
        };
        (self.courier)(job, client).await
    }
}

/// Returns random bits for jitter: the second half of a UUIDv7.
fn random_bits() -> u64 {
    Uuid::now_v7().as_u64_pair().1
}
