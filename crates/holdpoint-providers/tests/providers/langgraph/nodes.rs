//! Takeover of graphs by another process, on both databases: the graph continues, and no start or answer is sent twice.

use holdpoint_engine::core::Owner;
use holdpoint_providers::{EngineGraphs, GraphStart, GraphStatus};
use serde_json::{Value, json};

use crate::langgraph::fake::FakeServer;
use crate::langgraph::fake_state::{FakeState, Step, ask, hang};
use crate::langgraph::graph_env::{GraphEnv, expect_completed, expect_waiting, tenant};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_graph_can_be_revised_and_then_approved,
    a_graph_two_levels_below_a_workflow_is_answered_at_the_root,
    another_process_waits_for_a_start_in_progress,
    a_start_that_finished_while_no_process_ran_is_not_repeated,
    another_process_waits_for_an_answer_in_progress,
    an_answer_that_was_processed_while_no_process_ran_is_not_repeated,
    a_deleted_conversation_is_stopped_and_deleted_at_the_server,
    only_approvers_in_the_server_settings_can_answer,
);

/// Kills an engine, expires its leases and opens another on the same data.
pub(crate) async fn take_over(dead: GraphEnv, database: &TestDatabase, fake: &FakeServer) -> GraphEnv {
    dead.kill().await;
    expire_leases(database).await;
    GraphEnv::open(database, fake.settings()).await
}

/// Expires the leases and handle locks of a killed engine.
async fn expire_leases(database: &TestDatabase) {
    let sql = "UPDATE dispatches SET lease_until_ms = 0 WHERE status = 'claimed'; \
                 UPDATE execution_state_handles SET locked_until = 0 WHERE locked_until IS NOT NULL";
    database.execute(sql).await.unwrap();
}

async fn a_graph_can_be_revised_and_then_approved(database: TestDatabase) {
    let fake = FakeServer::with_steps([ask(1), ask(2), Step::Finish(json!({"sent": true}))]).await;
    fake.update(|state| state.streams = true);
    let env = GraphEnv::open(&database, fake.settings()).await;
    assert_eq!(expect_waiting(env.start("g", "k", json!({"topic": "tea"})).await).1, json!({"round": 1}));
    assert_eq!(expect_waiting(env.resume("k", "r1", json!("revise")).await).1, json!({"round": 2}));
    assert_eq!(expect_waiting(env.resume("k", "r1", json!("revise")).await).1, json!({"round": 2}));
    assert_eq!(expect_completed(env.resume("k", "r2", json!("approve")).await), json!({"sent": true}));
    fake.inspect(|state| {
        assert_eq!(state.inputs, [json!({"topic": "tea"})]);
        assert_eq!(state.answers, [json!("revise"), json!("approve")]);
    });
    // The number of calls is low: version, thread and state, and for each turn a run, its
    // stream, its end and the state.
    let calls = fake.inspect(|state| state.requests.clone());
    assert_eq!(calls.len(), 1 + 2 + 3 * 4 + 2, "{calls:#?}");
    let visible = env.visible_data("k").await;
    for name in fake.inspect(|state| state.all_ids().to_vec()) {
        assert!(!visible.contains(&name), "{name} is in {visible}");
    }
    assert!(!visible.contains(&fake.url), "{visible}");
    let handles = database.read("SELECT * FROM execution_state_handles").await;
    let handles = format!("{handles:?}");
    assert!(fake.inspect(|state| !state.all_ids().iter().any(|name| handles.contains(name))), "{handles}");
}

/// Registers a workflow with one node.
async fn register(env: &GraphEnv, id: &str, type_id: &str, config: Value) {
    let position = json!({"x": 0, "y": 0});
    let node = json!({"id": "step", "typeId": type_id, "name": "step", "position": position, "config": config, "inputs": {}});
    let definition = json!({
        "id": id, "name": id, "version": "1", "nodes": [node], "edges": [], "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    env.engine.workflows().register(&tenant(), definition).await.unwrap();
}

async fn a_graph_two_levels_below_a_workflow_is_answered_at_the_root(database: TestDatabase) {
    let fake = FakeServer::with_steps([ask(1), ask(2), Step::Finish(json!({"sent": true}))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    register(&env, "inner", "core.provider", json!({"graph": "langgraph:g"})).await;
    register(&env, "middle", "core.subWorkflow", json!({"workflowId": "inner"})).await;
    register(&env, "top", "core.subWorkflow", json!({"workflowId": "middle"})).await;
    let owner = Owner { tenant: tenant(), principal: "tester".to_owned() };
    let (graph, state_key) = ("native:top".to_owned(), Some("k".to_owned()));
    let source = holdpoint_engine::core::RequestSource::INTERNAL;
    let start = GraphStart { owner, graph, state_key, input: json!({}), turn_id: None, source };
    env.engine.graphs().start(start).await.unwrap();
    assert_eq!(expect_waiting(env.wait_until_stopped("k").await).1, json!({"round": 1}));
    assert_eq!(expect_waiting(env.resume("k", "r1", json!("revise")).await).1, json!({"round": 2}));
    assert_eq!(expect_waiting(env.resume("k", "r1", json!("revise")).await).1, json!({"round": 2}));
    let root = env.engine.runs().get(&env.run_of("k").await).await.unwrap();
    let below: Vec<_> = root.child_interrupts().map(|(_, open)| open.below.len()).collect();
    assert_eq!(below, [1], "only the second question is open");
    env.resume("k", "r2", json!("approve")).await;
    assert!(matches!(env.wait_until_stopped("k").await, GraphStatus::Completed(_)));
    fake.inspect(|state| assert_eq!(state.answers, [json!("revise"), json!("approve")]));
}

async fn another_process_waits_for_a_start_in_progress(database: TestDatabase) {
    let fake = FakeServer::with_steps([hang(ask(1))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/join", 1).await;
    let env = take_over(env, &database, &fake).await;
    fake.wait_for_requests("/join", 2).await;
    fake.release();
    assert_eq!(expect_waiting(env.wait_until_stopped("k").await).1, json!({"round": 1}));
    assert_eq!(fake.inspect(|state| state.inputs.len()), 1);
    assert_eq!(fake.count_requests("POST /threads/X/runs"), 1);
}

async fn a_start_that_finished_while_no_process_ran_is_not_repeated(database: TestDatabase) {
    let fake = FakeServer::with_steps([hang(ask(1)), Step::Finish(json!({}))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/join", 1).await;
    env.kill().await;
    fake.release();
    fake.update(FakeState::lose_threads);
    expire_leases(&database).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    assert_eq!(expect_waiting(env.wait_until_stopped("k").await).1, json!({"round": 1}));
    expect_completed(env.resume("k", "r1", json!("yes")).await);
    fake.inspect(|state| assert_eq!((state.inputs.len(), state.answers.len()), (1, 1)));
}

async fn another_process_waits_for_an_answer_in_progress(database: TestDatabase) {
    let fake = FakeServer::with_steps([ask(1), hang(Step::Finish(json!({"ok": 1})))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    env.answer("k", "r1", json!("yes")).await.unwrap();
    fake.wait_for_requests("/join", 2).await;
    let env = take_over(env, &database, &fake).await;
    fake.wait_for_requests("/join", 3).await;
    fake.release();
    assert_eq!(expect_completed(env.wait_until_stopped("k").await), json!({"ok": 1}));
    assert_eq!(fake.inspect(|state| state.answers.clone()), [json!("yes")]);
}

async fn an_answer_that_was_processed_while_no_process_ran_is_not_repeated(database: TestDatabase) {
    let fake = FakeServer::with_steps([ask(1), hang(ask(2)), Step::Finish(json!({}))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    env.answer("k", "r1", json!("first")).await.unwrap();
    fake.wait_for_requests("/join", 2).await;
    env.kill().await;
    // The graph continues at the server while no engine is open. Then the server loses its threads.
    fake.release();
    fake.update(FakeState::lose_threads);
    expire_leases(&database).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    assert_eq!(expect_waiting(env.wait_until_stopped("k").await).1, json!({"round": 2}));
    assert_eq!(fake.inspect(|state| state.answers.clone()), [json!("first")]);
    expect_completed(env.resume("k", "r2", json!("second")).await);
    assert_eq!(fake.inspect(|state| state.answers.clone()), [json!("first"), json!("second")]);
}

async fn a_deleted_conversation_is_stopped_and_deleted_at_the_server(database: TestDatabase) {
    let fake = FakeServer::with_steps([hang(ask(1))]).await;
    let env = GraphEnv::open(&database, fake.settings()).await;
    env.begin("g", "k", json!({})).await;
    fake.wait_for_requests("/join", 1).await;
    let by = holdpoint_engine::core::Principal::named("alice");
    env.engine.graphs().close(&tenant(), "k", by).await.unwrap();
    assert!(matches!(env.wait_until_stopped("k").await, GraphStatus::Cancelled { .. }));
    fake.wait_for_requests("/cancel", 1).await;
    // The maintenance deletes the thread when the handle is not locked.
    while fake.count_requests("DELETE /threads/X") == 0 {
        env.engine.worker().tidy().await;
    }
}

async fn only_approvers_in_the_server_settings_can_answer(database: TestDatabase) {
    let fake = FakeServer::with_steps([ask(1), Step::Finish(json!({}))]).await;
    let mut settings = fake.settings();
    settings["approval"] = json!({"approversList": ["bob"]});
    let env = GraphEnv::open(&database, settings).await;
    expect_waiting(env.start("g", "k", json!({})).await);
    let refused = env.answer("k", "r1", json!("yes")).await.unwrap_err();
    assert!(refused.to_string().contains("alice"), "{refused}");
    assert_eq!(fake.inspect(|state| state.answers.len()), 0);
    assert_eq!(
        expect_waiting(env.wait_until_stopped("k").await).1,
        json!({"round": 1}),
        "the interrupt is still open"
    );
}
