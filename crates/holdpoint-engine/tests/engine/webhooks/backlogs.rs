//! More deliveries than a worker may claim at once. No delivery waits for the periodic look at the queues.

use std::collections::BTreeSet;

use holdpoint_engine::core::webhook::{Backoff, DeliveryState, RetryPolicy};
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy};
use holdpoint_engine::{NewWebhook, Options};
use tokio::sync::watch;

use super::{WebhookEnv, delivery_worker, durably, ok, seal_key};
use crate::peer::{Peer, PeerReply};
use crate::slow_node::{NEVER, until_async};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, gated};

on_both! {
    a_backlog_is_sent_without_the_periodic_look,
    the_later_events_of_a_run_are_sent_without_the_periodic_look,
    more_webhooks_than_a_worker_may_serve_at_once_get_their_deliveries,
    deliveries_to_one_host_share_connections,
}

/// An environment whose worker looks at the queues only if it is woken.
pub(super) async fn woken_only(database: TestDatabase, calls: &Outgoing) -> WebhookEnv {
    let configure = |options: Options| options.outgoing(calls.clone()).seal_key(seal_key()).backstop(NEVER);
    let env = TestEnv::with(database, configure).await;
    env.register(gated("gated")).await;
    WebhookEnv { worker: delivery_worker(&env.engine), env }
}

pub(super) fn loopback() -> Outgoing {
    Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() })
}

fn keep_open() -> PeerReply {
    PeerReply::Keep("HTTP/1.1 204 X\r\n\r\n".to_owned())
}

async fn all_delivered(hooks: &WebhookEnv, hook: &holdpoint_engine::Webhook, count: usize) {
    until_async("every delivery is delivered", async || {
        let states = hooks.states(hook).await;
        states.len() == count && states.iter().all(|state| *state == DeliveryState::Delivered)
    })
    .await;
}

async fn a_backlog_is_sent_without_the_periodic_look(database: TestDatabase) {
    let hooks = woken_only(database, &loopback()).await;
    let peer = Peer::with_replies([keep_open()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], durably).await;
    for _ in 0..150 {
        hooks.env.start("gated").await;
    }
    let WebhookEnv { worker, env } = hooks;
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(worker.run(stopping));
    // More events while the worker sends the backlog.
    for _ in 0..50 {
        env.start("gated").await;
    }
    let hooks = WebhookEnv { worker: delivery_worker(&env.engine), env };
    all_delivered(&hooks, &hook, 200).await;
    let ids: Vec<String> = peer.header("Test-Delivery-Id").into_iter().flatten().collect();
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (200, 200));
    stop.send_replace(true);
    running.await.unwrap();
}

async fn the_later_events_of_a_run_are_sent_without_the_periodic_look(database: TestDatabase) {
    let hooks = woken_only(database, &loopback()).await;
    // The first attempt fails. The clock of the test stands still, so that its retry must be due at once.
    let peer = Peer::with_replies([PeerReply::json(500, "{}"), ok()]).await;
    let at_once = |new: &mut NewWebhook| {
        durably(new);
        new.retry = RetryPolicy { max_attempts: 3, backoff: Backoff::None, base_ms: 1000, max_ms: 1000 };
    };
    let hook = hooks.subscribe(&peer, &["run.started", "approval.requested", "run.completed"], at_once).await;
    let WebhookEnv { worker, env } = hooks;
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(worker.run(stopping));
    for _ in 0..20 {
        let of = env.start("gated").await;
        env.answer(&of, "gate", accept()).await.unwrap();
    }
    let hooks = WebhookEnv { worker: delivery_worker(&env.engine), env };
    all_delivered(&hooks, &hook, 60).await;
    assert_eq!(peer.requests().len(), 61);
    stop.send_replace(true);
    running.await.unwrap();
}

async fn more_webhooks_than_a_worker_may_serve_at_once_get_their_deliveries(database: TestDatabase) {
    let hooks = woken_only(database, &loopback()).await;
    let peer = Peer::with_replies([keep_open()]).await;
    let mut subscribed = Vec::new();
    for _ in 0..20 {
        subscribed.push(hooks.subscribe(&peer, &["run.started"], durably).await);
    }
    for _ in 0..20 {
        hooks.env.start("gated").await;
    }
    let WebhookEnv { worker, env } = hooks;
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(worker.run(stopping));
    let hooks = WebhookEnv { worker: delivery_worker(&env.engine), env };
    for hook in &subscribed {
        all_delivered(&hooks, hook, 20).await;
    }
    assert_eq!(peer.requests().len(), 400);
    stop.send_replace(true);
    running.await.unwrap();
}

async fn deliveries_to_one_host_share_connections(database: TestDatabase) {
    let calls = loopback();
    let mut hooks = woken_only(database, &calls).await;
    let peer = Peer::with_replies([keep_open()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], durably).await;
    let each_once = hooks.subscribe(&peer, &["run.completed"], |_| ()).await;
    for _ in 0..12 {
        let of = hooks.env.start("gated").await;
        hooks.env.answer(&of, "gate", accept()).await.unwrap();
    }
    hooks.deliver().await;
    all_delivered(&hooks, &hook, 12).await;
    assert_eq!(hooks.states(&each_once).await, [DeliveryState::Delivered; 12]);
    let connects = calls.connects();
    assert!((13..=16).contains(&connects), "one for each best-effort event, at most 4 others: {connects}");
}
