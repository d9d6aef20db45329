//! Owners of webhooks: a webhook stops when the key that created or resumed it ends.

use holdpoint_engine::core::webhook::{ChangeReason, DeliveryState, SubscriptionState};
use holdpoint_engine::core::{TenantId, Timestamp};
use holdpoint_engine::{ApiKey, Dependence, NewWebhook, Webhook, WebhookOwner};

use super::{WebhookEnv, durably, ok, with_loopback};
use crate::peer::Peer;
use crate::test_database::on_both;
use crate::test_env::{NOON, tenant};

on_both! {
    durable_deliveries_wait_after_the_key_of_the_owner_was_revoked,
    a_best_effort_webhook_stops_after_the_key_of_its_owner_was_revoked,
    a_rotated_key_keeps_its_webhooks,
    a_key_that_expires_pauses_its_webhooks,
    a_revocation_pauses_only_the_webhooks_of_the_key,
    a_revocation_at_one_node_stops_deliveries_at_another,
    a_resumed_webhook_belongs_to_the_caller,
}

fn key(name: &str) -> ApiKey {
    ApiKey {
        key_id: format!("key_{name}"),
        lineage: format!("key_{name}"),
        key_hash: format!("hash of {name}"),
        tenant: tenant(),
        principal: name.to_owned(),
        roles: Vec::new(),
        groups: Vec::new(),
        scopes: vec!["webhooks:manage".to_owned(), "runs:read".to_owned()],
        created_at: Timestamp(NOON),
        revoked_at: None,
        expires_at: None,
        test: false,
        depends_on: Dependence::default(),
    }
}

impl WebhookEnv {
    async fn add_key(&self, key: ApiKey) -> ApiKey {
        assert!(self.env.engine.keys().add(&key, None).await.unwrap());
        key
    }

    async fn revoke(&self, key: &ApiKey) {
        assert!(self.env.engine.keys().revoke(&tenant(), &key.key_id, None).await.unwrap());
    }

    async fn subscribe_with_key(
        &self,
        peer: &Peer,
        key: &ApiKey,
        shape: impl FnOnce(&mut NewWebhook),
    ) -> Webhook {
        let owner = Some(WebhookOwner::from(key));
        let shape = |new: &mut NewWebhook| {
            new.owner = owner;
            shape(new);
        };
        self.subscribe(peer, &["run.started"], shape).await
    }

    async fn assert_paused(&self, hook: &Webhook, reason: ChangeReason) {
        let shown = self.env.engine.webhooks().get(&tenant(), &hook.id).await.unwrap();
        assert_eq!((shown.state, shown.reason), (SubscriptionState::Paused, Some(reason)));
        assert_eq!(shown.owner, hook.owner);
    }

    async fn reasons(&self, hook: &Webhook) -> Vec<ChangeReason> {
        let changes = self.env.engine.webhooks().changes(&tenant(), &hook.id, 0, 10).await.unwrap();
        changes.iter().map(|change| change.reason).collect()
    }
}

async fn durable_deliveries_wait_after_the_key_of_the_owner_was_revoked(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let ann = hooks.add_key(key("ann")).await;
    let hook = hooks.subscribe_with_key(&peer, &ann, durably).await;
    hooks.env.start("gated").await;
    hooks.revoke(&ann).await;
    hooks.assert_paused(&hook, ChangeReason::KeyRevoked).await;
    hooks.env.start("gated").await;
    for _ in 0..3 {
        hooks.deliver().await;
        hooks.env.clock.advance(86_400_000);
    }
    assert_eq!(peer.requests().len(), 0, "no delivery is sent");
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Queued; 2], "every delivery is kept");
    assert_eq!(hooks.reasons(&hook).await, [ChangeReason::KeyRevoked], "the pause is stored once");
    let bob = WebhookOwner::from(&hooks.add_key(key("bob")).await);
    let resumed =
        hooks.env.engine.webhooks().resume(&tenant(), &hook.id, Some(bob.clone()), None).await.unwrap();
    assert_eq!((resumed.state, resumed.reason, resumed.owner), (SubscriptionState::Active, None, Some(bob)));
    assert_eq!(hooks.deliver().await, 2);
    assert_eq!(peer.requests().len(), 2);
}

async fn a_best_effort_webhook_stops_after_the_key_of_its_owner_was_revoked(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let ann = hooks.add_key(key("ann")).await;
    let hook = hooks.subscribe_with_key(&peer, &ann, |_| ()).await;
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 1);
    hooks.env.start("gated").await;
    hooks.revoke(&ann).await;
    hooks.deliver().await;
    assert_eq!(peer.requests().len(), 1, "the event in memory is not sent");
    hooks.assert_paused(&hook, ChangeReason::KeyRevoked).await;
    assert_eq!(hooks.reasons(&hook).await, [ChangeReason::KeyRevoked]);
}

async fn a_rotated_key_keeps_its_webhooks(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let ann = hooks.add_key(key("ann")).await;
    let hook = hooks.subscribe_with_key(&peer, &ann, durably).await;
    let successor = ApiKey { lineage: ann.lineage.clone(), ..key("ann2") };
    let successor = ApiKey { principal: ann.principal.clone(), ..successor };
    let engine = &hooks.env.engine;
    assert!(engine.keys().rotate(&successor, &ann.key_id, Timestamp(NOON + 1000), None).await.unwrap());
    hooks.env.clock.advance(2000);
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 1);
    hooks.revoke(&ann).await;
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 1);
    assert_eq!(peer.requests().len(), 2);
    hooks.revoke(&successor).await;
    hooks.env.start("gated").await;
    hooks.deliver().await;
    assert_eq!(peer.requests().len(), 2);
    hooks.assert_paused(&hook, ChangeReason::KeyRevoked).await;
}

async fn a_key_that_expires_pauses_its_webhooks(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let ann = hooks.add_key(ApiKey { expires_at: Some(Timestamp(NOON + 1000)), ..key("ann") }).await;
    let hook = hooks.subscribe_with_key(&peer, &ann, durably).await;
    hooks.env.start("gated").await;
    hooks.env.clock.advance(999);
    assert_eq!(hooks.deliver().await, 1);
    hooks.env.start("gated").await;
    hooks.env.clock.advance(1);
    hooks.deliver().await;
    assert_eq!(peer.requests().len(), 1);
    hooks.assert_paused(&hook, ChangeReason::KeyExpired).await;
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Delivered, DeliveryState::Queued]);
}

async fn a_revocation_pauses_only_the_webhooks_of_the_key(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let (ann, bob) = (hooks.add_key(key("ann")).await, hooks.add_key(key("bob")).await);
    let webhooks = [
        hooks.subscribe_with_key(&peer, &ann, durably).await,
        hooks.subscribe_with_key(&peer, &bob, durably).await,
        hooks.subscribe(&peer, &["run.started"], durably).await,
    ];
    // A key of another tenant cannot own the webhook.
    let elsewhere = TenantId::parse("elsewhere").unwrap();
    hooks.add_key(ApiKey { tenant: elsewhere, ..key("carol") }).await;
    let foreign = WebhookOwner::from(&key("carol"));
    let orphan = hooks.subscribe(&peer, &["run.started"], |new| new.owner = Some(foreign)).await;
    hooks.assert_paused(&orphan, ChangeReason::KeyRevoked).await;
    hooks.revoke(&ann).await;
    hooks.env.engine.webhooks().pause_lapsed(&tenant()).await.unwrap();
    assert_eq!(hooks.reasons(&webhooks[0]).await, [ChangeReason::KeyRevoked]);
    for hook in &webhooks[1..] {
        assert_eq!(hooks.state(hook).await, SubscriptionState::Active);
        assert!(hooks.reasons(hook).await.is_empty());
    }
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 2);
}

async fn a_revocation_at_one_node_stops_deliveries_at_another(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let ann = hooks.add_key(key("ann")).await;
    let hook = hooks.subscribe_with_key(&peer, &ann, durably).await;
    let second = hooks.env.second_engine(with_loopback).await;
    hooks.env.start("gated").await;
    assert!(second.keys().revoke(&tenant(), &ann.key_id, None).await.unwrap());
    hooks.deliver().await;
    assert_eq!(peer.requests().len(), 0);
    second.webhooks().pause_lapsed(&tenant()).await.unwrap();
    hooks.assert_paused(&hook, ChangeReason::KeyRevoked).await;
    second.close().await;
}

async fn a_resumed_webhook_belongs_to_the_caller(hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let (ann, bob) = (hooks.add_key(key("ann")).await, hooks.add_key(key("bob")).await);
    let hook = hooks.subscribe_with_key(&peer, &ann, durably).await;
    let engine = &hooks.env.engine;
    let bob = Some(WebhookOwner::from(&bob));
    let same = engine.webhooks().resume(&tenant(), &hook.id, bob.clone(), None).await.unwrap();
    assert_eq!(same.owner, hook.owner, "an active webhook keeps its owner");
    let paused = engine.webhooks().pause(&tenant(), &hook.id, None).await.unwrap();
    assert_eq!((paused.reason, &paused.owner), (Some(ChangeReason::OperatorPaused), &hook.owner));
    let resumed = engine.webhooks().resume(&tenant(), &hook.id, bob.clone(), None).await.unwrap();
    assert_eq!((resumed.reason, resumed.owner), (None, bob.clone()));
    hooks.revoke(&ann).await;
    let shown = engine.webhooks().get(&tenant(), &hook.id).await.unwrap();
    assert_eq!((shown.state, shown.owner), (SubscriptionState::Active, bob));
}
