//! The circuit breaker of best-effort webhooks, with the numbers of the contract, and the growing delays of durable
//! webhooks.

use std::time::Duration;

use holdpoint_engine::WebhookSettings;
use holdpoint_engine::core::webhook::{AttemptOutcome, ChangeReason, SubscriptionState};

use super::{WebhookEnv, delivery_worker, durably, ok, with_loopback};
use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::tenant;

on_both! {
    four_failures_open_the_circuit_for_an_hour_and_one_probe_decides,
    a_success_resets_the_failure_count,
    the_circuit_survives_a_restart,
    a_hundred_failures_in_a_week_fail_the_webhook_until_it_is_resumed,
    a_durable_subscriber_that_fails_is_tried_less_and_less_often,
}

const HOUR_MS: i64 = 3_600_000;

impl WebhookEnv {
    /// Causes one event and returns the number of attempts.
    async fn attempts_for_event(&mut self, peer: &Peer) -> usize {
        let before = peer.requests().len();
        self.env.start("gated").await;
        self.deliver().await;
        peer.requests().len() - before
    }
}

fn no() -> PeerReply {
    PeerReply::json(500, "{}")
}

async fn four_failures_open_the_circuit_for_an_hour_and_one_probe_decides(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([no(), no(), no(), no(), no(), ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    for _ in 0..4 {
        assert_eq!(hooks.attempts_for_event(&peer).await, 1);
    }
    assert_eq!(hooks.attempts_for_event(&peer).await, 0, "the circuit is open");
    hooks.env.clock.advance(HOUR_MS - 1);
    assert_eq!(hooks.attempts_for_event(&peer).await, 0, "the circuit is still open");
    hooks.env.clock.advance(1);
    assert_eq!(hooks.attempts_for_event(&peer).await, 1, "a probe that fails");
    assert_eq!(hooks.attempts_for_event(&peer).await, 0);
    hooks.env.clock.advance(HOUR_MS);
    assert_eq!(hooks.attempts_for_event(&peer).await, 1, "a probe that succeeds");
    assert_eq!(hooks.attempts_for_event(&peer).await, 1, "the circuit is closed");
    let changes = hooks.env.engine.webhooks().changes(&tenant(), &hook.id, 0, 10).await.unwrap();
    let reasons: Vec<ChangeReason> = changes.iter().map(|change| change.reason).collect();
    assert_eq!(reasons, [ChangeReason::CircuitOpened, ChangeReason::CircuitClosed]);
    let attempts = hooks.attempts(&hook).await;
    let missed = attempts.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Dropped);
    assert_eq!(missed.map(|attempt| attempt.times).sum::<u64>(), 3);
}

async fn a_success_resets_the_failure_count(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([no(), no(), no(), ok(), no(), no(), no(), ok()]).await;
    hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    for _ in 0..9 {
        assert_eq!(hooks.attempts_for_event(&peer).await, 1);
    }
}

async fn the_circuit_survives_a_restart(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([no()]).await;
    hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    for _ in 0..4 {
        assert_eq!(hooks.attempts_for_event(&peer).await, 1);
    }
    let WebhookEnv { worker: old, env } = hooks;
    drop(old);
    let env = env.reopen(with_loopback).await;
    let mut hooks = WebhookEnv { worker: delivery_worker(&env.engine), env };
    assert_eq!(hooks.attempts_for_event(&peer).await, 0);
    hooks.env.clock.advance(HOUR_MS);
    assert_eq!(hooks.attempts_for_event(&peer).await, 1);
}

async fn a_hundred_failures_in_a_week_fail_the_webhook_until_it_is_resumed(database: TestDatabase) {
    let cooldown = Duration::from_secs(1);
    let mut hooks = WebhookEnv::with(database, |settings| WebhookSettings { cooldown, ..settings }).await;
    let peer = Peer::with_replies([no()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    for count in 1..=100 {
        assert_eq!(hooks.state(&hook).await, SubscriptionState::Active, "{count}");
        assert_eq!(hooks.attempts_for_event(&peer).await, 1, "{count}");
        hooks.env.clock.advance(1000);
    }
    assert_eq!(hooks.state(&hook).await, SubscriptionState::Failed);
    hooks.env.clock.advance(30 * 24 * HOUR_MS);
    assert_eq!(hooks.attempts_for_event(&peer).await, 0, "time does not resume it");
    hooks.env.engine.webhooks().resume(&tenant(), &hook.id, None, None).await.unwrap();
    assert_eq!(hooks.attempts_for_event(&peer).await, 1);
}

async fn a_durable_subscriber_that_fails_is_tried_less_and_less_often(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([no(), no(), no(), no(), no(), ok()]).await;
    hooks.subscribe(&peer, &["run.started"], durably).await;
    let other = Peer::with_replies([ok()]).await;
    hooks.subscribe(&other, &["run.started"], durably).await;
    for _ in 0..4 {
        assert_eq!(hooks.attempts_for_event(&peer).await, 1);
    }
    for _ in 0..20 {
        assert_eq!(hooks.attempts_for_event(&peer).await, 0, "the webhook is delayed and new events wait");
    }
    assert_eq!(other.requests().len(), 24, "the other webhook is not delayed");
    hooks.env.clock.advance(1000);
    assert_eq!(hooks.attempts_for_event(&peer).await, 1, "one delivery is tried and fails");
    assert_eq!(hooks.attempts_for_event(&peer).await, 0, "the delay is longer");
    hooks.env.clock.advance(2000);
    hooks.deliver().await;
    assert_eq!(peer.requests().len(), 5 + 22 - 1, "after one success all due deliveries are sent");
    hooks.env.clock.advance(HOUR_MS);
    hooks.deliver().await;
    assert_eq!(peer.requests().len(), 5 + 26, "all deliveries are sent");
}
