//! Deliveries that cannot start their run: retries, dead letters, and triggers that fail.

use holdpoint_engine::core::ExternalEvent;
use holdpoint_engine::core::Principal;
use holdpoint_engine::{AttemptFilter, Quotas};
use serde_json::{Value, json};

use super::{gate, mapped, on_event, quick, schedule};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, line, tenant};

on_both! {
    a_delivery_beyond_a_quota_is_retried,
    a_delivery_without_attempts_left_is_a_dead_letter_and_can_be_requeued,
    an_input_that_the_event_lacks_is_a_dead_letter_at_once,
    a_trigger_fails_after_dead_letters_in_a_row,
    deliveries_are_deleted_after_their_retention,
    an_unknown_workflow_is_refused,
}

const MINUTE: i64 = 60_000;

/// A workflow that requires an input.
fn strict() -> Value {
    let mut definition = line("strict", &[("step", "core.noop", json!({}))]);
    definition["variables"] = json!([{"name": "id", "type": "number", "required": true}]);
    definition
}

async fn a_delivery_beyond_a_quota_is_retried(database: TestDatabase) {
    let quotas = Quotas { open_runs: 1, ..Quotas::default() };
    let env = TestEnv::with(database, |options| options.quotas(quotas)).await;
    env.register(gate()).await;
    let open = env.start("gated").await;
    let trigger = env.add_trigger(schedule("gated", "0 * * * *")).await;
    env.clock.advance(60 * MINUTE);
    env.drain().await;
    let waiting = &env.deliveries(&trigger).await[0];
    assert_eq!((waiting.state.as_str(), waiting.attempt), ("queued", 1));
    assert!(waiting.error.as_ref().unwrap().contains("openRuns"), "{waiting:?}");
    env.answer(&open, "gate", accept()).await.unwrap();
    env.clock.advance(10_000);
    env.drain().await;
    assert_eq!(env.delivery_states(&trigger).await, ["delivered"]);
    assert_eq!(env.all_runs().await.len(), 2);
    let filter = AttemptFilter { limit: 10, ..AttemptFilter::default() };
    let attempts = env.engine.deliveries().attempts(&tenant(), &trigger.id, &filter).await.unwrap();
    let outcomes: Vec<_> = attempts.iter().map(|one| (one.number, one.outcome.as_str())).collect();
    assert_eq!(outcomes, [(2, "delivered"), (1, "retrying")]);
}

async fn a_delivery_without_attempts_left_is_a_dead_letter_and_can_be_requeued(env: TestEnv) {
    env.register(strict()).await;
    let trigger = env.add_trigger(schedule("strict", "0 * * * *")).await;
    env.clock.advance(60 * MINUTE);
    env.drain().await;
    env.clock.advance(10_000);
    env.drain().await;
    let dead = &env.deliveries(&trigger).await[0];
    assert_eq!((dead.state.as_str(), dead.attempt), ("dead-lettered", 2));
    assert!(dead.error.as_ref().unwrap().contains("inputs.id"), "{dead:?}");
    // The next revision does not require the input.
    env.register(quick("strict")).await;
    let triggers = env.engine.triggers();
    let queued = triggers.requeue(&tenant(), &trigger.id, &dead.id, None).await.unwrap();
    assert_eq!((queued.state.as_str(), queued.attempt), ("queued", 0));
    env.drain().await;
    let runs = env.all_runs().await;
    assert_eq!((runs.len(), &runs[0].id), (1, &dead.run));
    let over = triggers.requeue(&tenant(), &trigger.id, &dead.id, None).await.unwrap();
    assert_eq!(over.state.as_str(), "delivered", "only a dead letter is requeued");
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 1);
}

async fn an_input_that_the_event_lacks_is_a_dead_letter_at_once(env: TestEnv) {
    env.register(quick("quick")).await;
    let new = mapped(on_event("quick", "paid"), json!({"id": {"$from": "/payload/id"}}));
    let trigger = env.add_trigger(new).await;
    for number in 1..=6 {
        let (event_type, event_id) = ("paid".to_owned(), format!("e{number}"));
        let payload = json!({"secret": "s3cret"});
        let event = ExternalEvent { event_type, event_id, correlation: Default::default(), payload };
        env.engine.events().receive(&tenant(), &event, &Principal::named("shop")).await.unwrap();
        env.drain().await;
    }
    assert_eq!(env.trigger(&trigger).await.state.as_str(), "active", "a sender cannot stop a trigger");
    let dead = &env.deliveries(&trigger).await[0];
    assert_eq!((dead.state.as_str(), dead.attempt), ("dead-lettered", 1));
    let error = dead.error.as_ref().unwrap();
    assert!(error.contains("/payload/id") && !error.contains("s3cret"), "{error}");
}

async fn a_trigger_fails_after_dead_letters_in_a_row(env: TestEnv) {
    env.register(quick("quick")).await;
    let trigger =
        env.add_trigger(mapped(schedule("quick", "0 * * * *"), json!({"id": {"$from": "/none"}}))).await;
    for number in 1..=5 {
        assert_eq!(env.trigger(&trigger).await.state.as_str(), "active", "before delivery {number}");
        env.clock.advance(60 * MINUTE);
        env.drain().await;
    }
    let failed = env.trigger(&trigger).await;
    assert_eq!((failed.state.as_str(), failed.next), ("failed", None));
    assert_eq!(failed.reason.unwrap().as_str(), "retry-exhausted");
    env.clock.advance(600 * MINUTE);
    env.drain().await;
    assert_eq!(env.delivery_states(&trigger).await, ["dead-lettered"; 5]);
    let resumed = env.engine.triggers().resume(&tenant(), &trigger.id, None, None).await.unwrap();
    assert_eq!((resumed.state.as_str(), resumed.reason), ("active", None));
}

async fn deliveries_are_deleted_after_their_retention(env: TestEnv) {
    env.register(quick("quick")).await;
    let trigger = env.add_trigger(schedule("quick", "0 * * * *")).await;
    env.clock.advance(60 * MINUTE);
    env.drain().await;
    env.engine.worker().tidy().await;
    assert_eq!(env.deliveries(&trigger).await.len(), 1);
    env.engine.triggers().pause(&tenant(), &trigger.id, None).await.unwrap();
    env.clock.advance(31 * 24 * 60 * MINUTE);
    env.engine.worker().tidy().await;
    assert_eq!(env.deliveries(&trigger).await.len(), 0);
}

async fn an_unknown_workflow_is_refused(env: TestEnv) {
    let refused = env.engine.triggers().add(schedule("nothing", "@daily")).await.unwrap_err();
    assert!(matches!(refused, holdpoint_engine::Error::NotFound("workflow")), "{refused}");
}
