//! Webhooks and their deliveries, with a receiver on loopback and a manual clock.

use holdpoint_engine::core::webhook::{ChangeReason, DeliveryState, Mode, RetryPolicy, SubscriptionState};
use holdpoint_engine::core::{RunRef, StartRequest, TenantId, WorkflowId};
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy, Resolver, ScriptedResolver};
use holdpoint_engine::{
    Attempt, AttemptFilter, Delivery, DeliveryFilter, DeliveryWorker, Error, NewWebhook, Options, SealKey,
    Webhook, WebhookSettings, fingerprint,
};
use serde_json::{Value, json};

use crate::courier::delivery_worker;
use crate::peer::{Peer, PeerReply};
use crate::receipts::once;
use crate::test_database::{Subject, TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, gated, start, tenant};

mod backlogs;
mod best_effort;
mod circuits;
mod couriers;
mod crashes;
mod durable;
mod nodes;
mod order;
mod owners;
mod rotation;
mod stored_before_indexes;
mod stored_before_owners;

on_both! {
    a_secret_is_returned_once_and_stored_sealed,
    a_url_that_the_outgoing_policy_rejects_is_refused,
    a_tenant_cannot_read_or_change_webhooks_of_another,
    a_webhook_with_an_idempotency_key_is_registered_once,
    pausing_and_resuming_are_recorded_and_idempotent,
    lists_continue_after_the_last_entry,
}

/// A test environment with a delivery worker.
struct WebhookEnv {
    worker: DeliveryWorker,
    env: TestEnv,
}

impl Subject for WebhookEnv {
    async fn at(database: TestDatabase) -> Self {
        Self::with(database, |settings| settings).await
    }
}

impl WebhookEnv {
    async fn with(database: TestDatabase, choose: impl FnOnce(WebhookSettings) -> WebhookSettings) -> Self {
        let settings = choose(WebhookSettings::default());
        let env = TestEnv::with(database, |options| with_loopback(options).webhooks(settings)).await;
        env.register(gated("gated")).await;
        Self { worker: delivery_worker(&env.engine), env }
    }

    async fn subscribe(&self, peer: &Peer, events: &[&str], shape: impl FnOnce(&mut NewWebhook)) -> Webhook {
        let events = events.iter().map(|event| (*event).to_owned());
        let mut new = NewWebhook::new(tenant(), peer.url("/hook"), events);
        shape(&mut new);
        self.env.engine.webhooks().add(new).await.unwrap().0
    }

    async fn deliver(&mut self) -> usize {
        self.worker.drain().await.unwrap()
    }

    async fn start_tagged(&self, tags: &[&str]) -> RunRef {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let start = StartRequest { tags, ..start(json!({})) };
        let run = self.env.engine.runs().create(&WorkflowId::parse("gated").unwrap(), start).await.unwrap();
        RunRef { tenant: tenant(), run: run.id.clone() }
    }

    /// The deliveries of a webhook, newest last.
    async fn deliveries(&self, hook: &Webhook) -> Vec<Delivery> {
        let filter = DeliveryFilter { limit: 1000, ..DeliveryFilter::default() };
        let mut found = self.env.engine.deliveries().list(&tenant(), &hook.id, &filter).await.unwrap();
        found.reverse();
        found
    }

    async fn states(&self, hook: &Webhook) -> Vec<DeliveryState> {
        self.deliveries(hook).await.iter().map(|delivery| delivery.state).collect()
    }

    /// The attempts of a webhook, newest last.
    async fn attempts(&self, hook: &Webhook) -> Vec<Attempt> {
        let filter = AttemptFilter { limit: 1000, ..AttemptFilter::default() };
        let mut found = self.env.engine.deliveries().attempts(&tenant(), &hook.id, &filter).await.unwrap();
        found.reverse();
        found
    }

    async fn state(&self, hook: &Webhook) -> SubscriptionState {
        self.env.engine.webhooks().get(&tenant(), &hook.id).await.unwrap().state
    }
}

/// Options that allow calls to loopback, resolve no names, and have the seal key of all engines of a test.
fn with_loopback(options: Options) -> Options {
    let calls = Outgoing::new(OutgoingPolicy {
        allow_loopback: true,
        resolver: Resolver::Scripted(ScriptedResolver::default()),
        ..OutgoingPolicy::default()
    });
    options.outgoing(calls).seal_key(seal_key())
}

fn seal_key() -> SealKey {
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8".parse().unwrap()
}

fn durably(new: &mut NewWebhook) {
    new.mode = Mode::Durable;
}

fn ok() -> PeerReply {
    PeerReply::json(200, "{}")
}

/// The received bodies in order.
fn bodies(peer: &Peer) -> Vec<Value> {
    let body = |request: &String| request.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap();
    peer.requests().iter().map(|request| serde_json::from_str(&body(request)).unwrap()).collect()
}

fn types(peer: &Peer) -> Vec<String> {
    bodies(peer).iter().map(|body| body["type"].as_str().unwrap().to_owned()).collect()
}

async fn a_secret_is_returned_once_and_stored_sealed(hooks: WebhookEnv) {
    let engine = &hooks.env.engine;
    let new = NewWebhook::new(tenant(), "https://example.com/hook", ["run.completed".to_owned()]);
    let (hook, secret) = engine.webhooks().add(new).await.unwrap();
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(hook.fingerprint, fingerprint(&secret));
    assert!(!format!("{hook:?}").contains(&secret));
    let rows = hooks.env.database.read("SELECT * FROM webhooks").await;
    assert_eq!(rows.len(), 1);
    assert!(rows[0].iter().all(|(_, value)| !value.as_deref().unwrap_or_default().contains(&secret)));
    assert_eq!(engine.webhooks().get(&tenant(), &hook.id).await.unwrap(), hook);
    assert_eq!(engine.webhooks().list(&tenant(), None, 10).await.unwrap(), [hook]);
}

async fn a_url_that_the_outgoing_policy_rejects_is_refused(hooks: WebhookEnv) {
    for url in
        ["https://169.254.169.254/token", "http://example.com/", "https://10.0.0.1/", "https://metadata/"]
    {
        let new = NewWebhook::new(tenant(), url, ["run.completed".to_owned()]);
        let refused = hooks.env.engine.webhooks().add(new).await;
        assert!(matches!(refused, Err(Error::Target(_))), "{url}");
    }
    let mut new = NewWebhook::new(tenant(), "https://example.com/", ["run.completed".to_owned()]);
    new.retry = RetryPolicy { max_attempts: 0, ..RetryPolicy::default() };
    assert!(matches!(hooks.env.engine.webhooks().add(new).await, Err(Error::Refused(_))));
}

async fn a_tenant_cannot_read_or_change_webhooks_of_another(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let other = TenantId::parse("other").unwrap();
    let mine = hooks.subscribe(&peer, &["run.completed"], durably).await;
    let theirs = hooks.subscribe(&peer, &["run.started"], |new| new.tenant = other.clone()).await;
    let durable = hooks.subscribe(&peer, &["run.started"], |new| {
        (new.tenant, new.mode) = (other.clone(), Mode::Durable);
    });
    durable.await;
    let engine = &hooks.env.engine;
    assert!(matches!(engine.webhooks().get(&other, &mine.id).await, Err(Error::NotFound("webhook"))));
    assert!(matches!(engine.webhooks().pause(&other, &mine.id, None).await, Err(Error::NotFound(_))));
    assert!(matches!(engine.webhooks().resume(&other, &mine.id, None, None).await, Err(Error::NotFound(_))));
    assert!(!engine.webhooks().remove(&other, &mine.id, None).await.unwrap());
    assert_eq!(engine.webhooks().list(&other, None, 10).await.unwrap().len(), 2);
    let of = hooks.env.start("gated").await;
    hooks.env.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(hooks.deliver().await, 1, "only the webhook of the tenant of the run");
    assert_eq!(types(&peer), ["run.completed"]);
    let engine = &hooks.env.engine;
    let delivery = &hooks.deliveries(&mine).await[0];
    let filter = DeliveryFilter { limit: 10, ..DeliveryFilter::default() };
    assert!(engine.deliveries().list(&other, &mine.id, &filter).await.unwrap().is_empty());
    assert!(engine.deliveries().list(&tenant(), &theirs.id, &filter).await.unwrap().is_empty());
    assert!(matches!(
        engine.deliveries().replay(&other, &mine.id, &delivery.id, None).await,
        Err(Error::NotFound(_))
    ));
    let window = delivery.created_at..delivery.created_at.plus_ms(1);
    assert!(engine.deliveries().replay_window(&other, &mine.id, window, &[], None).await.is_err());
}

async fn a_webhook_with_an_idempotency_key_is_registered_once(hooks: WebhookEnv) {
    let new = || NewWebhook {
        once: Some(once("k", |webhook: &Webhook| webhook.id.clone())),
        ..NewWebhook::new(tenant(), "https://example.com/hook", ["run.completed".to_owned()])
    };
    let (hook, _) = hooks.env.engine.webhooks().add(new()).await.unwrap();
    match hooks.env.engine.webhooks().add(new()).await {
        Err(Error::Duplicate(receipt)) => assert_eq!(receipt.response, hook.id),
        other => panic!("{other:?}"),
    }
    assert_eq!(hooks.env.engine.webhooks().list(&tenant(), None, 10).await.unwrap().len(), 1);
}

async fn pausing_and_resuming_are_recorded_and_idempotent(hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    let engine = &hooks.env.engine;
    for _ in 0..2 {
        let paused = engine.webhooks().pause(&tenant(), &hook.id, None).await.unwrap();
        assert_eq!(paused.state, SubscriptionState::Paused);
    }
    for _ in 0..2 {
        let resumed = engine.webhooks().resume(&tenant(), &hook.id, None, None).await.unwrap();
        assert_eq!(resumed.state, SubscriptionState::Active);
    }
    let changes = engine.webhooks().changes(&tenant(), &hook.id, 0, 10).await.unwrap();
    let reasons: Vec<ChangeReason> = changes.iter().map(|change| change.reason).collect();
    assert_eq!(reasons, [ChangeReason::OperatorPaused, ChangeReason::OperatorResumed]);
    let later = engine.webhooks().changes(&tenant(), &hook.id, changes[0].seq, 10).await.unwrap();
    assert_eq!(later, changes[1..]);
}

async fn lists_continue_after_the_last_entry(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let (one, two) = (
        hooks.subscribe(&peer, &["run.started"], durably).await,
        hooks.subscribe(&peer, &["x"], |_| ()).await,
    );
    let page = hooks.env.engine.webhooks().list(&tenant(), Some(&one.id), 10).await.unwrap();
    assert_eq!(page, [two]);
    for _ in 0..3 {
        hooks.env.start("gated").await;
    }
    assert_eq!(hooks.deliver().await, 3);
    let all = hooks.deliveries(&one).await;
    let behind = DeliveryFilter { before: Some(all[1].seq), limit: 10, ..DeliveryFilter::default() };
    let page = hooks.env.engine.deliveries().list(&tenant(), &one.id, &behind).await.unwrap();
    assert_eq!(page, all[..1]);
    let queued = DeliveryFilter { state: Some(DeliveryState::Queued), limit: 10, before: None };
    assert!(hooks.env.engine.deliveries().list(&tenant(), &one.id, &queued).await.unwrap().is_empty());
    let of_one = AttemptFilter { delivery: Some(all[2].id.clone()), limit: 10, before: None };
    let attempts = hooks.env.engine.deliveries().attempts(&tenant(), &one.id, &of_one).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].status, attempts[0].number), (Some(200), 1));
}
