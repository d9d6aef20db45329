//! Several nodes of a run that execute side by side: they begin and end in any order, and a running node does not see
//! the changes of the others.

use std::collections::BTreeSet;

use holdpoint_core::{Completion, Drain, Event, NodeStatus, NodeWork, Status};
use serde_json::json;

use crate::story::{Story, on};
use crate::vocabulary::*;

/// Returns the names of the work that can be done now.
fn ready(story: &Story) -> Vec<String> {
    let name = |position: usize| story.run().workflow.nodes[position].id.as_str();
    let work = |work: &NodeWork| match work {
        NodeWork::Begin(position) => format!("begin {}", name(*position)),
        NodeWork::Enter(position) => format!("enter {}", name(*position)),
    };
    story.run().ready_work().iter().map(work).collect()
}

fn variables_seen_by(story: &Story, node: &str) -> serde_json::Value {
    let node = story.run().workflow.node(&node_id(node)).expect("a node of the workflow");
    (*story.run().variables_of(node)).clone()
}

fn two_running() -> Story {
    on(left_and_right()).given([start(), begin("left"), begin("right")])
}

#[test]
fn a_ready_node_begins_while_another_one_runs() {
    let story = on(left_and_right()).given([start(), begin("left")]);
    assert_eq!(ready(&story), ["enter left", "begin right"]);
    let story = story.when(begin("right")).then([node_started("right")]);
    assert_eq!(ready(&story), ["enter left", "enter right"]);
}

#[test]
fn nodes_end_in_any_order() {
    for order in [["left", "right"], ["right", "left"]] {
        two_running()
            .when(done(order[0]))
            .then([completed(order[0])])
            .status_is(Status::Running)
            .when(done(order[1]))
            .then([completed(order[1]), Event::RunCompleted]);
    }
}

#[test]
fn the_failure_of_a_node_ends_the_run_and_the_others_are_refused() {
    two_running()
        .given([fail("left")])
        .status_is(Status::Failed)
        .when(done("right"))
        .refused(holdpoint_core::Refusal::RunFinished(Status::Failed));
}

#[test]
fn a_draining_pause_waits_for_all_running_nodes_and_begins_none() {
    let after = workflow([node("left"), node("right"), node("after")], [edge("left", "after")]);
    let story = on(after)
        .given([start(), begin("left"), begin("right"), pause(Drain::DrainCurrentNode)])
        .given([done("left")])
        .status_is(Status::Running);
    assert_eq!(ready(&story), ["enter right"]);
    assert!(story.run().can_get_work_beside(&[1]), "a resumption lets the node begin");
    story.given([done("right")]).status_is(Status::Paused).given([resume()]).next_is("begin after");
}

#[test]
fn a_running_node_does_not_see_variables_that_others_change() {
    let writes = |name: &str| {
        let variables = vec![("x".to_owned(), json!(name))];
        complete(name, Completion { variables, outputs: object(json!({"y": name})), ..Completion::default() })
    };
    let story = two_running().given([writes("left")]);
    assert_eq!(variables_seen_by(&story, "right"), json!({}));
    assert_eq!(*story.run().variables, json!({"x": "left", "y": "left"}));
    let story = story.given([writes("right")]);
    assert_eq!(*story.run().variables, json!({"x": "right", "y": "right"}), "the last writer wins");
}

#[test]
fn a_resumed_node_sees_the_current_variables() {
    let story = two_running().given([ask("right", custom()), done_with("left", json!({"y": 1}))]);
    let story = story.given([answer(1, json!("red"))]);
    assert_eq!(variables_seen_by(&story, "right"), json!({"y": 1}));
}

#[test]
fn an_input_from_a_node_that_ends_later_stays_absent_until_the_next_execution() {
    let input = json!({"late": {"type": "connection", "nodeId": "slow", "outputKey": "y", "optional": true}});
    let join = with(node("join"), "inputs", input);
    let rule = |source: &str| edge_when("any_success", source, "join");
    let flow = workflow([node("fast"), node("slow"), join], [rule("fast"), rule("slow")]);
    let story = on(flow)
        .given([start(), begin("fast"), begin("slow"), done("fast"), begin("join")])
        .given([done_with("slow", json!({"y": 1}))]);
    assert_eq!(story.inputs_of("join"), Ok(object(json!({}))));
    let story = story.given([ask("join", custom()), answer(1, json!("red"))]);
    assert_eq!(story.inputs_of("join"), Ok(object(json!({"late": 1}))));
}

#[test]
fn nodes_that_cannot_be_reached_are_skipped_beside_ready_nodes() {
    let flow = workflow(
        [node("slow"), node("choice"), node("other"), node("join")],
        [
            with(edge("choice", "other"), "sourceOutput", json!("true")),
            edge_when("none_failed", "other", "join"),
        ],
    );
    let story = on(flow).given([start(), begin("choice"), choose("choice", "false")]);
    assert!(!story.run().is_settled());
    assert_eq!(ready(&story), ["begin slow"]);
    let story = story.when(holdpoint_core::Command::Settle).accepted();
    let story = story.node_is("other", &NodeStatus::Skipped);
    assert!(story.run().is_settled());
    assert_eq!(ready(&story), ["begin slow", "begin join"]);
    story.when(holdpoint_core::Command::Settle).then([]);
}

#[test]
fn other_parties_can_give_work_only_if_another_node_is_active_or_ready() {
    let line = workflow([node("a"), node("b")], [edge("a", "b")]);
    let story = on(line).given([start(), begin("a")]);
    assert!(!story.run().can_get_work_beside(&[0]));
    let waiting = two_running().given([ask("left", custom())]);
    assert!(waiting.run().can_get_work_beside(&[1]));
    let positions: BTreeSet<usize> = waiting.run().ready_work().iter().map(|work| work.position()).collect();
    assert_eq!(positions, BTreeSet::from([1]));
}
