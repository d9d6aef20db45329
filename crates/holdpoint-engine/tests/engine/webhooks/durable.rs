//! Durable subscriptions: attempts until one succeeds or the policy gives up, and what can be done about it then.

use std::time::Duration;

use holdpoint_engine::core::webhook::{
    AttemptOutcome, Backoff, ChangeReason, DeliveryState, RetryPolicy, SubscriptionState,
};
use holdpoint_engine::core::{Start, Timestamp, WorkflowId};
use holdpoint_engine::{NewWebhook, WebhookSettings};
use serde_json::json;

use super::{Post, bodies, durably, ok};
use crate::house::{NOON, accept, start, tenant};
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

on_both! {
    attempts_keep_their_names_and_wait_as_the_policy_says,
    whoever_asks_for_time_gets_it,
    a_delivery_that_is_given_up_is_a_dead_letter_and_can_be_replayed,
    a_window_of_events_can_be_replayed,
    one_that_is_gone_is_left_alone_and_nothing_of_it_is_lost,
    a_paused_subscription_catches_up,
    removing_a_subscription_drops_what_is_pending,
    what_ended_is_kept_for_a_while_and_dead_letters_for_longer,
    dead_letters_may_be_kept_for_less_time_than_the_rest,
    too_many_dead_letters_fail_the_subscription,
    a_question_is_sent_to_the_address_of_its_run,
}

fn no() -> Reply {
    Reply::json(500, "{}")
}

fn fixed(max_attempts: u32, base_ms: u64) -> impl FnOnce(&mut NewWebhook) {
    move |new| {
        durably(new);
        new.retry = RetryPolicy { max_attempts, backoff: Backoff::Fixed, base_ms, max_ms: 60_000 };
    }
}

async fn attempts_keep_their_names_and_wait_as_the_policy_says(mut post: Post) {
    let peer = Peer::saying([no(), no(), ok()]).await;
    let exponential = |new: &mut NewWebhook| {
        durably(new);
        new.retry =
            RetryPolicy { max_attempts: 5, backoff: Backoff::Exponential, base_ms: 1000, max_ms: 9000 };
    };
    let hook = post.hook(&peer, &["run.started"], exponential).await;
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 1);
    let due = post.deliveries(&hook).await[0].due.0 - NOON;
    assert!((500..=1000).contains(&due), "{due}");
    post.house.clock.advance(due - 1);
    assert_eq!(post.deliver().await, 0);
    post.house.clock.advance(1);
    assert_eq!(post.deliver().await, 1);
    let due = post.deliveries(&hook).await[0].due.0 - post.house.clock.now().0;
    assert!((1000..=2000).contains(&due), "{due}");
    post.house.clock.advance(due);
    assert_eq!(post.deliver().await, 1);
    assert_eq!(post.states(&hook).await, [DeliveryState::Delivered]);
    for name in ["Delivery-Id", "Dedup-Key", "Event-Type"] {
        for family in ["X-openwop-", "OpenWOP-"] {
            let values = peer.header(&format!("{family}{name}"));
            assert!(
                values.len() == 3 && values[0].is_some() && values.iter().all(|value| *value == values[0])
            );
        }
    }
    let outcomes: Vec<_> = post.attempts(&hook).await.iter().map(|one| (one.number, one.outcome)).collect();
    let (retrying, delivered) = (AttemptOutcome::Retrying, AttemptOutcome::Delivered);
    assert_eq!(outcomes, [(1, retrying), (2, retrying), (3, delivered)]);
    post.house.clock.advance(86_400_000);
    assert_eq!(post.deliver().await, 0);
}

async fn whoever_asks_for_time_gets_it(mut post: Post) {
    let busy = "HTTP/1.1 429 X\r\nretry-after: 30\r\ncontent-length: 0\r\n\r\n";
    let peer = Peer::saying([Reply::Say(busy.to_owned()), ok()]).await;
    let hook = post.hook(&peer, &["run.started"], fixed(5, 1000)).await;
    post.house.start("gated").await;
    post.deliver().await;
    assert_eq!(post.deliveries(&hook).await[0].due, Timestamp(NOON + 30_000));
    post.house.clock.advance(29_999);
    assert_eq!(post.deliver().await, 0);
    post.house.clock.advance(1);
    assert_eq!(post.deliver().await, 1);
}

async fn a_delivery_that_is_given_up_is_a_dead_letter_and_can_be_replayed(mut post: Post) {
    let peer = Peer::saying([no(), no(), no(), ok()]).await;
    let hook = post.hook(&peer, &["run.started"], fixed(3, 10)).await;
    post.house.start("gated").await;
    for _ in 0..3 {
        assert_eq!(post.deliver().await, 1);
        post.house.clock.advance(10);
    }
    assert_eq!(post.deliver().await, 0);
    let dead = post.deliveries(&hook).await.remove(0);
    assert_eq!((dead.state, dead.attempt), (DeliveryState::DeadLettered, 3));
    assert_eq!(dead.reason.as_deref(), Some("retries_exhausted"));
    assert_eq!(post.state(&hook).await, SubscriptionState::Active, "the next event is tried again");
    let replayed = post.house.engine.replay_delivery(&tenant(), &hook.id, &dead.id, None).await.unwrap();
    assert_eq!(
        (replayed.state, replayed.id, replayed.dedup_key),
        (DeliveryState::Queued, dead.id, dead.dedup_key)
    );
    assert_eq!(post.deliver().await, 1);
    assert_eq!(post.states(&hook).await, [DeliveryState::Delivered]);
    assert!(
        peer.header("X-openwop-Delivery-Id").iter().all(|id| *id == peer.header("X-openwop-Delivery-Id")[0])
    );
}

async fn a_window_of_events_can_be_replayed(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let hook = post.hook(&peer, &["run.started", "approval.requested"], durably).await;
    for _ in 0..3 {
        post.house.start("gated").await;
        post.deliver().await;
        post.house.clock.advance(1000);
    }
    assert_eq!(peer.heard().len(), 6);
    let window = (Timestamp(NOON + 1000), Timestamp(NOON + 2000));
    let engine = post.house.engine.clone();
    let replay =
        async |events: &[String]| engine.replay_window(&tenant(), &hook.id, window, events, None).await;
    assert_eq!(replay(&["run.started".to_owned()]).await.unwrap(), 1);
    assert_eq!(replay(&[]).await.unwrap(), 1, "the other is queued already");
    assert_eq!(post.deliver().await, 2);
    assert_eq!(post.deliver().await, 0);
    let ids = peer.header("X-openwop-Delivery-Id");
    assert_eq!(ids[6..], ids[2..4], "the second run, in its order");
}

async fn one_that_is_gone_is_left_alone_and_nothing_of_it_is_lost(mut post: Post) {
    let peer = Peer::saying([Reply::json(410, "{}")]).await;
    let hook = post.hook(&peer, &["run.started", "approval.requested"], durably).await;
    post.house.start("gated").await;
    post.deliver().await;
    post.house.start("gated").await;
    post.house.clock.advance(86_400_000);
    post.deliver().await;
    assert_eq!(peer.heard().len(), 1);
    assert_eq!(post.state(&hook).await, SubscriptionState::DeadLettered);
    let reasons: Vec<_> = post.deliveries(&hook).await.into_iter().filter_map(|one| one.reason).collect();
    assert_eq!(reasons, ["gone", "subscription_ended", "subscription_ended", "subscription_ended"]);
    assert_eq!(post.states(&hook).await, [DeliveryState::DeadLettered; 4]);
    let resumed = post.house.engine.resume_webhook(&tenant(), &hook.id, None, None).await.unwrap();
    assert_eq!(resumed.state, SubscriptionState::DeadLettered, "it is gone for good");
    let changes = post.house.engine.webhook_changes(&tenant(), &hook.id, 0, 10).await.unwrap();
    assert_eq!(changes.iter().map(|one| one.reason).collect::<Vec<_>>(), [ChangeReason::SourceRemoved]);
}

async fn a_paused_subscription_catches_up(mut post: Post) {
    let peer = Peer::saying([ok()]).await;
    let hook = post.hook(&peer, &["run.started"], durably).await;
    post.house.engine.pause_webhook(&tenant(), &hook.id, None).await.unwrap();
    post.house.start("gated").await;
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 0);
    assert_eq!(post.states(&hook).await, [DeliveryState::Queued; 2]);
    post.house.engine.resume_webhook(&tenant(), &hook.id, None, None).await.unwrap();
    assert_eq!(post.deliver().await, 2);
    assert_eq!(peer.heard().len(), 2);
}

async fn removing_a_subscription_drops_what_is_pending(mut post: Post) {
    let peer = Peer::saying([no()]).await;
    let hook = post.hook(&peer, &["run.started"], fixed(100, 1000)).await;
    post.house.start("gated").await;
    post.deliver().await;
    assert!(post.house.engine.remove_webhook(&tenant(), &hook.id, None).await.unwrap());
    assert!(!post.house.engine.remove_webhook(&tenant(), &hook.id, None).await.unwrap());
    post.house.clock.advance(86_400_000);
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 0);
    assert_eq!(peer.heard().len(), 1);
    assert_eq!(post.states(&hook).await, [DeliveryState::Dropped], "and there are no new ones");
}

async fn what_ended_is_kept_for_a_while_and_dead_letters_for_longer(place: Place) {
    let (keep_deliveries, keep_dead_letters) = (Duration::from_secs(10), Duration::from_secs(100));
    let choose = |settings| WebhookSettings { keep_deliveries, keep_dead_letters, ..settings };
    let mut post = Post::with(place, choose).await;
    let peer = Peer::saying([no(), ok()]).await;
    let hook = post.hook(&peer, &["run.started"], fixed(1, 10)).await;
    for _ in 0..2 {
        post.house.start("gated").await;
        post.deliver().await;
    }
    let dead = post.deliveries(&hook).await.remove(0);
    assert_eq!(post.house.engine.dead_letter_kept_until(&dead), Some(Timestamp(NOON + 100_000)));
    post.house.clock.advance(9_999);
    post.house.engine.worker().tidy().await;
    assert_eq!((post.states(&hook).await.len(), post.attempts(&hook).await.len()), (2, 2));
    post.house.clock.advance(1);
    post.house.engine.worker().tidy().await;
    assert_eq!(post.states(&hook).await, [DeliveryState::DeadLettered]);
    assert_eq!(post.attempts(&hook).await.len(), 0);
    post.house.clock.advance(90_000);
    post.house.engine.worker().tidy().await;
    assert!(post.states(&hook).await.is_empty());
}

async fn dead_letters_may_be_kept_for_less_time_than_the_rest(place: Place) {
    let (keep_deliveries, keep_dead_letters) = (Duration::from_secs(100), Duration::from_secs(10));
    let choose = |settings| WebhookSettings { keep_deliveries, keep_dead_letters, ..settings };
    let mut post = Post::with(place, choose).await;
    let peer = Peer::saying([no(), ok()]).await;
    let hook = post.hook(&peer, &["run.started"], fixed(1, 10)).await;
    for _ in 0..2 {
        post.house.start("gated").await;
        post.deliver().await;
    }
    post.house.clock.advance(9_999);
    post.house.engine.worker().tidy().await;
    assert_eq!(post.states(&hook).await.len(), 2);
    post.house.clock.advance(1);
    post.house.engine.worker().tidy().await;
    assert_eq!(post.states(&hook).await, [DeliveryState::Delivered]);
    assert_eq!(post.attempts(&hook).await.len(), 2);
    post.house.clock.advance(90_000);
    post.house.engine.worker().tidy().await;
    assert_eq!((post.states(&hook).await.len(), post.attempts(&hook).await.len()), (0, 0));
}

async fn too_many_dead_letters_fail_the_subscription(mut post: Post) {
    let peer = Peer::saying([no()]).await;
    let hook = post.hook(&peer, &["run.started"], fixed(1, 10)).await;
    for _ in 0..100 {
        assert_eq!(post.state(&hook).await, SubscriptionState::Active);
        post.house.start("gated").await;
        post.deliver().await;
        // However long it rests.
        post.house.clock.advance(30_000);
    }
    assert_eq!(post.state(&hook).await, SubscriptionState::Failed);
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 0);
    assert_eq!(post.states(&hook).await, [DeliveryState::DeadLettered; 101], "nothing is lost");
}

async fn a_question_is_sent_to_the_address_of_its_run(place: Place) {
    let mut post = Post::with(place, |settings| WebhookSettings { callbacks: true, ..settings }).await;
    let peer = Peer::saying([no(), ok()]).await;
    let start = Start { callback_url: Some(peer.url("/back")), ..start(json!({})) };
    let run = post.house.engine.start(&WorkflowId::parse("gated").unwrap(), start).await.unwrap();
    post.house.start("gated").await;
    assert_eq!(post.deliver().await, 1, "the other run has none");
    post.house.clock.advance(60_000);
    assert_eq!(post.deliver().await, 1);
    assert_eq!(bodies(&peer)[1]["runId"], run.id.as_str());
    assert!(peer.heard()[1].starts_with("POST /back "));
    assert_eq!(peer.header("X-openwop-Signature"), [None, None], "there is no secret to sign it with");
    let ids = peer.header("X-openwop-Dedup-Key");
    assert!(ids[0].is_some() && ids[0] == ids[1]);
    let of = holdpoint_engine::core::RunRef { tenant: tenant(), run: run.id.clone() };
    post.house.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(post.deliver().await, 0);
}
