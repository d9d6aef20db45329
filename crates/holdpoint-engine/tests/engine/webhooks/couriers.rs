//! Couriers that send no request: the event no longer exists, or its body cannot be rendered.

use holdpoint_engine::core::webhook::{AttemptOutcome, DeliveryState, SubscriptionState};

use super::{WebhookEnv, delivery_worker, durably, ok};
use crate::peer::Peer;
use crate::test_database::on_both;

on_both! {
    a_delivery_whose_event_no_longer_exists_is_dropped_without_an_attempt,
    a_body_that_cannot_be_rendered_is_a_failed_attempt_without_a_request,
}

async fn a_delivery_whose_event_no_longer_exists_is_dropped_without_an_attempt(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let durable = hooks.subscribe(&peer, &["run.started"], durably).await;
    let best_effort = hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    hooks.worker = hooks.env.engine.webhooks().delivery_worker(|_, _| async { None });
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 2);
    assert_eq!(hooks.states(&durable).await, [DeliveryState::Dropped]);
    assert_eq!(hooks.states(&best_effort).await, []);
    for hook in [&durable, &best_effort] {
        assert!(hooks.attempts(hook).await.is_empty());
    }
    assert!(peer.requests().is_empty());
}

async fn a_body_that_cannot_be_rendered_is_a_failed_attempt_without_a_request(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let durable = hooks.subscribe(&peer, &["run.started"], durably).await;
    let best_effort = hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    let engine = hooks.env.engine.clone();
    hooks.worker = engine.webhooks().delivery_worker(|_, client| async { Some(client.fail("no body")) });
    // More than the circuit breaker allows in a row.
    for _ in 0..20 {
        hooks.env.start("gated").await;
        hooks.deliver().await;
    }
    assert!(peer.requests().is_empty());
    assert_eq!(hooks.states(&durable).await, [DeliveryState::Queued; 20]);
    assert_eq!(hooks.states(&best_effort).await, [DeliveryState::Dropped; 20], "the circuit is closed");
    for (hook, outcome) in [(&durable, AttemptOutcome::Retrying), (&best_effort, AttemptOutcome::Failed)] {
        let attempts = hooks.attempts(hook).await;
        assert!(attempts.iter().all(|one| one.outcome == outcome && one.status.is_none()), "{attempts:?}");
        assert_eq!(attempts[0].error.as_deref(), Some("the body could not be rendered"));
        assert_eq!(hooks.state(hook).await, SubscriptionState::Active);
    }
    hooks.worker = delivery_worker(&engine);
    hooks.env.clock.advance(3_600_000);
    hooks.deliver().await;
    assert_eq!(hooks.states(&durable).await, [DeliveryState::Delivered; 20]);
}
