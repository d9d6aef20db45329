//! Processes that share a database wake each other's workers. The workers of these tests do not poll.

use crate::held_node::Holds;
use crate::parallel_nodes::{beside_worker, edge, gate, held};
use crate::slow_node::{Control, slow, start_slow, start_worker, until, wait_until_idle};
use crate::test_database::TestDatabase;
use crate::test_env::{TestEnv, accept, graph, resolve};

/// Opens two engines on one database. Each sees the other.
async fn two_engines() -> (TestEnv, holdpoint_engine::Engine, Control) {
    let control = Control::new();
    let env = TestEnv::with(TestDatabase::postgres().await, |options| control.configure(options)).await;
    env.register(slow()).await;
    let other = env.second_engine(|options| control.configure(options)).await;
    until("the engines see each other", || env.engine.sees_other_nodes() && other.sees_other_nodes()).await;
    (env, other, control)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_queued_by_another_process_in_a_busy_thread_starts_when_the_thread_is_free() {
    let (env, other, mut control) = two_engines().await;
    let (_stop, _worker) = start_worker(&env.engine);
    start_slow(&env.engine, "t").await;
    control.wait_for_start().await;
    // The other engine has no worker: it queues the run and notifies.
    start_slow(&other, "t").await;
    start_slow(&other, "u").await;
    control.wait_for_start().await;
    wait_until_idle(&env.engine).await;
    control.assert_none_started();
    control.end_one();
    control.end_one();
    control.wait_for_start().await;
    control.end_one();
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_blocked_by_a_stopping_process_starts_on_the_other() {
    let (env, other, mut control) = two_engines().await;
    let (stop, going_down) = start_worker(&env.engine);
    start_slow(&env.engine, "t").await;
    control.wait_for_start().await;
    let (_stop, _worker) = start_worker(&other);
    start_slow(&other, "t").await;
    wait_until_idle(&other).await;
    stop.send(true).unwrap();
    // A check for work that began before the stop can still claim the second run when the first one ends.
    until("the worker makes no more checks for work", || stop.is_closed()).await;
    control.assert_none_started();
    control.end_one();
    going_down.await.unwrap();
    control.wait_for_start().await;
    control.end_one();
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_another_process_starts_nodes_beside_a_slow_one() {
    let mut holds = Holds::new();
    let env = TestEnv::with(TestDatabase::postgres().await, holds.configure()).await;
    let nodes = [held("slow"), gate("gate"), held("after")];
    env.register(graph("flow", &nodes, &[edge("gate", "after")])).await;
    let other = env.second_engine(holds.configure()).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["slow"]).await;
        let asked = env.run(&of).await.open_interrupts().next().expect("the gate is open").id;
        other.runs().execute(&of, &resolve(asked, accept())).await.unwrap();
        holds.wait_for_begin(["after"]).await;
        holds.release(["slow", "after"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "completed");
    other.close().await;
}
