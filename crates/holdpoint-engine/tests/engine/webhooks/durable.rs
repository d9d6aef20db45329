//! Durable webhooks: retries, dead letters and replays.

use std::time::Duration;

use holdpoint_engine::core::webhook::{
    AttemptOutcome, Backoff, ChangeReason, DeliveryState, RetryPolicy, SubscriptionState,
};
use holdpoint_engine::core::{StartRequest, Timestamp, WorkflowId};
use holdpoint_engine::{NewWebhook, WebhookSettings};
use serde_json::json;

use super::{WebhookEnv, bodies, durably, ok};
use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{NOON, accept, start, tenant};

on_both! {
    attempts_keep_their_ids_and_follow_the_retry_policy,
    a_retry_after_header_delays_the_next_attempt,
    a_delivery_without_attempts_left_is_a_dead_letter_and_can_be_replayed,
    a_window_of_events_can_be_replayed,
    a_status_of_410_ends_the_attempts_and_keeps_the_deliveries_as_dead_letters,
    a_resumed_webhook_catches_up,
    removing_a_webhook_drops_its_queued_deliveries,
    dead_letters_can_be_kept_longer_than_other_deliveries,
    dead_letters_can_be_kept_shorter_than_other_deliveries,
    too_many_dead_letters_fail_the_webhook,
    an_interrupt_is_sent_to_the_callback_url_of_its_run,
}

fn no() -> PeerReply {
    PeerReply::json(500, "{}")
}

fn fixed(max_attempts: u32, base_ms: u64) -> impl FnOnce(&mut NewWebhook) {
    move |new| {
        durably(new);
        new.retry = RetryPolicy { max_attempts, backoff: Backoff::Fixed, base_ms, max_ms: 60_000 };
    }
}

async fn attempts_keep_their_ids_and_follow_the_retry_policy(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([no(), no(), ok()]).await;
    let exponential = |new: &mut NewWebhook| {
        durably(new);
        new.retry =
            RetryPolicy { max_attempts: 5, backoff: Backoff::Exponential, base_ms: 1000, max_ms: 9000 };
    };
    let hook = hooks.subscribe(&peer, &["run.started"], exponential).await;
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 1);
    let due = hooks.deliveries(&hook).await[0].due.0 - NOON;
    assert!((500..=1000).contains(&due), "{due}");
    hooks.env.clock.advance(due - 1);
    assert_eq!(hooks.deliver().await, 0);
    hooks.env.clock.advance(1);
    assert_eq!(hooks.deliver().await, 1);
    let due = hooks.deliveries(&hook).await[0].due.0 - hooks.env.clock.now().0;
    assert!((1000..=2000).contains(&due), "{due}");
    hooks.env.clock.advance(due);
    assert_eq!(hooks.deliver().await, 1);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Delivered]);
    for name in ["Delivery-Id", "Dedup-Key", "Event-Type"] {
        let values = peer.header(&format!("Test-{name}"));
        assert!(values.len() == 3 && values[0].is_some() && values.iter().all(|value| *value == values[0]));
    }
    let outcomes: Vec<_> = hooks.attempts(&hook).await.iter().map(|one| (one.number, one.outcome)).collect();
    let (retrying, delivered) = (AttemptOutcome::Retrying, AttemptOutcome::Delivered);
    assert_eq!(outcomes, [(1, retrying), (2, retrying), (3, delivered)]);
    hooks.env.clock.advance(86_400_000);
    assert_eq!(hooks.deliver().await, 0);
}

async fn a_retry_after_header_delays_the_next_attempt(mut hooks: WebhookEnv) {
    let too_many = "HTTP/1.1 429 X\r\nretry-after: 30\r\ncontent-length: 0\r\n\r\n";
    let peer = Peer::with_replies([PeerReply::Say(too_many.to_owned()), ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], fixed(5, 1000)).await;
    hooks.env.start("gated").await;
    hooks.deliver().await;
    assert_eq!(hooks.deliveries(&hook).await[0].due, Timestamp(NOON + 30_000));
    hooks.env.clock.advance(29_999);
    assert_eq!(hooks.deliver().await, 0);
    hooks.env.clock.advance(1);
    assert_eq!(hooks.deliver().await, 1);
}

async fn a_delivery_without_attempts_left_is_a_dead_letter_and_can_be_replayed(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([no(), no(), no(), ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], fixed(3, 10)).await;
    hooks.env.start("gated").await;
    for _ in 0..3 {
        assert_eq!(hooks.deliver().await, 1);
        hooks.env.clock.advance(10);
    }
    assert_eq!(hooks.deliver().await, 0);
    let dead = hooks.deliveries(&hook).await.remove(0);
    assert_eq!((dead.state, dead.attempt), (DeliveryState::DeadLettered, 3));
    assert_eq!(dead.reason.as_deref(), Some("retries_exhausted"));
    assert_eq!(hooks.state(&hook).await, SubscriptionState::Active, "the webhook stays active");
    let replayed = hooks.env.engine.deliveries().replay(&tenant(), &hook.id, &dead.id, None).await.unwrap();
    assert_eq!(
        (replayed.state, replayed.id, replayed.dedup_key),
        (DeliveryState::Queued, dead.id, dead.dedup_key)
    );
    assert_eq!(hooks.deliver().await, 1);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Delivered]);
    assert!(peer.header("Test-Delivery-Id").iter().all(|id| *id == peer.header("Test-Delivery-Id")[0]));
}

async fn a_window_of_events_can_be_replayed(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started", "approval.requested"], durably).await;
    for _ in 0..3 {
        hooks.env.start("gated").await;
        hooks.deliver().await;
        hooks.env.clock.advance(1000);
    }
    assert_eq!(peer.requests().len(), 6);
    let window = Timestamp(NOON + 1000)..Timestamp(NOON + 2000);
    let engine = hooks.env.engine.clone();
    let replay = async |events: &[String]| {
        engine.deliveries().replay_window(&tenant(), &hook.id, window.clone(), events, None).await
    };
    assert_eq!(replay(&["run.started".to_owned()]).await.unwrap(), 1);
    assert_eq!(replay(&[]).await.unwrap(), 1, "the other delivery is already queued");
    assert_eq!(hooks.deliver().await, 2);
    assert_eq!(hooks.deliver().await, 0);
    let ids = peer.header("Test-Delivery-Id");
    assert_eq!(ids[6..], ids[2..4], "the events of the second run in order");
}

async fn a_status_of_410_ends_the_attempts_and_keeps_the_deliveries_as_dead_letters(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([PeerReply::json(410, "{}")]).await;
    let hook = hooks.subscribe(&peer, &["run.started", "approval.requested"], durably).await;
    hooks.env.start("gated").await;
    hooks.deliver().await;
    hooks.env.start("gated").await;
    hooks.env.clock.advance(86_400_000);
    hooks.deliver().await;
    assert_eq!(peer.requests().len(), 1);
    assert_eq!(hooks.state(&hook).await, SubscriptionState::DeadLettered);
    let reasons: Vec<_> = hooks.deliveries(&hook).await.into_iter().filter_map(|one| one.reason).collect();
    assert_eq!(reasons, ["gone", "subscription_ended", "subscription_ended", "subscription_ended"]);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::DeadLettered; 4]);
    let resumed = hooks.env.engine.webhooks().resume(&tenant(), &hook.id, None, None).await.unwrap();
    assert_eq!(resumed.state, SubscriptionState::DeadLettered, "the webhook cannot be resumed");
    let changes = hooks.env.engine.webhooks().changes(&tenant(), &hook.id, 0, 10).await.unwrap();
    assert_eq!(changes.iter().map(|one| one.reason).collect::<Vec<_>>(), [ChangeReason::SourceRemoved]);
}

async fn a_resumed_webhook_catches_up(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], durably).await;
    hooks.env.engine.webhooks().pause(&tenant(), &hook.id, None).await.unwrap();
    hooks.env.start("gated").await;
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 0);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Queued; 2]);
    hooks.env.engine.webhooks().resume(&tenant(), &hook.id, None, None).await.unwrap();
    assert_eq!(hooks.deliver().await, 2);
    assert_eq!(peer.requests().len(), 2);
}

async fn removing_a_webhook_drops_its_queued_deliveries(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([no()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], fixed(100, 1000)).await;
    hooks.env.start("gated").await;
    hooks.deliver().await;
    assert!(hooks.env.engine.webhooks().remove(&tenant(), &hook.id, None).await.unwrap());
    assert!(!hooks.env.engine.webhooks().remove(&tenant(), &hook.id, None).await.unwrap());
    hooks.env.clock.advance(86_400_000);
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 0);
    assert_eq!(peer.requests().len(), 1);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Dropped], "there are no new deliveries");
}

async fn dead_letters_can_be_kept_longer_than_other_deliveries(database: TestDatabase) {
    let (keep_deliveries, keep_dead_letters) = (Duration::from_secs(10), Duration::from_secs(100));
    let choose = |settings| WebhookSettings { keep_deliveries, keep_dead_letters, ..settings };
    let mut hooks = WebhookEnv::with(database, choose).await;
    let peer = Peer::with_replies([no(), ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], fixed(1, 10)).await;
    for _ in 0..2 {
        hooks.env.start("gated").await;
        hooks.deliver().await;
    }
    let dead = hooks.deliveries(&hook).await.remove(0);
    assert_eq!(hooks.env.engine.deliveries().dead_letter_kept_until(&dead), Some(Timestamp(NOON + 100_000)));
    hooks.env.clock.advance(9_999);
    hooks.env.engine.worker().tidy().await;
    assert_eq!((hooks.states(&hook).await.len(), hooks.attempts(&hook).await.len()), (2, 2));
    hooks.env.clock.advance(1);
    hooks.env.engine.worker().tidy().await;
    assert_eq!(hooks.states(&hook).await, [DeliveryState::DeadLettered]);
    assert_eq!(hooks.attempts(&hook).await.len(), 0);
    hooks.env.clock.advance(90_000);
    hooks.env.engine.worker().tidy().await;
    assert!(hooks.states(&hook).await.is_empty());
}

async fn dead_letters_can_be_kept_shorter_than_other_deliveries(database: TestDatabase) {
    let (keep_deliveries, keep_dead_letters) = (Duration::from_secs(100), Duration::from_secs(10));
    let choose = |settings| WebhookSettings { keep_deliveries, keep_dead_letters, ..settings };
    let mut hooks = WebhookEnv::with(database, choose).await;
    let peer = Peer::with_replies([no(), ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], fixed(1, 10)).await;
    for _ in 0..2 {
        hooks.env.start("gated").await;
        hooks.deliver().await;
    }
    hooks.env.clock.advance(9_999);
    hooks.env.engine.worker().tidy().await;
    assert_eq!(hooks.states(&hook).await.len(), 2);
    hooks.env.clock.advance(1);
    hooks.env.engine.worker().tidy().await;
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Delivered]);
    assert_eq!(hooks.attempts(&hook).await.len(), 2);
    hooks.env.clock.advance(90_000);
    hooks.env.engine.worker().tidy().await;
    assert_eq!((hooks.states(&hook).await.len(), hooks.attempts(&hook).await.len()), (0, 0));
}

async fn too_many_dead_letters_fail_the_webhook(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([no()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], fixed(1, 10)).await;
    for _ in 0..100 {
        assert_eq!(hooks.state(&hook).await, SubscriptionState::Active);
        hooks.env.start("gated").await;
        hooks.deliver().await;
        // Longer than any delay of the webhook.
        hooks.env.clock.advance(30_000);
    }
    assert_eq!(hooks.state(&hook).await, SubscriptionState::Failed);
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 0);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::DeadLettered; 101], "every delivery is kept");
}

async fn an_interrupt_is_sent_to_the_callback_url_of_its_run(database: TestDatabase) {
    let mut hooks =
        WebhookEnv::with(database, |settings| WebhookSettings { callbacks: true, ..settings }).await;
    let peer = Peer::with_replies([no(), ok()]).await;
    let start = StartRequest { callback_url: Some(peer.url("/back")), ..start(json!({})) };
    let run = hooks.env.engine.runs().create(&WorkflowId::parse("gated").unwrap(), start).await.unwrap();
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 1, "the other run has no callback URL");
    hooks.env.clock.advance(60_000);
    assert_eq!(hooks.deliver().await, 1);
    assert_eq!(bodies(&peer)[1]["runId"], run.id.as_str());
    assert!(peer.requests()[1].starts_with("POST /back "));
    assert_eq!(peer.header("Test-Secret"), [None, None], "a callback has no secret");
    let ids = peer.header("Test-Dedup-Key");
    assert!(ids[0].is_some() && ids[0] == ids[1]);
    let of = holdpoint_engine::core::RunRef { tenant: tenant(), run: run.id.clone() };
    hooks.env.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(hooks.deliver().await, 0);
}
