//! Several nodes on one database: they share deliveries and webhooks, and take over deliveries of unresponsive nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_engine::core::WorkflowId;
use holdpoint_engine::core::webhook::DeliveryState;
use holdpoint_engine::{Options, WebhookSettings};
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::backlogs::{loopback, woken_only};
use super::{WebhookEnv, delivery_worker, durably, ok, with_loopback};
use crate::peer::{Peer, PeerReply};
use crate::slow_node::{NEVER, until, until_async};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, gated, start, tenant};

on_both! {
    two_nodes_share_deliveries_and_repeat_none,
    a_commit_respects_a_webhook_created_at_another_node,
    of_all_nodes_one_probes_an_open_circuit,
    a_delivery_of_an_unresponsive_node_is_taken_over_and_its_result_is_ignored,
    a_delivery_is_claimed_again_before_an_attempt_that_could_outlast_its_lease,
}

async fn two_nodes_share_deliveries_and_repeat_none(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started", "approval.requested", "run.completed"], durably).await;
    for _ in 0..20 {
        let of = hooks.env.start("gated").await;
        hooks.env.answer(&of, "gate", accept()).await.unwrap();
    }
    let second = hooks.env.second_engine(with_loopback).await;
    let mut other = delivery_worker(&second);
    // Until both find no delivery: one can read while the other still holds the first delivery of a run.
    loop {
        let (one, two) = tokio::join!(hooks.worker.drain(), other.drain());
        if one.unwrap() + two.unwrap() == 0 {
            break;
        }
    }
    let ids: Vec<String> = peer.header("Test-Delivery-Id").into_iter().flatten().collect();
    assert_eq!(ids.len(), 60);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 60);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Delivered; 60]);
    let bodies = super::bodies(&peer);
    for run in bodies.iter().map(|body| &body["runId"]).collect::<Vec<_>>() {
        let own = bodies.iter().filter(|body| body["runId"] == *run);
        let seqs: Vec<u64> = own.map(|body| body["sequence"].as_u64().unwrap()).collect();
        assert!(seqs.is_sorted(), "{seqs:?}");
    }
    second.close().await;
}

async fn a_commit_respects_a_webhook_created_at_another_node(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    hooks.env.start("gated").await;
    let second = hooks.env.second_engine(with_loopback).await;
    let mut new = holdpoint_engine::NewWebhook::new(tenant(), peer.url("/"), ["run.started".to_owned()]);
    durably(&mut new);
    let (hook, _) = second.webhooks().add(new).await.unwrap();
    hooks.env.start("gated").await;
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Queued]);
    second.webhooks().pause(&tenant(), &hook.id, None).await.unwrap();
    assert_eq!(hooks.deliver().await, 0);
    second.webhooks().remove(&tenant(), &hook.id, None).await.unwrap();
    hooks.env.start("gated").await;
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Dropped]);
    second.close().await;
}

async fn of_all_nodes_one_probes_an_open_circuit(mut hooks: WebhookEnv) {
    let release = Arc::new(Notify::new());
    let (no, yes) = (PeerReply::json(500, "{}"), "HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n".to_owned());
    let probe = PeerReply::When(release.clone(), yes);
    let peer = Peer::with_replies([no.clone(), no.clone(), no.clone(), no, probe, ok()]).await;
    hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    for _ in 0..4 {
        hooks.env.start("gated").await;
        hooks.deliver().await;
    }
    hooks.env.clock.advance(3_600_000);
    let (stop, stopping) = watch::channel(false);
    let WebhookEnv { worker: probing, env } = hooks;
    let probing = tokio::spawn(probing.run(stopping));
    env.start("gated").await;
    peer.wait_for_requests(5).await;
    let second = env.second_engine(with_loopback).await;
    let mut other = delivery_worker(&second);
    let workflow = WorkflowId::parse("gated").unwrap();
    second.runs().create(&workflow, start(json!({}))).await.unwrap();
    other.drain().await.unwrap();
    assert_eq!(peer.requests().len(), 5, "another node is probing");
    stop.send_replace(true);
    release.notify_one();
    probing.await.unwrap();
    env.clock.advance(3_600_000);
    second.runs().create(&workflow, start(json!({}))).await.unwrap();
    assert_eq!(other.drain().await.unwrap(), 1);
    assert_eq!(peer.requests().len(), 6, "the circuit is closed at all nodes");
    second.close().await;
}

async fn a_delivery_of_an_unresponsive_node_is_taken_over_and_its_result_is_ignored(database: TestDatabase) {
    // A periodic look of the node itself could release its claim after the clock was advanced.
    let hooks = woken_only(database, &loopback()).await;
    let release = Arc::new(Notify::new());
    let peer =
        Peer::with_replies([PeerReply::When(release.clone(), "HTTP/1.1 500 X\r\n\r\n".to_owned()), ok()])
            .await;
    let hook = hooks.subscribe(&peer, &["run.started"], durably).await;
    hooks.env.start("gated").await;
    let (stop, stopping) = watch::channel(false);
    let WebhookEnv { worker: silent, env } = hooks;
    let silent = tokio::spawn(silent.run(stopping));
    peer.wait_for_requests(1).await;
    let second = env.second_engine(with_loopback).await;
    let mut other = delivery_worker(&second);
    assert_eq!(other.drain().await.unwrap(), 0, "another node has claimed it");
    env.clock.advance(30_000);
    assert_eq!(other.drain().await.unwrap(), 1);
    // The unresponsive node returns with an outdated failure.
    stop.send_replace(true);
    release.notify_one();
    silent.await.unwrap();
    let hooks = WebhookEnv { worker: delivery_worker(&env.engine), env };
    let delivery = hooks.deliveries(&hook).await.remove(0);
    assert_eq!((delivery.state, delivery.attempt), (DeliveryState::Delivered, 1));
    assert_eq!(hooks.attempts(&hook).await.len(), 2, "both attempts are recorded");
    let ids = peer.header("Test-Delivery-Id");
    assert_eq!(ids[0], ids[1]);
    second.close().await;
}

async fn a_delivery_is_claimed_again_before_an_attempt_that_could_outlast_its_lease(database: TestDatabase) {
    let (one, two) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let yes = |release: &Arc<Notify>| PeerReply::When(release.clone(), "HTTP/1.1 204 X\r\n\r\n".to_owned());
    let peer = Peer::with_replies([yes(&one), yes(&two), ok()]).await;
    let hooks =
        WebhookEnv::with(database, |settings| WebhookSettings { per_subscription: 1, ..settings }).await;
    let hook = hooks.subscribe(&peer, &["run.started"], durably).await;
    for _ in 0..2 {
        hooks.env.start("gated").await;
    }
    let (stop, stopping) = watch::channel(false);
    let WebhookEnv { worker: slow, env } = hooks;
    let slow = tokio::spawn(slow.run(stopping));
    peer.wait_for_requests(1).await;
    // Both deliveries were claimed together. The rest of the lease is shorter than the timeout of an attempt.
    env.clock.advance(26_000);
    one.notify_one();
    peer.wait_for_requests(2).await;
    env.clock.advance(4_000);
    let second = env.second_engine(with_loopback).await;
    assert_eq!(
        delivery_worker(&second).drain().await.unwrap(),
        0,
        "the delivery was claimed again before its attempt"
    );
    two.notify_one();
    stop.send_replace(true);
    slow.await.unwrap();
    let hooks = WebhookEnv { worker: delivery_worker(&env.engine), env };
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Delivered; 2]);
    assert_eq!(peer.requests().len(), 2);
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_returned_at_shutdown_are_sent_by_another_node_at_once() {
    let configure = |options: Options| {
        let (lease, attempt_timeout) = (NEVER, NEVER);
        let settings = WebhookSettings { per_subscription: 1, lease, attempt_timeout, ..Default::default() };
        with_loopback(options).webhooks(settings).backstop(NEVER)
    };
    let env = TestEnv::with(TestDatabase::postgres().await, configure).await;
    env.register(gated("gated")).await;
    let other = env.second_engine(configure).await;
    until("the nodes see each other", || env.engine.sees_other_nodes() && other.sees_other_nodes()).await;
    let release = Arc::new(Notify::new());
    let first = PeerReply::When(release.clone(), "HTTP/1.1 204 X\r\n\r\n".to_owned());
    let peer = Peer::with_replies([first, ok()]).await;
    let hooks = WebhookEnv { worker: delivery_worker(&env.engine), env };
    let hook = hooks.subscribe(&peer, &["run.started"], durably).await;
    for _ in 0..3 {
        hooks.env.start("gated").await;
    }
    let WebhookEnv { worker: going_down, env } = hooks;
    let (stop, stopping) = watch::channel(false);
    let going_down = tokio::spawn(going_down.run(stopping));
    peer.wait_for_requests(1).await;
    let (_stop, stopping) = watch::channel(false);
    tokio::spawn(delivery_worker(&other).run(stopping));
    until("the delivery worker of the other node is idle", || other.delivery_worker_is_idle()).await;

    stop.send_replace(true);
    release.notify_one();
    going_down.await.unwrap();
    let hooks = WebhookEnv { worker: delivery_worker(&env.engine), env };
    until_async("the other node sends the rest", async || {
        hooks.states(&hook).await == [DeliveryState::Delivered; 3]
    })
    .await;
    assert_eq!(peer.requests().len(), 3);
    other.close().await;
}
