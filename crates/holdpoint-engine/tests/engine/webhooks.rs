//! Subscriptions and what they are told, with a receiver on loopback and a clock that tests advance.

use std::sync::Arc;

use holdpoint_engine::core::webhook::{ChangeReason, DeliveryState, Mode, RetryPolicy, SubscriptionState};
use holdpoint_engine::core::{RunRef, Start, TenantId, WorkflowId};
use holdpoint_engine::outgoing::{Outgoing, Policy, Resolver, Script};
use holdpoint_engine::{
    Attempt, AttemptFilter, Courier, Delivery, DeliveryFilter, Engine, Error, NewWebhook, Options, Render,
    Rendered, Rendering, SealKey, Webhook, WebhookSettings, fingerprint,
};
use serde_json::{Value, json};

use crate::house::{House, accept, gated, start, tenant};
use crate::peer::{Peer, Reply};
use crate::place::{Place, Subject, on_both};
use crate::receipts::once;

mod best_effort;
mod circuits;
mod crashes;
mod durable;
mod nodes;
mod order;
mod owners;
mod rotation;
mod stored_before_owners;

on_both! {
    a_secret_is_told_once_and_kept_sealed,
    a_url_that_must_not_be_called_is_refused,
    nobody_sees_or_touches_the_webhook_of_another_tenant,
    under_a_key_a_webhook_is_registered_once,
    pausing_and_resuming_is_written_down_and_done_once,
    lists_go_on_behind_the_last_one_seen,
}

/// Bodies that say which event they are about.
struct Plain(Engine);

impl Render for Plain {
    fn event<'a>(&'a self, of: &'a RunRef, seq: u64) -> Rendering<'a> {
        Box::pin(async move {
            let recorded = self.0.events(of, seq).await?.into_iter().next().unwrap();
            let event_type = recorded.event.name().to_owned();
            let body = json!({"runId": of.run.as_str(), "sequence": seq, "type": event_type});
            Ok(Some(Rendered { event_type, body: body.to_string().into_bytes(), trace: Vec::new() }))
        })
    }

    fn callback<'a>(&'a self, of: &'a RunRef, seq: u64) -> Rendering<'a> {
        Box::pin(async move {
            let body = json!({"runId": of.run.as_str(), "asks": seq}).to_string().into_bytes();
            Ok(Some(Rendered { event_type: "interrupt.requested".to_owned(), body, trace: Vec::new() }))
        })
    }
}

/// A house with a courier.
struct Post {
    courier: Courier,
    house: House,
}

impl Subject for Post {
    async fn at(place: Place) -> Self {
        Self::with(place, |settings| settings).await
    }
}

impl Post {
    async fn with(place: Place, choose: impl FnOnce(WebhookSettings) -> WebhookSettings) -> Self {
        let settings = choose(WebhookSettings::default());
        let house = House::with(place, |options| furnished(options).webhooks(settings)).await;
        house.register(gated("gated")).await;
        Self { courier: courier(&house.engine), house }
    }

    async fn hook(&self, peer: &Peer, events: &[&str], shape: impl FnOnce(&mut NewWebhook)) -> Webhook {
        let events = events.iter().map(|event| (*event).to_owned());
        let mut new = NewWebhook::new(tenant(), peer.url("/hook"), events);
        shape(&mut new);
        self.house.engine.add_webhook(new).await.unwrap().0
    }

    async fn deliver(&mut self) -> usize {
        self.courier.drain().await.unwrap()
    }

    async fn tagged(&self, tags: &[&str]) -> RunRef {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let start = Start { tags, ..start(json!({})) };
        let run = self.house.engine.start(&WorkflowId::parse("gated").unwrap(), start).await.unwrap();
        RunRef { tenant: tenant(), run: run.id.clone() }
    }

    /// Newest last.
    async fn deliveries(&self, hook: &Webhook) -> Vec<Delivery> {
        let filter = DeliveryFilter { limit: 1000, ..DeliveryFilter::default() };
        let mut found = self.house.engine.deliveries(&tenant(), &hook.id, &filter).await.unwrap();
        found.reverse();
        found
    }

    async fn states(&self, hook: &Webhook) -> Vec<DeliveryState> {
        self.deliveries(hook).await.iter().map(|delivery| delivery.state).collect()
    }

    /// Newest last.
    async fn attempts(&self, hook: &Webhook) -> Vec<Attempt> {
        let filter = AttemptFilter { limit: 1000, ..AttemptFilter::default() };
        let mut found = self.house.engine.attempts(&tenant(), &hook.id, &filter).await.unwrap();
        found.reverse();
        found
    }

    async fn state(&self, hook: &Webhook) -> SubscriptionState {
        self.house.engine.webhook(&tenant(), &hook.id).await.unwrap().state
    }
}

/// Loopback may be called and no name has an address; all engines of a test have one key.
fn furnished(options: Options) -> Options {
    let calls = Outgoing::new(Policy {
        allow_loopback: true,
        resolver: Resolver::Scripted(Script::default()),
        ..Policy::default()
    });
    options.outgoing(calls).seal_key(seal_key())
}

fn seal_key() -> SealKey {
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8".parse().unwrap()
}

fn courier(engine: &Engine) -> Courier {
    engine.courier(Arc::new(Plain(engine.clone())))
}

fn durably(new: &mut NewWebhook) {
    new.mode = Mode::Durable;
}

fn ok() -> Reply {
    Reply::json(200, "{}")
}

/// The bodies that came, in their order.
fn bodies(peer: &Peer) -> Vec<Value> {
    let body = |request: &String| request.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap();
    peer.heard().iter().map(|request| serde_json::from_str(&body(request)).unwrap()).collect()
}

fn types(peer: &Peer) -> Vec<String> {
    bodies(peer).iter().map(|body| body["type"].as_str().unwrap().to_owned()).collect()
}

async fn a_secret_is_told_once_and_kept_sealed(post: Post) {
    let engine = &post.house.engine;
    let new = NewWebhook::new(tenant(), "https://example.com/hook", ["run.completed".to_owned()]);
    let (hook, secret) = engine.add_webhook(new).await.unwrap();
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(hook.fingerprint, fingerprint(&secret));
    assert!(!format!("{hook:?}").contains(&secret));
    let rows = post.house.place.read("SELECT * FROM webhooks").await;
    assert_eq!(rows.len(), 1);
    assert!(rows[0].iter().all(|(_, value)| !value.as_deref().unwrap_or_default().contains(&secret)));
    assert_eq!(engine.webhook(&tenant(), &hook.id).await.unwrap(), hook);
    assert_eq!(engine.webhooks(&tenant(), None, 10).await.unwrap(), [hook]);
}

async fn a_url_that_must_not_be_called_is_refused(post: Post) {
    for url in
        ["https://169.254.169.254/token", "http://example.com/", "https://10.0.0.1/", "https://metadata/"]
    {
        let new = NewWebhook::new(tenant(), url, ["run.completed".to_owned()]);
        let refused = post.house.engine.add_webhook(new).await;
        assert!(matches!(refused, Err(Error::Target(_))), "{url}");
    }
    let mut new = NewWebhook::new(tenant(), "https://example.com/", ["run.completed".to_owned()]);
    new.retry = RetryPolicy { max_attempts: 0, ..RetryPolicy::default() };
    assert!(matches!(post.house.engine.add_webhook(new).await, Err(Error::Refused(_))));
}

async fn nobody_sees_or_touches_the_webhook_of_another_tenant(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let other = TenantId::parse("other").unwrap();
    let mine = post.hook(&peer, &["run.completed"], durably).await;
    let theirs = post.hook(&peer, &["run.started"], |new| new.tenant = other.clone()).await;
    let lasting = post.hook(&peer, &["run.started"], |new| {
        (new.tenant, new.mode) = (other.clone(), Mode::Durable);
    });
    lasting.await;
    let engine = &post.house.engine;
    assert!(matches!(engine.webhook(&other, &mine.id).await, Err(Error::NotFound("webhook"))));
    assert!(matches!(engine.pause_webhook(&other, &mine.id, None).await, Err(Error::NotFound(_))));
    assert!(matches!(engine.resume_webhook(&other, &mine.id, None, None).await, Err(Error::NotFound(_))));
    assert!(!engine.remove_webhook(&other, &mine.id, None).await.unwrap());
    assert_eq!(engine.webhooks(&other, None, 10).await.unwrap().len(), 2);
    let of = post.house.start("gated").await;
    post.house.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(post.deliver().await, 1, "only the one who may know");
    assert_eq!(types(&peer), ["run.completed"]);
    let engine = &post.house.engine;
    let delivery = &post.deliveries(&mine).await[0];
    let filter = DeliveryFilter { limit: 10, ..DeliveryFilter::default() };
    assert!(engine.deliveries(&other, &mine.id, &filter).await.unwrap().is_empty());
    assert!(engine.deliveries(&tenant(), &theirs.id, &filter).await.unwrap().is_empty());
    assert!(matches!(
        engine.replay_delivery(&other, &mine.id, &delivery.id, None).await,
        Err(Error::NotFound(_))
    ));
    let window = (delivery.created_at, delivery.created_at.plus_ms(1));
    assert!(engine.replay_window(&other, &mine.id, window, &[], None).await.is_err());
}

async fn under_a_key_a_webhook_is_registered_once(post: Post) {
    let new = || NewWebhook {
        once: Some(once("k", |webhook: &Webhook| webhook.id.clone())),
        ..NewWebhook::new(tenant(), "https://example.com/hook", ["run.completed".to_owned()])
    };
    let (hook, _) = post.house.engine.add_webhook(new()).await.unwrap();
    match post.house.engine.add_webhook(new()).await {
        Err(Error::Duplicate(receipt)) => assert_eq!(receipt.response, hook.id),
        other => panic!("{other:?}"),
    }
    assert_eq!(post.house.engine.webhooks(&tenant(), None, 10).await.unwrap().len(), 1);
}

async fn pausing_and_resuming_is_written_down_and_done_once(post: Post) {
    let peer = Peer::saying([ok()]).await;
    let hook = post.hook(&peer, &["run.started"], |_| ()).await;
    let engine = &post.house.engine;
    for _ in 0..2 {
        let paused = engine.pause_webhook(&tenant(), &hook.id, None).await.unwrap();
        assert_eq!(paused.state, SubscriptionState::Paused);
    }
    for _ in 0..2 {
        let resumed = engine.resume_webhook(&tenant(), &hook.id, None, None).await.unwrap();
        assert_eq!(resumed.state, SubscriptionState::Active);
    }
    let changes = engine.webhook_changes(&tenant(), &hook.id, 0, 10).await.unwrap();
    let reasons: Vec<ChangeReason> = changes.iter().map(|change| change.reason).collect();
    assert_eq!(reasons, [ChangeReason::OperatorPaused, ChangeReason::OperatorResumed]);
    let later = engine.webhook_changes(&tenant(), &hook.id, changes[0].seq, 10).await.unwrap();
    assert_eq!(later, changes[1..]);
}

async fn lists_go_on_behind_the_last_one_seen(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let (one, two) =
        (post.hook(&peer, &["run.started"], durably).await, post.hook(&peer, &["x"], |_| ()).await);
    let page = post.house.engine.webhooks(&tenant(), Some(&one.id), 10).await.unwrap();
    assert_eq!(page, [two]);
    for _ in 0..3 {
        post.house.start("gated").await;
    }
    assert_eq!(post.deliver().await, 3);
    let all = post.deliveries(&one).await;
    let behind = DeliveryFilter { before: Some(all[1].seq), limit: 10, ..DeliveryFilter::default() };
    let page = post.house.engine.deliveries(&tenant(), &one.id, &behind).await.unwrap();
    assert_eq!(page, all[..1]);
    let queued = DeliveryFilter { state: Some(DeliveryState::Queued), limit: 10, before: None };
    assert!(post.house.engine.deliveries(&tenant(), &one.id, &queued).await.unwrap().is_empty());
    let of_one = AttemptFilter { delivery: Some(all[2].id.clone()), limit: 10, before: None };
    let attempts = post.house.engine.attempts(&tenant(), &one.id, &of_one).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].status, attempts[0].number), (Some(200), 1));
}
