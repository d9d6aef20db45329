//! Families that are too large for one commit: each commit is limited, and all runs end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use holdpoint_engine::core::{Command, Refusal, RunError, RunRef, WorkflowId};
use holdpoint_engine::{CommitFault, EffectContext, Engine, Error, Node, Options, Outputs, Stop};
use serde_json::{Value, json};

use crate::families::calls;
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::child_of;
use crate::test_env::{TestEnv, alice, gated, graph, line, node, run_id, start, tenant, with_fault};

on_both! {
    a_cancellation_ends_more_runs_than_one_commit_holds,
    a_timeout_ends_more_runs_than_one_commit_holds,
    an_abandoned_run_ends_more_runs_than_one_commit_holds,
    more_children_than_one_commit_holds_are_cancelled_before_they_start,
    a_crash_during_a_large_cancellation_leaves_no_run_open,
    a_child_executes_no_further_node_after_its_parent_is_cancelled,
    a_child_continues_if_its_parent_is_open_or_does_not_propagate_cancellation,
}

/// 18 runs with 18 child runs each: 342 runs below the first. At most 256 of them end in its commit.
const BRANCHES: usize = 18;

fn calls_often(id: &str, workflow: &str, times: usize) -> Value {
    let config = json!({"workflowId": workflow});
    let nodes: Vec<Value> =
        (1..=times).map(|n| node(&format!("call{n}"), "core.subWorkflow", config.clone())).collect();
    graph(id, &nodes, &[])
}

/// A gate with a long timeout.
fn gate_with_timeout(id: &str) -> Value {
    let mut definition = gated(id);
    definition["nodes"][1]["config"]["timeoutMs"] = json!(3_600_000);
    definition
}

async fn count(env: &TestEnv, sql: &str) -> String {
    let rows = env.database.read(sql).await;
    rows[0][0].1.clone().unwrap()
}

async fn unfinished(env: &TestEnv) -> String {
    count(env, "SELECT COUNT(*) AS n FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled')")
        .await
}

/// Starts a family of three generations that wait. The first run has a time limit.
async fn start_large_family(env: &TestEnv) -> RunRef {
    env.register(gate_with_timeout("leaf")).await;
    env.register(calls_often("middle", "leaf", BRANCHES)).await;
    let mut top = calls_often("top", "middle", BRANCHES);
    top["settings"] = json!({"timeout": 60_000});
    env.register(top).await;
    let of = env.start("top").await;
    env.drain().await;
    assert_eq!(unfinished(env).await, "343");
    assert_eq!(count(env, "SELECT COUNT(*) AS n FROM pending").await, "324");
    assert_eq!(count(env, "SELECT COUNT(*) AS n FROM timers").await, "325");
    of
}

/// Checks that the first run has ended and that a worker ends all runs below it.
async fn assert_family_ends(env: &TestEnv, of: &RunRef, status: &str) {
    assert_eq!(env.status(of).await, status, "the first run ends at once");
    let left: usize = unfinished(env).await.parse().unwrap();
    assert!(
        (1..=342 - 200).contains(&left),
        "the commit ends most runs and leaves some to the worker: {left}"
    );
    env.drain().await;
    assert_eq!(unfinished(env).await, "0");
    for n in [1, BRANCHES] {
        let leaf = child_of(&child_of(of, n), n);
        assert!(env.log(&leaf).await.last().unwrap().contains("parent-cancelled"));
    }
    for table in ["pending", "timers"] {
        assert_eq!(count(env, &format!("SELECT COUNT(*) AS n FROM {table}")).await, "0", "{table}");
    }
    assert_eq!(env.drain().await, 0);
}

async fn a_cancellation_ends_more_runs_than_one_commit_holds(env: TestEnv) {
    let of = start_large_family(&env).await;
    env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    assert_family_ends(&env, &of, "cancelled").await;
}

async fn a_timeout_ends_more_runs_than_one_commit_holds(env: TestEnv) {
    let of = start_large_family(&env).await;
    env.clock.advance(60_000);
    env.engine.runs().execute(&of, &Command::TimeOut).await.unwrap();
    assert_family_ends(&env, &of, "failed").await;
    assert!(env.log(&of).await.last().unwrap().contains("run_timeout"));
}

async fn an_abandoned_run_ends_more_runs_than_one_commit_holds(env: TestEnv) {
    let of = start_large_family(&env).await;
    let error = RunError::new("dispatch_failed", "tried too often");
    env.engine.runs().execute(&of, &Command::Abandon { error }).await.unwrap();
    assert_family_ends(&env, &of, "failed").await;
}

async fn more_children_than_one_commit_holds_are_cancelled_before_they_start(env: TestEnv) {
    env.register(gated("leaf")).await;
    env.register(calls_often("top", "leaf", 300)).await;
    let of = env.start("top").await;
    env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    assert_eq!(unfinished(&env).await, "44", "256 child runs end in the same commit");
    env.drain().await;
    assert_eq!(unfinished(&env).await, "0");
    assert_eq!(env.log(&child_of(&of, 1)).await.len(), 2);
    assert_eq!(env.log(&child_of(&of, 300)).await.len(), 2, "the child starts and is cancelled");
}

/// Cancels a family of ten runs, with at most one child run in a commit. Steps that already happened are skipped.
async fn perform(engine: &Engine) -> Result<(), Error> {
    for definition in
        [gate_with_timeout("leaf"), calls_often("middle", "leaf", 2), calls_often("top", "middle", 3)]
    {
        engine.workflows().register(&tenant(), definition).await?;
    }
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    match engine.runs().create_as(&of.run, &WorkflowId::parse("top").unwrap(), start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    let mut worker = engine.worker();
    worker.drain().await?;
    engine.runs().cancel(&of, None, alice()).await?;
    worker.drain().await?;
    Ok(())
}

async fn a_crash_during_a_large_cancellation_leaves_no_run_open(database: TestDatabase) {
    let one_per_commit = |options: Options| options.cascade_max(1);
    let mut in_between = 0;
    for stop in [CommitFault::StopBefore as fn(u64) -> CommitFault, CommitFault::StopAfter] {
        // From the commit after the start, until the fault is later than the last commit.
        for n in 5.. {
            let env = TestEnv::with(database.another().await, |options| {
                with_fault(stop(n))(one_per_commit(options))
            })
            .await;
            let stopped = perform(&env.engine).await.is_err();
            let env = env.reopen(one_per_commit).await;
            let of = RunRef { tenant: tenant(), run: run_id("the-run") };
            let cancelled = env.run(&of).await.finished();
            if cancelled && unfinished(&env).await != "0" {
                in_between += 1;
                // The worker continues from the stored rows.
                env.drain().await;
            } else {
                perform(&env.engine).await.unwrap();
            }
            assert_eq!(count(&env, "SELECT COUNT(*) AS n FROM runs").await, "10", "{:?}", stop(n));
            assert_eq!(unfinished(&env).await, "0", "{:?}", stop(n));
            for table in ["pending", "timers"] {
                assert_eq!(count(&env, &format!("SELECT COUNT(*) AS n FROM {table}")).await, "0");
            }
            if !stopped {
                break;
            }
        }
    }
    assert!(in_between > 2, "{in_between} crashes hit the cancellation");
}

/// A node that cancels its parent run.
#[derive(Clone, Default)]
struct CancelParent {
    engine: Arc<OnceLock<Engine>>,
    executed: Arc<AtomicU32>,
}

impl Node for CancelParent {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        let of = RunRef { tenant: tenant(), run: run_id("the-run") };
        self.engine.get().unwrap().runs().cancel(&of, None, alice()).await.unwrap();
        Ok(Outputs::new())
    }
}

struct Count(Arc<AtomicU32>);

impl Node for Count {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Outputs::new())
    }
}

async fn a_child_executes_no_further_node_after_its_parent_is_cancelled(database: TestDatabase) {
    let cancelling = CancelParent::default();
    let configure = |options: Options| {
        let options = options.cascade_max(0).node("test.cancelParent", cancelling.clone());
        options.node("test.count", Count(cancelling.executed.clone()))
    };
    let env = TestEnv::with(database, configure).await;
    cancelling.engine.set(env.engine.clone()).unwrap();
    env.register(line("child", &[("a", "test.cancelParent", json!({})), ("b", "test.count", json!({}))]))
        .await;
    env.register(calls("parent", "child", json!({}))).await;
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    env.engine
        .runs()
        .create_as(&of.run, &WorkflowId::parse("parent").unwrap(), start(json!({})))
        .await
        .unwrap();
    env.drain().await;
    assert_eq!(env.status(&child_of(&of, 1)).await, "cancelled");
    assert_eq!(cancelling.executed.load(Ordering::SeqCst), 0);
}

async fn a_child_continues_if_its_parent_is_open_or_does_not_propagate_cancellation(database: TestDatabase) {
    let env = TestEnv::with(database, |options| options.cascade_max(0)).await;
    env.register(gated("child")).await;
    env.register(calls("parent", "child", json!({}))).await;
    env.register(calls("lax", "child", json!({"propagateCancellation": false}))).await;
    let (of, lax) = (env.start("parent").await, env.start("lax").await);
    env.drain().await;
    env.engine.runs().cancel(&lax, None, alice()).await.unwrap();
    env.drain().await;
    for parent in [&of, &lax] {
        env.answer(&child_of(parent, 1), "gate", json!({"action": "accept"})).await.unwrap();
        env.drain().await;
        assert_eq!(env.status(&child_of(parent, 1)).await, "completed");
    }
    assert_eq!(env.status(&of).await, "completed");
}
