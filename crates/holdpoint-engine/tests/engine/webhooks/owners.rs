//! Webhooks belong to the key that created or resumed them, and stop with it.

use holdpoint_engine::core::webhook::{ChangeReason, DeliveryState, SubscriptionState};
use holdpoint_engine::core::{TenantId, Timestamp};
use holdpoint_engine::{ApiKey, Dependence, NewWebhook, Webhook, WebhookOwner};

use super::{Post, durably, furnished, ok};
use crate::house::{NOON, tenant};
use crate::peer::Peer;
use crate::place::on_both;

on_both! {
    deliveries_wait_after_the_key_of_the_owner_was_revoked,
    best_effort_stops_after_the_key_of_the_owner_was_revoked,
    a_rotated_key_keeps_its_webhooks,
    a_key_that_expires_pauses_its_webhooks,
    a_revocation_stores_the_pause_of_webhooks_and_only_of_those_of_the_key,
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

impl Post {
    async fn add_key(&self, key: ApiKey) -> ApiKey {
        assert!(self.house.engine.add_key(&key, None).await.unwrap());
        key
    }

    async fn revoke(&self, key: &ApiKey) {
        assert!(self.house.engine.revoke_key(&tenant(), &key.key_id, None).await.unwrap());
    }

    async fn owned(&self, peer: &Peer, key: &ApiKey, shape: impl FnOnce(&mut NewWebhook)) -> Webhook {
        let owner = Some(WebhookOwner::from(key));
        let shape = |new: &mut NewWebhook| {
            new.owner = owner;
            shape(new);
        };
        self.hook(peer, &["run.started"], shape).await
    }

    async fn assert_paused(&self, hook: &Webhook, reason: ChangeReason) {
        let shown = self.house.engine.webhook(&tenant(), &hook.id).await.unwrap();
        assert_eq!((shown.state, shown.reason), (SubscriptionState::Paused, Some(reason)));
        assert_eq!(shown.owner, hook.owner);
    }

    async fn reasons(&self, hook: &Webhook) -> Vec<ChangeReason> {
        let changes = self.house.engine.webhook_changes(&tenant(), &hook.id, 0, 10).await.unwrap();
        changes.iter().map(|change| change.reason).collect()
    }
}

async fn deliveries_wait_after_the_key_of_the_owner_was_revoked(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let ann = post.add_key(key("ann")).await;
    let hook = post.owned(&peer, &ann, durably).await;
    post.house.start("gated").await;
    post.revoke(&ann).await;
    post.assert_paused(&hook, ChangeReason::KeyRevoked).await;
    post.house.start("gated").await;
    for _ in 0..3 {
        post.deliver().await;
        post.house.clock.advance(86_400_000);
    }
    assert_eq!(peer.heard().len(), 0, "nothing is sent");
    assert_eq!(post.states(&hook).await, [DeliveryState::Queued; 2], "nothing is lost");
    assert_eq!(post.reasons(&hook).await, [ChangeReason::KeyRevoked], "the pause is stored once");
    let bob = WebhookOwner::from(&post.add_key(key("bob")).await);
    let resumed =
        post.house.engine.resume_webhook(&tenant(), &hook.id, Some(bob.clone()), None).await.unwrap();
    assert_eq!((resumed.state, resumed.reason, resumed.owner), (SubscriptionState::Active, None, Some(bob)));
    assert_eq!(post.deliver().await, 2);
    assert_eq!(peer.heard().len(), 2);
}

async fn best_effort_stops_after_the_key_of_the_owner_was_revoked(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let ann = post.add_key(key("ann")).await;
    let hook = post.owned(&peer, &ann, |_| ()).await;
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 1);
    post.house.start("gated").await;
    post.revoke(&ann).await;
    post.deliver().await;
    assert_eq!(peer.heard().len(), 1, "also not what was waiting in memory");
    post.assert_paused(&hook, ChangeReason::KeyRevoked).await;
    assert_eq!(post.reasons(&hook).await, [ChangeReason::KeyRevoked]);
}

async fn a_rotated_key_keeps_its_webhooks(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let ann = post.add_key(key("ann")).await;
    let hook = post.owned(&peer, &ann, durably).await;
    let successor = ApiKey { lineage: ann.lineage.clone(), ..key("ann2") };
    let successor = ApiKey { principal: ann.principal.clone(), ..successor };
    let engine = &post.house.engine;
    assert!(engine.rotate_key(&successor, &ann.key_id, Timestamp(NOON + 1000), None).await.unwrap());
    post.house.clock.advance(2000);
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 1);
    post.revoke(&ann).await;
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 1);
    assert_eq!(peer.heard().len(), 2);
    post.revoke(&successor).await;
    post.house.start("gated").await;
    post.deliver().await;
    assert_eq!(peer.heard().len(), 2);
    post.assert_paused(&hook, ChangeReason::KeyRevoked).await;
}

async fn a_key_that_expires_pauses_its_webhooks(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let ann = post.add_key(ApiKey { expires_at: Some(Timestamp(NOON + 1000)), ..key("ann") }).await;
    let hook = post.owned(&peer, &ann, durably).await;
    post.house.start("gated").await;
    post.house.clock.advance(999);
    assert_eq!(post.deliver().await, 1);
    post.house.start("gated").await;
    post.house.clock.advance(1);
    post.deliver().await;
    assert_eq!(peer.heard().len(), 1);
    post.assert_paused(&hook, ChangeReason::KeyExpired).await;
    assert_eq!(post.states(&hook).await, [DeliveryState::Delivered, DeliveryState::Queued]);
}

async fn a_revocation_stores_the_pause_of_webhooks_and_only_of_those_of_the_key(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let (ann, bob) = (post.add_key(key("ann")).await, post.add_key(key("bob")).await);
    let hooks = [
        post.owned(&peer, &ann, durably).await,
        post.owned(&peer, &bob, durably).await,
        post.hook(&peer, &["run.started"], durably).await,
    ];
    // Keys of another tenant have no say, whatever their ids are.
    let elsewhere = TenantId::parse("elsewhere").unwrap();
    post.add_key(ApiKey { tenant: elsewhere, ..key("carol") }).await;
    let foreign = WebhookOwner::from(&key("carol"));
    let orphan = post.hook(&peer, &["run.started"], |new| new.owner = Some(foreign)).await;
    post.assert_paused(&orphan, ChangeReason::KeyRevoked).await;
    post.revoke(&ann).await;
    post.house.engine.pause_lapsed_webhooks(&tenant()).await.unwrap();
    assert_eq!(post.reasons(&hooks[0]).await, [ChangeReason::KeyRevoked]);
    for hook in &hooks[1..] {
        assert_eq!(post.state(hook).await, SubscriptionState::Active);
        assert!(post.reasons(hook).await.is_empty());
    }
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 2);
}

async fn a_revocation_at_one_node_stops_deliveries_at_another(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let ann = post.add_key(key("ann")).await;
    let hook = post.owned(&peer, &ann, durably).await;
    let second = post.house.second_engine(furnished).await;
    post.house.start("gated").await;
    assert!(second.revoke_key(&tenant(), &ann.key_id, None).await.unwrap());
    post.deliver().await;
    assert_eq!(peer.heard().len(), 0);
    second.pause_lapsed_webhooks(&tenant()).await.unwrap();
    post.assert_paused(&hook, ChangeReason::KeyRevoked).await;
    second.close().await;
}

async fn a_resumed_webhook_belongs_to_the_caller(post: Post) {
    let peer = Peer::saying([ok()]).await;
    let (ann, bob) = (post.add_key(key("ann")).await, post.add_key(key("bob")).await);
    let hook = post.owned(&peer, &ann, durably).await;
    let engine = &post.house.engine;
    let bob = Some(WebhookOwner::from(&bob));
    let same = engine.resume_webhook(&tenant(), &hook.id, bob.clone(), None).await.unwrap();
    assert_eq!(same.owner, hook.owner, "an active webhook keeps its owner");
    let paused = engine.pause_webhook(&tenant(), &hook.id, None).await.unwrap();
    assert_eq!((paused.reason, &paused.owner), (Some(ChangeReason::OperatorPaused), &hook.owner));
    let resumed = engine.resume_webhook(&tenant(), &hook.id, bob.clone(), None).await.unwrap();
    assert_eq!((resumed.reason, resumed.owner), (None, bob.clone()));
    post.revoke(&ann).await;
    let shown = engine.webhook(&tenant(), &hook.id).await.unwrap();
    assert_eq!((shown.state, shown.owner), (SubscriptionState::Active, bob));
}
