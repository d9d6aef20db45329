//! Deliveries and attempts stored by a version with other indexes and ids: they are sent, listed and deleted.

use std::time::Duration;

use holdpoint_engine::WebhookSettings;
use holdpoint_engine::core::webhook::{AttemptOutcome, DeliveryState};

use super::{WebhookEnv, ok};
use crate::peer::Peer;
use crate::test_database::{TestDatabase, on_both, schema};
use crate::test_env::{NOON, tenant};

on_both! {
    stored_deliveries_are_sent_and_stored_attempts_are_listed_and_deleted,
}

const VERSION: usize = 22;
const WEBHOOK: &str = "wh_01a1ea609a467336a365b3fbe464a91d";
const SEALED: &str = "s1.qGx+ZL87BTY9OIlJgvDZemafICqjNFvxfmXuWr0FKA2sQHKogeN8myPylcpycVYoREhlWlAskibhUFbYmvKtfRpi/\
    etqGf8Ijsyu32yBzfolqL1ej3iDKGd7etc";

async fn stored_deliveries_are_sent_and_stored_attempts_are_listed_and_deleted(database: TestDatabase) {
    let peer = Peer::with_replies([ok()]).await;
    database.execute(&schema(&database, VERSION)).await.unwrap();
    let (url, tenant) = (peer.url("/hook"), tenant());
    let versions = (1..=VERSION).map(|version| format!("({version})")).collect::<Vec<_>>().join(", ");
    let rows = format!(
        "INSERT INTO schema_versions (version) VALUES {versions};
        INSERT INTO webhooks (tenant_id, webhook_id, url, events, tags, mode, ordered, retry, secret, fingerprint, state,
            breaker, mark, created_ms, updated_ms)
        VALUES ('{tenant}', '{WEBHOOK}', '{url}', '[\"run.started\"]', '[]', 'durable', 1,
            '{{\"maxAttempts\":10,\"backoff\":\"exponential\",\"baseMs\":60000,\"maxMs\":21600000}}', '{SEALED}',
            '1d3e5ba1', 'active', '{{\"inARow\":0,\"failed\":false}}', 'm', {NOON}, {NOON});
        UPDATE webhook_revision SET revision = 1;
        INSERT INTO deliveries (delivery_id, tenant_id, webhook_id, run_id, event_seq, event_type, kind, state, ordered,
            attempt, due_ms, dedup_key, created_ms, ended_ms)
        VALUES ('dl_ffff', '{tenant}', '{WEBHOOK}', 'gone', 0, 'run.started', 'event', 'delivered', 1, 2, {NOON}, 'k1', {NOON}, {NOON}),
            ('dl_0000', '{tenant}', '{WEBHOOK}', 'gone', 1, 'run.started', 'event', 'queued', 1, 0, {NOON}, 'k2', {NOON}, NULL);
        INSERT INTO delivery_attempts (attempt_id, tenant_id, webhook_id, delivery_id, run_id, event_seq, event_type, attempt,
            at_ms, latency_ms, status, error, outcome, times)
        VALUES ('a3', '{tenant}', '{WEBHOOK}', 'dl_ffff', 'gone', 0, 'run.started', 1, {NOON}, 3, 500, 'answered 500', 'retrying', 1),
            ('a2', '{tenant}', '{WEBHOOK}', 'dl_ffff', 'gone', 0, 'run.started', 2, {NOON}, 4, 204, NULL, 'delivered', 1),
            ('a1', '{tenant}', '{WEBHOOK}', NULL, NULL, NULL, NULL, 0, {NOON}, 0, NULL, 'the circuit was open', 'dropped', 7);",
    );
    database.execute(&rows).await.unwrap();
    let kept = |settings| WebhookSettings { keep_deliveries: Duration::from_secs(10), ..settings };
    let mut hooks = WebhookEnv::with(database, kept).await;
    let hook = hooks.env.engine.webhooks().get(&tenant, WEBHOOK).await.unwrap();
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 2, "the stored one, whose event is gone, and a new one");
    let (delivered, dropped) = (DeliveryState::Delivered, DeliveryState::Dropped);
    assert_eq!(hooks.states(&hook).await, [delivered, dropped, delivered]);
    assert_eq!(peer.requests().len(), 1);
    let attempts = hooks.attempts(&hook).await;
    let shown: Vec<_> =
        attempts.iter().map(|one| (one.delivery.as_deref(), one.number, one.outcome, one.times)).collect();
    assert_eq!(shown[0], (Some("dl_ffff"), 1, AttemptOutcome::Retrying, 1));
    assert_eq!(shown[1], (Some("dl_ffff"), 2, AttemptOutcome::Delivered, 1));
    assert_eq!(shown[2], (None, 0, AttemptOutcome::Dropped, 7));
    assert_eq!((shown.len(), shown[3].2), (4, AttemptOutcome::Delivered));
    let replayed = hooks.env.engine.deliveries().replay(&tenant, &hook.id, "dl_ffff", None).await.unwrap();
    assert_eq!((replayed.id.as_str(), replayed.dedup_key.as_str()), ("dl_ffff", "k1"));
    hooks.deliver().await;
    hooks.env.clock.advance(10_000);
    hooks.env.engine.worker().tidy().await;
    assert_eq!((hooks.states(&hook).await.len(), hooks.attempts(&hook).await.len()), (0, 0));
}
