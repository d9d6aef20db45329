//! Retries of retryable failures, with exponential backoff.

use holdpoint_core::{Command, Event, NodeOutcome, NodeStatus, Refusal, Status, Timestamp, Workflow};
use serde_json::{Value, json};

use crate::story::{START_TIME, on};
use crate::vocabulary::*;

fn with_retries(settings: Value, own: Value) -> Workflow {
    let node = with(node("gate"), "settings", own);
    workflow_with_members([node], [], json!({"settings": settings}))
}

fn retried(attempt: u32, delay_ms: u64, until: Timestamp) -> [Event; 2] {
    let node = node_id("gate");
    [
        Event::NodeRetried { node: node.clone(), attempt, delay_ms, error: busy() },
        Event::SleepStarted { node, until },
    ]
}

#[test]
fn a_retryable_failure_is_retried_with_doubled_delays() {
    on(with_retries(json!({"maxRetries": 2}), json!({})))
        .given([start(), begin("gate")])
        .when(fail_retryable("gate"))
        .then(retried(1, 1000, START_TIME.plus_ms(1000)))
        .status_is(Status::Running)
        .later(1000)
        .given([wake("gate")])
        .next_is("enter gate")
        .when(fail_retryable("gate"))
        .then(retried(2, 2000, START_TIME.plus_ms(3000)))
        .later(2000)
        .given([wake("gate")])
        .when(fail_retryable("gate"))
        .accepted()
        .failed_with("busy", "not now");
}

#[test]
fn the_delay_of_a_retry_is_at_most_one_minute() {
    let mut story = on(with_retries(json!({"maxRetries": 100}), json!({}))).given([start(), begin("gate")]);
    for _ in 0..99 {
        story = story.given([fail_retryable("gate")]).later(60_000).given([wake("gate")]);
    }
    let until = START_TIME.plus_ms(100 * 60_000);
    story.when(fail_retryable("gate")).then(retried(100, 60_000, until));
}

#[test]
fn a_failure_that_is_not_retryable_is_final() {
    on(with_retries(json!({"maxRetries": 2}), json!({})))
        .given([start(), begin("gate")])
        .when(fail("gate"))
        .then([failed("gate"), run_failed_at("gate")]);
}

#[test]
fn the_retries_of_a_node_override_those_of_the_workflow() {
    on(with_retries(json!({"maxRetries": 2}), json!({"maxRetries": 0})))
        .given([start(), begin("gate"), fail_retryable("gate")])
        .status_is(Status::Failed);
    on(with_retries(json!({}), json!({"maxRetries": 1})))
        .given([start(), begin("gate"), fail_retryable("gate")])
        .node_is("gate", &NodeStatus::Sleeping(START_TIME.plus_ms(1000)));
}

#[test]
fn the_delay_of_a_retry_does_not_count_as_a_sleep_of_the_node() {
    on(with_retries(json!({"maxRetries": 1}), json!({})))
        .given([start(), begin("gate"), fail_retryable("gate")])
        .later(1000)
        .given([wake("gate")])
        .slept("gate", 0)
        .given([sleep("gate", START_TIME)])
        .given([wake("gate")])
        .slept("gate", 1);
}

#[test]
fn a_retry_keeps_the_steps_of_the_attempt_before() {
    on(with_retries(json!({"maxRetries": 1}), json!({})))
        .given([start(), begin("gate"), record("gate", "charge", json!(1)), fail_retryable("gate")])
        .later(1000)
        .given([wake("gate")])
        .when(record("gate", "charge", json!(2)))
        .refused_for("step");
}

#[test]
fn a_delay_is_recorded_when_it_begins_and_when_its_retries_end() {
    let delay = |until: Option<u64>| Command::Delay {
        node: node_id("gate"),
        error: busy(),
        until: until.map(|ms| START_TIME.plus_ms(ms)),
    };
    let delayed = |until: Option<u64>| Event::NodeDelayed {
        node: node_id("gate"),
        error: busy(),
        until: until.map(|ms| START_TIME.plus_ms(ms)),
    };
    let story = on(with_retries(json!({}), json!({})))
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
    assert_eq!(known.map(|delay| (delay.since, delay.until)), Some((START_TIME, None)));
    let story = story.given([finish("gate", NodeOutcome::Completed(Box::default()))]);
    assert_eq!(story.run().node_state(&node_id("gate")).and_then(|state| state.delay.clone()), None);
    story.when(delay(Some(9))).refused(Refusal::RunFinished(Status::Completed));
}
