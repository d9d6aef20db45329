//! Explores every order of a few moves at small gates: votes of eligible and other principals, side questions, expiry,
//! pauses and cancellations. In every order a gate is decided once, by eligible principals, and leaves no timer.
//!
//! States that are equal for all later moves are explored once.

use std::collections::{BTreeSet, HashSet};

use holdpoint_core::{Event, Refusal, Resolution, Run, Status, Timer};

use crate::world::{DEADLINE_MS, GATE, Gate, Move, START_TIME, World};

mod crashes;
mod forks;
mod grants;
mod parallel;
mod world;

const DEPTH: usize = 6;

/// The states and outcomes that an exploration reached.
#[derive(Default)]
struct Exploration {
    states: HashSet<String>,
    ends: BTreeSet<String>,
}

/// Explores breadth-first, so that each state is reached with the greatest number of moves left.
fn explore(gate: Gate) -> Exploration {
    let mut reached = Exploration::default();
    let mut frontier = vec![World::new(gate)];
    for _ in 0..DEPTH {
        let mut next_frontier = Vec::new();
        for world in &frontier {
            for step in gate.moves() {
                let mut next = world.clone();
                let result = next.apply_move(step);
                check_refusal(world, step, &result);
                if let Err(refusal) = &result {
                    check_unchanged(world, &next, refusal);
                    reached.ends.insert(format!("refused: {}", refusal.code()));
                } else if reached.states.insert(next.fingerprint()) {
                    check(&next, &mut reached);
                    next_frontier.push(next);
                }
            }
        }
        frontier = next_frontier;
    }
    reached
}

/// Checks that a refusal changes no state, except that a governed gate records a denied principal.
fn check_unchanged(world: &World, next: &World, refusal: &Refusal) {
    assert_eq!((next.fingerprint(), &next.timers), (world.fingerprint(), &world.timers), "{refusal:?}");
    if let Refusal::NotAuthorized(_) = refusal {
        let (_, last) = next.log.last().expect("the denial is recorded");
        assert_eq!((last.name(), next.log.len()), ("authorization.decided", world.log.len() + 1));
        assert_eq!(next.interrupt().denied, world.interrupt().denied + 1);
        check(next, &mut Exploration::default());
    } else {
        assert_eq!(next.run, world.run, "a refusal changed the run: {refusal:?}");
    }
}

fn check_refusal(world: &World, step: Move, result: &Result<(), Refusal>) {
    let open = world.interrupt().is_open() && !world.run.finished();
    let governed = world.gate.governed;
    match step {
        Move::Vote(..)
        | Move::Link(..)
        | Move::AskSideQuestion(_)
        | Move::AnswerSideQuestion
        | Move::Expire
            if !open =>
        {
            assert!(result.is_err(), "{step:?} after the end: {:?}", world.log);
        }
        Move::Vote(..) | Move::Link(..) | Move::AskSideQuestion(_) if world.now > START_TIME => {
            assert_eq!(*result, Err(Refusal::Expired), "too late");
        }
        Move::Link(..) => assert_eq!(*result, Err(Refusal::KeyRequired)),
        Move::Vote("ann", "overridden")
        | Move::Vote("carol", "granted")
        | Move::Vote("mallory" | "olga", _)
        | Move::AskSideQuestion("mallory")
            if governed =>
        {
            assert!(matches!(result, Err(Refusal::NotAuthorized(_))), "{step:?}: {result:?}");
        }
        Move::Vote("olga", _) => {
            assert_eq!(*result, Err(Refusal::OwnRequest("olga".to_owned())));
        }
        Move::Vote("mallory", _) => {
            assert_eq!(*result, Err(Refusal::NotAnApprover("mallory".to_owned())));
        }
        _ => {}
    }
}

fn check(world: &World, reached: &mut Exploration) {
    let (asked, run) = (world.interrupt(), &world.run);
    let closings: Vec<&Event> = world
        .log
        .iter()
        .map(|(_, event)| event)
        .filter(|event| matches!(event, Event::InterruptResolved { .. } | Event::InterruptTimedOut { .. }))
        .collect();
    assert!(closings.len() <= 1, "decided twice: {closings:?}");
    assert_eq!(closings.is_empty(), asked.is_open());

    let voters: BTreeSet<&str> = asked.votes.iter().map(|vote| vote.by.as_str()).collect();
    assert_eq!(voters.len(), asked.votes.len(), "a voter counted twice: {:?}", asked.votes);
    let eligible = asked.votes.iter().all(|vote| world.gate.admits(&vote.by, vote.action()));
    assert!(eligible, "{:?}", asked.votes);
    check_decision(world);
    check_governed_events(world);

    let waits = asked.is_open() && !run.finished();
    let expected =
        if waits { vec![(Timer::Interrupt(GATE), START_TIME.plus_ms(DEADLINE_MS))] } else { Vec::new() };
    assert_eq!(world.timers, expected, "a timer for an open interrupt, and no other");

    let status = match (run.finished(), run.paused.is_some(), waits) {
        (true, _, _) => run.status(),
        (false, true, _) => Status::Paused,
        (false, false, true) => Status::WaitingApproval,
        (false, false, false) => Status::Running,
    };
    assert_eq!(run.status(), status);
    assert!(run.status() != Status::Completed || world.granted(), "completed without a grant");
    let again =
        Run::replay(run.id.clone(), run.workflow.clone(), world.log.iter().map(|(at, event)| (*at, event)));
    assert_eq!(again, *run, "the fold of the log differs from the run");
    reached.ends.insert(run.status().as_str().to_owned());
    reached.ends.extend(world.log.iter().map(|(_, event)| event.name().to_owned()));
}

/// Checks that a gate is decided as soon as its rules are met, and not before.
fn check_decision(world: &World) {
    let (asked, Gate { required, policy, bypass, .. }) = (world.interrupt(), world.gate);
    let grants = asked.votes.iter().filter(|vote| vote.grants()).count() as u64;
    let rejects = asked.votes.len() as u64 - grants;
    let vetoed = if policy == "majority" { rejects > required / 2 } else { rejects > 0 };
    match &asked.resolution {
        Some(Resolution::Answered { value, by, at, .. }) => {
            let action = value["action"].as_str().expect("an action");
            // The outcome of several votes need not be the action of the last one.
            assert!(required > 1 || world.gate.admits(by, action), "{action} by {by}");
            assert!(*at < START_TIME.plus_ms(DEADLINE_MS), "decided too late");
            let enough = (grants == required || (bypass && action == "override")) && !vetoed;
            // One approval is the decision itself; more are counted.
            assert!(required == 1 || (if world.granted() { enough } else { vetoed }), "{:?}", asked.votes);
        }
        Some(Resolution::TimedOut { at }) => assert!(*at >= START_TIME.plus_ms(DEADLINE_MS), "too early"),
        None => assert!(required == 1 || (grants < required && !vetoed), "it should have been decided"),
    }
}

/// Checks that a governed gate records every counted vote and every denied principal, and no events of plain gates.
fn check_governed_events(world: &World) {
    let asked = world.interrupt();
    let events =
        ["approval.granted", "approval.rejected", "approval.overridden"].map(|name| world.count(name));
    let plain = world.count("approval.requested") + world.count("approval.received");
    assert_eq!(world.count("authorization.decided"), asked.denied as usize);
    if !world.gate.governed {
        assert_eq!((events, asked.denied), ([0; 3], 0));
        return;
    }
    assert_eq!(plain, 0);
    let answered = matches!(asked.resolution, Some(Resolution::Answered { .. }));
    let expected = if world.gate.required == 1 { usize::from(answered) } else { asked.votes.len() };
    assert_eq!(events.iter().sum::<usize>(), expected, "{:?}", world.log);
}

const EXPECTED_ENDS: [&str; 11] = [
    "holdpoint.ask.answered",
    "completed",
    "failed",
    "cancelled",
    "paused",
    "waiting-approval",
    "refused: forbidden",
    "refused: interrupt_already_resolved",
    "refused: interrupt_cancelled",
    "refused: interrupt_gone",
    "refused: not_due",
];

fn check_every_order(gate: Gate, also: &[&str]) {
    let reached = explore(gate);
    let mut expected: Vec<&str> = EXPECTED_ENDS.iter().chain(also).copied().collect();
    if gate.required > 1 {
        expected.extend(["holdpoint.vote.cast", "holdpoint.vote.repeated", "refused: already_voted"]);
    }
    let ends = &reached.ends;
    for end in expected {
        assert!(ends.contains(end), "{gate:?} never reached {end}: {ends:?}");
    }
    assert!(reached.states.len() > 400, "{gate:?}: only {} states", reached.states.len());
}

#[test]
fn in_every_order_a_gate_is_decided_once_by_eligible_approvers() {
    for (required, policy) in [(1, "single-veto"), (2, "single-veto"), (2, "majority"), (3, "majority")] {
        check_every_order(Gate::plain(required, policy), &["approval.received"]);
    }
}

#[test]
fn in_every_order_a_governed_gate_is_decided_once_by_holders_of_its_roles() {
    let also = ["approval.granted", "approval.rejected", "approval.overridden", "refused: unauthenticated"];
    for (required, policy, bypass) in
        [(1, "single-veto", false), (2, "single-veto", false), (2, "majority", false), (3, "majority", true)]
    {
        check_every_order(Gate::governed(required, policy, bypass), &also);
    }
}
