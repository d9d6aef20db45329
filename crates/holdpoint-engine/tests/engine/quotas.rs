//! Quotas of a tenant: a request over a limit is rejected without a trace, and ended runs make room.

use holdpoint_engine::core::{ForkMode, Owner, RunRef, StartRequest, TenantId, WorkflowId};
use holdpoint_engine::{Error, ForkRequest, Overlay, Quotas, Usage};
use serde_json::{Value, json};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, gated, graph, node, start, tenant};

on_both! {
    open_runs_are_limited_and_a_run_that_ends_makes_room,
    usage_is_the_same_after_a_restart,
    a_tenant_over_its_quota_does_not_affect_another,
    a_family_that_grows_exponentially_is_limited,
    a_node_that_waits_for_a_child_over_the_quota_fails,
    a_fork_of_a_large_run_is_rejected_before_it_is_read,
    stored_bytes_stop_new_runs_and_not_answers,
    definitions_are_limited_and_repeated_definitions_are_accepted,
    definitions_of_the_operator_and_of_the_host_are_stored_over_the_quota,
    waiting_deliveries_stop_new_runs,
    lists_do_not_read_definitions_twice,
}

fn quota(result: Result<impl Sized, Error>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::Quota(exceeded)) => exceeded.quota,
        Err(error) => panic!("{error}"),
    }
}

async fn env_with_quotas(database: TestDatabase, quotas: Quotas) -> TestEnv {
    let env = TestEnv::with(database, |options| options.quotas(quotas)).await;
    env.register(gated("gated")).await;
    env
}

async fn try_start(env: &TestEnv, workflow: &str) -> Result<RunRef, Error> {
    let id = WorkflowId::parse(workflow).unwrap();
    let run = env.engine.runs().create(&id, start(json!({}))).await?;
    Ok(RunRef { tenant: tenant(), run: run.id.clone() })
}

async fn usage(env: &TestEnv) -> Usage {
    env.engine.limits().usage(&tenant()).await.unwrap()
}

async fn open_runs_are_limited_and_a_run_that_ends_makes_room(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas { open_runs: 2, ..Quotas::default() }).await;
    let first = try_start(&env, "gated").await.unwrap();
    try_start(&env, "gated").await.unwrap();
    assert_eq!(quota(try_start(&env, "gated").await), "openRuns");
    assert_eq!(usage(&env).await.open_runs, 2);
    let rows = env.database.read("SELECT COUNT(*) AS n FROM runs").await;
    assert_eq!(rows[0][0].1.as_deref(), Some("2"), "a rejected start leaves no row");
    env.answer(&first, "gate", accept()).await.unwrap();
    assert_eq!(usage(&env).await.open_runs, 1);
    assert_eq!(quota(try_start(&env, "gated").await), "ok");
    assert_eq!(quota(try_start(&env, "gated").await), "openRuns");
}

async fn usage_is_the_same_after_a_restart(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas::default()).await;
    for _ in 0..3 {
        let of = env.start("gated").await;
        env.answer(&of, "gate", accept()).await.unwrap();
    }
    let open = env.start("gated").await;
    let before = usage(&env).await;
    assert_eq!((before.open_runs, before.definitions), (1, 1));
    let sql = "SELECT SUM(OCTET_LENGTH(events)) AS n FROM events";
    let stored = env.database.read(sql).await[0][0].1.clone().unwrap();
    assert_eq!(before.stored_bytes.to_string(), stored);
    let env = env.reopen(|options| options).await;
    assert_eq!(usage(&env).await, before);
    env.answer(&open, "gate", accept()).await.unwrap();
    assert_eq!(usage(&env).await.open_runs, 0);
}

async fn a_tenant_over_its_quota_does_not_affect_another(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas { open_runs: 1, ..Quotas::default() }).await;
    try_start(&env, "gated").await.unwrap();
    assert_eq!(quota(try_start(&env, "gated").await), "openRuns");
    let other = TenantId::parse("other").unwrap();
    env.engine.workflows().register(&other, gated("gated")).await.unwrap();
    let owner = Owner { tenant: other.clone(), principal: "tester".to_owned() };
    let id = WorkflowId::parse("gated").unwrap();
    assert_eq!(quota(env.engine.runs().create(&id, StartRequest::new(owner)).await), "ok");
    assert_eq!(env.engine.limits().usage(&other).await.unwrap().open_runs, 1);
}

/// Each run starts two more and does not wait for them: 2^16 runs without a limit.
async fn a_family_that_grows_exponentially_is_limited(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas { family_runs: 40, ..Quotas::default() }).await;
    let config = json!({"workflowId": "bomb", "waitForCompletion": false});
    let calls = [node("one", "core.subWorkflow", config.clone()), node("two", "core.subWorkflow", config)];
    env.register(graph("bomb", &calls, &[])).await;
    let of = env.start("bomb").await;
    env.drain().await;
    let rows = env.database.read("SELECT COUNT(*) AS n FROM runs").await;
    let runs: u64 = rows[0][0].1.as_deref().unwrap().parse().unwrap();
    // Concurrent workers do not see each other's new runs.
    assert!((41..=41 + 64).contains(&runs), "{runs} runs");
    assert_eq!(usage(&env).await.open_runs, 0);
    // Another family has its own limit.
    let other = env.start("bomb").await;
    env.drain().await;
    let rows = env.database.read("SELECT COUNT(*) AS n FROM runs").await;
    assert!(rows[0][0].1.as_deref().unwrap().parse::<u64>().unwrap() > runs + 40, "{rows:?}");
    assert_ne!(other, of);
}

async fn a_node_that_waits_for_a_child_over_the_quota_fails(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas { family_runs: 1, ..Quotas::default() }).await;
    let calls = ["one", "two"].map(|id| node(id, "core.subWorkflow", json!({"workflowId": "gated"})));
    env.register(graph("calls", &calls, &[json!({"id": "e", "sourceNodeId": "one", "targetNodeId": "two"})]))
        .await;
    let of = env.start("calls").await;
    env.drain().await;
    let child = RunRef { run: env.run(&of).await.children[0].run.clone(), ..of.clone() };
    env.answer(&child, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "failed");
    let log = env.log(&of).await.join("\n");
    assert!(log.contains("quota_exceeded") && log.contains("--quota-family-runs"), "{log}");
}

fn fork(mode: ForkMode, from_seq: u64) -> ForkRequest {
    ForkRequest {
        by: "tester".to_owned(),
        credential: None,
        mode,
        from_seq,
        overlay: Overlay::default(),
        once: None,
    }
}

async fn a_fork_of_a_large_run_is_rejected_before_it_is_read(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas { fork_bytes: 8000, open_runs: 2, ..Quotas::default() }).await;
    let large = env.start_with("gated", json!({"text": "x".repeat(8000)})).await;
    let replay = env.engine.runs().fork(&large, fork(ForkMode::Replay, 0)).await;
    assert_eq!(quota(replay), "forkBytes");
    // The whole log is read for a branch.
    assert_eq!(quota(env.engine.runs().fork(&large, fork(ForkMode::Branch, 0)).await), "forkBytes");
    let small = env.start("gated").await;
    assert_eq!(quota(env.engine.runs().fork(&small, fork(ForkMode::Branch, 1)).await), "openRuns");
    env.answer(&small, "gate", accept()).await.unwrap();
    assert_eq!(quota(env.engine.runs().fork(&small, fork(ForkMode::Branch, 1)).await), "ok");
}

async fn stored_bytes_stop_new_runs_and_not_answers(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas { stored_bytes: 1000, ..Quotas::default() }).await;
    let of = env.start_with("gated", json!({"text": "x".repeat(2000)})).await;
    assert_eq!(quota(try_start(&env, "gated").await), "ok", "the usage is cached for a second");
    env.clock.advance(1000);
    assert_eq!(quota(try_start(&env, "gated").await), "storedBytes");
    assert!(env.answer(&of, "gate", accept()).await.is_ok());
    assert_eq!(env.status(&of).await, "completed");
}

async fn definitions_of_the_operator_and_of_the_host_are_stored_over_the_quota(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas { definitions: 1, ..Quotas::default() }).await;
    assert_eq!(quota(env.engine.workflows().register(&tenant(), gated("another")).await), "definitions");
    assert_eq!(quota(env.engine.workflows().register_for_operator(&tenant(), gated("another")).await), "ok");
    assert_eq!(quota(env.engine.holds().prepare(&tenant()).await), "ok");
}

async fn waiting_deliveries_stop_new_runs(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas { deliveries: 2, ..Quotas::default() }).await;
    let add = async |id: &str| {
        let sql = format!(
            "INSERT INTO deliveries (delivery_id, tenant_id, webhook_id, run_id, event_seq, event_type, kind, state, \
             ordered, attempt, due_ms, dedup_key, created_ms) VALUES ('{id}', 'default', 'w', 'r', 0, 'run.started', \
             'event', 'queued', 0, 0, 9999999999999, '{id}', 0)"
        );
        env.database.execute(&sql).await.unwrap();
    };
    add("one").await;
    assert_eq!(quota(try_start(&env, "gated").await), "ok");
    add("two").await;
    env.clock.advance(5000);
    assert_eq!(quota(try_start(&env, "gated").await), "deliveries");
    assert_eq!(usage(&env).await.deliveries, 2);
    env.database.execute("DELETE FROM deliveries").await.unwrap();
    env.clock.advance(5000);
    assert_eq!(quota(try_start(&env, "gated").await), "ok");
}

async fn definitions_are_limited_and_repeated_definitions_are_accepted(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas { definitions: 2, ..Quotas::default() }).await;
    let named = |name: &str| {
        let mut definition = gated("gated");
        definition["name"] = json!(name);
        definition
    };
    let register = async |definition: Value| env.engine.workflows().register(&tenant(), definition).await;
    assert_eq!(quota(register(named("second revision")).await), "ok");
    assert_eq!(quota(register(named("second revision")).await), "ok");
    assert_eq!(quota(register(named("third revision")).await), "definitions");
    assert_eq!(quota(register(gated("another")).await), "definitions");
    assert_eq!(usage(&env).await.definitions, 2);
}

async fn lists_do_not_read_definitions_twice(database: TestDatabase) {
    let env = env_with_quotas(database, Quotas::default()).await;
    let mut other = gated("other");
    (other["name"], other["version"]) = (json!("n".repeat(300)), json!("7"));
    env.register(other).await;
    // The rows of definitions stored before summaries existed.
    env.database.execute("UPDATE workflow_summaries SET name = NULL, version = NULL").await.unwrap();
    let listed = env.engine.workflows().list(&tenant(), 10).await.unwrap();
    let ids: Vec<&str> = listed.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["gated", "other"]);
    assert_eq!((listed[1].name.len(), listed[1].version.as_str(), listed[1].revision), (256, "7", 1));
    env.database.execute("UPDATE workflows SET definition = 'unreadable'").await.unwrap();
    assert_eq!(env.engine.workflows().list(&tenant(), 10).await.unwrap(), listed);
    assert_eq!(env.engine.workflows().list(&tenant(), 1).await.unwrap(), listed[..1]);
}
