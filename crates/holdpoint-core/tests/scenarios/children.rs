//! Child runs: their ids, their status in the parent, and cancellation with the parent.

use holdpoint_core::{
    ChildInterruptChanges, ChildResult, ChildRunRequest, Command, Event, NodeOutcome, NodeStatus, Obligation,
    Parent, Refusal, RunId, StartRequest, Status, WorkflowId, limits,
};
use serde_json::{Map, json};

use crate::story::{Story, given, on};
use crate::vocabulary::*;

pub(crate) fn child_id(text: &str) -> RunId {
    RunId::parse(text).expect("a run id")
}

pub(crate) fn flow() -> WorkflowId {
    WorkflowId::parse("child").expect("a workflow id")
}

pub(crate) fn start_child(node: &str, wait: bool) -> Command {
    let inputs = object(json!({"x": 1}));
    finish(
        node,
        NodeOutcome::ChildRequested(Box::new(ChildRunRequest {
            workflow: flow(),
            inputs,
            wait,
            cascade: wait,
        })),
    )
}

fn child_dispatched(node: &str, child: &str, wait: bool) -> Event {
    let (child, inputs) = (child_id(child), object(json!({"x": 1})));
    Event::NodeDispatched {
        node: node_id(node),
        child,
        workflow: flow(),
        inputs,
        wait,
        cascade: wait,
        call: None,
    }
}

fn child_update(child: &str, status: Status) -> Command {
    let ended = matches!(status, Status::Completed | Status::Failed | Status::Cancelled);
    Command::Child {
        child: child_id(child),
        status,
        interrupts: ChildInterruptChanges::default(),
        result: ended.then(ChildResult::default),
    }
}

pub(crate) fn awaiting() -> Story {
    given([start(), begin("gate"), start_child("gate", true)])
}

#[test]
fn a_node_waits_for_its_child_run_and_is_entered_again() {
    given([start(), begin("gate")])
        .when(start_child("gate", true))
        .then([child_dispatched("gate", "run-1.1", true)])
        .obliges([Obligation::StartChild { child: child_id("run-1.1") }])
        .node_is("gate", &NodeStatus::Awaiting(child_id("run-1.1")))
        .status_is(Status::Running)
        .next_is("nothing")
        .when(child_update("run-1.1", Status::Completed))
        .then([Event::ChildEnded {
            child: child_id("run-1.1"),
            status: Status::Completed,
            result: ChildResult::default(),
            closed: Vec::new(),
        }])
        .obliges([Obligation::Activate])
        .next_is("enter gate");
}

#[test]
fn a_child_run_that_is_not_awaited_does_not_affect_its_parent() {
    given([start(), begin("gate")])
        .when(start_child("gate", false))
        .then([child_dispatched("gate", "run-1.1", false)])
        .next_is("enter gate")
        .given([done("gate"), begin("after")])
        .when(child_update("run-1.1", Status::Failed))
        .accepted()
        .obliges([])
        .next_is("enter after");
}

#[test]
fn child_runs_are_numbered_over_the_whole_run() {
    on(left_and_right())
        .given([start(), begin("left"), start_child("left", true), begin("right")])
        .when(start_child("right", true))
        .then([child_dispatched("right", "run-1.2", true)]);
}

#[test]
fn a_parent_shows_the_waiting_status_of_the_child_it_awaits() {
    for status in [Status::WaitingApproval, Status::WaitingInput, Status::WaitingExternal] {
        awaiting()
            .when(child_update("run-1.1", status))
            .then([Event::ChildChanged {
                child: child_id("run-1.1"),
                status,
                interrupts: ChildInterruptChanges::default(),
            }])
            .obliges([])
            .status_is(status)
            .given([child_update("run-1.1", Status::Running)])
            .status_is(Status::Running);
    }
    awaiting().given([child_update("run-1.1", Status::Paused)]).status_is(Status::Running);
    on(left_and_right())
        .given([
            start(),
            begin("left"),
            start_child("left", true),
            child_update("run-1.1", Status::WaitingInput),
        ])
        .status_is(Status::Running)
        .given([begin("right"), ask("right", approval())])
        .status_is(Status::WaitingApproval);
}

#[test]
fn a_repeated_status_of_a_child_changes_nothing() {
    awaiting()
        .given([child_update("run-1.1", Status::WaitingInput)])
        .when(child_update("run-1.1", Status::WaitingInput))
        .then([])
        .given([child_update("run-1.1", Status::Failed)])
        .when(child_update("run-1.1", Status::Completed))
        .then([]);
    awaiting().when(child_update("run-1.2", Status::Failed)).refused(Refusal::ChildNotFound);
}

#[test]
fn children_are_cancelled_with_a_parent_that_is_cancelled_or_fails() {
    let cancelled = [Obligation::CancelChild { child: child_id("run-1.1") }];
    awaiting().when(cancel()).accepted().obliges(cancelled.clone());
    awaiting().when(abandon()).accepted().obliges(cancelled);
    awaiting().given([child_update("run-1.1", Status::Failed)]).when(cancel()).accepted().obliges([]);
    given([start(), begin("gate"), start_child("gate", false)]).when(cancel()).accepted().obliges([]);
}

#[test]
fn children_of_a_completed_parent_continue() {
    on(workflow([node("gate")], []))
        .given([start(), begin("gate"), start_child("gate", false)])
        .when(done("gate"))
        .then([completed("gate"), Event::RunCompleted])
        .obliges([]);
}

#[test]
fn a_child_that_is_cancelled_with_its_parent_records_the_parent() {
    let parent =
        Parent { run: child_id("run-0"), workflow: flow(), node: node_id("a"), depth: 1, above: Vec::new() };
    given([Command::Start(Box::new(StartRequest { parent: Some(parent), ..start_request(json!({})) }))])
        .when(Command::CancelWithParent)
        .then([Event::RunCancelled {
            reason: Some("parent-cancelled".to_owned()),
            by: "system:parent".to_owned(),
            parent: Some(child_id("run-0")),
        }]);
}

#[test]
fn an_interrupt_of_a_child_that_was_cancelled_with_its_parent_is_gone() {
    let parent =
        Parent { run: child_id("run-0"), workflow: flow(), node: node_id("a"), depth: 1, above: Vec::new() };
    given([
        Command::Start(Box::new(StartRequest { parent: Some(parent), ..start_request(json!({})) })),
        begin("gate"),
        ask("gate", approval()),
    ])
    .given([Command::CancelWithParent])
    .when(accept(1))
    .refused(Refusal::InterruptGone);
}

#[test]
fn the_nesting_of_child_runs_is_limited() {
    let at = |depth| {
        let parent =
            Parent { run: child_id("run-0"), workflow: flow(), node: node_id("a"), depth, above: Vec::new() };
        given([Command::Start(Box::new(StartRequest {
            parent: Some(parent),
            inputs: Map::new(),
            ..start_request(json!({}))
        }))])
        .given([begin("gate"), start_child("gate", true)])
    };
    at(limits::CHILD_DEPTH_MAX - 1).status_is(Status::Running);
    at(limits::CHILD_DEPTH_MAX).failed_with("too_deep", "child runs may be nested at most 16 levels deep");
}

#[test]
fn a_new_visit_starts_a_new_child() {
    let flow = workflow(
        [node("s"), node("gate")],
        [edge("s", "gate"), edge_if("output.again == true", "gate", "gate")],
    );
    let story =
        on(flow).given([start(), begin("s"), done("s"), begin("gate"), start_child("gate", true)]).given([
            child_update("run-1.1", Status::Completed),
            done_with("gate", json!({"again": true})),
            begin("gate"),
        ]);
    let state = story.run().node_state(&node_id("gate")).expect("a node").clone();
    assert!(state.children.is_empty());
    story.when(start_child("gate", true)).then([child_dispatched("gate", "run-1.2", true)]);
}
