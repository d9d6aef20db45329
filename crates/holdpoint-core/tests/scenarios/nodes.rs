//! Nodes: their order, input ports, outputs and recorded steps.

use holdpoint_core::workflow::InputError;
use holdpoint_core::{Event, NodeOutcome, NodeStatus, Refusal, RunError, Status, limits};
use serde_json::{Value, json};

use crate::story::{Story, given, on};
use crate::vocabulary::*;

#[test]
fn nodes_begin_and_finish_in_the_order_of_the_graph() {
    given([start()])
        .next_is("begin gate")
        .when(begin("gate"))
        .then([node_started("gate")])
        .next_is("enter gate")
        .when(done("gate"))
        .then([completed("gate")])
        .next_is("begin after")
        .when(begin("after"))
        .then([node_started("after")])
        .when(done("after"))
        .then([completed("after"), Event::RunCompleted])
        .status_is(Status::Completed)
        .next_is("nothing");
}

#[test]
fn a_node_begins_only_when_its_predecessors_have_ended() {
    for other in ["after", "unknown"] {
        given([start()]).when(begin(other)).refused(Refusal::NodeNotRunning);
    }
    given([start(), begin("gate")]).when(begin("gate")).refused(Refusal::NodeNotRunning);
    given([start(), begin("gate"), done("gate")]).when(begin("gate")).refused(Refusal::NodeNotRunning);
}

#[test]
fn only_a_running_node_finishes_or_records() {
    for command in [done("gate"), fail("gate"), ask("gate", approval()), record("gate", "s", json!(1))] {
        given([start()]).when(command.clone()).refused(Refusal::NodeNotRunning);
        given([start(), begin("gate"), ask("gate", approval())])
            .when(command.clone())
            .refused(Refusal::NodeNotRunning);
        given([start(), begin("gate"), done("gate")]).when(command).refused(Refusal::NodeNotRunning);
    }
    given([start()]).when(done("unknown")).refused(Refusal::NodeNotRunning);
}

#[test]
fn outputs_set_variables_and_the_last_writer_wins() {
    on(gate_then_after())
        .given([
            start_with(json!({"x": 1, "y": {"deep": true}})),
            begin("gate"),
            done_with("gate", json!({"x": 2, "z": null})),
        ])
        .variables_are(&json!({"x": 2, "y": {"deep": true}, "z": null}))
        .given([begin("after"), done_with("after", json!({"y": [3]}))])
        .variables_are(&json!({"x": 2, "y": [3], "z": null}));
}

/// Returns a story in which the second node has these ports and the first one the outputs `{"total": 3, "none": null}`.
fn receiving(ports: Value) -> Story {
    let line = workflow([node("first"), with(node("second"), "inputs", ports)], [edge("first", "second")]);
    on(line).given([
        start_with(json!({"amount": 250})),
        begin("first"),
        done_with("first", json!({"total": 3, "none": null})),
        begin("second"),
    ])
}

#[test]
fn ports_read_constants_variables_outputs_and_expressions() {
    let story = receiving(json!({
        "constant": {"type": "static", "value": {"a": [1]}},
        "variable": {"type": "variable", "variableName": "amount"},
        "output": {"type": "connection", "nodeId": "first", "outputKey": "total"},
        "null": {"type": "connection", "nodeId": "first", "outputKey": "none"},
        "sum": {"type": "expression", "expression": "variables.amount + total"},
    }));
    let expected = json!({"constant": {"a": [1]}, "variable": 250, "output": 3, "null": null, "sum": 253});
    assert_eq!(story.inputs_of("second"), Ok(object(expected)));
}

#[test]
fn an_optional_port_without_a_value_is_left_out() {
    let story = receiving(json!({
        "variable": {"type": "variable", "variableName": "missing", "optional": true},
        "output": {"type": "connection", "nodeId": "first", "outputKey": "missing", "optional": true},
    }));
    assert_eq!(story.inputs_of("second"), Ok(object(json!({}))));
}

#[test]
fn a_port_without_a_value_is_reported_with_its_name_and_reason() {
    for (port, why) in [
        (json!({"type": "variable", "variableName": "missing"}), r#"variable "missing" is not set"#),
        (
            json!({"type": "connection", "nodeId": "first", "outputKey": "missing"}),
            r#"node first has no output "missing""#,
        ),
        (json!({"type": "expression", "expression": "amount / 0"}), "division by zero"),
    ] {
        let found = receiving(json!({"p": port})).inputs_of("second");
        let missing = InputError { port: "p".to_owned(), code: "invalid_input", why: why.to_owned() };
        assert_eq!(found, Err(missing));
    }
}

#[test]
fn outputs_that_are_too_large_fail_the_node() {
    let around = r#"{"x":""}"#.len();
    let of_bytes = |bytes: usize| done_with("gate", json!({"x": "x".repeat(bytes - around)}));
    given([start(), begin("gate")])
        .when(of_bytes(limits::NODE_OUTPUT_BYTES_MAX))
        .accepted()
        .next_is("begin after");
    let message = "the node's output is 1048577 bytes; at most 1048576 are accepted";
    let error = RunError::new("output_too_large", message);
    given([start(), begin("gate")]).when(of_bytes(limits::NODE_OUTPUT_BYTES_MAX + 1)).then([
        Event::NodeFailed { node: node_id("gate"), error: error.clone() },
        Event::RunFailed { error, node: Some(node_id("gate")) },
    ]);
}

#[test]
fn a_step_is_recorded_once_per_node_and_name() {
    let recorded = |node: &str| Event::StepRecorded {
        node: node_id(node),
        name: "charge".to_owned(),
        result: json!({"id": 7}),
        took_ms: None,
    };
    given([start(), begin("gate")])
        .when(record("gate", "charge", json!({"id": 7})))
        .then([recorded("gate")])
        .next_is("enter gate")
        .when(record("gate", "charge", json!({"id": 8})))
        .refused_for("step")
        .given([done("gate"), begin("after")])
        .when(record("after", "charge", json!({"id": 7})))
        .then([recorded("after")]);
}

#[test]
fn a_recorded_step_survives_an_interrupt_of_its_node() {
    given([start(), begin("gate"), record("gate", "charge", json!(1)), ask("gate", approval()), accept(1)])
        .when(record("gate", "charge", json!(2)))
        .refused_for("step");
}

#[test]
fn the_result_of_a_step_is_limited_in_size() {
    let quotes = 2;
    let of_bytes = |bytes: usize| record("gate", "s", json!("x".repeat(bytes - quotes)));
    let max = limits::STEP_RESULT_BYTES_MAX;
    given([start(), begin("gate")]).when(of_bytes(max)).accepted();
    given([start(), begin("gate")])
        .when(of_bytes(max + 1))
        .refused(Refusal::TooLarge { what: "the step's result", bytes: max + 1, max })
        .node_is("gate", &NodeStatus::Running);
}

#[test]
fn a_failed_node_fails_its_run() {
    given([start(), begin("gate")])
        .when(finish("gate", NodeOutcome::Failed(boom())))
        .then([failed("gate"), run_failed_at("gate")])
        .status_is(Status::Failed)
        .node_is("gate", &NodeStatus::Failed)
        .node_is("after", &NodeStatus::Pending);
}

#[test]
fn each_status_of_a_node_has_its_name() {
    let names = [
        (NodeStatus::Pending, "pending"),
        (NodeStatus::Running, "running"),
        (NodeStatus::Waiting(holdpoint_core::InterruptId(1)), "suspended"),
        (NodeStatus::Sleeping(crate::story::START_TIME), "sleeping"),
        (NodeStatus::Completed, "completed"),
        (NodeStatus::Failed, "failed"),
        (NodeStatus::Skipped, "skipped"),
    ];
    for (status, name) in names {
        assert_eq!(json!(status.name()), name);
    }
}
