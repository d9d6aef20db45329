//! Quotas of a tenant: what is over a limit is rejected and leaves nothing behind, and what ends makes room.

use holdpoint_engine::core::{ForkMode, Owner, RunRef, Start, TenantId, WorkflowId};
use holdpoint_engine::{Error, ForkRequest, Overlay, Quotas, Usage};
use serde_json::{Value, json};

use crate::house::{House, accept, gated, graph, node, start, tenant};
use crate::place::{Place, on_both};

on_both! {
    open_runs_are_limited_and_a_run_that_ends_makes_room,
    usage_is_the_same_after_a_restart,
    a_tenant_that_is_over_its_quota_does_not_concern_another,
    a_family_that_doubles_in_every_generation_is_cut_off,
    a_node_that_waits_for_a_child_over_the_quota_fails,
    a_fork_of_a_large_run_is_rejected_before_it_is_read,
    stored_bytes_stop_new_runs_and_not_answers,
    definitions_are_limited_and_the_same_one_again_is_not,
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

async fn house(place: Place, quotas: Quotas) -> House {
    let house = House::with(place, |options| options.quotas(quotas)).await;
    house.register(gated("gated")).await;
    house
}

async fn try_start(house: &House, workflow: &str) -> Result<RunRef, Error> {
    let id = WorkflowId::parse(workflow).unwrap();
    let run = house.engine.start(&id, start(json!({}))).await?;
    Ok(RunRef { tenant: tenant(), run: run.id.clone() })
}

async fn usage(house: &House) -> Usage {
    house.engine.usage(&tenant()).await.unwrap()
}

async fn open_runs_are_limited_and_a_run_that_ends_makes_room(place: Place) {
    let house = house(place, Quotas { open_runs: 2, ..Quotas::default() }).await;
    let first = try_start(&house, "gated").await.unwrap();
    try_start(&house, "gated").await.unwrap();
    assert_eq!(quota(try_start(&house, "gated").await), "openRuns");
    assert_eq!(usage(&house).await.open_runs, 2);
    let rows = house.place.read("SELECT COUNT(*) AS n FROM runs").await;
    assert_eq!(rows[0][0].1.as_deref(), Some("2"), "nothing is left of a rejected start");
    house.answer(&first, "gate", accept()).await.unwrap();
    assert_eq!(usage(&house).await.open_runs, 1);
    assert_eq!(quota(try_start(&house, "gated").await), "ok");
    assert_eq!(quota(try_start(&house, "gated").await), "openRuns");
}

async fn usage_is_the_same_after_a_restart(place: Place) {
    let house = house(place, Quotas::default()).await;
    for _ in 0..3 {
        let of = house.start("gated").await;
        house.answer(&of, "gate", accept()).await.unwrap();
    }
    let open = house.start("gated").await;
    let before = usage(&house).await;
    assert_eq!((before.open_runs, before.definitions), (1, 1));
    let sql = "SELECT SUM(OCTET_LENGTH(events)) AS n FROM events";
    let stored = house.place.read(sql).await[0][0].1.clone().unwrap();
    assert_eq!(before.stored_bytes.to_string(), stored);
    let house = house.reopen(|options| options).await;
    assert_eq!(usage(&house).await, before);
    house.answer(&open, "gate", accept()).await.unwrap();
    assert_eq!(usage(&house).await.open_runs, 0);
}

async fn a_tenant_that_is_over_its_quota_does_not_concern_another(place: Place) {
    let house = house(place, Quotas { open_runs: 1, ..Quotas::default() }).await;
    try_start(&house, "gated").await.unwrap();
    assert_eq!(quota(try_start(&house, "gated").await), "openRuns");
    let other = TenantId::parse("other").unwrap();
    house.engine.register(&other, gated("gated")).await.unwrap();
    let owner = Owner { tenant: other.clone(), principal: "tester".to_owned() };
    let id = WorkflowId::parse("gated").unwrap();
    assert_eq!(quota(house.engine.start(&id, Start::new(owner)).await), "ok");
    assert_eq!(house.engine.usage(&other).await.unwrap().open_runs, 1);
}

/// Each run starts two more and does not wait for them: 2^16 runs without a limit.
async fn a_family_that_doubles_in_every_generation_is_cut_off(place: Place) {
    let house = house(place, Quotas { family_runs: 40, ..Quotas::default() }).await;
    let config = json!({"workflowId": "bomb", "waitForCompletion": false});
    let calls = [node("one", "core.subWorkflow", config.clone()), node("two", "core.subWorkflow", config)];
    house.register(graph("bomb", &calls, &[])).await;
    let of = house.start("bomb").await;
    house.drain().await;
    let rows = house.place.read("SELECT COUNT(*) AS n FROM runs").await;
    let runs: u64 = rows[0][0].1.as_deref().unwrap().parse().unwrap();
    // Runs that workers start at the same moment do not see each other.
    assert!((41..=41 + 64).contains(&runs), "{runs} runs");
    assert_eq!(usage(&house).await.open_runs, 0);
    // Another family has its own limit.
    let other = house.start("bomb").await;
    house.drain().await;
    let rows = house.place.read("SELECT COUNT(*) AS n FROM runs").await;
    assert!(rows[0][0].1.as_deref().unwrap().parse::<u64>().unwrap() > runs + 40, "{rows:?}");
    assert_ne!(other, of);
}

async fn a_node_that_waits_for_a_child_over_the_quota_fails(place: Place) {
    let house = house(place, Quotas { family_runs: 1, ..Quotas::default() }).await;
    let calls = ["one", "two"].map(|id| node(id, "core.subWorkflow", json!({"workflowId": "gated"})));
    house
        .register(graph("calls", &calls, &[json!({"id": "e", "sourceNodeId": "one", "targetNodeId": "two"})]))
        .await;
    let of = house.start("calls").await;
    house.drain().await;
    let child = RunRef { run: house.run(&of).await.children[0].run.clone(), ..of.clone() };
    house.answer(&child, "gate", accept()).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "failed");
    let log = house.log(&of).await.join("\n");
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

async fn a_fork_of_a_large_run_is_rejected_before_it_is_read(place: Place) {
    let house = house(place, Quotas { fork_bytes: 8000, open_runs: 2, ..Quotas::default() }).await;
    let large = house.start_with("gated", json!({"text": "x".repeat(8000)})).await;
    let replay = house.engine.fork(&large, fork(ForkMode::Replay, 0)).await;
    assert_eq!(quota(replay), "forkBytes");
    // The whole log is read for a branch.
    assert_eq!(quota(house.engine.fork(&large, fork(ForkMode::Branch, 0)).await), "forkBytes");
    let small = house.start("gated").await;
    assert_eq!(quota(house.engine.fork(&small, fork(ForkMode::Branch, 1)).await), "openRuns");
    house.answer(&small, "gate", accept()).await.unwrap();
    assert_eq!(quota(house.engine.fork(&small, fork(ForkMode::Branch, 1)).await), "ok");
}

async fn stored_bytes_stop_new_runs_and_not_answers(place: Place) {
    let house = house(place, Quotas { stored_bytes: 1000, ..Quotas::default() }).await;
    let of = house.start_with("gated", json!({"text": "x".repeat(2000)})).await;
    assert_eq!(quota(try_start(&house, "gated").await), "ok", "a reading counts for a second");
    house.clock.advance(1000);
    assert_eq!(quota(try_start(&house, "gated").await), "storedBytes");
    assert!(house.answer(&of, "gate", accept()).await.is_ok());
    assert_eq!(house.status(&of).await, "completed");
}

async fn definitions_of_the_operator_and_of_the_host_are_stored_over_the_quota(place: Place) {
    let house = house(place, Quotas { definitions: 1, ..Quotas::default() }).await;
    assert_eq!(quota(house.engine.register(&tenant(), gated("another")).await), "definitions");
    assert_eq!(quota(house.engine.register_for_operator(&tenant(), gated("another")).await), "ok");
    assert_eq!(quota(house.engine.prepare_holds(&tenant()).await), "ok");
}

async fn waiting_deliveries_stop_new_runs(place: Place) {
    let house = house(place, Quotas { deliveries: 2, ..Quotas::default() }).await;
    let add = async |id: &str| {
        let sql = format!(
            "INSERT INTO deliveries (delivery_id, tenant_id, webhook_id, run_id, event_seq, event_type, kind, state, \
             ordered, attempt, due_ms, dedup_key, created_ms) VALUES ('{id}', 'default', 'w', 'r', 0, 'run.started', \
             'event', 'queued', 0, 0, 9999999999999, '{id}', 0)"
        );
        house.place.execute(&sql).await.unwrap();
    };
    add("one").await;
    assert_eq!(quota(try_start(&house, "gated").await), "ok");
    add("two").await;
    house.clock.advance(5000);
    assert_eq!(quota(try_start(&house, "gated").await), "deliveries");
    assert_eq!(usage(&house).await.deliveries, 2);
    house.place.execute("DELETE FROM deliveries").await.unwrap();
    house.clock.advance(5000);
    assert_eq!(quota(try_start(&house, "gated").await), "ok");
}

async fn definitions_are_limited_and_the_same_one_again_is_not(place: Place) {
    let house = house(place, Quotas { definitions: 2, ..Quotas::default() }).await;
    let named = |name: &str| {
        let mut definition = gated("gated");
        definition["name"] = json!(name);
        definition
    };
    let register = async |definition: Value| house.engine.register(&tenant(), definition).await;
    assert_eq!(quota(register(named("second revision")).await), "ok");
    assert_eq!(quota(register(named("second revision")).await), "ok");
    assert_eq!(quota(register(named("third revision")).await), "definitions");
    assert_eq!(quota(register(gated("another")).await), "definitions");
    assert_eq!(usage(&house).await.definitions, 2);
}

async fn lists_do_not_read_definitions_twice(place: Place) {
    let house = house(place, Quotas::default()).await;
    let mut other = gated("other");
    (other["name"], other["version"]) = (json!("n".repeat(300)), json!("7"));
    house.register(other).await;
    // As if both were stored before there were summaries.
    house.place.execute("UPDATE workflow_summaries SET name = NULL, version = NULL").await.unwrap();
    let listed = house.engine.workflows(&tenant(), 10).await.unwrap();
    let ids: Vec<&str> = listed.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["gated", "other"]);
    assert_eq!((listed[1].name.len(), listed[1].version.as_str(), listed[1].revision), (256, "7", 1));
    house.place.execute("UPDATE workflows SET definition = 'unreadable'").await.unwrap();
    assert_eq!(house.engine.workflows(&tenant(), 10).await.unwrap(), listed);
    assert_eq!(house.engine.workflows(&tenant(), 1).await.unwrap(), listed[..1]);
}
