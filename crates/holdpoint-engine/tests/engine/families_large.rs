//! Families that are too large for one commit: each commit stays small, and everybody ends all the same.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use holdpoint_engine::core::{Command, Refusal, RunError, RunRef, WorkflowId};
use holdpoint_engine::{EffectContext, Engine, Error, Fault, Node, Options, Outputs, Stop};
use serde_json::{Value, json};

use crate::families::{calls, child_of};
use crate::house::{House, alice, gated, graph, line, node, run_id, start, stopping, tenant};
use crate::place::{Place, on_both};

on_both! {
    a_cancelled_run_takes_more_runs_along_than_one_commit_holds,
    a_run_that_times_out_takes_more_runs_along_than_one_commit_holds,
    a_run_that_is_given_up_takes_more_runs_along_than_one_commit_holds,
    more_children_than_one_commit_ends_are_cancelled_before_they_begin,
    a_crash_anywhere_in_a_large_cancellation_forgets_nobody,
    a_child_at_work_does_no_more_than_it_had_begun,
    a_child_of_a_run_that_goes_on_or_that_lets_it_go_is_left_alone,
}

/// 18 runs with 18 each: 342 below the first, where 256 may end in its commit.
const BRANCHES: usize = 18;

fn calls_often(id: &str, workflow: &str, times: usize) -> Value {
    let config = json!({"workflowId": workflow});
    let boxes: Vec<Value> =
        (1..=times).map(|n| node(&format!("call{n}"), "core.subWorkflow", config.clone())).collect();
    graph(id, &boxes, &[])
}

/// Waits for an answer and for a deadline that is far away.
fn patient(id: &str) -> Value {
    let mut definition = gated(id);
    definition["nodes"][1]["config"]["timeoutMs"] = json!(3_600_000);
    definition
}

async fn count(house: &House, sql: &str) -> String {
    let rows = house.place.read(sql).await;
    rows[0][0].1.clone().unwrap()
}

async fn unfinished(house: &House) -> String {
    count(house, "SELECT COUNT(*) AS n FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled')")
        .await
}

/// Three generations that wait, the first with a time limit.
async fn large(house: &House) -> RunRef {
    house.register(patient("leaf")).await;
    house.register(calls_often("middle", "leaf", BRANCHES)).await;
    let mut top = calls_often("top", "middle", BRANCHES);
    top["settings"] = json!({"timeout": 60_000});
    house.register(top).await;
    let of = house.start("top").await;
    house.drain().await;
    assert_eq!(unfinished(house).await, "343");
    assert_eq!(count(house, "SELECT COUNT(*) AS n FROM pending").await, "324");
    assert_eq!(count(house, "SELECT COUNT(*) AS n FROM timers").await, "325");
    of
}

/// The first has ended, and a worker ends all that is below it.
async fn ends_with_all_below(house: &House, of: &RunRef, status: &str) {
    assert_eq!(house.status(of).await, status, "at once");
    let left: usize = unfinished(house).await.parse().unwrap();
    assert!((1..=342 - 200).contains(&left), "some are left to the worker, and most are not: {left}");
    house.drain().await;
    assert_eq!(unfinished(house).await, "0");
    for n in [1, BRANCHES] {
        let leaf = child_of(&child_of(of, n), n);
        assert!(house.log(&leaf).await.last().unwrap().contains("parent-cancelled"));
    }
    for table in ["pending", "timers"] {
        assert_eq!(count(house, &format!("SELECT COUNT(*) AS n FROM {table}")).await, "0", "{table}");
    }
    assert_eq!(house.drain().await, 0);
}

async fn a_cancelled_run_takes_more_runs_along_than_one_commit_holds(house: House) {
    let of = large(&house).await;
    house.engine.cancel(&of, None, alice()).await.unwrap();
    ends_with_all_below(&house, &of, "cancelled").await;
}

async fn a_run_that_times_out_takes_more_runs_along_than_one_commit_holds(house: House) {
    let of = large(&house).await;
    house.clock.advance(60_000);
    house.engine.execute(&of, &Command::TimeOut).await.unwrap();
    ends_with_all_below(&house, &of, "failed").await;
    assert!(house.log(&of).await.last().unwrap().contains("run_timeout"));
}

async fn a_run_that_is_given_up_takes_more_runs_along_than_one_commit_holds(house: House) {
    let of = large(&house).await;
    let error = RunError::new("dispatch_failed", "tried too often");
    house.engine.execute(&of, &Command::Abandon { error }).await.unwrap();
    ends_with_all_below(&house, &of, "failed").await;
}

async fn more_children_than_one_commit_ends_are_cancelled_before_they_begin(house: House) {
    house.register(gated("leaf")).await;
    house.register(calls_often("top", "leaf", 300)).await;
    let of = house.start("top").await;
    house.engine.cancel(&of, None, alice()).await.unwrap();
    assert_eq!(unfinished(&house).await, "44", "256 of them end with it");
    house.drain().await;
    assert_eq!(unfinished(&house).await, "0");
    assert_eq!(house.log(&child_of(&of, 1)).await.len(), 2);
    assert_eq!(house.log(&child_of(&of, 300)).await.len(), 2, "it starts and is cancelled");
}

/// Ten runs; one ends in the commit of another, at most. Told as far as it goes.
async fn tell(engine: &Engine) -> Result<(), Error> {
    for definition in [patient("leaf"), calls_often("middle", "leaf", 2), calls_often("top", "middle", 3)] {
        engine.register(&tenant(), definition).await?;
    }
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    match engine.start_as(&of.run, &WorkflowId::parse("top").unwrap(), start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    let mut worker = engine.worker();
    worker.drain().await?;
    engine.cancel(&of, None, alice()).await?;
    worker.drain().await?;
    Ok(())
}

async fn a_crash_anywhere_in_a_large_cancellation_forgets_nobody(place: Place) {
    let few = |options: Options| options.cascade_max(1);
    let mut in_between = 0;
    for stop in [Fault::StopBefore as fn(u64) -> Fault, Fault::StopAfter] {
        // From behind the start on, until the story is over before the fault comes.
        for n in 5.. {
            let house = House::with(place.another().await, |options| stopping(stop(n))(few(options))).await;
            let stopped = tell(&house.engine).await.is_err();
            let house = house.reopen(few).await;
            let of = RunRef { tenant: tenant(), run: run_id("the-run") };
            let cancelled = house.run(&of).await.finished();
            if cancelled && unfinished(&house).await != "0" {
                in_between += 1;
                // What is left in the store is all that a worker needs.
                house.drain().await;
            } else {
                tell(&house.engine).await.unwrap();
            }
            assert_eq!(count(&house, "SELECT COUNT(*) AS n FROM runs").await, "10", "{:?}", stop(n));
            assert_eq!(unfinished(&house).await, "0", "{:?}", stop(n));
            for table in ["pending", "timers"] {
                assert_eq!(count(&house, &format!("SELECT COUNT(*) AS n FROM {table}")).await, "0");
            }
            if !stopped {
                break;
            }
        }
    }
    assert!(in_between > 2, "{in_between} crashes hit the cancellation");
}

/// Cancels the run above it, as somebody may do while it is at work.
#[derive(Clone, Default)]
struct Strike {
    engine: Arc<OnceLock<Engine>>,
    others: Arc<AtomicU32>,
}

impl Node for Strike {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        let of = RunRef { tenant: tenant(), run: run_id("the-run") };
        self.engine.get().unwrap().cancel(&of, None, alice()).await.unwrap();
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

async fn a_child_at_work_does_no_more_than_it_had_begun(place: Place) {
    let strike = Strike::default();
    let furnish = |options: Options| {
        let options = options.cascade_max(0).node("test.strike", strike.clone());
        options.node("test.count", Count(strike.others.clone()))
    };
    let house = House::with(place, furnish).await;
    strike.engine.set(house.engine.clone()).unwrap();
    house.register(line("child", &[("a", "test.strike", json!({})), ("b", "test.count", json!({}))])).await;
    house.register(calls("parent", "child", json!({}))).await;
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    house.engine.start_as(&of.run, &WorkflowId::parse("parent").unwrap(), start(json!({}))).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&child_of(&of, 1)).await, "cancelled");
    assert_eq!(strike.others.load(Ordering::SeqCst), 0);
}

async fn a_child_of_a_run_that_goes_on_or_that_lets_it_go_is_left_alone(place: Place) {
    let house = House::with(place, |options| options.cascade_max(0)).await;
    house.register(gated("child")).await;
    house.register(calls("parent", "child", json!({}))).await;
    house.register(calls("lax", "child", json!({"propagateCancellation": false}))).await;
    let (of, lax) = (house.start("parent").await, house.start("lax").await);
    house.drain().await;
    house.engine.cancel(&lax, None, alice()).await.unwrap();
    house.drain().await;
    for parent in [&of, &lax] {
        house.answer(&child_of(parent, 1), "gate", json!({"action": "accept"})).await.unwrap();
        house.drain().await;
        assert_eq!(house.status(&child_of(parent, 1)).await, "completed");
    }
    assert_eq!(house.status(&of).await, "completed");
}
