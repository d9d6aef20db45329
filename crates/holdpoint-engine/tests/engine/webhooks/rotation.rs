//! Rotation of webhook secrets: two secrets sign during the overlap, one before and after it.

use holdpoint_engine::core::Timestamp;
use holdpoint_engine::core::webhook::ChangeReason;
use holdpoint_engine::{Error, Webhook, fingerprint};

use super::{WebhookEnv, durably, ok};
use crate::peer::Peer;
use crate::test_database::on_both;
use crate::test_env::{NOON, tenant};

on_both! {
    both_secrets_sign_during_the_overlap_and_the_new_one_afterwards,
    a_second_rotation_ends_the_oldest_secret,
    a_rotation_without_overlap_ends_the_old_secret_at_once,
    old_secrets_are_stored_sealed_and_erased_after_the_overlap,
}

const OVERLAP_MS: u64 = 60_000;

/// A webhook, its first secret and its receiver.
struct Subscription {
    hook: Webhook,
    secret: String,
    peer: Peer,
}

impl WebhookEnv {
    async fn subscribe_durably(&self) -> Subscription {
        let peer = Peer::with_replies([ok()]).await;
        let mut new =
            holdpoint_engine::NewWebhook::new(tenant(), peer.url("/hook"), ["run.started".to_owned()]);
        durably(&mut new);
        let (hook, secret) = self.env.engine.webhooks().add(new).await.unwrap();
        Subscription { hook, secret, peer }
    }

    async fn rotate(&self, hook: &Webhook, overlap_ms: u64) -> (Webhook, String) {
        self.env.engine.webhooks().rotate_secret(&tenant(), &hook.id, overlap_ms, None).await.unwrap()
    }

    /// Sends one delivery and checks its secrets: that of the protocol header and that of the additional header.
    async fn assert_signed(&mut self, one: &Subscription, secret: &str, next: Option<&str>) {
        self.env.start("gated").await;
        assert_eq!(self.deliver().await, 1);
        let header = |name: &str| one.peer.header(&format!("Test-{name}")).pop().flatten();
        assert_eq!(header("Secret").as_deref(), Some(secret));
        assert_eq!(header("Secret-Next").as_deref(), next);
    }
}

async fn both_secrets_sign_during_the_overlap_and_the_new_one_afterwards(mut hooks: WebhookEnv) {
    let one = hooks.subscribe_durably().await;
    hooks.assert_signed(&one, &one.secret, None).await;
    let (rotated, second) = hooks.rotate(&one.hook, OVERLAP_MS).await;
    assert_ne!(second, one.secret);
    assert_eq!(rotated.fingerprint, fingerprint(&second));
    let old = rotated.old_secret.as_ref().unwrap();
    assert_eq!((&old.fingerprint, old.until), (&one.hook.fingerprint, Timestamp(NOON + 60_000)));
    assert_eq!(hooks.env.engine.webhooks().get(&tenant(), &one.hook.id).await.unwrap(), rotated);
    hooks.assert_signed(&one, &one.secret, Some(&second)).await;
    hooks.env.clock.advance(59_999);
    hooks.assert_signed(&one, &one.secret, Some(&second)).await;
    hooks.env.clock.advance(1);
    hooks.assert_signed(&one, &second, None).await;
    let changes = hooks.env.engine.webhooks().changes(&tenant(), &one.hook.id, 0, 10).await.unwrap();
    assert_eq!(changes.iter().map(|one| one.reason).collect::<Vec<_>>(), [ChangeReason::SecretRotated]);
    let unknown = hooks.env.engine.webhooks().rotate_secret(&tenant(), "wh_none", OVERLAP_MS, None).await;
    assert!(matches!(unknown, Err(Error::NotFound(_))), "{unknown:?}");
}

async fn a_second_rotation_ends_the_oldest_secret(mut hooks: WebhookEnv) {
    let one = hooks.subscribe_durably().await;
    let (_, second) = hooks.rotate(&one.hook, OVERLAP_MS).await;
    let (rotated, third) = hooks.rotate(&one.hook, OVERLAP_MS).await;
    assert_eq!(rotated.old_secret.unwrap().fingerprint, fingerprint(&second));
    hooks.assert_signed(&one, &second, Some(&third)).await;
}

async fn a_rotation_without_overlap_ends_the_old_secret_at_once(mut hooks: WebhookEnv) {
    let one = hooks.subscribe_durably().await;
    let (rotated, second) = hooks.rotate(&one.hook, 0).await;
    assert_eq!(rotated.old_secret, None);
    hooks.assert_signed(&one, &second, None).await;
}

async fn old_secrets_are_stored_sealed_and_erased_after_the_overlap(hooks: WebhookEnv) {
    let one = hooks.subscribe_durably().await;
    let (_, second) = hooks.rotate(&one.hook, OVERLAP_MS).await;
    let stored = async || {
        let rows = hooks.env.database.read("SELECT * FROM webhooks").await;
        rows[0]
            .iter()
            .map(|(name, value)| (name.clone(), value.clone().unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    let old = |row: &[(String, String)]| {
        row.iter().filter(|(name, _)| name.starts_with("old_")).map(|(_, value)| value.clone()).collect()
    };
    let row = stored().await;
    let kept: Vec<String> = old(&row);
    assert!(kept.len() == 3 && kept.iter().all(|value| !value.is_empty()), "{row:?}");
    for secret in [&one.secret, &second] {
        assert!(row.iter().all(|(_, value)| !value.contains(secret.as_str())), "secrets are sealed");
    }
    hooks.env.clock.advance(59_999);
    hooks.env.engine.worker().tidy().await;
    assert_eq!(old(&stored().await), kept);
    hooks.env.clock.advance(1);
    hooks.env.engine.worker().tidy().await;
    let kept: Vec<String> = old(&stored().await);
    assert!(kept.len() == 3 && kept.iter().all(String::is_empty), "{kept:?}");
}
