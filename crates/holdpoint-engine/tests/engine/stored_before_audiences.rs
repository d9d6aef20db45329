//! Runs that were started before `audience` became informational. Their copies and child runs keep the restriction.

use holdpoint_engine::core::{ForkMode, Refusal, RunRef};
use holdpoint_engine::{Engine, Error};
use serde_json::json;

use crate::families::child_of;
use crate::forks::fork;
use crate::house::{House, accept, line};
use crate::place::on_both;

on_both! {
    copies_of_older_runs_keep_the_restriction_by_audience,
    child_runs_of_older_runs_keep_the_restriction_by_audience,
    copies_and_child_runs_of_newer_runs_have_no_restriction,
}

/// Registers a gate whose audience does not contain alice, and a workflow that calls it after a gate of its own.
async fn register(house: &House) {
    let gate = json!({"title": "Go on?", "actions": ["accept"], "audience": {"subjects": ["bob"]}});
    let open = json!({"title": "Begin?", "actions": ["accept"]});
    let call = json!({"workflowId": "gated"});
    house.register(line("gated", &[("gate", "core.approvalGate", gate)])).await;
    let nodes = [("begin", "core.approvalGate", open), ("call", "core.subWorkflow", call)];
    house.register(line("calls", &nodes)).await;
}

/// Starts a run and stores it as a version did that recorded no version of its own.
async fn started_before(house: House, workflow: &str) -> (House, RunRef) {
    register(&house).await;
    let of = house.start(workflow).await;
    house.drain().await;
    let version = format!(",\"engine_version\":{}", Engine::VERSION);
    let forget = format!("UPDATE events SET events = REPLACE(events, '{version}', '')");
    house.place.execute(&forget).await.unwrap();
    let house = house.reopen(|options| options).await;
    let started = house.run(&of).await.started.clone().unwrap();
    assert_eq!(started.engine_version, None);
    (house, of)
}

/// Alice is not in the audience.
async fn answer_as_alice(house: &House, of: &RunRef) -> Result<(), Error> {
    house.answer(of, "gate", accept()).await.map(drop)
}

async fn assert_restricted(house: &House, of: &RunRef) {
    let answered = answer_as_alice(house, of).await;
    assert!(matches!(answered, Err(Error::Refused(Refusal::NotAnApprover(_)))), "{answered:?}");
}

async fn copies_of_older_runs_keep_the_restriction_by_audience(house: House) {
    let (house, of) = started_before(house, "gated").await;
    assert_restricted(&house, &of).await;
    let replay = fork(&house, &of, ForkMode::Replay, 0).await;
    let branch = fork(&house, &of, ForkMode::Branch, 1).await;
    let copy_of_copy = fork(&house, &branch, ForkMode::Branch, 1).await;
    house.drain().await;
    for copy in [replay, branch, copy_of_copy] {
        assert_restricted(&house, &copy).await;
    }
}

async fn child_runs_of_older_runs_keep_the_restriction_by_audience(house: House) {
    let (house, of) = started_before(house, "calls").await;
    house.answer(&of, "begin", accept()).await.unwrap();
    house.drain().await;
    assert_restricted(&house, &child_of(&of, 1)).await;
}

async fn copies_and_child_runs_of_newer_runs_have_no_restriction(house: House) {
    register(&house).await;
    let of = house.start("gated").await;
    house.drain().await;
    let copy = fork(&house, &of, ForkMode::Branch, 1).await;
    let parent = house.start("calls").await;
    house.answer(&parent, "begin", accept()).await.unwrap();
    house.drain().await;
    for free in [of, copy, child_of(&parent, 1)] {
        answer_as_alice(&house, &free).await.unwrap();
    }
}
