//! Holds: interrupts without a workflow.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{InterruptRequest, Kind, Resolution, RunId, RunRef};
use holdpoint_engine::{Error, Holds};
use serde_json::json;

use crate::test_database::{Subject, TestDatabase, on_both};
use crate::test_env::{TestEnv, gated, run_id, start, tenant};

on_both! {
    a_hold_completes_after_any_outcome,
    the_workflow_of_holds_is_registered_once,
}

fn approval() -> InterruptRequest {
    let data =
        json!({"title": "Go?", "artifactId": "a", "artifactType": "t", "actions": ["accept", "reject"]});
    InterruptRequest { timeout_ms: Some(1000), ..InterruptRequest::new(Kind::Approval, data) }
}

async fn a_hold_completes_after_any_outcome(env: TestEnv) {
    env.engine.holds().prepare(&tenant()).await.unwrap();
    let mut holds = Vec::new();
    for _ in 0..3 {
        let run = env.engine.holds().create(&approval(), start(json!({})), None).await.unwrap();
        assert_eq!(Holds::interrupt(&run).unwrap().title(), "Go?");
        holds.push(holdpoint_engine::core::RunRef { tenant: tenant(), run: run.id.clone() });
    }
    for (of, action) in holds.iter().zip(["accept", "reject"]) {
        env.answer(of, "hold", json!({"action": action})).await.unwrap();
    }
    env.clock.advance(1000);
    env.drain().await;
    for of in &holds {
        assert_eq!(env.status(of).await, "completed");
    }
    let expired = env.run(&holds[2]).await;
    assert!(matches!(Holds::interrupt(&expired).unwrap().resolution, Some(Resolution::TimedOut { .. })));
    let invalid = InterruptRequest::new(Kind::Approval, json!({}));
    assert!(matches!(
        env.engine.holds().create(&invalid, start(json!({})), None).await,
        Err(Error::Refused(_))
    ));
}

async fn the_workflow_of_holds_is_registered_once(env: TestEnv) {
    env.register(gated("flow")).await;
    let other = env.start("flow").await;
    assert_eq!(Holds::interrupt(&*env.run(&other).await), None, "a gate is not a hold");
    for _ in 0..2 {
        env.engine.holds().prepare(&tenant()).await.unwrap();
    }
    let rows = env.database.read("SELECT revision FROM workflows WHERE workflow_id = 'holdpoint-hold'").await;
    assert_eq!(rows, [[("revision".to_owned(), Some("1".to_owned()))]], "the workflow is registered once");
}

/// On one thread: all reads are requested before the first query, so they share it.
#[tokio::test]
async fn many_holds_are_read_in_a_few_round_trips() {
    let env = TestEnv::at(TestDatabase::postgres().await).await;
    env.engine.holds().prepare(&tenant()).await.unwrap();
    let mut holds = Vec::new();
    for _ in 0..60 {
        let run = env.engine.holds().create(&approval(), start(json!({})), None).await.unwrap();
        holds.push(RunRef { tenant: tenant(), run: run.id.clone() });
    }
    let env = env.reopen(|options| options).await;
    let trips = || env.engine.counters().round_trips.load(Ordering::SeqCst);
    for (cache, most) in [("empty", 5), ("full", 2)] {
        let before = trips();
        let runs = env.engine.runs().get_each(&holds).await.unwrap();
        assert!(trips() - before <= most, "{} round trips with the cache {cache}", trips() - before);
        let found: Vec<&RunId> = runs.iter().map(|run| &run.id).collect();
        assert_eq!(found, holds.iter().map(|of| &of.run).collect::<Vec<_>>());
    }
    let unknown = RunRef { tenant: tenant(), run: run_id("unknown") };
    let missing = env.engine.runs().get_each(&[holds[0].clone(), unknown]).await;
    assert!(matches!(missing, Err(Error::NotFound("run"))), "{missing:?}");
}
