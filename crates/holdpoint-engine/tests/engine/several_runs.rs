//! Answers to a root and to runs below it in one change.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{Answer, Command, Event, InterruptId, Principal, Refusal, RunRef, WorkflowId};
use holdpoint_engine::{CommitFault, Engine, Error, RunCommands};
use serde_json::json;

use crate::families::assert_consistent;
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{
    TestEnv, accept, child_of, gated, graph, node, resolve, run_id, start, tenant, with_fault,
};

on_both! {
    a_root_that_an_answer_does_not_wake_continues_with_its_child,
    a_run_between_that_an_answer_does_not_wake_continues_with_its_child,
    a_repeated_answer_of_the_root_does_not_stop_the_answer_of_the_child,
    a_crash_around_a_change_of_several_runs_loses_and_repeats_nothing,
}

/// Registers `leaf`, which waits for an approval, and `pair` and `above`. `pair` waits for two votes and calls `leaf`
/// at the same time. `above` calls `pair`.
async fn register(engine: &Engine) -> Result<(), Error> {
    let gate = node(
        "own",
        "core.approvalGate",
        json!({"title": "ok?", "actions": ["accept"], "requiredApprovals": 2}),
    );
    let call = |workflow: &str| node("call", "core.subWorkflow", json!({"workflowId": workflow}));
    let pair = graph("pair", &[gate, call("leaf")], &[]);
    for definition in [gated("leaf"), pair, graph("above", &[call("pair")], &[])] {
        engine.workflows().register(&tenant(), definition).await?;
    }
    Ok(())
}

fn vote(of: &RunRef, by: &str) -> RunCommands {
    let answers = [(InterruptId(1), Answer::new(accept(), Principal::named(by)))].into();
    RunCommands { of: of.clone(), commands: vec![Command::Resolve { answers }] }
}

/// Answers the gate of a run and the gate of its child run in one change.
async fn answer_both(engine: &Engine, of: &RunRef) -> Result<(), Error> {
    let child = RunCommands { of: child_of(of, 1), commands: vec![resolve(InterruptId(1), accept())] };
    engine.interrupts().answer_each(&[vote(of, "alice"), child], None).await.map(drop)
}

async fn a_root_that_an_answer_does_not_wake_continues_with_its_child(env: TestEnv) {
    register(&env.engine).await.unwrap();
    let of = env.start("pair").await;
    env.drain().await;
    answer_both(&env.engine, &of).await.unwrap();
    env.drain().await;
    assert_consistent(&env.engine, &of).await;
    assert!(env.run(&of).await.next_work().is_none(), "the node that waited for the child run has ended");
    env.engine.interrupts().answer_each(&[vote(&of, "bob")], None).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_run_between_that_an_answer_does_not_wake_continues_with_its_child(env: TestEnv) {
    register(&env.engine).await.unwrap();
    let of = env.start("above").await;
    env.drain().await;
    let pair = child_of(&of, 1);
    answer_both(&env.engine, &pair).await.unwrap();
    env.drain().await;
    env.engine.interrupts().answer_each(&[vote(&pair, "bob")], None).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&pair).await, env.status(&of).await), ("completed", "completed"));
}

async fn a_repeated_answer_of_the_root_does_not_stop_the_answer_of_the_child(env: TestEnv) {
    register(&env.engine).await.unwrap();
    let of = env.start("pair").await;
    env.drain().await;
    env.engine.interrupts().answer_each(&[vote(&of, "alice")], None).await.unwrap();
    let again = answer_both(&env.engine, &of).await;
    assert!(matches!(again, Ok(()) | Err(Error::Refused(Refusal::AlreadyVoted(_)))), "{again:?}");
    if again.is_err() {
        let leaf = child_of(&of, 1);
        assert_eq!(env.status(&leaf).await, "waiting-approval", "a refused answer undoes the others");
        env.answer(&leaf, "gate", accept()).await.unwrap();
    }
    env.engine.interrupts().answer_each(&[vote(&of, "bob")], None).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
}

/// Answers the gates of `pair` and of its child run in one change, then gives the second vote. Steps that already
/// happened are skipped.
async fn perform(engine: &Engine) -> Result<(), Error> {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    register(engine).await?;
    match engine.runs().create_as(&of.run, &WorkflowId::parse("pair").unwrap(), start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    let mut worker = engine.worker();
    worker.drain().await?;
    let votes = async || Ok::<_, Error>(engine.runs().get(&of).await?.interrupts[0].votes.len());
    if votes().await? == 0 && !engine.runs().get(&of).await?.finished() {
        // The cache of an engine whose committer has stopped can lag, so the log is read.
        let log = engine.events().list(&child_of(&of, 1), 0).await?;
        let is_resolved = |event: &Event| matches!(event, Event::InterruptResolved { .. });
        let resolved = log.iter().any(|recorded| is_resolved(&recorded.event));
        assert!(!resolved, "both answers are part of one change, or none");
        answer_both(engine, &of).await?;
    }
    worker.drain().await?;
    assert_consistent(engine, &of).await;
    if !engine.runs().get(&of).await?.finished() {
        engine.interrupts().answer_each(&[vote(&of, "bob")], None).await?;
    }
    worker.drain().await?;
    Ok(())
}

async fn assert_performed(env: &TestEnv, what: &str) {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    assert_eq!(env.status(&of).await, "completed", "{what}");
    assert_eq!(env.drain().await, 0, "{what}");
    assert!(env.pending().await.is_empty(), "{what}");
    for run in [of.clone(), child_of(&of, 1)] {
        let log = env.log(&run).await;
        let resolved = log.iter().filter(|line| line.contains("interrupt.resolved")).count();
        assert_eq!(resolved, 1, "{what}: {log:#?}");
    }
}

async fn a_crash_around_a_change_of_several_runs_loses_and_repeats_nothing(database: TestDatabase) {
    let env = TestEnv::with(database.another().await, |options| options).await;
    perform(&env.engine).await.unwrap();
    let commits = env.engine.counters().commits.load(Ordering::SeqCst);
    assert_performed(&env, "no fault").await;
    for n in 4..=commits {
        for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
            let env = TestEnv::with(database.another().await, with_fault(stop)).await;
            let crashed = perform(&env.engine).await.is_err();
            // The last commits only acknowledge dispatches, several of them at once or not.
            assert!(crashed || n > commits - 3, "{stop:?} was reached");
            let env = env.reopen(|options| options).await;
            perform(&env.engine).await.unwrap();
            assert_performed(&env, &format!("{stop:?}")).await;
        }
    }
}
