//! Failures that may pass: tried again, after longer and longer waits.

use holdpoint_core::{Command, Event, NodeStatus, Outcome, Refusal, Status, Timestamp, Workflow};
use serde_json::{Value, json};

use crate::story::{DAWN, on};
use crate::words::*;

fn tried_again(settings: Value, own: Value) -> Workflow {
    let node = with(node("gate"), "settings", own);
    workflow_having([node], [], json!({"settings": settings}))
}

fn retried(attempt: u32, delay_ms: u64, until: Timestamp) -> [Event; 2] {
    let node = node_id("gate");
    [
        Event::NodeRetried { node: node.clone(), attempt, delay_ms, error: busy() },
        Event::SleepStarted { node, until },
    ]
}

#[test]
fn a_failure_that_may_pass_is_tried_again_and_each_wait_is_twice_the_last() {
    on(tried_again(json!({"maxRetries": 2}), json!({})))
        .given([start(), begin("gate")])
        .when(fail_for_now("gate"))
        .then(retried(1, 1000, DAWN.plus_ms(1000)))
        .status_is(Status::Running)
        .later(1000)
        .given([wake("gate")])
        .next_is("enter gate")
        .when(fail_for_now("gate"))
        .then(retried(2, 2000, DAWN.plus_ms(3000)))
        .later(2000)
        .given([wake("gate")])
        .when(fail_for_now("gate"))
        .accepted()
        .failed_with("busy", "not now");
}

#[test]
fn no_wait_is_longer_than_a_minute() {
    let mut story = on(tried_again(json!({"maxRetries": 100}), json!({}))).given([start(), begin("gate")]);
    for _ in 0..99 {
        story = story.given([fail_for_now("gate")]).later(60_000).given([wake("gate")]);
    }
    let until = DAWN.plus_ms(100 * 60_000);
    story.when(fail_for_now("gate")).then(retried(100, 60_000, until));
}

#[test]
fn a_failure_that_will_not_pass_is_final() {
    on(tried_again(json!({"maxRetries": 2}), json!({})))
        .given([start(), begin("gate")])
        .when(fail("gate"))
        .then([failed("gate"), run_failed_at("gate")]);
}

#[test]
fn a_node_goes_before_its_workflow() {
    on(tried_again(json!({"maxRetries": 2}), json!({"maxRetries": 0})))
        .given([start(), begin("gate"), fail_for_now("gate")])
        .status_is(Status::Failed);
    on(tried_again(json!({}), json!({"maxRetries": 1})))
        .given([start(), begin("gate"), fail_for_now("gate")])
        .node_is("gate", &NodeStatus::Sleeping(DAWN.plus_ms(1000)));
}

#[test]
fn a_wait_before_another_try_is_none_of_the_nodes_own_sleeps() {
    on(tried_again(json!({"maxRetries": 1}), json!({})))
        .given([start(), begin("gate"), fail_for_now("gate")])
        .later(1000)
        .given([wake("gate")])
        .slept("gate", 0)
        .given([sleep("gate", DAWN)])
        .given([wake("gate")])
        .slept("gate", 1);
}

#[test]
fn a_try_keeps_the_steps_of_the_one_before() {
    on(tried_again(json!({"maxRetries": 1}), json!({})))
        .given([start(), begin("gate"), record("gate", "charge", json!(1)), fail_for_now("gate")])
        .later(1000)
        .given([wake("gate")])
        .when(record("gate", "charge", json!(2)))
        .refused_for("step");
}

#[test]
fn a_delay_is_told_once_and_once_more_when_it_is_given_up() {
    let delay = |until: Option<u64>| Command::Delay {
        node: node_id("gate"),
        error: busy(),
        until: until.map(|ms| DAWN.plus_ms(ms)),
    };
    let delayed = |until: Option<u64>| Event::NodeDelayed {
        node: node_id("gate"),
        error: busy(),
        until: until.map(|ms| DAWN.plus_ms(ms)),
    };
    let story = on(tried_again(json!({}), json!({})))
        .given([start(), begin("gate")])
        .when(delay(Some(500)))
        .then([delayed(Some(500))])
        .obliges([])
        .status_is(Status::Running)
        .next_is("enter gate")
        .later(100)
        .when(delay(Some(500)))
        .then([])
        .later(400)
        .when(delay(None))
        .then([delayed(None)])
        .status_is(Status::Running);
    let known = story.run().node_state(&node_id("gate")).and_then(|state| state.delay.clone());
    assert_eq!(known.map(|delay| (delay.since, delay.until)), Some((DAWN, None)));
    let story = story.given([finish("gate", Outcome::Completed(Box::default()))]);
    assert_eq!(story.run().node_state(&node_id("gate")).and_then(|state| state.delay.clone()), None);
    story.when(delay(Some(9))).refused(Refusal::RunFinished(Status::Completed));
}
