//! Crashes and failures around every commit of a run with two branches at work: after a restart both branches continue,
//! and no recorded effect is repeated.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use holdpoint_engine::core::{NodeId, Refusal, RunRef, WorkflowId};
use holdpoint_engine::{CommitFault, EffectContext, Engine, Error, Node, Options, Outputs, Stop};
use serde_json::{Value, json};

use crate::parallel_nodes::{assert_replays, edge, gate};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, graph, node, resolve, run_id, start, tenant, with_fault};

on_both! {
    a_crash_around_any_commit_of_two_branches_repeats_no_recorded_effect,
    a_commit_of_two_branches_that_fails_once_repeats_no_effect,
}

/// A node with two steps. It counts the effects of each.
#[derive(Clone, Default)]
struct CountedNode(Arc<Mutex<BTreeMap<String, u32>>>);

impl Node for CountedNode {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let node = context.node().id.to_string();
        for step in ["first", "second"] {
            let (counts, name) = (self.0.clone(), format!("{node} {step}"));
            let effect = || async move {
                *counts.lock().unwrap().entry(name.clone()).or_default() += 1;
                Ok(json!(name))
            };
            context.step(step, effect).await?;
        }
        Ok(Outputs::from_iter([(node, json!(context.visit()))]))
    }
}

fn flow() -> Value {
    let counted = |id: &str| node(id, "test.counted", json!({}));
    let merge = node("join", "core.merge", json!({"mode": "all"}));
    let nodes = [counted("a"), counted("b"), gate("gate"), counted("c"), merge];
    graph("flow", &nodes, &[edge("b", "gate"), edge("gate", "c"), edge("a", "join"), edge("c", "join")])
}

fn the_run() -> RunRef {
    RunRef { tenant: tenant(), run: run_id("the-run") }
}

/// Performs the scenario. Steps that already happened are skipped.
async fn perform(engine: &Engine) -> Result<(), Error> {
    engine.workflows().register(&tenant(), flow()).await?;
    let of = the_run();
    match engine.runs().create_as(&of.run, &WorkflowId::parse("flow").unwrap(), start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    let mut worker = engine.worker();
    worker.drain().await?;
    let run = engine.runs().get(&of).await?;
    if let Some(asked) = run.interrupt_of_node(&NodeId::parse("gate").unwrap()) {
        match engine.runs().execute(&of, &resolve(asked.id, accept())).await {
            Ok(_) | Err(Error::Refused(Refusal::AlreadyResolved | Refusal::RunFinished(_))) => {}
            Err(error) => return Err(error),
        }
    }
    worker.drain().await?;
    Ok(())
}

/// Checks that the run has completed with all steps, and returns the number of effects that are not recorded.
async fn check_end(env: &TestEnv, counted: &CountedNode, fault: CommitFault) -> u32 {
    let of = the_run();
    assert_eq!(env.status(&of).await, "completed", "{fault:?}: {:?}", env.log(&of).await);
    assert_eq!(env.drain().await, 0, "no work is left after {fault:?}");
    assert!(env.pending().await.is_empty());
    let steps = env.run(&of).await.nodes.iter().map(|node| node.steps.len()).sum::<usize>();
    assert_eq!(steps, 6, "{fault:?}");
    let counts = counted.0.lock().unwrap().clone();
    assert_eq!(counts.len(), 6);
    assert_replays(env, &of).await;
    counts.values().sum::<u32>() - 6
}

/// Returns the number of commits of the scenario without a fault.
async fn count_commits(database: &TestDatabase) -> u64 {
    let counted = CountedNode::default();
    let env =
        TestEnv::with(database.another().await, |options| options.node("test.counted", counted.clone()))
            .await;
    perform(&env.engine).await.unwrap();
    let commits = env.engine.counters().commits.load(Ordering::SeqCst);
    assert_eq!(check_end(&env, &counted, CommitFault::StopAfter(u64::MAX)).await, 0);
    commits
}

async fn a_crash_around_any_commit_of_two_branches_repeats_no_recorded_effect(database: TestDatabase) {
    let commits = count_commits(&database).await;
    let mut crashes = 0;
    for n in 1..=commits {
        for fault in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
            let counted = CountedNode::default();
            let configure = |options: Options| options.node("test.counted", counted.clone());
            let faulty = |options: Options| with_fault(fault)(configure(options));
            let env = TestEnv::with(database.another().await, faulty).await;
            let crashed = perform(&env.engine).await.is_err();
            let env = env.reopen(configure).await;
            if crashed {
                perform(&env.engine).await.unwrap();
            }
            let repeated = check_end(&env, &counted, fault).await;
            // In each branch at work, one effect can be done and not recorded before the crash.
            assert!(repeated <= if crashed { 2 } else { 0 }, "{repeated} repeated effects, {fault:?}");
            crashes += u32::from(crashed);
        }
    }
    // Commits of two branches can share a transaction, so that the last ones are not always reached.
    assert!(crashes > 10, "{crashes} crashes in {commits} commits");
}

async fn a_commit_of_two_branches_that_fails_once_repeats_no_effect(database: TestDatabase) {
    let commits = count_commits(&database).await;
    for n in 1..=commits {
        let (counted, fault) = (CountedNode::default(), CommitFault::Fail(n));
        let configure = |options: Options| options.fault(fault).node("test.counted", counted.clone());
        let env = TestEnv::with(database.another().await, configure).await;
        // The caller retries after an error. A returned dispatch is available again after a delay.
        for _ in 0..10 {
            let _ = perform(&env.engine).await;
            env.clock.advance(1000);
        }
        assert_eq!(check_end(&env, &counted, fault).await, 0, "commit {n} failed");
    }
}
