//! Runs that a run has started: their names, what is heard of them, and how they end together.

use holdpoint_core::{
    ChildResult, Command, Dispatch, Event, NodeStatus, Obligation, Outcome, Parent, Refusal, RunId, Start,
    Status, WorkflowId, limits,
};
use serde_json::{Map, json};

use crate::story::{Story, given, on};
use crate::words::*;

fn child_id(text: &str) -> RunId {
    RunId::parse(text).expect("a run id")
}

fn flow() -> WorkflowId {
    WorkflowId::parse("child").expect("a workflow id")
}

fn dispatch(node: &str, wait: bool) -> Command {
    let inputs = object(json!({"x": 1}));
    finish(node, Outcome::Dispatched(Box::new(Dispatch { workflow: flow(), inputs, wait, cascade: wait })))
}

fn dispatched(node: &str, child: &str, wait: bool) -> Event {
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

fn news(child: &str, status: Status) -> Command {
    let ended = matches!(status, Status::Completed | Status::Failed | Status::Cancelled);
    Command::Child { child: child_id(child), status, result: ended.then(ChildResult::default) }
}

fn awaiting() -> Story {
    given([start(), begin("gate"), dispatch("gate", true)])
}

#[test]
fn a_node_waits_for_the_run_it_has_started_and_is_entered_again() {
    given([start(), begin("gate")])
        .when(dispatch("gate", true))
        .then([dispatched("gate", "run-1.1", true)])
        .obliges([Obligation::StartChild { child: child_id("run-1.1") }])
        .node_is("gate", &NodeStatus::Awaiting(child_id("run-1.1")))
        .status_is(Status::Running)
        .next_is("nothing")
        .when(news("run-1.1", Status::Completed))
        .then([Event::ChildEnded {
            child: child_id("run-1.1"),
            status: Status::Completed,
            result: ChildResult::default(),
        }])
        .obliges([Obligation::Activate])
        .next_is("enter gate");
}

#[test]
fn a_run_that_is_not_waited_for_goes_its_own_way() {
    given([start(), begin("gate")])
        .when(dispatch("gate", false))
        .then([dispatched("gate", "run-1.1", false)])
        .next_is("enter gate")
        .given([done("gate"), begin("after")])
        .when(news("run-1.1", Status::Failed))
        .accepted()
        .obliges([])
        .next_is("enter after");
}

#[test]
fn children_are_counted_over_the_whole_run() {
    on(left_and_right())
        .given([start(), begin("left"), dispatch("left", true), begin("right")])
        .when(dispatch("right", true))
        .then([dispatched("right", "run-1.2", true)]);
}

#[test]
fn a_parent_shows_what_the_child_that_it_waits_for_waits_for() {
    for status in [Status::WaitingApproval, Status::WaitingInput, Status::WaitingExternal] {
        awaiting()
            .when(news("run-1.1", status))
            .then([Event::ChildChanged { child: child_id("run-1.1"), status }])
            .obliges([])
            .status_is(status)
            .given([news("run-1.1", Status::Running)])
            .status_is(Status::Running);
    }
    awaiting().given([news("run-1.1", Status::Paused)]).status_is(Status::Running);
    on(left_and_right())
        .given([start(), begin("left"), dispatch("left", true), news("run-1.1", Status::WaitingInput)])
        .status_is(Status::Running)
        .given([begin("right"), ask("right", approval())])
        .status_is(Status::WaitingApproval);
}

#[test]
fn the_same_news_twice_change_nothing() {
    awaiting()
        .given([news("run-1.1", Status::WaitingInput)])
        .when(news("run-1.1", Status::WaitingInput))
        .then([])
        .given([news("run-1.1", Status::Failed)])
        .when(news("run-1.1", Status::Completed))
        .then([]);
    awaiting().when(news("run-1.2", Status::Failed)).refused(Refusal::ChildNotFound);
}

#[test]
fn children_are_cancelled_with_a_parent_that_is_cancelled_or_fails() {
    let owed = [Obligation::CancelChild { child: child_id("run-1.1") }];
    awaiting().when(cancel()).accepted().obliges(owed.clone());
    awaiting().when(abandon()).accepted().obliges(owed);
    awaiting().given([news("run-1.1", Status::Failed)]).when(cancel()).accepted().obliges([]);
    given([start(), begin("gate"), dispatch("gate", false)]).when(cancel()).accepted().obliges([]);
}

#[test]
fn a_completed_parent_leaves_its_children_alone() {
    on(workflow([node("gate")], []))
        .given([start(), begin("gate"), dispatch("gate", false)])
        .when(done("gate"))
        .then([completed("gate"), Event::RunCompleted])
        .obliges([]);
}

#[test]
fn a_child_is_cancelled_with_its_parent_and_says_so() {
    let parent = Parent { run: child_id("run-0"), workflow: flow(), node: node_id("a"), depth: 1 };
    given([Command::Start(Box::new(Start { parent: Some(parent), ..start_of(json!({})) }))])
        .when(Command::CancelWithParent)
        .then([Event::RunCancelled {
            reason: Some("parent-cancelled".to_owned()),
            by: "system:parent".to_owned(),
            parent: Some(child_id("run-0")),
        }]);
}

#[test]
fn what_a_child_asked_is_gone_once_it_was_cancelled_with_its_parent() {
    let parent = Parent { run: child_id("run-0"), workflow: flow(), node: node_id("a"), depth: 1 };
    given([
        Command::Start(Box::new(Start { parent: Some(parent), ..start_of(json!({})) })),
        begin("gate"),
        ask("gate", approval()),
    ])
    .given([Command::CancelWithParent])
    .when(accept(1))
    .refused(Refusal::InterruptGone);
}

#[test]
fn runs_are_not_started_below_one_another_without_end() {
    let at = |depth| {
        let parent = Parent { run: child_id("run-0"), workflow: flow(), node: node_id("a"), depth };
        given([Command::Start(Box::new(Start {
            parent: Some(parent),
            inputs: Map::new(),
            ..start_of(json!({}))
        }))])
        .given([begin("gate"), dispatch("gate", true)])
    };
    at(limits::CHILD_DEPTH_MAX - 1).status_is(Status::Running);
    at(limits::CHILD_DEPTH_MAX).failed_with("too_deep", "16 runs are above this one");
}

#[test]
fn a_new_visit_starts_a_new_child() {
    let flow = workflow(
        [node("s"), node("gate")],
        [edge("s", "gate"), edge_if("output.again == true", "gate", "gate")],
    );
    let story =
        on(flow).given([start(), begin("s"), done("s"), begin("gate"), dispatch("gate", true)]).given([
            news("run-1.1", Status::Completed),
            done_with("gate", json!({"again": true})),
            begin("gate"),
        ]);
    let state = story.run().node_state(&node_id("gate")).expect("a node").clone();
    assert!(state.children.is_empty());
    story.when(dispatch("gate", true)).then([dispatched("gate", "run-1.2", true)]);
}
