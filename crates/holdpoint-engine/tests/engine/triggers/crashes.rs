//! Crashes around every commit of a schedule: each instant has started one run after the restart.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{ExternalEvent, Principal};
use holdpoint_engine::{CommitFault, Error};
use serde_json::json;

use super::{on_event, quick, schedule};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, tenant, with_fault};

on_both! { a_crash_around_any_commit_starts_each_run_once }

const MINUTE: i64 = 60_000;

fn paid() -> ExternalEvent {
    let (event_type, event_id) = ("paid".to_owned(), "e1".to_owned());
    ExternalEvent { event_type, event_id, correlation: Default::default(), payload: json!(1) }
}

/// Performs what is left of the scenario: two instants of a schedule and one event.
async fn perform(env: &TestEnv) -> Result<(), Error> {
    env.engine.workflows().register(&tenant(), quick("quick")).await?;
    let known = env.engine.triggers().list(&tenant(), None, 10).await?;
    let has = |source: &str| known.iter().any(|one| one.spec.source_name().as_str() == source);
    if !has("schedule") {
        env.engine.triggers().add(schedule("quick", "*/5 * * * *")).await?;
    }
    if !has("event") {
        env.engine.triggers().add(on_event("quick", "paid")).await?;
    }
    let mut worker = env.engine.worker();
    for minute in [5, 10] {
        let until = crate::test_env::NOON + minute * MINUTE;
        env.clock.advance((until - env.clock.now().0).max(0));
        worker.drain().await?;
    }
    env.engine.events().receive(&tenant(), &paid(), &Principal::named("shop")).await?;
    worker.drain().await?;
    Ok(())
}

async fn a_crash_around_any_commit_starts_each_run_once(database: TestDatabase) {
    let env = TestEnv::with(database.another().await, |options| options).await;
    perform(&env).await.unwrap();
    assert_eq!(env.all_runs().await.len(), 3);
    let commits = env.engine.counters().commits.load(Ordering::SeqCst);
    for commit in 1..=commits {
        for fault in [CommitFault::StopBefore(commit), CommitFault::StopAfter(commit)] {
            let env = TestEnv::with(database.another().await, with_fault(fault)).await;
            let crashed = perform(&env).await.is_err();
            assert!(crashed, "{fault:?} was reached");
            let env = env.reopen(|options| options).await;
            perform(&env).await.unwrap();
            let mut states = Vec::new();
            for trigger in env.engine.triggers().list(&tenant(), None, 10).await.unwrap() {
                states.extend(env.delivery_states(&trigger).await);
            }
            assert_eq!(states, ["delivered"; 3], "{fault:?}");
            assert_eq!(env.all_runs().await.len(), 3, "{fault:?}");
            assert_eq!(env.drain().await, 0, "no work is left after {fault:?}");
            env.engine.close().await;
        }
    }
}
