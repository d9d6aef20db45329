//! Graphs by their state key: repeated answers, keys of interrupts, and expiry.

use holdpoint_engine::core::{Answer, Owner, Principal, RunRef};
use holdpoint_engine::{EffectContext, Node, Outputs, Stop};
use holdpoint_providers::{EngineGraphs, GraphError, GraphResume, GraphStart, GraphStatus};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, tenant};

const WEEK: i64 = 7 * 24 * 3_600_000;
const DAY: i64 = 24 * 3_600_000;

on_both! {
    a_repeated_vote_does_not_answer_the_next_interrupt,
    a_repeated_answer_returns_its_result_while_the_graph_runs,
    open_interrupts_keep_their_keys,
    an_unanswered_graph_is_cancelled_after_a_week_and_forgotten_a_day_later,
    an_answer_through_any_api_starts_a_new_week,
    the_timeout_of_a_gate_can_be_longer_than_a_week,
    a_graph_that_does_not_wait_is_not_cancelled,
    an_answer_to_a_child_run_waits_while_the_root_executes,
}

fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}})
}

fn flow(nodes: Value, edges: &[(&str, &str)]) -> Value {
    let edges: Vec<Value> = edges
        .iter()
        .map(|(from, to)| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to}))
        .collect();
    json!({
        "id": "flow", "name": "flow", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": nodes, "edges": edges,
    })
}

impl TestEnv {
    async fn start_graph(&self, definition: Value) -> RunRef {
        self.register(definition).await;
        let owner = Owner { tenant: tenant(), principal: "tester".to_owned() };
        let (graph, state_key, input) = ("native:flow".to_owned(), Some("key".to_owned()), json!({}));
        self.engine
            .graphs()
            .start(GraphStart {
                owner,
                graph,
                state_key,
                input,
                turn_id: None,
                source: holdpoint_engine::core::RequestSource::INTERNAL,
            })
            .await
            .unwrap()
            .0
            .of
    }

    async fn resume_as(&self, who: &str, id: &str, value: Value) -> Result<GraphStatus, GraphError> {
        let answer = Answer::new(value, Principal::named(who));
        let resume = GraphResume { id: id.to_owned(), answer, to: None };
        let (handle, decision) = self.engine.graphs().resume(&tenant(), "key", resume).await?;
        Ok(self.engine.graphs().wait(&handle.of, Some(&decision), Instant::now()).await?)
    }

    async fn graph_status(&self) -> Result<GraphStatus, GraphError> {
        let handle = self.engine.graphs().handle(&tenant(), "key").await?;
        Ok(self.engine.graphs().status(&handle.of).await?)
    }

    async fn tidy(&self) {
        self.engine.worker().tidy().await;
    }
}

fn title(status: &GraphStatus) -> &str {
    let GraphStatus::Waiting { data, .. } = status else { panic!("the graph does not wait: {status:?}") };
    data["title"].as_str().unwrap()
}

fn accept() -> Value {
    json!({"action": "accept"})
}

async fn a_repeated_vote_does_not_answer_the_next_interrupt(env: TestEnv) {
    let first = json!({"title": "first", "requiredApprovals": 2});
    let gates = json!([
        node("first", "core.approvalGate", first),
        node("second", "core.approvalGate", json!({"title": "second"})),
    ]);
    env.start_graph(flow(gates, &[("first", "second")])).await;
    assert_eq!(
        title(&env.resume_as("alice", "r-a", accept()).await.unwrap()),
        "first",
        "one vote is not enough"
    );
    assert_eq!(title(&env.resume_as("bob", "r-b", accept()).await.unwrap()), "second");
    // The response was lost, and Alice repeats her answer.
    assert_eq!(
        title(&env.resume_as("alice", "r-a", accept()).await.unwrap()),
        "first",
        "the first result is returned"
    );
    assert_eq!(title(&env.graph_status().await.unwrap()), "second", "the second gate is open");
    let other = env.resume_as("alice", "r-a", json!({"action": "reject"})).await;
    assert!(matches!(other, Err(GraphError::ResumeIdReused)), "{other:?}");
}

async fn a_repeated_answer_returns_its_result_while_the_graph_runs(env: TestEnv) {
    let call = json!({"method": "POST", "url": "https://example.com/"});
    let nodes = json!([
        node("first", "core.approvalGate", json!({"title": "first"})),
        node("second", "core.approvalGate", json!({"title": "second"})),
        node("call", "core.http", call),
    ]);
    env.start_graph(flow(nodes, &[("first", "second"), ("second", "call")])).await;
    let then = env.resume_as("alice", "r-1", accept()).await.unwrap();
    assert_eq!(title(&then), "second");
    assert_eq!(
        env.resume_as("alice", "r-2", accept()).await.unwrap(),
        GraphStatus::Running,
        "there is no worker"
    );
    assert_eq!(env.resume_as("alice", "r-1", accept()).await.unwrap(), then);
}

async fn open_interrupts_keep_their_keys(env: TestEnv) {
    let gate = |name: &str| node(name, "core.approvalGate", json!({"title": name}));
    let of = env.start_graph(flow(json!([gate("a"), gate("b"), gate("c")]), &[])).await;
    env.answer(&of, "a", accept()).await.unwrap();
    // The answer of a caller that saw all three interrupts names the second one.
    let left = env.resume_as("alice", "r", json!({"i1": {"action": "accept"}})).await.unwrap();
    assert_eq!(title(&left), "c");
}

fn one_gate(config: Value) -> Value {
    flow(
        json!([node("gate", "core.approvalGate", config), node("after", "core.approvalGate", json!({}))]),
        &[("gate", "after")],
    )
}

async fn an_unanswered_graph_is_cancelled_after_a_week_and_forgotten_a_day_later(env: TestEnv) {
    env.start_graph(one_gate(json!({}))).await;
    env.clock.advance(WEEK - 1);
    env.tidy().await;
    assert!(matches!(env.graph_status().await, Ok(GraphStatus::Waiting { .. })));
    env.clock.advance(1);
    env.tidy().await;
    assert!(matches!(env.graph_status().await, Ok(GraphStatus::Cancelled { expired: true, .. })));
    env.clock.advance(DAY - 1);
    env.tidy().await;
    assert!(env.graph_status().await.is_ok(), "the status is still available");
    env.clock.advance(1);
    env.tidy().await;
    assert!(matches!(env.graph_status().await, Err(GraphError::UnknownStateKey)));
}

async fn an_answer_through_any_api_starts_a_new_week(env: TestEnv) {
    let of = env.start_graph(one_gate(json!({}))).await;
    env.clock.advance(WEEK - 1);
    env.answer(&of, "gate", accept()).await.unwrap();
    env.clock.advance(WEEK - 1);
    env.tidy().await;
    assert!(matches!(env.graph_status().await, Ok(GraphStatus::Waiting { .. })));
    env.clock.advance(1);
    env.tidy().await;
    assert!(matches!(env.graph_status().await, Ok(GraphStatus::Cancelled { expired: true, .. })));
}

async fn the_timeout_of_a_gate_can_be_longer_than_a_week(env: TestEnv) {
    env.start_graph(one_gate(json!({"timeoutMs": 2 * WEEK}))).await;
    env.clock.advance(2 * WEEK - 1);
    env.tidy().await;
    assert!(matches!(env.graph_status().await, Ok(GraphStatus::Waiting { .. })));
}

async fn a_graph_that_does_not_wait_is_not_cancelled(env: TestEnv) {
    let nodes = json!([node("sleep", "core.delay", json!({"ms": 3 * WEEK}))]);
    env.start_graph(flow(nodes, &[])).await;
    env.clock.advance(2 * WEEK);
    env.tidy().await;
    assert_eq!(env.graph_status().await.unwrap(), GraphStatus::Running);
}

/// A node with effects that ends at once.
#[derive(Clone)]
struct ShortEffect;

impl Node for ShortEffect {
    async fn run(&self, _: &mut EffectContext) -> Result<Outputs, Stop> {
        Ok(Outputs::new())
    }
}

async fn an_answer_to_a_child_run_waits_while_the_root_executes(database: TestDatabase) {
    let env = TestEnv::with(database, |options| options.node("test.effect", ShortEffect)).await;
    let mut inner = flow(json!([node("gate", "core.approvalGate", json!({"title": "child"}))]), &[]);
    inner["id"] = json!("inner");
    env.register(inner).await;
    let nodes = json!([
        node("child", "core.subWorkflow", json!({"workflowId": "inner"})),
        node("own", "core.approvalGate", json!({"title": "own"})),
        node("effect", "test.effect", json!({})),
    ]);
    let of = env.start_graph(flow(nodes, &[("own", "effect")])).await;
    env.drain().await;
    env.answer(&of, "own", accept()).await.unwrap();
    assert_eq!(env.graph_status().await.unwrap(), GraphStatus::Running, "the effect needs a worker");
    let (answered, _) = tokio::join!(env.resume_as("alice", "r", accept()), env.drain());
    answered.unwrap();
    env.drain().await;
    assert!(matches!(env.graph_status().await.unwrap(), GraphStatus::Completed(_)));
}
