//! Schedules: every instant starts one run, also over restarts and on several nodes.

use holdpoint_engine::core::{MissedPolicy, OverlapPolicy, RequestSource, RunRef};
use serde_json::json;

use super::{gate, mapped, quick, schedule, with_policies};
use crate::test_database::on_both;
use crate::test_env::{TestEnv, accept, fork, tenant};

on_both! {
    each_instant_starts_one_run,
    a_run_names_its_delivery_and_its_requester,
    the_last_missed_instant_starts_a_run_after_a_restart,
    all_missed_instants_start_runs_up_to_a_limit,
    skipped_instants_start_no_run,
    two_nodes_start_one_run_for_each_instant,
    an_instant_is_skipped_while_an_earlier_run_waits,
    a_queued_instant_starts_after_the_earlier_run,
    a_paused_schedule_starts_no_run_and_resumes_with_its_next_instant,
    a_deleted_schedule_starts_no_run,
    the_triggers_of_a_tenant_are_limited,
    a_server_without_triggers_has_no_timer,
}

const MINUTE: i64 = 60_000;

async fn each_instant_starts_one_run(env: TestEnv) {
    env.register(quick("quick")).await;
    let at = json!({"at": {"$from": "/scheduledFor"}});
    let trigger = env.add_trigger(mapped(schedule("quick", "*/5 * * * *"), at)).await;
    assert_eq!(trigger.next.unwrap().to_string(), "2027-01-15T08:05:00.000Z");
    env.clock.advance(5 * MINUTE - 1);
    assert_eq!(env.drain().await, 0);
    env.clock.advance(1);
    assert!(env.drain().await > 0);
    assert_eq!(env.drain().await, 0, "an instant fires once");
    env.clock.advance(5 * MINUTE);
    env.drain().await;
    assert_eq!(env.input("at").await, ["2027-01-15T08:05:00.000Z", "2027-01-15T08:10:00.000Z"]);
    let shown = env.trigger(&trigger).await;
    assert_eq!(shown.next.unwrap().to_string(), "2027-01-15T08:15:00.000Z");
    assert_eq!(shown.last_run.as_deref(), Some(env.all_runs().await[1].id.as_str()));
    assert_eq!(env.delivery_states(&trigger).await, ["delivered"; 2]);
}

async fn a_run_names_its_delivery_and_its_requester(env: TestEnv) {
    env.register(gate()).await;
    let trigger = env.add_trigger(schedule("gated", "@hourly")).await;
    env.clock.advance(60 * MINUTE);
    env.drain().await;
    let runs = env.all_runs().await;
    let (run, delivery) = (&runs[0], &env.deliveries(&trigger).await[0]);
    let started = run.started.as_ref().unwrap();
    let cause = started.trigger.as_ref().unwrap();
    assert_eq!((&cause.subscription, &cause.delivery), (&trigger.id, &delivery.id));
    assert_eq!((started.source, &run.id), (Some(RequestSource::INTERNAL), &delivery.run));
    assert_eq!(run.requesters(), ["ann"]);
    // A fork was started by its caller, not by the trigger.
    let of = RunRef { tenant: tenant(), run: run.id.clone() };
    let copy = fork(&env, &of, holdpoint_engine::core::ForkMode::Branch, 1).await;
    assert_eq!(env.run(&copy).await.started.as_ref().unwrap().trigger, None);
}

async fn the_last_missed_instant_starts_a_run_after_a_restart(env: TestEnv) {
    env.register(quick("quick")).await;
    let at = json!({"at": {"$from": "/scheduledFor"}});
    env.add_trigger(mapped(schedule("quick", "0 * * * *"), at)).await;
    env.clock.advance(150 * MINUTE);
    let env = env.reopen(|options| options).await;
    env.drain().await;
    assert_eq!(env.input("at").await, ["2027-01-15T10:00:00.000Z"]);
    env.clock.advance(30 * MINUTE);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 2, "the schedule continues");
}

async fn all_missed_instants_start_runs_up_to_a_limit(env: TestEnv) {
    env.register(quick("quick")).await;
    let new = with_policies(schedule("quick", "* * * * *"), MissedPolicy::All, OverlapPolicy::Allow);
    let at = json!({"at": {"$from": "/scheduledFor"}});
    let trigger = env.add_trigger(mapped(new, at)).await;
    env.clock.advance(1_000_000 * MINUTE);
    env.drain().await;
    let fired = env.input("at").await;
    assert_eq!(fired.len(), 100);
    let newest = fired.iter().filter_map(|at| at.as_str()).max().unwrap();
    assert_eq!(newest, env.clock.now().to_string());
    assert_eq!(env.delivery_states(&trigger).await, ["delivered"; 100]);
}

async fn skipped_instants_start_no_run(env: TestEnv) {
    env.register(quick("quick")).await;
    let new = with_policies(schedule("quick", "0 * * * *"), MissedPolicy::Skip, OverlapPolicy::Allow);
    let trigger = env.add_trigger(new).await;
    env.clock.advance(150 * MINUTE);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 0);
    assert_eq!(env.trigger(&trigger).await.next.unwrap().to_string(), "2027-01-15T11:00:00.000Z");
}

async fn two_nodes_start_one_run_for_each_instant(env: TestEnv) {
    env.register(quick("quick")).await;
    let trigger = env.add_trigger(schedule("quick", "* * * * *")).await;
    let other = env.second_engine(|options| options).await;
    for _ in 0..20 {
        env.clock.advance(MINUTE);
        let (mut one, mut two) = (env.engine.worker(), other.worker());
        let (one, two) = tokio::join!(one.drain(), two.drain());
        one.unwrap();
        two.unwrap();
    }
    env.clock.advance(MINUTE - 1);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 20);
    assert_eq!(env.delivery_states(&trigger).await, ["delivered"; 20]);
    other.close().await;
}

async fn an_instant_is_skipped_while_an_earlier_run_waits(env: TestEnv) {
    env.register(gate()).await;
    let new = with_policies(schedule("gated", "* * * * *"), MissedPolicy::Last, OverlapPolicy::Skip);
    let trigger = env.add_trigger(new).await;
    for _ in 0..3 {
        env.clock.advance(MINUTE);
        env.drain().await;
    }
    assert_eq!(env.delivery_states(&trigger).await, ["delivered", "dropped", "dropped"]);
    let waiting = RunRef { tenant: tenant(), run: env.all_runs().await[0].id.clone() };
    env.answer(&waiting, "gate", accept()).await.unwrap();
    env.clock.advance(MINUTE);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 2);
}

async fn a_queued_instant_starts_after_the_earlier_run(env: TestEnv) {
    env.register(gate()).await;
    let new = with_policies(schedule("gated", "* * * * *"), MissedPolicy::Last, OverlapPolicy::Queue);
    let trigger = env.add_trigger(new).await;
    for _ in 0..2 {
        env.clock.advance(MINUTE);
        env.drain().await;
    }
    assert_eq!(env.delivery_states(&trigger).await, ["delivered", "queued"]);
    let waiting = RunRef { tenant: tenant(), run: env.all_runs().await[0].id.clone() };
    env.answer(&waiting, "gate", accept()).await.unwrap();
    env.clock.advance(MINUTE / 2);
    env.drain().await;
    assert_eq!(env.delivery_states(&trigger).await, ["delivered", "delivered"]);
}

async fn a_paused_schedule_starts_no_run_and_resumes_with_its_next_instant(env: TestEnv) {
    env.register(quick("quick")).await;
    let trigger = env.add_trigger(schedule("quick", "0 * * * *")).await;
    let triggers = env.engine.triggers();
    let paused = triggers.pause(&tenant(), &trigger.id, None).await.unwrap();
    assert_eq!((paused.state.as_str(), paused.next), ("paused", None));
    env.clock.advance(150 * MINUTE);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 0);
    let resumed = triggers.resume(&tenant(), &trigger.id, None, None).await.unwrap();
    assert_eq!(resumed.next.unwrap().to_string(), "2027-01-15T11:00:00.000Z");
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 0, "instants of the pause are not made up for");
    env.clock.advance(30 * MINUTE);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 1);
    let changes = env.engine.webhooks().changes(&tenant(), &trigger.id, 0, 10).await.unwrap();
    let reasons: Vec<_> = changes.iter().map(|change| change.reason.as_str()).collect();
    assert_eq!(reasons, ["operator-paused", "operator-resumed"]);
}

async fn a_deleted_schedule_starts_no_run(env: TestEnv) {
    env.register(quick("quick")).await;
    let trigger = env.add_trigger(schedule("quick", "0 * * * *")).await;
    assert!(env.engine.triggers().remove(&tenant(), &trigger.id, None).await.unwrap());
    assert!(!env.engine.triggers().remove(&tenant(), &trigger.id, None).await.unwrap());
    env.clock.advance(150 * MINUTE);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 0);
    assert!(env.database.read("SELECT timer FROM timers").await.is_empty());
}

async fn the_triggers_of_a_tenant_are_limited(env: TestEnv) {
    env.register(quick("quick")).await;
    for _ in 0..holdpoint_engine::core::limits::TRIGGERS_PER_TENANT_MAX {
        env.add_trigger(schedule("quick", "@daily")).await;
    }
    let refused = env.engine.triggers().add(schedule("quick", "@daily")).await.unwrap_err();
    assert!(matches!(refused, holdpoint_engine::Error::TooMany("triggers")), "{refused}");
}

async fn a_server_without_triggers_has_no_timer(env: TestEnv) {
    env.register(quick("quick")).await;
    env.start("quick").await;
    env.drain().await;
    assert!(env.database.read("SELECT timer FROM timers").await.is_empty());
}
