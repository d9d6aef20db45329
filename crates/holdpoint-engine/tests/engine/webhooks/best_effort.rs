//! Best-effort webhooks: each matching event is sent once and not retried.

use holdpoint_engine::core::webhook::{AttemptOutcome, DeliveryState};
use holdpoint_engine::core::{ForkMode, Timestamp};
use holdpoint_engine::{ForkRequest, Overlay};

use super::{WebhookEnv, bodies, ok, types};
use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{NOON, accept, tenant};

on_both! {
    an_event_is_sent_once_with_the_secret_of_its_webhook,
    a_failed_delivery_is_repeated_only_by_a_replay,
    a_redirect_is_a_failure_and_not_followed,
    only_subscribed_events_of_runs_with_a_matching_tag_are_sent,
    events_over_the_queue_limit_are_dropped_and_counted,
    a_paused_webhook_receives_nothing,
    a_replay_sends_nothing_and_a_branch_sends_new_events,
}

async fn an_event_is_sent_once_with_the_secret_of_its_webhook(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let events = ["run.completed".to_owned()];
    let new = holdpoint_engine::NewWebhook::new(tenant(), peer.url("/hook?x=1"), events);
    let (hook, secret) = hooks.env.engine.webhooks().add(new).await.unwrap();
    let of = hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 0);
    hooks.env.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(hooks.deliver().await, 1);
    assert_eq!(hooks.deliver().await, 0);
    assert_eq!(peer.requests().len(), 1);
    let one = |name: &str| peer.header(&format!("Test-{name}"))[0].clone().unwrap_or_default();
    assert_eq!(one("Webhook-Id"), hook.id);
    assert_eq!(one("Event-Type"), "run.completed");
    assert_eq!(one("At"), NOON.to_string());
    assert_eq!(one("Secret"), secret);
    assert_eq!(one("Delivery-Id"), "", "a best-effort delivery has no id");
    assert!(peer.requests()[0].starts_with("POST /hook?x=1 HTTP/1.1\r\n"));
    assert_eq!(bodies(&peer)[0]["runId"], of.run.as_str());
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Delivered]);
    let attempts = hooks.attempts(&hook).await;
    assert_eq!((attempts[0].status, attempts[0].outcome), (Some(200), AttemptOutcome::Delivered));
    assert_eq!(attempts[0].at, Timestamp(NOON));
}

async fn a_failed_delivery_is_repeated_only_by_a_replay(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([PeerReply::json(503, "{}"), ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 1);
    hooks.env.clock.advance(86_400_000);
    assert_eq!(hooks.deliver().await, 0);
    assert_eq!(peer.requests().len(), 1);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Dropped]);
    let attempt = &hooks.attempts(&hook).await[0];
    assert_eq!((attempt.status, attempt.outcome), (Some(503), AttemptOutcome::Failed));
    assert_eq!(attempt.error.as_deref(), Some("answered 503"));
    let delivery = &hooks.deliveries(&hook).await[0];
    hooks.env.engine.deliveries().replay(&tenant(), &hook.id, &delivery.id, None).await.unwrap();
    assert_eq!(hooks.deliver().await, 1);
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Delivered]);
}

async fn a_redirect_is_a_failure_and_not_followed(mut hooks: WebhookEnv) {
    let target = Peer::with_replies([ok()]).await;
    let moved = format!("HTTP/1.1 302 X\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", target.url("/"));
    let peer = Peer::with_replies([PeerReply::Say(moved)]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    hooks.env.start("gated").await;
    hooks.deliver().await;
    assert_eq!(target.requests().len(), 0);
    assert_eq!(hooks.attempts(&hook).await[0].status, Some(302));
    assert_eq!(hooks.states(&hook).await, [DeliveryState::Dropped]);
}

async fn only_subscribed_events_of_runs_with_a_matching_tag_are_sent(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let events = ["run.started", "approval.requested"];
    hooks.subscribe(&peer, &events, |new| new.filter.tags = vec!["a".to_owned(), "b".to_owned()]).await;
    for tags in [&[][..], &["c"], &["c", "b"]] {
        hooks.start_tagged(tags).await;
    }
    assert_eq!(hooks.deliver().await, 2);
    let mut received = types(&peer);
    received.sort();
    assert_eq!(received, ["approval.requested", "run.started"]);
}

async fn events_over_the_queue_limit_are_dropped_and_counted(database: TestDatabase) {
    let mut hooks =
        WebhookEnv::with(database, |settings| super::WebhookSettings { queue_max: 2, ..settings }).await;
    let peer = Peer::with_replies([ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    for _ in 0..5 {
        hooks.env.start("gated").await;
    }
    assert_eq!(hooks.deliver().await, 2);
    let dropped: Vec<_> = hooks.attempts(&hook).await;
    let dropped = dropped.iter().find(|attempt| attempt.outcome == AttemptOutcome::Dropped).unwrap();
    assert_eq!((dropped.times, dropped.delivery.clone()), (3, None));
}

async fn a_paused_webhook_receives_nothing(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let hook = hooks.subscribe(&peer, &["run.started"], |_| ()).await;
    hooks.env.start("gated").await;
    hooks.env.engine.webhooks().pause(&tenant(), &hook.id, None).await.unwrap();
    hooks.deliver().await;
    hooks.env.start("gated").await;
    hooks.deliver().await;
    assert_eq!(peer.requests().len(), 0, "neither the waiting event nor a later one is sent");
    hooks.env.engine.webhooks().resume(&tenant(), &hook.id, None, None).await.unwrap();
    hooks.env.start("gated").await;
    assert_eq!(hooks.deliver().await, 1);
}

async fn a_replay_sends_nothing_and_a_branch_sends_new_events(mut hooks: WebhookEnv) {
    let peer = Peer::with_replies([ok()]).await;
    let of = hooks.env.start("gated").await;
    hooks.env.answer(&of, "gate", accept()).await.unwrap();
    let events = ["run.started", "run.completed", "interrupt.requested"];
    hooks.subscribe(&peer, &events, |_| ()).await;
    hooks.subscribe(&peer, &events, super::durably).await;
    let fork = |mode, from_seq| ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode,
        from_seq,
        overlay: Overlay::default(),
        once: None,
    };
    hooks.env.engine.runs().fork(&of, fork(ForkMode::Replay, 0)).await.unwrap();
    assert_eq!(hooks.deliver().await, 0);
    let asked = hooks.env.run(&of).await.seq;
    let copy = hooks.env.engine.runs().fork(&of, fork(ForkMode::Branch, asked - 1)).await.unwrap();
    assert_eq!(copy.status().as_str(), "completed");
    assert_eq!(hooks.deliver().await, 2, "the end of the run for both webhooks");
    assert!(types(&peer).iter().all(|kind| kind == "run.completed"));
}
