//! Runs that are cancelled or abandoned. A finished run refuses every command.

use holdpoint_core::{Command, Event, InterruptId, InterruptRequest, Obligation, Refusal, Status, Timer};
use serde_json::json;

use crate::story::{START_TIME, given, on};
use crate::vocabulary::*;

#[test]
fn a_cancelled_run_stays_cancelled() {
    given([start(), begin("gate")])
        .when(cancel())
        .then([run_cancelled()])
        .status_is(Status::Cancelled)
        .next_is("nothing")
        .when(cancel())
        .refused(Refusal::RunFinished(Status::Cancelled));
}

#[test]
fn a_run_may_be_cancelled_without_a_reason() {
    given([start()]).when(Command::Cancel { reason: None, by: ada() }).then([Event::RunCancelled {
        reason: None,
        by: "ada".to_owned(),
        parent: None,
    }]);
}

#[test]
fn an_abandoned_run_fails_without_a_failed_node() {
    given([start(), begin("gate")])
        .when(abandon())
        .then([Event::RunFailed { error: boom(), node: None }])
        .status_is(Status::Failed)
        .when(abandon())
        .refused(Refusal::RunFinished(Status::Failed));
}

#[test]
fn a_finished_run_refuses_every_command_that_would_change_it() {
    let commands = [
        begin("gate"),
        begin("after"),
        done("gate"),
        fail("gate"),
        ask("gate", approval()),
        join("gate", 1),
        sleep("gate", START_TIME),
        record("gate", "s", json!(1)),
        expire(1),
        wake("gate"),
        cancel(),
        abandon(),
    ];
    let to_completion = || vec![begin("gate"), done("gate"), begin("after"), done("after")];
    for (past, status) in [
        (to_completion(), Status::Completed),
        (vec![begin("gate"), cancel()], Status::Cancelled),
        (vec![begin("gate"), fail("gate")], Status::Failed),
    ] {
        for command in &commands {
            given([start()]).given(past.clone()).when(command.clone()).refused(Refusal::RunFinished(status));
        }
    }
}

#[test]
fn the_end_clears_every_timer_that_is_still_set() {
    let timed = InterruptRequest { timeout_ms: Some(1000), ..approval() };
    let cleared = [
        Obligation::ClearTimer { timer: Timer::Interrupt(InterruptId(1)), due: START_TIME.plus_ms(1000) },
        Obligation::ClearTimer { timer: Timer::Sleep(node_id("right")), due: START_TIME.plus_ms(50) },
    ];
    let past = || {
        [
            start(),
            begin("left"),
            ask("left", timed.clone()),
            begin("right"),
            sleep("right", START_TIME.plus_ms(50)),
        ]
    };
    for end in [cancel(), abandon()] {
        on(left_and_right()).given(past()).when(end).obliges(cleared.clone());
    }
    on(left_and_right()).given(past()).given([cancel()]).when(cancel()).obliges([]);
}

#[test]
fn a_failure_beside_an_open_interrupt_clears_its_deadline() {
    let timed = InterruptRequest { timeout_ms: Some(1000), ..approval() };
    on(left_and_right())
        .given([start(), begin("left"), ask("left", timed), begin("right")])
        .when(fail("right"))
        .then([failed("right"), run_failed_at("right")])
        .obliges([Obligation::ClearTimer {
            timer: Timer::Interrupt(InterruptId(1)),
            due: START_TIME.plus_ms(1000),
        }]);
}
