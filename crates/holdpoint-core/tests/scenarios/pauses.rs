//! Paused runs, and the commands that they accept.

use holdpoint_core::{Command, Drain, Event, NodeStatus, Obligation, Refusal, Status, limits};
use serde_json::json;

use crate::story::{given, on};
use crate::vocabulary::*;

const BOTH: [Drain; 2] = [Drain::Immediate, Drain::DrainCurrentNode];

#[test]
fn no_node_begins_while_a_run_is_paused() {
    for drain in BOTH {
        given([start()])
            .when(pause(drain))
            .then([Event::RunPaused { reason: None, drain, by: "ada".to_owned() }])
            .status_is(Status::Paused)
            .next_is("nothing")
            .when(begin("gate"))
            .refused(Refusal::NodeNotRunning)
            .when(resume())
            .then([Event::RunResumed { by: "ada".to_owned() }])
            .obliges([Obligation::Activate])
            .status_is(Status::Running)
            .next_is("begin gate");
    }
}

#[test]
fn a_running_node_finishes_before_a_draining_pause() {
    let by = || "ada".to_owned();
    let drain = Drain::DrainCurrentNode;
    given([start(), begin("gate")])
        .when(pause(drain))
        .then([Event::PauseRequested { reason: None, by: by() }])
        .status_is(Status::Running)
        .next_is("enter gate")
        .when(done("gate"))
        .then([completed("gate"), Event::RunPaused { reason: None, drain, by: by() }])
        .status_is(Status::Paused)
        .next_is("nothing")
        .given([resume()])
        .next_is("begin after");
}

#[test]
fn a_paused_run_of_an_earlier_version_accepts_the_result_of_a_running_node() {
    let paused = Event::RunPaused { reason: None, drain: Drain::DrainCurrentNode, by: ada().name };
    given([started(), node_started("gate"), paused])
        .status_is(Status::Paused)
        .when(done("gate"))
        .then([completed("gate")])
        .status_is(Status::Paused)
        .next_is("nothing");
}

#[test]
fn a_draining_pause_waits_for_a_sleep_but_not_for_an_interrupt() {
    let drain = Drain::DrainCurrentNode;
    given([start(), begin("gate"), sleep("gate", crate::story::START_TIME), pause(drain)])
        .status_is(Status::Running)
        .given([wake("gate")])
        .next_is("enter gate")
        .given([done("gate")])
        .status_is(Status::Paused);
    given([start(), begin("gate"), ask("gate", approval()), pause(drain)]).status_is(Status::Paused);
}

#[test]
fn an_interrupt_of_the_running_node_completes_a_draining_pause() {
    let drain = Drain::DrainCurrentNode;
    given([start(), begin("gate"), pause(drain)])
        .given([ask("gate", approval())])
        .status_is(Status::Paused)
        .given([accept(1), resume()])
        .next_is("enter gate");
}

#[test]
fn a_draining_pause_is_withdrawn_by_resume_and_replaced_by_an_immediate_pause() {
    let draining = || given([start(), begin("gate"), pause(Drain::DrainCurrentNode)]);
    draining().when(pause(Drain::DrainCurrentNode)).refused(Refusal::WrongState(Status::Running));
    draining()
        .when(resume())
        .then([Event::RunResumed { by: "ada".to_owned() }])
        .status_is(Status::Running)
        .when(done("gate"))
        .then([completed("gate")])
        .next_is("begin after");
    draining()
        .when(pause(Drain::Immediate))
        .then([Event::RunPaused { reason: None, drain: Drain::Immediate, by: "ada".to_owned() }])
        .status_is(Status::Paused)
        .when(done("gate"))
        .refused(Refusal::WrongState(Status::Paused));
    draining().when(cancel()).then([run_cancelled()]).status_is(Status::Cancelled);
}

#[test]
fn a_run_whose_last_node_finishes_while_it_drains_completes() {
    given([
        start(),
        begin("gate"),
        done("gate"),
        begin("after"),
        pause(Drain::DrainCurrentNode),
        done("after"),
    ])
    .status_is(Status::Completed);
}

#[test]
fn a_running_node_is_entered_again_after_an_immediate_pause() {
    given([start(), begin("gate"), pause(Drain::Immediate)])
        .when(done("gate"))
        .refused(Refusal::WrongState(Status::Paused))
        .node_is("gate", &NodeStatus::Running)
        .given([resume()])
        .next_is("enter gate")
        .when(done("gate"))
        .then([completed("gate")]);
}

#[test]
fn a_step_is_recorded_while_the_run_is_paused() {
    for drain in BOTH {
        given([start(), begin("gate"), pause(drain)]).when(record("gate", "charge", json!(1))).accepted();
    }
}

#[test]
fn a_paused_run_accepts_answers_and_timers_and_continues_after_resume() {
    for drain in BOTH {
        given([start(), begin("gate"), ask("gate", approval()), pause(drain)])
            .when(accept(1))
            .accepted()
            .status_is(Status::Paused)
            .next_is("nothing")
            .given([resume()])
            .next_is("enter gate");
    }
    given([start(), begin("gate"), sleep("gate", crate::story::START_TIME), pause(Drain::Immediate)])
        .when(wake("gate"))
        .accepted()
        .next_is("nothing");
}

#[test]
fn a_run_is_paused_once_and_resumed_once() {
    let drain = Drain::DrainCurrentNode;
    on(gate_then_after()).when(pause(drain)).refused(Refusal::WrongState(Status::Pending));
    given([start()]).when(resume()).refused(Refusal::WrongState(Status::Running));
    given([start(), pause(drain)]).when(pause(drain)).refused(Refusal::WrongState(Status::Paused));
    given([start(), cancel()]).when(pause(drain)).refused(Refusal::RunFinished(Status::Cancelled));
}

#[test]
fn a_paused_run_can_be_cancelled() {
    given([start(), pause(Drain::Immediate)])
        .when(cancel())
        .then([run_cancelled()])
        .status_is(Status::Cancelled);
}

#[test]
fn a_reason_that_is_too_long_is_refused() {
    let long = || Some("x".repeat(limits::REASON_CHARS_MAX + 1));
    let pause = Command::Pause { reason: long(), drain: Drain::Immediate, by: ada() };
    given([started()]).when(pause).refused_for("reason");
    given([started()]).when(Command::Cancel { reason: long(), by: ada() }).refused_for("reason");
}

#[test]
fn pauses_count_toward_the_size_of_a_run() {
    let (reason, times) =
        ("x".repeat(limits::REASON_CHARS_MAX), limits::RUN_BYTES_MAX / limits::REASON_CHARS_MAX);
    let paused = Event::RunPaused { reason: Some(reason), drain: Drain::Immediate, by: ada().name };
    let resumed = Event::RunResumed { by: ada().name };
    let story =
        (0..times).fold(given([started()]), |story, _| story.given([paused.clone(), resumed.clone()]));
    let (bytes, max) = (story.run().bytes, limits::RUN_BYTES_MAX);
    assert!(bytes >= max);
    story.when(pause(Drain::Immediate)).refused(Refusal::TooLarge { what: "the run", bytes, max });
}
