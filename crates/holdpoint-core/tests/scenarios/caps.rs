//! Limits of a run: node executions, duration, and options.

use holdpoint_core::{Cap, Event, Obligation, Refusal, RunError, Status, Timer};
use serde_json::{Value, json};

use crate::story::{START_TIME, on};
use crate::vocabulary::*;

fn line_of_three() -> holdpoint_core::Workflow {
    workflow([node("a"), node("b"), node("c")], [edge("a", "b"), edge("b", "c")])
}

#[test]
fn the_execution_above_the_limit_does_not_begin_and_ends_the_run() {
    let error =
        RunError::new("recursion_limit_exceeded", "node c would be execution 3; at most 2 are allowed");
    on(line_of_three())
        .given([start_configured(json!({"recursionLimit": 2}))])
        .given([begin("a"), done("a"), begin("b"), done("b")])
        .when(begin("c"))
        .then([
            Event::CapBreached { cap: Cap::NodeExecutions, limit: 2, observed: 3, node: Some(node_id("c")) },
            Event::RunFailed { error, node: Some(node_id("c")) },
        ])
        .status_is(Status::Failed);
}

#[test]
fn the_recursion_limit_of_a_run_is_capped_by_the_server() {
    let limit =
        |options: Value| on(line_of_three()).given([start_configured(options)]).run().executions_max();
    assert_eq!(limit(json!({})), 1000);
    assert_eq!(limit(json!({"recursionLimit": 1_000_000})), 1000);
    assert_eq!(limit(json!({"recursionLimit": 999})), 999);
}

#[test]
fn a_run_that_takes_too_long_fails() {
    let error = RunError::new("run_timeout", "the run exceeded its timeout of 500 ms");
    on(line_of_three())
        .when(start_configured(json!({"runTimeoutMs": 500})))
        .obliges([
            Obligation::Activate,
            Obligation::SetTimer { timer: Timer::Run, due: START_TIME.plus_ms(500) },
        ])
        .later(499)
        .when(holdpoint_core::Command::TimeOut)
        .refused(Refusal::NotDue)
        .later(1)
        .when(holdpoint_core::Command::TimeOut)
        .then([
            Event::CapBreached { cap: Cap::RunDuration, limit: 500, observed: 501, node: None },
            Event::RunFailed { error, node: None },
        ])
        .obliges([Obligation::ClearTimer { timer: Timer::Run, due: START_TIME.plus_ms(500) }]);
}

#[test]
fn the_timeout_of_the_caller_overrides_the_workflow_and_zero_means_no_limit() {
    let limit = |settings: Value, options: Value| {
        let flow = workflow_with_members([node("a")], [], json!({"settings": settings}));
        on(flow).given([start_configured(options)]).run().timeout_ms()
    };
    assert_eq!(limit(json!({}), json!({})), None);
    assert_eq!(limit(json!({"timeout": 0}), json!({})), None);
    assert_eq!(limit(json!({"timeout": 9}), json!({})), Some(9));
    assert_eq!(limit(json!({"timeout": 9}), json!({"runTimeoutMs": 5})), Some(5));
    assert_eq!(limit(json!({"timeout": 9}), json!({"runTimeoutMs": 0})), None);
}

#[test]
fn a_run_without_a_timeout_never_times_out() {
    on(line_of_three())
        .given([start()])
        .later(u64::from(u32::MAX))
        .when(holdpoint_core::Command::TimeOut)
        .refused(Refusal::NotDue);
}

#[test]
fn reserved_options_have_their_types() {
    for (options, field) in [
        (json!({"recursionLimit": 0}), "configurable.recursionLimit"),
        (json!({"recursionLimit": 1.5}), "configurable.recursionLimit"),
        (json!({"recursionLimit": "3"}), "configurable.recursionLimit"),
        (json!({"runTimeoutMs": -1}), "configurable.runTimeoutMs"),
        (json!({"temperature": 2.1}), "configurable.temperature"),
        (json!({"temperature": null}), "configurable.temperature"),
        (json!({"maxTokens": 0}), "configurable.maxTokens"),
    ] {
        on(line_of_three()).when(start_configured(options)).refused_for(field);
    }
    let fine =
        json!({"recursionLimit": 1, "runTimeoutMs": 0, "temperature": 2, "maxTokens": 1, "acme.x": [1]});
    on(line_of_three()).when(start_configured(fine)).accepted();
}

#[test]
fn options_are_validated_against_the_schema_of_the_workflow() {
    let schema = json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]});
    let flow = || workflow_with_members([node("a")], [], json!({"configurableSchema": schema}));
    on(flow()).when(start_configured(json!({"size": 3}))).accepted();
    on(flow()).when(start_configured(json!({"size": "x"}))).refused_for("configurable/size");
    on(flow()).when(start()).refused_for("configurable");
}
