//! One attempt: looks once more whether it may be made, makes it, and writes down how it went.

use std::sync::Arc;
use std::time::Instant;

use holdpoint_core::Timestamp;
use holdpoint_core::webhook::{
    AttemptOutcome, ChangeReason, DeadReason, DeliveryState, Gate, Mode, Next, Reception, RetryPolicy,
    SubscriptionState,
};
use uuid::Uuid;

use super::settings::millis;
use super::{Lane, Notice, Render, Rendered, sign};
use crate::engine::{Engine, SigningSecrets};
use crate::error::Error;
use crate::outgoing::{Method, Request};
use crate::store::deliveries::{Delivery, DeliveryKind, attempts};
use crate::store::webhooks::Webhook;

/// Bytes of an answer that are read; nobody needs them, and a longer one is a failure.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How much longer than an attempt a probe of an open circuit is waited for.
const PROBE_GRACE_MS: u64 = 1000;
const AGENT: &str = concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION"));

pub(super) struct Carrier {
    pub engine: Engine,
    pub render: Arc<dyn Render>,
}

/// Where a delivery goes, and what it is signed with.
struct Target {
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

struct Sent {
    at: Timestamp,
    latency_ms: u64,
    status: Option<u16>,
    error: Option<String>,
    reception: Reception,
    /// Whether the other side had a part in it.
    reached_out: bool,
}

/// Whether a claimed delivery is sent, or what becomes of it instead.
enum Errand {
    Go(Target),
    NotNow,
    Drop,
    GiveUp,
}

impl Carrier {
    /// A durable delivery that is ours until its lease ends. What goes wrong here is taken over then. Says whether it was taken,
    /// where that was tried.
    pub(super) async fn carry(&self, mut delivery: Delivery) -> Result<Option<bool>, Error> {
        let now = self.engine.now();
        if delivery.lease.is_none_or(|lease| lease <= now) {
            return Ok(None);
        }
        let ended = |()| None;
        let target = match self.errand(&delivery).await? {
            Errand::Go(target) => target,
            Errand::NotNow => return self.engine.write_rows(vec![delivery.give_back()]).await.map(ended),
            Errand::Drop => return self.end(&delivery, DeliveryState::Dropped, now).await.map(ended),
            Errand::GiveUp => {
                delivery.reason = Some(DeadReason::SubscriptionEnded.as_str().to_owned());
                return self.end(&delivery, DeliveryState::DeadLettered, now).await.map(ended);
            }
        };
        let sent = match self.send(&target, &delivery, true).await {
            Some(sent) => sent,
            None => return self.end(&delivery, DeliveryState::Dropped, now).await.map(ended),
        };
        delivery.attempt = delivery.attempt.saturating_add(1);
        let now = self.engine.now();
        let next = target.retry.next(delivery.attempt, sent.reception, chance(), now);
        let (state, due, outcome) = match next {
            Next::Delivered => (DeliveryState::Delivered, delivery.due, AttemptOutcome::Delivered),
            Next::RetryAt(at) => (DeliveryState::Queued, at, AttemptOutcome::Retrying),
            Next::DeadLetter(reason) => {
                delivery.reason = Some(reason.as_str().to_owned());
                (DeliveryState::DeadLettered, delivery.due, AttemptOutcome::DeadLettered)
            }
        };
        let mut rows =
            vec![delivery.settle(state, due, state.ended().then_some(now)), sent.row(&delivery, outcome)];
        if delivery.ordered && !state.ended() {
            rows.push(delivery.put_off(due));
        }
        self.engine.write_rows(rows).await?;
        if let (DeliveryKind::Event, Next::DeadLetter(reason)) = (delivery.kind, next) {
            self.gave_up(&delivery, reason, now).await?;
        }
        Ok(sent.reached_out.then_some(sent.reception.succeeded()))
    }

    async fn end(&self, delivery: &Delivery, state: DeliveryState, now: Timestamp) -> Result<(), Error> {
        self.engine.write_rows(vec![delivery.settle(state, delivery.due, Some(now))]).await
    }

    async fn errand(&self, delivery: &Delivery) -> Result<Errand, Error> {
        let of = &delivery.of;
        if delivery.kind == DeliveryKind::Callback {
            let run = self.engine.run(of).await?;
            let Some(started) = &run.started else { return Ok(Errand::Drop) };
            let Some(url) = started.callback_url.clone() else { return Ok(Errand::Drop) };
            let secret = started.callback_secret.as_deref().map(|sealed| self.engine.callback_secret(sealed));
            let signer = |secret| Signer { webhook: None, secrets: SigningSecrets { secret, next: None } };
            let signed = secret.transpose()?.map(signer);
            return Ok(Errand::Go(Target { url, signed, retry: RetryPolicy::default() }));
        }
        let Some(hook) = self.engine.find_webhook(&of.tenant, &delivery.webhook).await? else {
            return Ok(Errand::Drop);
        };
        match hook.state {
            SubscriptionState::Active => Ok(Errand::Go(self.target(&hook)?)),
            SubscriptionState::Paused => {
                self.engine.pause_lapsed(&hook).await?;
                Ok(Errand::NotNow)
            }
            SubscriptionState::Failed | SubscriptionState::DeadLettered => Ok(Errand::GiveUp),
        }
    }

    fn target(&self, hook: &Webhook) -> Result<Target, Error> {
        let secrets = self.engine.webhook_secrets(hook)?;
        let retry = match hook.mode {
            Mode::Durable => hook.retry.clone(),
            // Somebody replays what was tried once; that is tried once more.
            Mode::BestEffort => RetryPolicy { max_attempts: 1, ..hook.retry.clone() },
        };
        let signed = Some(Signer { webhook: Some(hook.id.clone()), secrets });
        Ok(Target { url: hook.url.clone(), signed, retry })
    }

    /// A delivery is a dead letter; too many of them are the end of a subscription.
    async fn gave_up(&self, delivery: &Delivery, reason: DeadReason, now: Timestamp) -> Result<(), Error> {
        let (tenant, id) = (&delivery.of.tenant, &delivery.webhook);
        let change = |hook: &mut Webhook| {
            if hook.state != SubscriptionState::Active {
                return None;
            }
            if reason == DeadReason::Gone {
                hook.state = SubscriptionState::DeadLettered;
                return Some(ChangeReason::SourceRemoved);
            }
            hook.breaker.gave_up(now);
            hook.breaker.has_failed().then(|| {
                hook.state = SubscriptionState::Failed;
                ChangeReason::RetryExhausted
            })
        };
        self.engine.change_webhook(tenant, id, change).await
    }

    /// What is tried once, and never again.
    pub(super) async fn try_once(&self, lane: &Lane, notice: Notice) -> Result<(), Error> {
        let tenant = &notice.of.tenant;
        let Some(hook) = self.engine.find_webhook(tenant, &lane.webhook).await? else { return Ok(()) };
        if hook.state != SubscriptionState::Active {
            return self.engine.pause_lapsed(&hook).await;
        }
        if !self.passes(lane, &hook).await? {
            return Ok(());
        }
        let new =
            Delivery::new(&notice.of, &hook.id, (notice.seq, notice.event), DeliveryKind::Event, notice.at);
        let target = self.target(&hook)?;
        let Some(sent) = self.send(&target, &new, false).await else { return Ok(()) };
        let now = self.engine.now();
        let taken = sent.reception.succeeded();
        let (state, outcome) = if taken {
            (DeliveryState::Delivered, AttemptOutcome::Delivered)
        } else {
            (DeliveryState::Dropped, AttemptOutcome::Failed)
        };
        let delivery = Delivery { state, attempt: 1, ended_at: Some(now), ..new };
        self.engine.write_rows(vec![delivery.insert(), sent.row(&delivery, outcome)]).await?;
        if taken && (hook.breaker.in_a_row() > 0 || hook.breaker.is_open()) {
            lane.open();
            let change = |hook: &mut Webhook| {
                let was_open = hook.breaker.is_open();
                hook.breaker.succeeded();
                was_open.then_some(ChangeReason::CircuitClosed)
            };
            return self.engine.change_webhook(tenant, &hook.id, change).await;
        }
        if !taken && sent.reached_out {
            return self.failed(lane, &hook, now).await;
        }
        Ok(())
    }

    /// Whether the circuit lets an attempt through; of several at an open one, the first.
    async fn passes(&self, lane: &Lane, hook: &Webhook) -> Result<bool, Error> {
        let now = self.engine.now();
        let until = match hook.breaker.gate(now) {
            Gate::Pass => return Ok(true),
            Gate::Failed => return Ok(false),
            Gate::Probe => {
                let within_ms = self.engine.hooks().settings.attempt_timeout_ms() + PROBE_GRACE_MS;
                let mut probing = hook.clone();
                probing.breaker.probe(now, within_ms);
                if self.engine.try_change_webhook(hook, probing, None).await? {
                    return Ok(true);
                }
                now
            }
            Gate::Skip(until) => until,
        };
        lane.skip();
        lane.close_until(until);
        Ok(false)
    }

    async fn failed(&self, lane: &Lane, hook: &Webhook, now: Timestamp) -> Result<(), Error> {
        let cooldown_ms = self.engine.hooks().settings.cooldown_ms();
        let change = |hook: &mut Webhook| {
            let was_open = hook.breaker.is_open();
            hook.breaker.failed(now, cooldown_ms);
            if let Some(until) = hook.breaker.open_until() {
                lane.close_until(until);
            }
            if hook.breaker.has_failed() && hook.state == SubscriptionState::Active {
                hook.state = SubscriptionState::Failed;
                return Some(ChangeReason::RetryExhausted);
            }
            (!was_open && hook.breaker.is_open()).then_some(ChangeReason::CircuitOpened)
        };
        self.engine.change_webhook(&hook.tenant, &hook.id, change).await
    }

    /// Nothing when there is nothing to say any more.
    async fn send(&self, target: &Target, delivery: &Delivery, durable: bool) -> Option<Sent> {
        let (at, begun) = (self.engine.now(), Instant::now());
        let mut sent = Sent {
            at,
            latency_ms: 0,
            status: None,
            error: None,
            reception: Reception::Failed { retry_after_ms: None },
            reached_out: false,
        };
        let rendering = match delivery.kind {
            DeliveryKind::Event => self.render.event(&delivery.of, delivery.event_seq),
            DeliveryKind::Callback => self.render.callback(&delivery.of, delivery.event_seq),
        };
        let rendered = match rendering.await {
            Ok(rendered) => rendered?,
            Err(error) => {
                tracing::error!(%error, delivery = delivery.id, "the body of a delivery could not be made");
                sent.error = Some("the body could not be made".to_owned());
                return Some(sent);
            }
        };
        let settings = &self.engine.hooks().settings;
        let request = Request {
            method: Method::Post,
            url: target.url.clone(),
            headers: headers(target, delivery, &rendered, at, durable),
            body: rendered.body,
            timeout_ms: settings.attempt_timeout_ms(),
            body_bytes_max: ANSWER_BYTES_MAX,
        };
        sent.reached_out = true;
        match self.engine.hooks().outgoing.send(request).await {
            Ok(response) => {
                let header = response.headers.iter().find(|(name, _)| name == "retry-after");
                let after = header.map(|(_, value)| value.as_str());
                sent.status = Some(response.status);
                sent.reception = Reception::of_status(response.status, after, self.engine.now());
                sent.error = (!sent.reception.succeeded()).then(|| format!("answered {}", response.status));
            }
            Err(error) => sent.error = Some(error.to_string()),
        }
        sent.latency_ms = millis(begun.elapsed());
        Some(sent)
    }
}

impl Sent {
    fn row(&self, delivery: &Delivery, outcome: AttemptOutcome) -> crate::store::Statement {
        attempts::insert(delivery, self.at, self.latency_ms, (self.status, self.error.as_deref()), outcome)
    }
}

/// Each of ours under both families of names, with the same value.
fn headers(
    target: &Target,
    delivery: &Delivery,
    rendered: &Rendered,
    at: Timestamp,
    durable: bool,
) -> Vec<(String, String)> {
    let mut ours = vec![("Event-Type", rendered.event_type.clone())];
    if let Some(Signer { webhook, secrets }) = &target.signed {
        let seconds = at.0.div_euclid(1000);
        ours.extend(webhook.clone().map(|id| ("Webhook-Id", id)));
        ours.extend([
            ("Timestamp", seconds.to_string()),
            ("Signature", sign(&secrets.secret, seconds, &rendered.body)),
            ("Signature-Algorithm", "v1".to_owned()),
        ]);
        let next = secrets.next.as_ref().map(|next| sign(next, seconds, &rendered.body));
        ours.extend(next.map(|signature| ("Signature-Next", signature)));
    }
    if durable {
        ours.extend([("Delivery-Id", delivery.id.clone()), ("Dedup-Key", delivery.dedup_key.clone())]);
    }
    let mut headers = vec![
        ("Content-Type".to_owned(), "application/json".to_owned()),
        ("User-Agent".to_owned(), AGENT.to_owned()),
    ];
    headers.extend(rendered.trace.iter().cloned());
    for (name, value) in ours {
        headers.push((format!("X-openwop-{name}"), value.clone()));
        headers.push((format!("OpenWOP-{name}"), value));
    }
    headers
}

/// Ids of this kind end in random bits.
fn chance() -> u64 {
    Uuid::now_v7().as_u64_pair().1
}
