//! Time: deadlines of interrupts, sleeping nodes, and the timers for both.

use holdpoint_core::{
    Cap, Event, Fork, ForkMode, InterruptId, InterruptRequest, NodeStatus, Obligation, Refusal, RunError,
    StartRequest, Status, Timer,
};
use serde_json::{Map, json};

use crate::story::{START_TIME, Story, given, on};
use crate::vocabulary::*;

const TIMEOUT_MS: u64 = 1000;
const DAY_MS: u64 = 86_400_000;

fn timed_approval() -> InterruptRequest {
    InterruptRequest { timeout_ms: Some(TIMEOUT_MS), ..approval() }
}

fn waiting() -> Story {
    given([start(), begin("gate"), ask("gate", timed_approval())])
}

fn deadline() -> Timer {
    Timer::Interrupt(InterruptId(1))
}

#[test]
fn a_deadline_is_a_timer_and_an_answer_clears_it() {
    let due = START_TIME.plus_ms(TIMEOUT_MS);
    waiting()
        .obliges([Obligation::SetTimer { timer: deadline(), due }])
        .later(TIMEOUT_MS - 1)
        .when(accept(1))
        .obliges([Obligation::Activate, Obligation::ClearTimer { timer: deadline(), due }]);
}

#[test]
fn an_interrupt_without_a_deadline_sets_no_timer_and_never_expires() {
    given([start(), begin("gate"), ask("gate", approval())])
        .obliges([])
        .later(u64::MAX)
        .when(expire(1))
        .refused(Refusal::NotDue)
        .when(accept(1))
        .accepted();
}

#[test]
fn a_deadline_does_not_fire_early() {
    waiting()
        .later(TIMEOUT_MS - 1)
        .when(expire(1))
        .refused(Refusal::NotDue)
        .status_is(Status::WaitingApproval);
}

#[test]
fn an_interrupt_without_an_answer_expires_at_its_deadline() {
    let due = START_TIME.plus_ms(TIMEOUT_MS);
    waiting()
        .later(TIMEOUT_MS)
        .when(expire(1))
        .then([timed_out(1), approval_received(1), resumed("gate", 1)])
        .obliges([Obligation::Activate, Obligation::ClearTimer { timer: deadline(), due }])
        .next_is("enter gate")
        .when(expire(1))
        .refused(Refusal::AlreadyResolved)
        .when(accept(1))
        .refused(Refusal::AlreadyResolved);
}

#[test]
fn an_expired_clarification_or_custom_interrupt_has_no_further_event() {
    let question =
        request(holdpoint_core::Kind::Clarification, json!({"questions": [{"id": "q", "question": "?"}]}));
    for unanswered in [custom(), question] {
        given([start(), begin("gate"), ask("gate", InterruptRequest { timeout_ms: Some(1), ..unanswered })])
            .later(1)
            .when(expire(1))
            .then([timed_out(1), resumed("gate", 1)]);
    }
}

#[test]
fn a_timeout_of_zero_is_no_deadline() {
    given([start(), begin("gate"), ask("gate", InterruptRequest { timeout_ms: Some(0), ..approval() })])
        .later(TIMEOUT_MS)
        .when(expire(1))
        .refused(Refusal::NotDue)
        .when(accept(1))
        .accepted();
}

#[test]
fn a_late_answer_is_refused_even_before_the_timer_fires() {
    waiting().later(TIMEOUT_MS).when(accept(1)).refused(Refusal::Expired).when(expire(1)).accepted();
}

#[test]
fn a_deadline_does_not_fire_after_an_answer() {
    waiting().given([accept(1)]).later(TIMEOUT_MS).when(expire(1)).refused(Refusal::AlreadyResolved);
}

#[test]
fn a_deadline_does_not_fire_after_the_end() {
    waiting()
        .given([cancel()])
        .later(TIMEOUT_MS)
        .when(expire(1))
        .refused(Refusal::RunFinished(Status::Cancelled));
}

#[test]
fn an_unknown_interrupt_does_not_expire() {
    waiting().later(TIMEOUT_MS).when(expire(2)).refused(Refusal::InterruptNotFound);
}

#[test]
fn all_nodes_with_a_key_are_resumed_when_it_expires() {
    on(left_and_right())
        .given([start(), begin("left"), ask("left", timed_approval()), begin("right"), join("right", 1)])
        .later(TIMEOUT_MS)
        .when(expire(1))
        .then([timed_out(1), approval_received(1), resumed("left", 1), resumed("right", 1)]);
}

#[test]
fn a_key_that_expired_opens_no_second_interrupt() {
    waiting()
        .later(TIMEOUT_MS)
        .given([expire(1)])
        .when(ask("gate", timed_approval()))
        .refused(Refusal::NodeNotRunning);
}

#[test]
fn a_sleeping_node_wakes_at_the_end_of_its_sleep() {
    let until = START_TIME.plus_ms(50);
    let timer = Timer::Sleep(node_id("gate"));
    given([start(), begin("gate")])
        .when(sleep("gate", until))
        .then([Event::SleepStarted { node: node_id("gate"), until }])
        .obliges([Obligation::SetTimer { timer: timer.clone(), due: until }])
        .status_is(Status::Running)
        .node_is("gate", &NodeStatus::Sleeping(until))
        .next_is("nothing")
        .later(49)
        .when(wake("gate"))
        .refused(Refusal::NotDue)
        .later(1)
        .when(wake("gate"))
        .then([Event::SleepEnded { node: node_id("gate") }])
        .obliges([Obligation::Activate, Obligation::ClearTimer { timer, due: until }])
        .slept("gate", 1)
        .next_is("enter gate")
        .when(wake("gate"))
        .refused(Refusal::NodeNotRunning);
}

#[test]
fn a_sleep_whose_end_has_passed_also_sets_a_timer() {
    given([start(), begin("gate")])
        .later(100)
        .when(sleep("gate", START_TIME))
        .then([Event::SleepStarted { node: node_id("gate"), until: START_TIME.plus_ms(100) }])
        .when(wake("gate"))
        .accepted();
}

#[test]
fn only_a_sleeping_node_wakes() {
    for (past, node) in
        [(vec![start()], "gate"), (vec![start(), begin("gate")], "gate"), (vec![start()], "unknown")]
    {
        given(past).later(100).when(wake(node)).refused(Refusal::NodeNotRunning);
    }
    waiting().later(100).when(wake("gate")).refused(Refusal::NodeNotRunning);
}

#[test]
fn a_sleeping_node_is_neither_begun_nor_finished() {
    let sleeping = || given([start(), begin("gate"), sleep("gate", START_TIME.plus_ms(50))]);
    sleeping().when(begin("gate")).refused(Refusal::NodeNotRunning);
    sleeping().when(done("gate")).refused(Refusal::NodeNotRunning);
}

/// Returns a fork that was created two days after the start of its source, with the events of the source.
fn copied(mode: ForkMode, from_seq: u64) -> Story {
    let run = |text: &str| holdpoint_core::RunId::parse(text).expect("a run id");
    let (source, at) = (run("run-0"), Some(START_TIME.plus_ms(2 * DAY_MS)));
    let fork = Fork { origin: source.clone(), source, from_seq, mode, at, artifacts: None, copied: None };
    let configurable = Map::from_iter([("runTimeoutMs".to_owned(), json!(5000))]);
    let start = StartRequest { fork: Some(fork), configurable, ..start_request(json!({})) };
    given([holdpoint_core::Command::Start(Box::new(start))])
        .given([begin("gate"), ask("gate", timed_approval())])
}

#[test]
fn deadlines_of_a_fork_start_at_the_fork() {
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        let due = START_TIME.plus_ms(2 * DAY_MS + TIMEOUT_MS);
        copied(mode, 5)
            .obliges([Obligation::SetTimer { timer: deadline(), due }])
            .later(2 * DAY_MS + TIMEOUT_MS - 1)
            .when(expire(1))
            .refused(Refusal::NotDue)
            .when(accept(1))
            .obliges([Obligation::Activate, Obligation::ClearTimer { timer: deadline(), due }]);
        copied(mode, 5)
            .later(2 * DAY_MS + TIMEOUT_MS)
            .when(accept(1))
            .refused(Refusal::Expired)
            .when(expire(1))
            .then([timed_out(1), approval_received(1), resumed("gate", 1)]);
        let error = RunError::new("run_timeout", "the run exceeded its timeout of 5000 ms");
        copied(mode, 5)
            .later(2 * DAY_MS + 4999)
            .when(holdpoint_core::Command::TimeOut)
            .refused(Refusal::NotDue)
            .later(1)
            .when(holdpoint_core::Command::TimeOut)
            .then([
                Event::CapBreached { cap: Cap::RunDuration, limit: 5000, observed: 5001, node: None },
                Event::RunFailed { error, node: None },
            ]);
    }
}

#[test]
fn a_branch_begins_with_the_fork_and_a_replay_with_its_source() {
    let forked = START_TIME.plus_ms(2 * DAY_MS);
    assert_eq!(copied(ForkMode::Branch, 5).run().begun_at(), forked);
    assert_eq!(copied(ForkMode::Replay, 5).run().begun_at(), START_TIME);
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        let ended = copied(mode, 6).given([Event::RunCompleted]);
        assert_eq!(
            (ended.run().begun_at(), ended.run().created_at()),
            (START_TIME, forked),
            "the end is copied too"
        );
    }
    let ended = copied(ForkMode::Branch, 5).given([Event::RunCompleted]);
    assert_eq!(ended.run().begun_at(), forked, "the end is not copied");
    assert_eq!(given([start()]).run().begun_at(), START_TIME);
}
