//! Deliveries of paused triggers, and changes of a trigger while its timer fires.

use holdpoint_engine::Quotas;

use super::{gate, quick, schedule};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, tenant};

on_both! {
    a_queued_delivery_waits_for_the_end_of_a_pause,
    a_timer_survives_a_change_that_had_no_effect,
    a_pause_and_a_resume_around_an_instant_lose_no_later_instant,
}

const MINUTE: i64 = 60_000;

async fn a_queued_delivery_waits_for_the_end_of_a_pause(database: TestDatabase) {
    let quotas = Quotas { open_runs: 1, ..Quotas::default() };
    let env = TestEnv::with(database, |options| options.quotas(quotas)).await;
    env.register(gate()).await;
    let open = env.start("gated").await;
    let trigger = env.add_trigger(schedule("gated", "0 * * * *")).await;
    env.clock.advance(60 * MINUTE);
    env.drain().await;
    env.engine.triggers().pause(&tenant(), &trigger.id, None).await.unwrap();
    env.answer(&open, "gate", accept()).await.unwrap();
    env.clock.advance(300 * MINUTE);
    env.drain().await;
    assert_eq!(env.delivery_states(&trigger).await, ["queued"]);
    env.engine.triggers().resume(&tenant(), &trigger.id, None, None).await.unwrap();
    env.drain().await;
    assert_eq!(env.delivery_states(&trigger).await, ["delivered"], "at once after the resume");
    env.clock.advance(59 * MINUTE);
    assert_eq!(env.all_runs().await.len(), 2);
}

async fn a_timer_survives_a_change_that_had_no_effect(env: TestEnv) {
    env.register(quick("quick")).await;
    env.add_trigger(schedule("quick", "0 * * * *")).await;
    // Another node changes the row while the timer fires: the mark differs, the next instant does not.
    env.clock.advance(60 * MINUTE);
    env.database.execute("UPDATE triggers SET next_ms = next_ms, mark = 'changed'").await.unwrap();
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 1);
    env.clock.advance(60 * MINUTE);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 2);
}

async fn a_pause_and_a_resume_around_an_instant_lose_no_later_instant(env: TestEnv) {
    env.register(quick("quick")).await;
    let trigger = env.add_trigger(schedule("quick", "0 * * * *")).await;
    let triggers = env.engine.triggers();
    for minute in [30, 60] {
        env.clock.advance(30 * MINUTE);
        triggers.pause(&tenant(), &trigger.id, None).await.unwrap();
        triggers.resume(&tenant(), &trigger.id, None, None).await.unwrap();
        env.drain().await;
        let expected = if minute == 30 { "2027-01-15T09:00:00.000Z" } else { "2027-01-15T10:00:00.000Z" };
        assert_eq!(env.trigger(&trigger).await.next.unwrap().to_string(), expected);
    }
    env.clock.advance(60 * MINUTE);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 1, "the instant of 09:00 was in a pause");
}
