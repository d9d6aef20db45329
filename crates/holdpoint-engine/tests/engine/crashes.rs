//! Crashes before and after every commit of a scenario. After a restart the log is the same as without a crash.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{NodeId, Refusal, RunRef, WorkflowId};
use holdpoint_engine::{Clock, CommitFault, Engine, Error, Options};
use serde_json::{Value, json};

use crate::effects::{Shop, shopping};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{NOON, TestEnv, accept, gated, line, resolve, run_id, start, tenant, with_fault};

on_both! {
    a_crash_around_any_commit_leaves_the_same_log,
    an_unacknowledged_commit_is_found_after_a_restart,
    a_commit_that_fails_once_repeats_no_effect_and_blocks_no_run,
}

/// A workflow and the answers that complete its run.
struct Scenario {
    definition: Value,
    answers: &'static [(&'static str, &'static str)],
}

fn scenarios() -> Vec<Scenario> {
    let questions = json!({"questions": [{"id": "q", "question": "Which?"}]});
    let mixed = line(
        "mixed",
        &[
            ("nap", "core.delay", json!({"ms": 50})),
            ("ask", "core.clarificationGate", questions),
            ("buy", "test.shop", json!({})),
            (
                "gate",
                "core.approvalGate",
                json!({"title": "ok?", "actions": ["accept"], "timeoutMs": 90_000}),
            ),
        ],
    );
    vec![
        Scenario { definition: gated("gated"), answers: &[("gate", r#"{"action":"accept"}"#)] },
        Scenario { definition: shopping(), answers: &[("buy", "\"r1\"")] },
        Scenario {
            definition: mixed,
            answers: &[
                ("ask", r#"{"answers":{"q":"blue"}}"#),
                ("buy", "1"),
                ("gate", r#"{"action":"accept"}"#),
            ],
        },
    ]
}

impl Scenario {
    /// Performs the scenario. Steps that already happened are skipped.
    async fn perform(&self, engine: &Engine, clock: &Clock) -> Result<(), Error> {
        let of = RunRef { tenant: tenant(), run: run_id("the-run") };
        let workflow = engine.workflows().register(&tenant(), self.definition.clone()).await?.workflow;
        match engine
            .runs()
            .create_as(&of.run, &WorkflowId::parse(workflow.id.as_str()).unwrap(), start(json!({})))
            .await
        {
            Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
            Err(error) => return Err(error),
        }
        let mut worker = engine.worker();
        worker.drain().await?;
        for (node, text) in self.answers {
            if let Some(until) = engine.runs().get(&of).await?.sleeping_until(&NodeId::parse("nap").unwrap())
            {
                clock.advance((until.0 - clock.now().0).max(0));
                worker.drain().await?;
            }
            let run = engine.runs().get(&of).await?;
            let Some(interrupt) = run.interrupt_of_node(&NodeId::parse(node).unwrap()) else { continue };
            match engine
                .runs()
                .execute(&of, &resolve(interrupt.id, serde_json::from_str(text).unwrap()))
                .await
            {
                Ok(_) | Err(Error::Refused(Refusal::AlreadyResolved)) => {}
                Err(error) => return Err(error),
            }
            worker.drain().await?;
        }
        Ok(())
    }
}

/// Performs a scenario with a crash, restarts and completes it. Returns the log.
async fn perform_with_crash(
    database: TestDatabase,
    scenario: &Scenario,
    stop: Option<CommitFault>,
) -> (Vec<String>, u64, bool) {
    let shop = Shop::default();
    let configure = |options: Options| options.node("test.shop", shop.clone());
    let env = match stop {
        Some(stop) => TestEnv::with(database, |options| with_fault(stop)(configure(options))).await,
        None => TestEnv::with(database, configure).await,
    };
    let crashed = scenario.perform(&env.engine, &env.clock).await.is_err();
    let commits = env.engine.counters().commits.load(Ordering::SeqCst);
    // The clock continues from the same time, so that the logs can be compared.
    let env = env.reopen(configure).await;
    if crashed {
        scenario.perform(&env.engine, &env.clock).await.unwrap();
    }
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    assert_eq!(env.status(&of).await, "completed", "{stop:?}");
    assert_eq!(env.drain().await, 0, "no work is left after {stop:?}");
    assert!(env.pending().await.is_empty());
    // One effect can be done and not recorded before the crash. No other effect is done twice.
    let effects = shop.quotes.load(Ordering::SeqCst) + shop.payments.load(Ordering::SeqCst);
    let steps = env.run(&of).await.nodes.iter().map(|node| node.steps.len()).sum::<usize>();
    let done = usize::try_from(effects).unwrap();
    assert!(done == steps || (crashed && done == steps + 1), "{done} effects for {steps} steps, {stop:?}");
    (env.log(&of).await, commits, crashed)
}

async fn a_crash_around_any_commit_leaves_the_same_log(database: TestDatabase) {
    for scenario in scenarios() {
        let (expected, commits, _) = perform_with_crash(database.another().await, &scenario, None).await;
        assert!(commits >= 3, "{commits} commits");
        for n in 1..=commits {
            for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
                let (log, _, crashed) =
                    perform_with_crash(database.another().await, &scenario, Some(stop)).await;
                assert!(crashed, "{stop:?} was reached");
                assert_eq!(log, expected, "{stop:?} in {}", scenario.definition["id"]);
            }
        }
    }
}

async fn an_unacknowledged_commit_is_found_after_a_restart(database: TestDatabase) {
    let options = || Options::new(database.location()).manual_worker().clock(Clock::manual(NOON));
    let engine = Engine::open(options().fault(CommitFault::StopAfter(2))).await.unwrap();
    engine.workflows().register(&tenant(), gated("gated")).await.unwrap();
    let (id, workflow) = (run_id("r"), WorkflowId::parse("gated").unwrap());
    assert!(engine.runs().create_as(&id, &workflow, start(json!({}))).await.is_err());
    engine.close().await;
    let engine = Engine::open(options()).await.unwrap();
    let of = RunRef { tenant: tenant(), run: id };
    let run = engine.runs().get(&of).await.unwrap();
    let interrupt = run.waiting_on().unwrap().id;
    engine.runs().execute(&of, &resolve(interrupt, accept())).await.unwrap();
    assert_eq!(engine.runs().get(&of).await.unwrap().status().as_str(), "completed");
}

async fn a_commit_that_fails_once_repeats_no_effect_and_blocks_no_run(database: TestDatabase) {
    let scenario = &scenarios()[1];
    let (_, commits, _) = perform_with_crash(database.another().await, scenario, None).await;
    for n in 1..=commits {
        let shop = Shop::default();
        let configure =
            |options: Options| options.fault(CommitFault::Fail(n)).node("test.shop", shop.clone());
        let env = TestEnv::with(database.another().await, configure).await;
        let of = RunRef { tenant: tenant(), run: run_id("the-run") };
        // The caller retries after an error. A returned dispatch is available again after a delay.
        for _ in 0..10 {
            let _ = scenario.perform(&env.engine, &env.clock).await;
            env.clock.advance(1000);
        }
        assert_eq!(env.status(&of).await, "completed", "commit {n} failed");
        let effects = (shop.quotes.load(Ordering::SeqCst), shop.payments.load(Ordering::SeqCst));
        assert_eq!(effects, (1, 1), "commit {n} failed");
        assert_eq!(env.drain().await, 0, "commit {n} failed");
    }
}
