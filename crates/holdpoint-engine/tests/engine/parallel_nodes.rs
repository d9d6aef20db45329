//! Nodes of a run that execute side by side under one claim: questions open and nodes begin while a slow node executes.

use holdpoint_engine::core::{ForkMode, NodeId, NodeStatus, RunRef};
use serde_json::{Value, json};

use crate::held_node::Holds;
use crate::slow_node::until_async;
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, child_of, fork, gated, graph, node};

on_both! {
    a_question_opens_and_is_answered_while_a_slow_call_hangs,
    an_answer_in_a_branch_continues_without_the_worker_up_to_the_next_effect,
    a_timer_starts_nodes_beside_a_slow_call,
    the_end_of_a_child_run_starts_nodes_beside_a_slow_call,
    a_workflow_limits_the_nodes_at_work,
    a_workflow_can_execute_one_node_at_a_time,
    a_node_waits_for_inputs_from_a_node_at_work,
    an_unreachable_node_does_not_hold_up_the_nodes_behind_it,
    a_node_sees_the_variables_of_its_begin_and_a_replay_sees_the_same,
    a_run_with_one_branch_takes_no_more_commits,
}

pub(crate) fn held(id: &str) -> Value {
    node(id, "test.held", json!({}))
}

pub(crate) fn gate(id: &str) -> Value {
    node(id, "core.approvalGate", json!({"title": "Go on?", "actions": ["accept", "reject"]}))
}

pub(crate) fn edge(source: &str, target: &str) -> Value {
    json!({"id": format!("{source}-{target}"), "sourceNodeId": source, "targetNodeId": target})
}

pub(crate) async fn env_with(database: TestDatabase, holds: &Holds) -> TestEnv {
    TestEnv::with(database, holds.configure()).await
}

/// Executes the run in a worker while the test acts.
pub(crate) async fn beside_worker<T>(env: &TestEnv, test: impl Future<Output = T>) -> T {
    let mut worker = env.engine.worker();
    let (drained, result) = tokio::join!(worker.drain(), test);
    drained.unwrap();
    result
}

/// Waits until the interrupt of a node is open. The list of pending interrupts is read from the store, which can have a
/// commit before the cache has it.
async fn wait_for_interrupt(env: &TestEnv, of: &RunRef, node: &str) {
    until_async("the interrupt is open", async || {
        let run = env.run(of).await;
        run.open_interrupts().any(|asked| asked.node.as_str() == node) && env.pending().await == [node]
    })
    .await;
}

pub(crate) async fn node_status(env: &TestEnv, of: &RunRef, node: &str) -> NodeStatus {
    env.run(of).await.node_state(&NodeId::parse(node).unwrap()).unwrap().status.clone()
}

/// Checks that a replay from any event has the same events.
pub(crate) async fn assert_replays(env: &TestEnv, of: &RunRef) {
    let log = env.log(of).await;
    for from_seq in 0..=log.len() as u64 {
        let copy = fork(env, of, ForkMode::Replay, from_seq).await;
        let events = env.log(&copy).await;
        let events: Vec<String> = events.iter().map(|event| event.replace(of.run.as_str(), "RUN")).collect();
        assert_eq!(events[1..], log[1..], "from {from_seq}");
    }
}

/// A slow node beside a fast one with a gate and a node behind it.
fn beside_a_gate() -> Value {
    let nodes = [held("slow"), held("fast"), gate("gate"), held("after")];
    graph("flow", &nodes, &[edge("fast", "gate"), edge("gate", "after")])
}

async fn a_question_opens_and_is_answered_while_a_slow_call_hangs(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    env.register(beside_a_gate()).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["fast", "slow"]).await;
        holds.release(["fast"]);
        wait_for_interrupt(&env, &of, "gate").await;
        env.answer(&of, "gate", accept()).await.unwrap();
        holds.wait_for_begin(["after"]).await;
        assert_eq!(node_status(&env, &of, "slow").await, NodeStatus::Running);
        holds.release(["after"]);
        until_async("the branch ends", async || {
            node_status(&env, &of, "after").await == NodeStatus::Completed
        })
        .await;
        holds.release(["slow"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(holds.effects(), ["fast", "after", "slow"]);
    assert_replays(&env, &of).await;
}

async fn an_answer_in_a_branch_continues_without_the_worker_up_to_the_next_effect(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    let nodes = [held("slow"), gate("first"), gate("second"), held("after")];
    env.register(graph("flow", &nodes, &[edge("first", "second"), edge("second", "after")])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["slow"]).await;
        let run = env.answer(&of, "first", accept()).await.unwrap();
        assert_eq!(run.open_interrupts().count(), 1, "the answer opens the next gate");
        env.answer(&of, "second", accept()).await.unwrap();
        holds.wait_for_begin(["after"]).await;
        holds.release(["slow", "after"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "completed");
    assert_replays(&env, &of).await;
}

async fn a_timer_starts_nodes_beside_a_slow_call(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    let nodes = [held("slow"), node("nap", "core.delay", json!({"ms": 50})), held("after")];
    env.register(graph("flow", &nodes, &[edge("nap", "after")])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["slow"]).await;
        env.clock.advance(50);
        assert_eq!(env.drain().await, 1, "the timer");
        holds.wait_for_begin(["after"]).await;
        holds.release(["slow", "after"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "completed");
    assert_replays(&env, &of).await;
}

async fn the_end_of_a_child_run_starts_nodes_beside_a_slow_call(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    env.register(gated("child")).await;
    let child = node("child", "core.subWorkflow", json!({"workflowId": "child"}));
    env.register(graph("flow", &[held("slow"), child, held("after")], &[edge("child", "after")])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["slow"]).await;
        // The same worker executes the child run.
        wait_for_interrupt(&env, &child_of(&of, 1), "gate").await;
        env.answer(&child_of(&of, 1), "gate", accept()).await.unwrap();
        holds.wait_for_begin(["after"]).await;
        holds.release(["slow", "after"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_workflow_limits_the_nodes_at_work(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    let mut flow = graph("flow", &["a", "b", "c"].map(held), &[]);
    flow["settings"] = json!({"maxParallelNodes": 2});
    env.register(flow).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["a", "b"]).await;
        assert_eq!(node_status(&env, &of, "c").await, NodeStatus::Pending);
        holds.assert_none_began();
        holds.release(["b"]);
        holds.wait_for_begin(["c"]).await;
        holds.release(["a", "c"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_workflow_can_execute_one_node_at_a_time(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    let mut flow = graph("flow", &[held("a"), node("b", "core.noop", json!({})), held("c")], &[]);
    flow["settings"] = json!({"maxParallelNodes": 1});
    env.register(flow).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["a"]).await;
        assert_eq!(node_status(&env, &of, "b").await, NodeStatus::Pending);
        holds.release(["a"]);
        holds.wait_for_begin(["c"]).await;
        assert_eq!(node_status(&env, &of, "b").await, NodeStatus::Completed);
        holds.release(["c"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "completed");
    assert_replays(&env, &of).await;
}

async fn a_node_waits_for_inputs_from_a_node_at_work(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    let mut copy = node("copy", "core.identity", json!({}));
    copy["inputs"] = json!({"copied": {"type": "variable", "variableName": "x"}});
    let mut next = held("next");
    next["inputs"] = copy["inputs"].clone();
    env.register(graph("flow", &[held("a"), copy, next], &[])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["a"]).await;
        holds.assert_none_began();
        holds.release(["a"]);
        holds.wait_for_begin(["next"]).await;
        holds.release(["next"]);
    })
    .await;
    let run = env.run(&of).await;
    assert_eq!((run.status().as_str(), &run.variables["copied"]), ("completed", &json!("a")));
}

async fn an_unreachable_node_does_not_hold_up_the_nodes_behind_it(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    let choice = node("choice", "core.conditional", json!({"expression": "1 > 2"}));
    let mut yes = edge("choice", "other");
    yes["sourceOutput"] = json!("true");
    let mut behind = edge("other", "join");
    behind["triggerRule"] = json!("none_failed");
    let nodes = [held("slow"), choice, held("other"), held("join")];
    env.register(graph("flow", &nodes, &[yes, behind])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["join", "slow"]).await;
        holds.release(["join", "slow"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "completed");
    assert_replays(&env, &of).await;
}

async fn a_node_sees_the_variables_of_its_begin_and_a_replay_sees_the_same(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    env.register(graph("flow", &["a", "b", "c"].map(held), &[edge("a", "c")])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["a", "b"]).await;
        holds.release(["a"]);
        holds.wait_for_begin(["c"]).await;
        holds.release(["b"]);
        until_async("b ends", async || node_status(&env, &of, "b").await == NodeStatus::Completed).await;
        holds.release(["c"]);
    })
    .await;
    let run = env.run(&of).await;
    let seen = ["a", "b", "c"].map(|node| run.variables[node].clone());
    assert_eq!(seen, [json!(null), json!(null), json!("a")]);
    assert_eq!(run.variables["x"], json!("c"), "the last writer wins");
    assert_replays(&env, &of).await;
}

async fn a_run_with_one_branch_takes_no_more_commits(database: TestDatabase) {
    let holds = Holds::new();
    let env = env_with(database, &holds).await;
    env.register(graph("flow", &["a", "b"].map(held), &[edge("a", "b")])).await;
    holds.release(["a", "b"]);
    let commits = || env.engine.counters().commits.load(std::sync::atomic::Ordering::SeqCst);
    let of = env.start("flow").await;
    let before = commits();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    // The claim, the begin and the step of each node, the end of the first with the begin of the second, and the end.
    assert_eq!(commits() - before, 6);
}
