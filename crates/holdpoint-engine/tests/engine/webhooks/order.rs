//! Who waits for whom: the events of a run for each other, and nobody for somebody else's subscriber.

use std::sync::Arc;

use holdpoint_engine::core::webhook::{Backoff, DeliveryState, RetryPolicy};
use holdpoint_engine::{NewWebhook, WebhookSettings};
use tokio::sync::{Notify, watch};

use super::{Post, courier, durably, ok, types};
use crate::house::{accept, tenant};
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

on_both! {
    the_events_of_a_run_come_one_after_the_other,
    without_order_nothing_waits_for_what_failed,
    nobody_waits_for_a_slow_or_dead_subscriber,
    nothing_is_under_way_when_a_subscription_is_removed,
    a_courier_that_is_told_to_stop_gives_back_what_it_has_not_begun,
}

const EVENTS: [&str; 3] = ["run.started", "approval.requested", "run.completed"];

fn retrying(new: &mut NewWebhook) {
    durably(new);
    new.retry = RetryPolicy { max_attempts: 3, backoff: Backoff::Fixed, base_ms: 1000, max_ms: 1000 };
}

async fn the_events_of_a_run_come_one_after_the_other(mut post: Post) {
    let peer = Peer::saying([Reply::json(500, "{}"), ok()]).await;
    let hook = post.hook(&peer, &EVENTS, retrying).await;
    let of = post.house.start("gated").await;
    assert_eq!(post.deliver().await, 1, "what comes behind waits");
    post.house.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(post.deliver().await, 0, "what is new too");
    let other = post.house.start("gated").await;
    assert_eq!(post.deliver().await, 2, "but not the events of another run");
    post.house.clock.advance(1000);
    assert_eq!(post.deliver().await, 3);
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
    assert_eq!(post.states(&hook).await, [DeliveryState::Delivered; 5]);
}

async fn without_order_nothing_waits_for_what_failed(mut post: Post) {
    let peer = Peer::saying([Reply::json(500, "{}"), ok()]).await;
    let unordered = |new: &mut NewWebhook| {
        retrying(new);
        new.ordered = false;
    };
    post.hook(&peer, &EVENTS, unordered).await;
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 2);
    post.house.clock.advance(1000);
    assert_eq!(post.deliver().await, 1);
    assert_eq!(types(&peer).len(), 3);
}

async fn nobody_waits_for_a_slow_or_dead_subscriber(post: Post) {
    let told = Arc::new(Notify::new());
    let slow = Peer::saying([Reply::When(told.clone(), String::new())]).await;
    let good = Peer::saying([ok()]).await;
    for shape in [durably as fn(&mut NewWebhook), |_| ()] {
        post.hook(&slow, &["run.started"], shape).await;
        post.hook(&good, &["run.started"], shape).await;
    }
    let (stop, stopping) = watch::channel(false);
    let Post { courier, house } = post;
    let courier = tokio::spawn(courier.run(stopping));
    for _ in 0..30 {
        house.start("gated").await;
    }
    // All of these are heard while every attempt at the slow one is still waiting for its answer.
    good.heard_times(60).await;
    slow.heard_times(8).await;
    assert_eq!(slow.heard().len(), 8, "no more than four at a time for each");
    house.clock.advance(60_000);
    stop.send_replace(true);
    told.notify_waiters();
    courier.await.unwrap();
}

async fn nothing_is_under_way_when_a_subscription_is_removed(post: Post) {
    let peer = Peer::saying([Reply::Hang(String::new())]).await;
    for shape in [durably as fn(&mut NewWebhook), |_| ()] {
        let hook = post.hook(&peer, &["run.started"], shape).await;
        let (stop, stopping) = watch::channel(false);
        let courier = tokio::spawn(courier(&post.house.engine).run(stopping));
        let before = peer.heard().len();
        for _ in 0..6 {
            post.house.start("gated").await;
        }
        peer.heard_times(before + 4).await;
        assert!(post.house.engine.remove_webhook(&tenant(), &hook.id, None).await.unwrap());
        stop.send_replace(true);
        courier.await.unwrap();
        assert_eq!(peer.heard().len(), before + 4);
        let states = post.states(&hook).await;
        assert!(states.iter().all(|state| *state == DeliveryState::Dropped), "{states:?}");
    }
}

async fn a_courier_that_is_told_to_stop_gives_back_what_it_has_not_begun(place: Place) {
    let settings = |settings| WebhookSettings { per_subscription: 1, ..settings };
    let post = Post::with(place, settings).await;
    let told = Arc::new(Notify::new());
    let answer = "HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n".to_owned();
    let peer = Peer::saying([Reply::When(told.clone(), answer), ok()]).await;
    let hook = post.hook(&peer, &["run.started"], durably).await;
    for _ in 0..3 {
        post.house.start("gated").await;
    }
    let (stop, stopping) = watch::channel(false);
    let Post { courier, house } = post;
    let running = tokio::spawn(courier.run(stopping));
    peer.heard_times(1).await;
    stop.send_replace(true);
    told.notify_one();
    running.await.unwrap();
    let mut post = Post { courier: super::courier(&house.engine), house };
    assert_eq!(peer.heard().len(), 1);
    let mut states = post.states(&hook).await;
    states.sort_by_key(|state| state.as_str());
    let queued = DeliveryState::Queued;
    assert_eq!(states, [DeliveryState::Delivered, queued, queued]);
    assert_eq!(post.deliver().await, 2, "at once, without waiting for a lease");
    assert_eq!(peer.heard().len(), 3);
}
