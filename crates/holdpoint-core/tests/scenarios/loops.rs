//! Loops: when back edges are taken, the nodes that repeat, iteration limits, and nodes that wait for a loop.

use holdpoint_core::{Cap, Event, NodeStatus, RunError, Status, Workflow};
use serde_json::{Value, json};

use crate::story::{Story, on};
use crate::vocabulary::*;

/// Returns a workflow with a gate that repeats after a fix, and a payment after the gate.
fn gate_with_fix(settings: Value) -> Workflow {
    let back = with(edge("fix", "gate"), "id", json!("back"));
    workflow_with_members(
        [node("start"), node("gate"), node("pay"), node("fix")],
        [edge("start", "gate"), edge("gate", "pay"), edge_when("any_failed", "gate", "fix"), back],
        json!({"settings": settings}),
    )
}

fn rejected_once() -> Story {
    on(gate_with_fix(json!({}))).given([
        start(),
        begin("start"),
        done("start"),
        begin("gate"),
        fail("gate"),
        begin("fix"),
    ])
}

#[test]
fn a_back_edge_resets_all_nodes_after_its_target() {
    rejected_once()
        .node_is("pay", &NodeStatus::Pending)
        .when(done("fix"))
        .then([completed("fix"), loop_turned("back", 1)])
        .node_is("start", &NodeStatus::Completed)
        .node_is("gate", &NodeStatus::Pending)
        .node_is("fix", &NodeStatus::Pending)
        .next_is("begin gate")
        .given([begin("gate")])
        .when(done("gate"))
        .then([completed("gate")])
        .given([begin("pay")])
        .when(done("pay"))
        .then([completed("pay"), skipped("fix"), Event::RunCompleted]);
}

#[test]
fn nodes_after_a_loop_are_not_skipped_while_the_loop_may_repeat() {
    let story = rejected_once().when(fail("fix"));
    // The loop cannot repeat any more.
    story.then([failed("fix"), run_failed_at("fix")]);
    let other = workflow(
        [node("start"), node("gate"), node("pay"), node("fix"), node("last")],
        [
            edge("start", "gate"),
            edge("gate", "pay"),
            edge_when("any_failed", "gate", "fix"),
            edge_if("output.again == true", "fix", "gate"),
            edge_when("all_complete", "pay", "last"),
        ],
    );
    on(other)
        .given([start(), begin("start"), done("start"), begin("gate")])
        .when(fail("gate"))
        .then([failed("gate")])
        .next_is("begin fix")
        .given([begin("fix")])
        .when(done_with("fix", json!({"again": false})))
        .accepted()
        .node_is("pay", &NodeStatus::Skipped)
        .next_is("begin last");
}

#[test]
fn each_visit_of_a_node_has_its_own_steps_and_outputs() {
    let story = on(gate_with_fix(json!({})))
        .given([start(), begin("start"), done("start"), begin("gate")])
        .given([record("gate", "s", json!(1)), fail("gate"), begin("fix")])
        .given([done_with("fix", json!({"x": 1})), begin("gate")])
        .given([record("gate", "s", json!(2))]);
    let fix = story.run().node_state(&node_id("fix")).expect("a node").clone();
    assert_eq!(
        (fix.visit, fix.outputs.as_ref(), fix.outputs_before.as_ref()),
        (2, &json!({}), &json!({"x": 1}))
    );
}

#[test]
fn interrupt_keys_are_numbered_over_all_visits() {
    let story = on(gate_with_fix(json!({}))).given([start(), begin("start"), done("start"), begin("gate")]);
    let position = story.run().workflow.position(&node_id("gate")).expect("a node");
    let key = |story: &Story| {
        let run = story.run();
        run.interrupt_key(position, run.nodes[position].keys_from)
    };
    assert_eq!(key(&story), "run-1:gate:0");
    let asked = |key: String| holdpoint_core::InterruptRequest { key: Some(key), ..approval() };
    let first = key(&story);
    let story = story
        .given([ask("gate", asked(first)), answer(1, json!({"action": "reject"})), fail("gate")])
        .given([begin("fix"), done("fix"), begin("gate")]);
    assert_eq!(key(&story), "run-1:gate:1");
}

#[test]
fn a_back_edge_waits_for_all_active_nodes_of_the_loop() {
    let flow = workflow(
        [node("start"), node("head"), node("slow"), node("tail"), node("next")],
        [
            edge("start", "head"),
            edge("head", "slow"),
            edge("head", "tail"),
            with(edge("tail", "head"), "id", json!("back")),
            edge("tail", "next"),
        ],
    );
    on(flow)
        .given([start(), begin("start"), done("start"), begin("head"), done("head")])
        .given([begin("slow"), ask("slow", approval()), begin("tail")])
        .when(done("tail"))
        .then([completed("tail")])
        .next_is("nothing")
        .status_is(Status::WaitingApproval)
        .given([accept(1)])
        .when(done("slow"))
        .then([completed("slow"), loop_turned("back", 1)])
        .next_is("begin head");
}

#[test]
fn a_back_edge_above_its_iteration_limit_fails_the_run() {
    let mut story = on(gate_with_fix(json!({"maxLoopbackIterations": 2}))).given([
        start(),
        begin("start"),
        done("start"),
    ]);
    for _ in 0..2 {
        story = story.given([begin("gate"), fail("gate"), begin("fix"), done("fix")]);
    }
    let gate = node_id("gate");
    let message = "edge back was taken 2 times; settings.maxLoopbackIterations allows no more";
    story.given([begin("gate"), fail("gate"), begin("fix")]).when(done("fix")).then([
        completed("fix"),
        Event::LoopbackLimit { node: gate.clone(), iterations: 3, limit: 2 },
        Event::CapBreached { cap: Cap::LoopIterations, limit: 2, observed: 3, node: Some(gate.clone()) },
        Event::RunFailed { error: RunError::new("loop_limit_exceeded", message), node: Some(gate) },
    ]);
}

#[test]
fn the_default_iteration_limit_is_five() {
    let mut story = on(gate_with_fix(json!({}))).given([start(), begin("start"), done("start")]);
    for _ in 0..5 {
        story = story.given([begin("gate"), fail("gate"), begin("fix"), done("fix")]);
    }
    story
        .given([begin("gate"), fail("gate"), begin("fix"), done("fix")])
        .failed_with("loop_limit_exceeded", "edge back was taken 5 times");
}

#[test]
fn a_node_can_repeat_itself_when_it_fails() {
    let flow = workflow([node("try")], [edge_when("any_failed", "try", "try")]);
    on(flow)
        .given([start(), begin("try")])
        .when(fail("try"))
        .then([failed("try"), loop_turned("try-try", 1)])
        .given([begin("try")])
        .when(done("try"))
        .then([completed("try"), Event::RunCompleted]);
}

#[test]
fn the_count_of_an_inner_loop_restarts_in_each_iteration_of_the_outer_loop() {
    let flow = || {
        workflow_with_members(
            [node("start"), node("outer"), node("inner")],
            [
                edge("start", "outer"),
                edge("outer", "inner"),
                with(edge_if("output.again == 'inner'", "inner", "inner"), "id", json!("in")),
                with(edge_if("output.again == 'outer'", "inner", "outer"), "id", json!("out")),
            ],
            json!({"settings": {"maxLoopbackIterations": 1}}),
        )
    };
    let again = |which: &str| done_with("inner", json!({"again": which}));
    let story = on(flow())
        .given([start(), begin("start"), done("start"), begin("outer"), done("outer")])
        .given([begin("inner"), again("inner"), begin("inner")])
        .when(again("outer"))
        .accepted()
        .given([begin("outer"), done("outer"), begin("inner")]);
    assert_eq!(story.run().loop_iterations, [0, 0, 0, 1]);
    story
        .when(again("inner"))
        .accepted()
        .status_is(Status::Running)
        .given([begin("inner")])
        .when(again("inner"))
        .accepted()
        .failed_with("loop_limit_exceeded", "edge in");
}

#[test]
fn a_condition_of_a_back_edge_that_cannot_be_evaluated_fails_the_run() {
    let flow = workflow([node("a"), node("b")], [edge("a", "b"), edge_if("1 < \'x\'", "b", "b")]);
    on(flow)
        .given([start(), begin("a"), done("a"), begin("b"), done("b")])
        .failed_with("condition_failed", "condition of edge b-b");
}

#[test]
fn a_connection_over_a_back_edge_reads_the_previous_visit() {
    let port = json!({"type": "connection", "nodeId": "b", "outputKey": "x", "optional": true});
    let flow = workflow(
        [node("s"), with(node("a"), "inputs", json!({"last": port})), node("b")],
        [edge("s", "a"), edge("a", "b"), edge("b", "a")],
    );
    let story = on(flow).given([start(), begin("s"), done("s"), begin("a")]);
    assert_eq!(story.inputs_of("a"), Ok(object(json!({}))));
    let story = story.given([done("a"), begin("b"), done_with("b", json!({"x": 7})), begin("a")]);
    assert_eq!(story.inputs_of("a"), Ok(object(json!({"last": 7}))));
}

#[test]
fn leaving_an_inner_and_an_outer_loop_at_once_ends_both() {
    let flow = workflow(
        [node("s"), node("outer"), node("inner"), node("body"), node("tail"), node("next"), node("last")],
        [
            edge("s", "outer"),
            edge("outer", "inner"),
            edge_if("output.way == 'body'", "inner", "body"),
            edge("body", "tail"),
            edge("tail", "inner"),
            edge_if("output.way == 'done'", "inner", "next"),
            edge("next", "outer"),
            edge_when("all_complete", "next", "last"),
        ],
    );
    let way = |way: &str| done_with("inner", json!({"way": way}));
    on(flow)
        .given([start(), begin("s"), done("s"), begin("outer"), done("outer"), begin("inner"), way("body")])
        .node_is("next", &NodeStatus::Pending)
        .given([begin("body"), done("body"), begin("tail"), done("tail"), begin("inner"), way("done")])
        .node_is("body", &NodeStatus::Skipped)
        .given([begin("next"), done("next"), begin("outer"), done("outer"), begin("inner")])
        .given([way("neither")])
        .node_is("tail", &NodeStatus::Skipped)
        .node_is("next", &NodeStatus::Skipped)
        .next_is("begin last");
}
