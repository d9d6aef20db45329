//! Two branches of a run in special situations: failures, panics, pauses, cancellations, time limits and lost claims
//! concern the right nodes, and no effect is repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Command, Drain, NodeStatus, RunError};
use holdpoint_engine::extension::RunEndWatch;
use holdpoint_engine::{EffectContext, Node, Options, Outputs, Stop};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use crate::held_node::Holds;
use crate::parallel_nodes::{assert_replays, beside_worker, edge, env_with, gate, held, node_status};
use crate::slow_node::{until, until_async};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, alice, graph, node, tenant};

on_both! {
    the_failure_of_a_branch_that_an_edge_handles_leaves_the_other_branch_alone,
    a_node_is_retried_after_its_delay_while_another_one_executes,
    a_panic_in_one_branch_repeats_no_effect_of_the_other,
    an_unavailable_server_in_one_branch_does_not_stop_the_other,
    a_draining_pause_waits_for_all_nodes_at_work,
    nodes_discarded_by_an_immediate_pause_repeat_no_effect,
    a_cancellation_stops_all_nodes_at_work,
    a_lost_claim_aborts_all_nodes_at_work,
    a_run_that_exceeds_its_time_limit_ends_while_nodes_are_at_work,
    two_questions_of_nodes_with_effects_are_answered_in_any_order,
}

/// A node that fails or panics in its first executions.
#[derive(Clone, Default)]
struct ShakyNode(Arc<AtomicU32>);

impl Node for ShakyNode {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let fails = context.config()["fails"].as_str().unwrap_or_default().to_owned();
        let entries = self.0.clone();
        let effect = || async move {
            let first = entries.fetch_add(1, Ordering::SeqCst) == 0;
            match fails.as_str() {
                "retryable" if first => {
                    Err(Stop::Failed(RunError { retryable: true, ..RunError::new("busy", "later") }))
                }
                "panic" if first => panic!("the test panics here"),
                "unavailable" if first => {
                    Err(Stop::Unavailable { why: "the server is away".to_owned(), outage_ms: 60_000 })
                }
                "always" => Err(Stop::failed("broken", "it is broken")),
                _ => Ok(json!(null)),
            }
        };
        context.step("call", effect).await.map(|_| Outputs::new())
    }
}

fn shaky(fails: &str) -> Value {
    node("shaky", "test.shaky", json!({"fails": fails}))
}

async fn env_with_shaky(database: TestDatabase, holds: &Holds) -> (TestEnv, ShakyNode) {
    let shaky = ShakyNode::default();
    let added = shaky.clone();
    let configure = |options: Options| holds.configure()(options).node("test.shaky", added);
    (TestEnv::with(database, configure).await, shaky)
}

async fn the_failure_of_a_branch_that_an_edge_handles_leaves_the_other_branch_alone(database: TestDatabase) {
    let mut holds = Holds::new();
    let (env, _) = env_with_shaky(database, &holds).await;
    let mut handles = edge("shaky", "repair");
    handles["triggerRule"] = json!("any_failed");
    env.register(graph("flow", &[held("slow"), shaky("always"), held("repair")], &[handles])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["repair", "slow"]).await;
        holds.release(["repair", "slow"]);
    })
    .await;
    assert_eq!((env.status(&of).await, holds.effects().len()), ("completed", 2));
    assert_replays(&env, &of).await;
}

async fn a_node_is_retried_after_its_delay_while_another_one_executes(database: TestDatabase) {
    let mut holds = Holds::new();
    let (env, shaky_node) = env_with_shaky(database, &holds).await;
    let mut flow =
        graph("flow", &[held("slow"), shaky("retryable"), held("after")], &[edge("shaky", "after")]);
    flow["settings"] = json!({"maxRetries": 1});
    env.register(flow).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["slow"]).await;
        until_async("the node waits for its retry", async || {
            matches!(node_status(&env, &of, "shaky").await, NodeStatus::Sleeping(_))
        })
        .await;
        env.clock.advance(1000);
        assert_eq!(env.drain().await, 1, "the timer");
        holds.wait_for_begin(["after"]).await;
        holds.release(["after", "slow"]);
    })
    .await;
    assert_eq!((env.status(&of).await, shaky_node.0.load(Ordering::SeqCst)), ("completed", 2));
    assert_replays(&env, &of).await;
}

async fn a_panic_in_one_branch_repeats_no_effect_of_the_other(database: TestDatabase) {
    let mut holds = Holds::new();
    let (env, shaky_node) = env_with_shaky(database, &holds).await;
    env.register(graph("flow", &[held("slow"), shaky("panic"), held("next")], &[edge("slow", "next")])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["slow"]).await;
        until("the node panics", || shaky_node.0.load(Ordering::SeqCst) == 1).await;
        holds.release(["slow"]);
        holds.wait_for_begin(["next"]).await;
        holds.release(["next"]);
    })
    .await;
    assert_eq!(node_status(&env, &of, "shaky").await, NodeStatus::Running, "the other branch has ended");
    env.clock.advance(1000);
    env.drain().await;
    assert_eq!((env.status(&of).await, shaky_node.0.load(Ordering::SeqCst)), ("completed", 2));
    assert_eq!(holds.effects(), ["slow", "next"]);
}

async fn an_unavailable_server_in_one_branch_does_not_stop_the_other(database: TestDatabase) {
    let mut holds = Holds::new();
    let (env, shaky_node) = env_with_shaky(database, &holds).await;
    let nodes = [shaky("unavailable"), held("slow"), held("next")];
    env.register(graph("flow", &nodes, &[edge("slow", "next")])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["slow"]).await;
        until("the server is called", || shaky_node.0.load(Ordering::SeqCst) == 1).await;
        holds.release(["slow"]);
        holds.wait_for_begin(["next"]).await;
        holds.release(["next"]);
    })
    .await;
    let run = env.run(&of).await;
    assert!(run.nodes[0].delay.is_some(), "the node waits for its server");
    env.clock.advance(31_000);
    env.drain().await;
    assert_eq!((env.status(&of).await, holds.effects()), ("completed", vec!["slow".into(), "next".into()]));
}

async fn a_draining_pause_waits_for_all_nodes_at_work(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    let edges = [edge("a", "c"), edge("c", "d")];
    env.register(graph("flow", &["a", "b", "c", "d"].map(held), &edges)).await;
    let of = env.start("flow").await;
    let pause = Command::Pause { reason: None, drain: Drain::DrainCurrentNode, by: alice() };
    beside_worker(&env, async {
        holds.wait_for_begin(["a", "b"]).await;
        env.engine.runs().execute(&of, &pause).await.unwrap();
        holds.release(["a"]);
        until_async("a ends", async || node_status(&env, &of, "a").await == NodeStatus::Completed).await;
        assert_eq!(env.status(&of).await, "running");
        holds.assert_none_began();
        env.engine.runs().execute(&of, &Command::Resume { by: alice() }).await.unwrap();
        holds.wait_for_begin(["c"]).await;
        env.engine.runs().execute(&of, &pause).await.unwrap();
        holds.release(["b", "c"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "paused");
    env.engine.runs().execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    holds.release(["d"]);
    env.drain().await;
    assert_eq!((env.status(&of).await, holds.effects().len()), ("completed", 4));
    assert_replays(&env, &of).await;
}

async fn nodes_discarded_by_an_immediate_pause_repeat_no_effect(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    env.register(graph("flow", &["a", "b"].map(held), &[])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["a", "b"]).await;
        let pause = Command::Pause { reason: None, drain: Drain::Immediate, by: alice() };
        env.engine.runs().execute(&of, &pause).await.unwrap();
        holds.release(["a", "b"]);
    })
    .await;
    assert_eq!(env.status(&of).await, "paused");
    env.engine.runs().execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&of).await, holds.effects().len()), ("completed", 2));
}

async fn a_cancellation_stops_all_nodes_at_work(database: TestDatabase) {
    /// A node that waits for the end of its run and reports the reason.
    struct WatchingNode(tokio::sync::mpsc::UnboundedSender<Option<Stop>>);
    impl Node for WatchingNode {
        async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
            self.0.send(None).unwrap();
            let stop = RunEndWatch::of(context).wait_until_ended().await;
            // The node releases what it holds: it is not aborted.
            tokio::task::yield_now().await;
            let reported = matches!(stop, Stop::Cancelled).then_some(Stop::Cancelled);
            self.0.send(reported).unwrap();
            Err(stop)
        }
    }
    let (reports, mut reported) = unbounded_channel();
    let env = TestEnv::with(database, |options| options.node("test.watching", WatchingNode(reports))).await;
    let nodes = ["a", "b"].map(|id| node(id, "test.watching", json!({})));
    env.register(graph("flow", &nodes, &[])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        for _ in 0..2 {
            assert_eq!(reported.recv().await, Some(None));
        }
        env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    })
    .await;
    for _ in 0..2 {
        assert_eq!(reported.try_recv().unwrap(), Some(Stop::Cancelled));
    }
    assert_eq!(env.status(&of).await, "cancelled");
    assert!(env.log(&of).await.last().unwrap().contains("run.cancelled"));
    assert_eq!(env.drain().await, 0, "the dispatch is acknowledged");
}

async fn a_lost_claim_aborts_all_nodes_at_work(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    env.register(graph("flow", &["a", "b"].map(held), &[])).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["a", "b"]).await;
        env.expire_leases().await;
        let mailbox = env.engine.mailbox(&tenant());
        assert_eq!(mailbox.reclaim_expired_leases(env.clock.now(), 10).await.unwrap().len(), 1);
        // The first execution of `a` cannot record its effect, and `b` is aborted.
        holds.release(["a"]);
        holds.wait_for_begin(["a", "b"]).await;
        assert_eq!(holds.aborted(), ["b"]);
        holds.release(["a", "b"]);
    })
    .await;
    assert_eq!((env.status(&of).await, holds.effects().len()), ("completed", 3));
}

async fn a_run_that_exceeds_its_time_limit_ends_while_nodes_are_at_work(database: TestDatabase) {
    let mut holds = Holds::new();
    let env = env_with(database, &holds).await;
    let mut flow = graph("flow", &["a", "b"].map(held), &[]);
    flow["settings"] = json!({"timeout": 1000});
    env.register(flow).await;
    let of = env.start("flow").await;
    beside_worker(&env, async {
        holds.wait_for_begin(["a", "b"]).await;
        env.clock.advance(1000);
        assert_eq!(env.drain().await, 1, "the timer");
        assert_eq!(env.status(&of).await, "failed");
        holds.release(["a", "b"]);
    })
    .await;
    let log = env.log(&of).await;
    assert!(log.last().unwrap().contains("run_timeout"), "nothing follows the failure: {log:?}");
    assert_eq!(env.drain().await, 0, "the dispatch is acknowledged");
}

async fn two_questions_of_nodes_with_effects_are_answered_in_any_order(database: TestDatabase) {
    for order in [["left", "right"], ["right", "left"]] {
        let mut holds = Holds::new();
        let env = env_with(database.another().await, &holds).await;
        let nodes = [gate("left"), gate("right"), held("a"), held("b"), held("slow")];
        env.register(graph("flow", &nodes, &[edge("left", "a"), edge("right", "b")])).await;
        let of = env.start("flow").await;
        beside_worker(&env, async {
            holds.wait_for_begin(["slow"]).await;
            for gate in order {
                env.answer(&of, gate, accept()).await.unwrap();
                holds.wait_for_begin([if gate == "left" { "a" } else { "b" }]).await;
            }
            holds.release(["a", "b", "slow"]);
        })
        .await;
        assert_eq!(env.status(&of).await, "completed");
        assert_replays(&env, &of).await;
    }
}
