//! Several nodes on one database: they share the deliveries, know of each other's subscriptions, and take over what
//! somebody left behind.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_engine::core::WorkflowId;
use holdpoint_engine::core::webhook::DeliveryState;
use holdpoint_engine::{Options, WebhookSettings};
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::{Post, courier, durably, furnished, ok};
use crate::house::{House, accept, gated, start, tenant};
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};
use crate::slow_node::{NEVER, until, until_async};

on_both! {
    two_nodes_share_deliveries_and_repeat_none,
    a_commit_knows_of_a_subscription_that_was_made_elsewhere,
    of_all_nodes_one_probes_an_open_circuit,
    what_a_silent_node_held_is_taken_over_and_its_result_does_not_count,
    what_waited_for_its_turn_is_not_begun_at_the_end_of_its_lease,
}

async fn two_nodes_share_deliveries_and_repeat_none(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let hook = post.hook(&peer, &["run.started", "approval.requested", "run.completed"], durably).await;
    for _ in 0..20 {
        let of = post.house.start("gated").await;
        post.house.answer(&of, "gate", accept()).await.unwrap();
    }
    let second = post.house.second_engine(furnished).await;
    let mut other = courier(&second);
    // Until neither finds anything: one may look while the other still holds what comes first.
    loop {
        let (one, two) = tokio::join!(post.courier.drain(), other.drain());
        if one.unwrap() + two.unwrap() == 0 {
            break;
        }
    }
    let ids: Vec<String> = peer.header("X-openwop-Delivery-Id").into_iter().flatten().collect();
    assert_eq!(ids.len(), 60);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 60);
    assert_eq!(post.states(&hook).await, [DeliveryState::Delivered; 60]);
    let bodies = super::bodies(&peer);
    for run in bodies.iter().map(|body| &body["runId"]).collect::<Vec<_>>() {
        let own = bodies.iter().filter(|body| body["runId"] == *run);
        let seqs: Vec<u64> = own.map(|body| body["sequence"].as_u64().unwrap()).collect();
        assert!(seqs.is_sorted(), "{seqs:?}");
    }
    second.close().await;
}

async fn a_commit_knows_of_a_subscription_that_was_made_elsewhere(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    post.house.start("gated").await;
    let second = post.house.second_engine(furnished).await;
    let mut new = holdpoint_engine::NewWebhook::new(tenant(), peer.url("/"), ["run.started".to_owned()]);
    durably(&mut new);
    let (hook, _) = second.add_webhook(new).await.unwrap();
    post.house.start("gated").await;
    assert_eq!(post.states(&hook).await, [DeliveryState::Queued]);
    second.pause_webhook(&tenant(), &hook.id, None).await.unwrap();
    assert_eq!(post.deliver().await, 0);
    second.remove_webhook(&tenant(), &hook.id, None).await.unwrap();
    post.house.start("gated").await;
    assert_eq!(post.states(&hook).await, [DeliveryState::Dropped]);
    second.close().await;
}

async fn of_all_nodes_one_probes_an_open_circuit(mut post: Post) {
    let told = Arc::new(Notify::new());
    let (no, yes) = (Reply::json(500, "{}"), "HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n".to_owned());
    let probe = Reply::When(told.clone(), yes);
    let peer = Peer::saying([no.clone(), no.clone(), no.clone(), no, probe, ok()]).await;
    post.hook(&peer, &["run.started"], |_| ()).await;
    for _ in 0..4 {
        post.house.start("gated").await;
        post.deliver().await;
    }
    post.house.clock.advance(3_600_000);
    let (stop, stopping) = watch::channel(false);
    let Post { courier: probing, house } = post;
    let probing = tokio::spawn(probing.run(stopping));
    house.start("gated").await;
    peer.heard_times(5).await;
    let second = house.second_engine(furnished).await;
    let mut other = courier(&second);
    let workflow = WorkflowId::parse("gated").unwrap();
    second.start(&workflow, start(json!({}))).await.unwrap();
    other.drain().await.unwrap();
    assert_eq!(peer.heard().len(), 5, "somebody is trying it");
    stop.send_replace(true);
    told.notify_one();
    probing.await.unwrap();
    house.clock.advance(3_600_000);
    second.start(&workflow, start(json!({}))).await.unwrap();
    assert_eq!(other.drain().await.unwrap(), 1);
    assert_eq!(peer.heard().len(), 6, "it is closed for all");
    second.close().await;
}

async fn what_a_silent_node_held_is_taken_over_and_its_result_does_not_count(post: Post) {
    let told = Arc::new(Notify::new());
    let peer = Peer::saying([Reply::When(told.clone(), "HTTP/1.1 500 X\r\n\r\n".to_owned()), ok()]).await;
    let hook = post.hook(&peer, &["run.started"], durably).await;
    post.house.start("gated").await;
    let (stop, stopping) = watch::channel(false);
    let Post { courier: silent, house } = post;
    let silent = tokio::spawn(silent.run(stopping));
    peer.heard_times(1).await;
    let second = house.second_engine(furnished).await;
    let mut other = courier(&second);
    assert_eq!(other.drain().await.unwrap(), 0, "somebody is at it");
    house.clock.advance(30_000);
    assert_eq!(other.drain().await.unwrap(), 1);
    // The silent one comes back, with bad news that are out of date.
    stop.send_replace(true);
    told.notify_one();
    silent.await.unwrap();
    let post = Post { courier: courier(&house.engine), house };
    let delivery = post.deliveries(&hook).await.remove(0);
    assert_eq!((delivery.state, delivery.attempt), (DeliveryState::Delivered, 1));
    assert_eq!(post.attempts(&hook).await.len(), 2, "both attempts are on record");
    let ids = peer.header("X-openwop-Delivery-Id");
    assert_eq!(ids[0], ids[1]);
    second.close().await;
}

async fn what_waited_for_its_turn_is_not_begun_at_the_end_of_its_lease(place: Place) {
    let (one, two) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let yes = |told: &Arc<Notify>| Reply::When(told.clone(), "HTTP/1.1 204 X\r\n\r\n".to_owned());
    let peer = Peer::saying([yes(&one), yes(&two), ok()]).await;
    let post = Post::with(place, |settings| WebhookSettings { per_subscription: 1, ..settings }).await;
    let hook = post.hook(&peer, &["run.started"], durably).await;
    for _ in 0..2 {
        post.house.start("gated").await;
    }
    let (stop, stopping) = watch::channel(false);
    let Post { courier: slow, house } = post;
    let slow = tokio::spawn(slow.run(stopping));
    peer.heard_times(1).await;
    // Both were claimed at once; what is left is less than an attempt may take.
    house.clock.advance(26_000);
    one.notify_one();
    peer.heard_times(2).await;
    house.clock.advance(4_000);
    let second = house.second_engine(furnished).await;
    assert_eq!(courier(&second).drain().await.unwrap(), 0, "it was claimed anew before it was begun");
    two.notify_one();
    stop.send_replace(true);
    slow.await.unwrap();
    let post = Post { courier: courier(&house.engine), house };
    assert_eq!(post.states(&hook).await, [DeliveryState::Delivered; 2]);
    assert_eq!(peer.heard().len(), 2);
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_that_goes_down_gives_back_is_sent_by_another_at_once() {
    let furnish = |options: Options| {
        let (lease, attempt_timeout) = (NEVER, NEVER);
        let settings = WebhookSettings { per_subscription: 1, lease, attempt_timeout, ..Default::default() };
        furnished(options).webhooks(settings).backstop(NEVER)
    };
    let house = House::with(Place::postgres().await, furnish).await;
    house.register(gated("gated")).await;
    let other = house.second_engine(furnish).await;
    until("that the nodes hear of each other", || {
        house.engine.hears_other_nodes() && other.hears_other_nodes()
    })
    .await;
    let told = Arc::new(Notify::new());
    let first = Reply::When(told.clone(), "HTTP/1.1 204 X\r\n\r\n".to_owned());
    let peer = Peer::saying([first, ok()]).await;
    let post = Post { courier: courier(&house.engine), house };
    let hook = post.hook(&peer, &["run.started"], durably).await;
    for _ in 0..3 {
        post.house.start("gated").await;
    }
    let Post { courier: going_down, house } = post;
    let (stop, stopping) = watch::channel(false);
    let going_down = tokio::spawn(going_down.run(stopping));
    peer.heard_times(1).await;
    let (_stop, stopping) = watch::channel(false);
    tokio::spawn(courier(&other).run(stopping));
    until("that the courier of the other node sleeps", || other.courier_is_idle()).await;

    stop.send_replace(true);
    told.notify_one();
    going_down.await.unwrap();
    let post = Post { courier: courier(&house.engine), house };
    until_async("that the other node sends the rest", async || {
        post.states(&hook).await == [DeliveryState::Delivered; 3]
    })
    .await;
    assert_eq!(peer.heard().len(), 3);
    other.close().await;
}
