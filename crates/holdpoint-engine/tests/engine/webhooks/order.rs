//! The order of deliveries: the events of a run wait for each other, and subscribers do not delay each other.

use std::sync::Arc;

use holdpoint_engine::core::webhook::{Backoff, DeliveryState, RetryPolicy};
use holdpoint_engine::{NewWebhook, WebhookSettings};
use tokio::sync::{Notify, watch};

use super::{WebhookEnv, delivery_worker, durably, ok, types};
use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{accept, tenant};

on_both! {
    the_events_of_a_run_are_delivered_in_order,
    unordered_deliveries_do_not_wait_for_a_failed_one,
    a_slow_subscriber_does_not_delay_others,
    removing_a_webhook_stops_its_attempts,
    a_stopped_delivery_worker_returns_the_deliveries_that_it_has_not_started,
}

const EVENTS: [&str; 3] = ["run.started", "approval.requested", "run.completed"];

fn retrying(new: &mut NewWebhook) {
    durably(new);
    new.retry = RetryPolicy { max_attempts: 3, backoff: Backoff::Fixed, base_ms: 1000, max_ms: 1000 };
}

async fn the_events_of_a_run_are_delivered_in_order(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([PeerReply::json(500, "{}"), ok()]).await;
    let hook = hooks.subscribe(&peer, &EVENTS, retrying).await;
    let of = hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 1, "later events wait");
    hooks.env.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(hooks.deliver().await, 0, "new events wait too");
    let other = hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 2, "events of another run do not wait");
    hooks.env.clock.advance(1000);
    assert_eq!(hooks.deliver().await, 3);
    let bodies = super::bodies(&peer);
    let of_run = |run: &str| -> Vec<String> {
        let own = bodies.iter().filter(|body| body["runId"] == run);
        own.map(|body| body["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        of_run(of.run.as_str()),
        ["run.started", "run.started", "approval.requested", "run.completed"]
    );
    assert_eq!(of_run(other.run.as_str()), EVENTS[..2]);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Delivered; 5]);
}

async fn unordered_deliveries_do_not_wait_for_a_failed_one(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([PeerReply::json(500, "{}"), ok()]).await;
    let unordered = |new: &mut NewWebhook| {
        retrying(new);
        new.ordered = false;
    };
    hooks.subscribe(&peer, &EVENTS, unordered).await;
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 2);
    hooks.env.clock.advance(1000);
    assert_eq!(hooks.deliver().await, 1);
    assert_eq!(types(&peer).len(), 3);
}

async fn a_slow_subscriber_does_not_delay_others(hooks: WebhookEnv) {
    let release = Arc::new(Notify::new());
    let slow = Peer::with_replies([PeerReply::When(release.clone(), String::new())]).await;
    let good = Peer::with_replies([ok()]).await;
    for shape in [durably as fn(&mut NewWebhook), |_| ()] {
        hooks.subscribe(&slow, &["run.started"], shape).await;
        hooks.subscribe(&good, &["run.started"], shape).await;
    }
    let (stop, stopping) = watch::channel(false);
    let WebhookEnv { worker, env } = hooks;
    let running = tokio::spawn(worker.run(stopping));
    for _ in 0..30 {
        env.start("gated").await;
    }
    // These requests arrive while every attempt at the slow subscriber waits for its response.
    good.wait_for_requests(60).await;
    slow.wait_for_requests(8).await;
    assert_eq!(slow.requests().len(), 8, "at most four concurrent attempts for each webhook");
    env.clock.advance(60_000);
    stop.send_replace(true);
    release.notify_waiters();
    running.await.unwrap();
}

async fn removing_a_webhook_stops_its_attempts(hooks: WebhookEnv) {
    let peer = Peer::with_replies([PeerReply::Hang(String::new())]).await;
    for shape in [durably as fn(&mut NewWebhook), |_| ()] {
        let hook = hooks.subscribe(&peer, &["run.started"], shape).await;
        let (stop, stopping) = watch::channel(false);
        let running = tokio::spawn(delivery_worker(&hooks.env.engine).run(stopping));
        let before = peer.requests().len();
        for _ in 0..6 {
            hooks.env.start("gated").await;
        }
        peer.wait_for_requests(before + 4).await;
        assert!(hooks.env.engine.webhooks().remove(&tenant(), &hook.id, None).await.unwrap());
        stop.send_replace(true);
        running.await.unwrap();
        assert_eq!(peer.requests().len(), before + 4);
        let states = hooks.states(&hook).await;
        assert!(states.iter().all(|state| *state == DeliveryState::Dropped), "{states:?}");
    }
}

async fn a_stopped_delivery_worker_returns_the_deliveries_that_it_has_not_started(database: TestDatabase) {
    let settings = |settings| WebhookSettings { per_subscription: 1, ..settings };
    let hooks = WebhookEnv::with(database, settings).await;
    let release = Arc::new(Notify::new());
    let answer = "HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n".to_owned();
    let peer = Peer::with_replies([PeerReply::When(release.clone(), answer), ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], durably).await;
    for _ in 0..3 {
        hooks.env.start("gated").await;
    }
    let (stop, stopping) = watch::channel(false);
    let WebhookEnv { worker, env } = hooks;
    let running = tokio::spawn(worker.run(stopping));
    peer.wait_for_requests(1).await;
    stop.send_replace(true);
    release.notify_one();
    running.await.unwrap();
    let mut hooks = WebhookEnv { worker: delivery_worker(&env.engine), env };
    assert_eq!(peer.requests().len(), 1);
    let mut states = hooks.states(&hook).await;
    states.sort_by_key(|state| state.as_str());
    let queued = DeliveryState::Queued;
    assert_eq!(states, [DeliveryState::Delivered, queued, queued]);
    assert_eq!(hooks.deliver().await, 2, "at once, before the lease expires");
    assert_eq!(peer.requests().len(), 3);
}
