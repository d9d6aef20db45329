//! Activities: reports are recorded up to limits and never fail their node.

use holdpoint_core::agent::{ActivityReport, AgentAction};
use holdpoint_core::{Command, Event, Refusal, limits};
use serde_json::{Value, json};

use crate::story::{Story, on};
use crate::vocabulary::{begin, node, node_id, object, start_request, workflow};

fn running() -> Story {
    on(workflow([node("a")], [])).given([Command::Start(Box::new(start_request(json!({})))), begin("a")])
}

fn activity(content: Value) -> ActivityReport {
    ActivityReport {
        id: "copy".to_owned(),
        kind: "PROGRESS".to_owned(),
        content: object(content),
        call: None,
    }
}

fn report(report: ActivityReport) -> Command {
    Command::Act { node: node_id("a"), actions: vec![AgentAction::Report(Box::new(report))] }
}

#[test]
fn a_report_is_recorded_and_changes_no_state_that_a_node_reads() {
    let before = running();
    let event = Event::ActivityReported {
        node: node_id("a"),
        activity: "copy".to_owned(),
        kind: "PROGRESS".to_owned(),
        content: object(json!({"done": 1})),
        call: None,
    };
    assert!(event.is_external());
    let after = running().when(report(activity(json!({"done": 1})))).then([event]);
    assert!(after.run().bytes > before.run().bytes);
    let mut run = after.run().clone();
    (run.bytes, run.seq, run.nodes[0].activities) = (before.run().bytes, before.run().seq, 0);
    assert_eq!(&run, before.run());
}

#[test]
fn reports_beyond_the_limit_are_dropped() {
    let mut story = running();
    for _ in 0..limits::ACTIVITIES_MAX {
        story = story.given([report(activity(json!({})))]);
    }
    story.when(report(activity(json!({})))).then([]);
}

#[test]
fn a_report_of_an_unknown_call_is_dropped() {
    let stray = ActivityReport { call: Some("c1".to_owned()), ..activity(json!({})) };
    running().when(report(stray)).then([]);
}

#[test]
fn an_invalid_report_is_refused() {
    let nameless = ActivityReport { id: String::new(), ..activity(json!({})) };
    running().when(report(nameless)).refused_for("activity.id");
    let kind = "x".repeat(limits::ACTIVITY_CHARS_MAX + 1);
    running().when(report(ActivityReport { kind, ..activity(json!({})) })).refused_for("activity.kind");
    let large = json!({"text": "x".repeat(limits::ACTIVITY_BYTES_MAX)});
    let (what, max) = ("the activity", limits::ACTIVITY_BYTES_MAX);
    let bytes = large.to_string().len();
    running().when(report(activity(large))).refused(Refusal::TooLarge { what, bytes, max });
}
