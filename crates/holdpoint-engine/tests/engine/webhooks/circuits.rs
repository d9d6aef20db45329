//! The circuit of a best-effort subscription, with the numbers of the contract and time that is advanced by hand; and
//! the rests of a durable one.

use std::time::Duration;

use holdpoint_engine::WebhookSettings;
use holdpoint_engine::core::webhook::{AttemptOutcome, ChangeReason, SubscriptionState};

use super::{Post, courier, durably, furnished, ok};
use crate::house::tenant;
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

on_both! {
    four_failures_open_the_circuit_for_an_hour_and_one_probe_decides,
    a_success_begins_the_count_anew,
    the_circuit_survives_a_restart,
    a_hundred_failures_in_a_week_are_the_end_until_somebody_resumes_it,
    a_durable_subscriber_that_takes_nothing_is_left_alone_for_a_while,
}

const HOUR_MS: i64 = 3_600_000;

impl Post {
    /// An event comes; how many attempts that made.
    async fn event(&mut self, peer: &Peer) -> usize {
        let before = peer.heard().len();
        self.house.start("gated").await;
        self.deliver().await;
        peer.heard().len() - before
    }
}

fn no() -> Reply {
    Reply::json(500, "{}")
}

async fn four_failures_open_the_circuit_for_an_hour_and_one_probe_decides(mut post: Post) {
    let peer = Peer::saying([no(), no(), no(), no(), no(), ok()]).await;
    let hook = post.hook(&peer, &["run.started"], |_| ()).await;
    for _ in 0..4 {
        assert_eq!(post.event(&peer).await, 1);
    }
    assert_eq!(post.event(&peer).await, 0, "it is open");
    post.house.clock.advance(HOUR_MS - 1);
    assert_eq!(post.event(&peer).await, 0, "still");
    post.house.clock.advance(1);
    assert_eq!(post.event(&peer).await, 1, "a probe, which fails");
    assert_eq!(post.event(&peer).await, 0);
    post.house.clock.advance(HOUR_MS);
    assert_eq!(post.event(&peer).await, 1, "a probe, which succeeds");
    assert_eq!(post.event(&peer).await, 1, "it is closed");
    let changes = post.house.engine.webhook_changes(&tenant(), &hook.id, 0, 10).await.unwrap();
    let reasons: Vec<ChangeReason> = changes.iter().map(|change| change.reason).collect();
    assert_eq!(reasons, [ChangeReason::CircuitOpened, ChangeReason::CircuitClosed]);
    let attempts = post.attempts(&hook).await;
    let missed = attempts.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Dropped);
    assert_eq!(missed.map(|attempt| attempt.times).sum::<u64>(), 3);
}

async fn a_success_begins_the_count_anew(mut post: Post) {
    let peer = Peer::saying([no(), no(), no(), ok(), no(), no(), no(), ok()]).await;
    post.hook(&peer, &["run.started"], |_| ()).await;
    for _ in 0..9 {
        assert_eq!(post.event(&peer).await, 1);
    }
}

async fn the_circuit_survives_a_restart(mut post: Post) {
    let peer = Peer::saying([no()]).await;
    post.hook(&peer, &["run.started"], |_| ()).await;
    for _ in 0..4 {
        assert_eq!(post.event(&peer).await, 1);
    }
    let Post { courier: old, house } = post;
    drop(old);
    let house = house.reopen(furnished).await;
    let mut post = Post { courier: courier(&house.engine), house };
    assert_eq!(post.event(&peer).await, 0);
    post.house.clock.advance(HOUR_MS);
    assert_eq!(post.event(&peer).await, 1);
}

async fn a_hundred_failures_in_a_week_are_the_end_until_somebody_resumes_it(place: Place) {
    let cooldown = Duration::from_secs(1);
    let mut post = Post::with(place, |settings| WebhookSettings { cooldown, ..settings }).await;
    let peer = Peer::saying([no()]).await;
    let hook = post.hook(&peer, &["run.started"], |_| ()).await;
    for count in 1..=100 {
        assert_eq!(post.state(&hook).await, SubscriptionState::Active, "{count}");
        assert_eq!(post.event(&peer).await, 1, "{count}");
        post.house.clock.advance(1000);
    }
    assert_eq!(post.state(&hook).await, SubscriptionState::Failed);
    post.house.clock.advance(30 * 24 * HOUR_MS);
    assert_eq!(post.event(&peer).await, 0, "time does not heal it");
    post.house.engine.resume_webhook(&tenant(), &hook.id, None, None).await.unwrap();
    assert_eq!(post.event(&peer).await, 1);
}

async fn a_durable_subscriber_that_takes_nothing_is_left_alone_for_a_while(mut post: Post) {
    let peer = Peer::saying([no(), no(), no(), no(), no(), ok()]).await;
    post.hook(&peer, &["run.started"], durably).await;
    let other = Peer::saying([ok()]).await;
    post.hook(&other, &["run.started"], durably).await;
    for _ in 0..4 {
        assert_eq!(post.event(&peer).await, 1);
    }
    for _ in 0..20 {
        assert_eq!(post.event(&peer).await, 0, "it rests, and what is new waits");
    }
    assert_eq!(other.heard().len(), 24, "nobody else waits");
    post.house.clock.advance(1000);
    assert_eq!(post.event(&peer).await, 1, "one is tried, and is not taken");
    assert_eq!(post.event(&peer).await, 0, "it rests for longer");
    post.house.clock.advance(2000);
    post.deliver().await;
    assert_eq!(peer.heard().len(), 5 + 22 - 1, "with the first that is taken all that is due comes");
    post.house.clock.advance(HOUR_MS);
    post.deliver().await;
    assert_eq!(peer.heard().len(), 5 + 26, "and in the end everything");
}
