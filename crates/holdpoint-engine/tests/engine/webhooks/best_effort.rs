//! Best effort: every event is tried once, for those whom it concerns, and never again.

use holdpoint_engine::core::webhook::{AttemptOutcome, DeliveryState};
use holdpoint_engine::core::{ForkMode, Timestamp};
use holdpoint_engine::{ForkRequest, Overlay, sign};

use super::{Post, bodies, ok, types};
use crate::house::{NOON, accept, tenant};
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

on_both! {
    an_event_is_sent_once_and_signed,
    what_fails_is_not_repeated_unless_somebody_replays_it,
    a_redirect_is_a_failure_and_not_followed,
    only_wanted_events_of_runs_with_a_wanted_tag_are_sent,
    what_finds_no_room_is_dropped_and_counted,
    a_paused_subscription_hears_nothing,
    a_copy_that_repeats_tells_nobody_and_a_branch_tells_what_is_new,
}

async fn an_event_is_sent_once_and_signed(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let events = ["run.completed".to_owned()];
    let new = holdpoint_engine::NewWebhook::new(tenant(), peer.url("/hook?x=1"), events);
    let (hook, secret) = post.house.engine.add_webhook(new).await.unwrap();
    let of = post.house.start("gated").await;
    assert_eq!(post.deliver().await, 0);
    post.house.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(post.deliver().await, 1);
    assert_eq!(post.deliver().await, 0);
    assert_eq!(peer.heard().len(), 1);
    let body = peer.heard()[0].split_once("\r\n\r\n").unwrap().1.to_owned();
    let at = NOON / 1000;
    let signature = sign(&secret, at, body.as_bytes());
    for family in ["X-openwop-", "OpenWOP-"] {
        let one = |name: &str| peer.header(&format!("{family}{name}"))[0].clone().unwrap_or_default();
        assert_eq!(one("Webhook-Id"), hook.id);
        assert_eq!(one("Event-Type"), "run.completed");
        assert_eq!(one("Timestamp"), at.to_string());
        assert_eq!(one("Signature"), signature);
        assert_eq!(one("Signature-Algorithm"), "v1");
        assert_eq!(one("Delivery-Id"), "", "that is for those who may hear it twice");
    }
    assert_eq!(peer.header("content-type")[0].as_deref(), Some("application/json"));
    assert!(peer.header("user-agent")[0].clone().unwrap().starts_with("openwop-webhook-dispatcher/"));
    assert!(peer.heard()[0].starts_with("POST /hook?x=1 HTTP/1.1\r\n"));
    assert_eq!(bodies(&peer)[0]["runId"], of.run.as_str());
    assert_eq!(post.states(&hook).await, [DeliveryState::Delivered]);
    let attempts = post.attempts(&hook).await;
    assert_eq!((attempts[0].status, attempts[0].outcome), (Some(200), AttemptOutcome::Delivered));
    assert_eq!(attempts[0].at, Timestamp(NOON));
}

async fn what_fails_is_not_repeated_unless_somebody_replays_it(mut post: Post) {
    let peer = Peer::saying([Reply::json(503, "{}"), ok()]).await;
    let hook = post.hook(&peer, &["run.started"], |_| ()).await;
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 1);
    post.house.clock.advance(86_400_000);
    assert_eq!(post.deliver().await, 0);
    assert_eq!(peer.heard().len(), 1);
    assert_eq!(post.states(&hook).await, [DeliveryState::Dropped]);
    let attempt = &post.attempts(&hook).await[0];
    assert_eq!((attempt.status, attempt.outcome), (Some(503), AttemptOutcome::Failed));
    assert_eq!(attempt.error.as_deref(), Some("answered 503"));
    let delivery = &post.deliveries(&hook).await[0];
    post.house.engine.replay_delivery(&tenant(), &hook.id, &delivery.id, None).await.unwrap();
    assert_eq!(post.deliver().await, 1);
    assert_eq!(post.states(&hook).await, [DeliveryState::Delivered]);
}

async fn a_redirect_is_a_failure_and_not_followed(mut post: Post) {
    let there = Peer::saying([ok()]).await;
    let moved = format!("HTTP/1.1 302 X\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", there.url("/"));
    let peer = Peer::saying([Reply::Say(moved)]).await;
    let hook = post.hook(&peer, &["run.started"], |_| ()).await;
    post.house.start("gated").await;
    post.deliver().await;
    assert_eq!(there.heard().len(), 0);
    assert_eq!(post.attempts(&hook).await[0].status, Some(302));
    assert_eq!(post.states(&hook).await, [DeliveryState::Dropped]);
}

async fn only_wanted_events_of_runs_with_a_wanted_tag_are_sent(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let wanted = ["run.started", "approval.requested"];
    post.hook(&peer, &wanted, |new| new.filter.tags = vec!["a".to_owned(), "b".to_owned()]).await;
    for tags in [&[][..], &["c"], &["c", "b"]] {
        post.tagged(tags).await;
    }
    assert_eq!(post.deliver().await, 2);
    let mut heard = types(&peer);
    heard.sort();
    assert_eq!(heard, ["approval.requested", "run.started"]);
}

async fn what_finds_no_room_is_dropped_and_counted(place: Place) {
    let mut post = Post::with(place, |settings| super::WebhookSettings { queue_max: 2, ..settings }).await;
    let peer = Peer::saying([ok()]).await;
    let hook = post.hook(&peer, &["run.started"], |_| ()).await;
    for _ in 0..5 {
        post.house.start("gated").await;
    }
    assert_eq!(post.deliver().await, 2);
    let dropped: Vec<_> = post.attempts(&hook).await;
    let dropped = dropped.iter().find(|attempt| attempt.outcome == AttemptOutcome::Dropped).unwrap();
    assert_eq!((dropped.times, dropped.delivery.clone()), (3, None));
}

async fn a_paused_subscription_hears_nothing(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let hook = post.hook(&peer, &["run.started"], |_| ()).await;
    post.house.start("gated").await;
    post.house.engine.pause_webhook(&tenant(), &hook.id, None).await.unwrap();
    post.deliver().await;
    post.house.start("gated").await;
    post.deliver().await;
    assert_eq!(peer.heard().len(), 0, "neither what was waiting nor what came later");
    post.house.engine.resume_webhook(&tenant(), &hook.id, None, None).await.unwrap();
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 1);
}

async fn a_copy_that_repeats_tells_nobody_and_a_branch_tells_what_is_new(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let of = post.house.start("gated").await;
    post.house.answer(&of, "gate", accept()).await.unwrap();
    let events = ["run.started", "run.completed", "interrupt.requested"];
    post.hook(&peer, &events, |_| ()).await;
    post.hook(&peer, &events, super::durably).await;
    let fork = |mode, from_seq| ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode,
        from_seq,
        overlay: Overlay::default(),
        once: None,
    };
    post.house.engine.fork(&of, fork(ForkMode::Replay, 0)).await.unwrap();
    assert_eq!(post.deliver().await, 0);
    let asked = post.house.run(&of).await.seq;
    let copy = post.house.engine.fork(&of, fork(ForkMode::Branch, asked - 1)).await.unwrap();
    assert_eq!(copy.status().as_str(), "completed");
    assert_eq!(post.deliver().await, 2, "the end, which was cut off, for both");
    assert!(types(&peer).iter().all(|kind| kind == "run.completed"));
}
