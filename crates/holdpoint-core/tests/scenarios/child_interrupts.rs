//! Interrupts of child runs: the records of the parent, and the report of a run to its parent.

use holdpoint_core::{
    Answer, ChildInterrupt, ChildInterruptChanges, ChildResult, ClosedChildInterrupt, Command, Descendant,
    Event, InterruptId, Kind, NodeId, Parent, Run, RunId, StartRequest, Status, Timestamp, WorkflowId,
    decide,
};
use serde_json::json;

use crate::children::{awaiting, child_id, flow, start_child};
use crate::story::{Story, given};
use crate::vocabulary::*;

/// Returns an interrupt of a node, in the child run or in the runs `below` it.
fn open_at(id: u32, node: &str, below: &[(&str, &str)]) -> ChildInterrupt {
    let step = |(node, run): &(&str, &str)| Descendant {
        node: NodeId::parse(node).expect("a node id"),
        run: child_id(run),
        workflow: WorkflowId::parse("child").expect("a workflow id"),
    };
    ChildInterrupt {
        id: InterruptId(id),
        node: node_id(node),
        kind: Kind::Approval,
        below: below.iter().map(step).collect(),
    }
}

fn closed(run: &str, id: u32) -> ClosedChildInterrupt {
    ClosedChildInterrupt { run: child_id(run), id: InterruptId(id), decision: None }
}

fn report(
    status: Status,
    opened: impl Into<Vec<ChildInterrupt>>,
    closed: impl Into<Vec<ClosedChildInterrupt>>,
) -> Command {
    let interrupts = ChildInterruptChanges { opened: opened.into(), closed: closed.into() };
    Command::Child { child: child_id("run-1.1"), status, interrupts, result: None }
}

fn end_child(closed: impl Into<Vec<ClosedChildInterrupt>>) -> Command {
    Command::Child {
        child: child_id("run-1.1"),
        status: Status::Completed,
        interrupts: ChildInterruptChanges { opened: Vec::new(), closed: closed.into() },
        result: Some(ChildResult::default()),
    }
}

/// Returns the open interrupts below a run: their run, node and number of runs between.
fn shown(story: &Story) -> Vec<String> {
    let run = story.run();
    let text = |open: &ChildInterrupt, child: &RunId| {
        format!("{}:{} {} {}", open.run(child), open.id, open.node, open.below.len())
    };
    run.child_interrupts().map(|(child, open)| text(open, &child.run)).collect()
}

#[test]
fn a_parent_records_the_interrupts_that_its_child_opens_and_closes() {
    let (own, below) =
        (open_at(1, "gate", &[]), open_at(1, "ask", &[("call", "run-1.1.1"), ("deep", "run-1.1.1.1")]));
    let story = awaiting()
        .when(report(Status::WaitingApproval, [own.clone(), below.clone()], []))
        .then([Event::ChildChanged {
            child: child_id("run-1.1"),
            status: Status::WaitingApproval,
            interrupts: ChildInterruptChanges { opened: vec![own, below], closed: Vec::new() },
        }])
        .status_is(Status::WaitingApproval);
    assert_eq!(shown(&story), ["run-1.1:i1 gate 0", "run-1.1.1.1:i1 ask 2"]);
    let story =
        story.when(report(Status::WaitingApproval, [], [closed("run-1.1", 1)])).then([Event::ChildChanged {
            child: child_id("run-1.1"),
            status: Status::WaitingApproval,
            interrupts: ChildInterruptChanges { opened: Vec::new(), closed: vec![closed("run-1.1", 1)] },
        }]);
    assert_eq!(shown(&story), ["run-1.1.1.1:i1 ask 2"]);
}

#[test]
fn a_repeated_report_of_interrupts_changes_nothing() {
    let opened = [open_at(1, "gate", &[])];
    awaiting()
        .given([report(Status::WaitingApproval, opened.clone(), [])])
        .when(report(Status::WaitingApproval, opened, []))
        .then([])
        .when(report(Status::WaitingApproval, [], [closed("run-1.1", 7)]))
        .then([]);
}

#[test]
fn the_end_of_a_child_closes_its_interrupts() {
    let story = awaiting()
        .given([report(Status::WaitingApproval, [open_at(1, "gate", &[])], [])])
        .when(end_child([closed("run-1.1", 1)]))
        .then([Event::ChildEnded {
            child: child_id("run-1.1"),
            status: Status::Completed,
            result: ChildResult::default(),
            closed: vec![closed("run-1.1", 1)],
        }]);
    assert!(shown(&story).is_empty());
}

#[test]
fn a_finished_parent_shows_no_interrupts_of_its_children() {
    let story = awaiting().given([report(Status::WaitingApproval, [open_at(1, "gate", &[])], []), cancel()]);
    assert!(shown(&story).is_empty());
    assert!(story.run().interrupts_for_parent().is_empty());
}

#[test]
fn interrupts_of_a_child_that_is_not_awaited_are_not_shown() {
    let story = given([start(), begin("gate"), start_child("gate", false)]).given([report(
        Status::WaitingApproval,
        [open_at(1, "gate", &[])],
        [],
    )]);
    assert!(shown(&story).is_empty());
}

/// Returns a run that `run-0` started, and that waits for an approval.
fn waiting_child() -> Story {
    let parent =
        Parent { run: child_id("run-0"), workflow: flow(), node: node_id("a"), depth: 1, above: Vec::new() };
    given([
        Command::Start(Box::new(StartRequest { parent: Some(parent), ..start_request(json!({})) })),
        begin("gate"),
        ask("gate", approval()),
    ])
}

#[test]
fn a_run_reports_the_decision_that_closed_its_interrupt() {
    let story = waiting_child();
    let known = story.run().interrupts_for_parent();
    assert_eq!(known, [open_at(1, "gate", &[])]);
    assert!(story.run().changes_for_parent(&known).is_empty());
    let answer =
        Answer { decision: Some("d1".to_owned()), ..Answer::new(json!({"action": "accept"}), ada()) };
    let story = story.given([Command::Resolve { answers: [(InterruptId(1), answer)].into() }]);
    let changes = story.run().changes_for_parent(&known);
    let expected = ClosedChildInterrupt {
        run: story.run().id.clone(),
        id: InterruptId(1),
        decision: Some("d1".to_owned()),
    };
    assert_eq!((changes.opened, changes.closed), (Vec::new(), vec![expected]));
}

#[test]
fn a_decision_two_levels_below_reaches_the_root() {
    let below = open_at(1, "ask", &[("call", "run-1.1.1")]);
    let decided = ClosedChildInterrupt { decision: Some("decision-1".to_owned()), ..closed("run-1.1.1", 1) };
    let middle = given([start(), begin("gate"), start_child("gate", true)]).given([report(
        Status::WaitingApproval,
        [below],
        [],
    )]);
    let known = middle.run().interrupts_for_parent();
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].below.len(), 2, "the path has the run between");
    let middle = middle.given([report(Status::Running, [], [decided.clone()])]);
    let changes = middle.run().changes_for_parent(&known);
    assert_eq!((changes.opened, changes.closed), (Vec::new(), vec![decided]));
}

#[test]
fn the_root_of_a_family_is_found_in_the_id_of_a_run() {
    let root_of = |id: &str, depth: u32| {
        let mut run = Run::new(child_id(id), waiting_child().run().workflow.clone());
        let parent =
            Parent { run: child_id("x"), workflow: flow(), node: node_id("a"), depth, above: Vec::new() };
        let parent = Some(parent).filter(|_| depth > 0);
        let start = StartRequest { parent, ..start_request(json!({})) };
        for event in decide(&run, &Command::Start(Box::new(start)), Timestamp(0)).expect("a start") {
            run.apply(&event, Timestamp(0));
        }
        run.root_id()
    };
    assert_eq!(root_of("r", 0), child_id("r"));
    assert_eq!(root_of("r.12.3", 2), child_id("r"));
    assert_eq!(root_of("a.b.12", 1), child_id("a.b"), "a caller may choose an id with dots");
}
