//! Every order of a few moves around small gates: votes of those who may and those who may not, questions, silence,
//! pauses, cancellations. Whatever the order, a gate is decided once, by those who may, and then nothing is left.
//!
//! States that differ in nothing that a later move could see are looked at once.

use std::collections::{BTreeSet, HashSet};

use holdpoint_core::{Event, Refusal, Resolution, Run, Status, Timer};

use crate::world::{DAWN, DEADLINE_MS, GATE, Gate, Move, World};

mod crashes;
mod family;
mod grants;
mod world;

const DEPTH: usize = 6;

/// What the explored orders came to.
#[derive(Default)]
struct Reached {
    states: HashSet<String>,
    ends: BTreeSet<String>,
}

/// Every state is gone on from once, with as many moves left as there can be: the shortest ways come first.
fn explore(gate: Gate) -> Reached {
    let mut reached = Reached::default();
    let mut frontier = vec![World::new(gate)];
    for _ in 0..DEPTH {
        let mut beyond = Vec::new();
        for world in &frontier {
            for step in gate.moves() {
                let mut next = world.clone();
                let result = next.make(step);
                check_refusal(world, step, &result);
                if let Err(refusal) = &result {
                    check_unchanged(world, &next, refusal);
                    reached.ends.insert(format!("refused: {}", refusal.code()));
                } else if reached.states.insert(next.seen()) {
                    check(&next, &mut reached);
                    beyond.push(next);
                }
            }
        }
        frontier = beyond;
    }
    reached
}

/// A refusal changes nothing, but that a governed gate writes down whom it has turned away.
fn check_unchanged(world: &World, next: &World, refusal: &Refusal) {
    assert_eq!((next.seen(), &next.timers), (world.seen(), &world.timers), "{refusal:?}");
    if let Refusal::NotAuthorized(_) = refusal {
        let (_, last) = next.log.last().expect("something is written down");
        assert_eq!((last.name(), next.log.len()), ("authorization.decided", world.log.len() + 1));
        assert_eq!(next.asked().denied, world.asked().denied + 1);
        check(next, &mut Reached::default());
    } else {
        assert_eq!(next.run, world.run, "refused, and it changed something: {refusal:?}");
    }
}

fn check_refusal(world: &World, step: Move, result: &Result<(), Refusal>) {
    let open = world.asked().is_open() && !world.run.finished();
    let governed = world.gate.governed;
    match step {
        Move::Vote(..) | Move::Link(..) | Move::Ask(_) | Move::AnswerAsk | Move::Expire if !open => {
            assert!(result.is_err(), "{step:?} after the end: {:?}", world.log);
        }
        Move::Vote(..) | Move::Link(..) | Move::Ask(_) if world.now > DAWN => {
            assert_eq!(*result, Err(Refusal::Expired), "too late");
        }
        Move::Link(..) => assert_eq!(*result, Err(Refusal::KeyRequired)),
        Move::Vote("ann", "overridden")
        | Move::Vote("carol", "granted")
        | Move::Vote("mallory" | "olga", _)
        | Move::Ask("mallory")
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

fn check(world: &World, reached: &mut Reached) {
    let (asked, run) = (world.asked(), &world.run);
    let closings: Vec<&Event> = world
        .log
        .iter()
        .map(|(_, event)| event)
        .filter(|event| matches!(event, Event::InterruptResolved { .. } | Event::InterruptTimedOut { .. }))
        .collect();
    assert!(closings.len() <= 1, "decided twice: {closings:?}");
    assert_eq!(closings.is_empty(), asked.is_open());

    let voters: BTreeSet<&str> = asked.votes.iter().map(|vote| vote.by.as_str()).collect();
    assert_eq!(voters.len(), asked.votes.len(), "somebody counted twice: {:?}", asked.votes);
    let eligible = asked.votes.iter().all(|vote| world.gate.admits(&vote.by, vote.action()));
    assert!(eligible, "{:?}", asked.votes);
    check_decision(world);
    check_words(world);

    let waits = asked.is_open() && !run.finished();
    let expected = if waits { vec![(Timer::Interrupt(GATE), DAWN.plus_ms(DEADLINE_MS))] } else { Vec::new() };
    assert_eq!(world.timers, expected, "a timer for what still waits, and no other");

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
    assert_eq!(again, *run, "the log is the run");
    reached.ends.insert(run.status().as_str().to_owned());
    reached.ends.extend(world.log.iter().map(|(_, event)| event.name().to_owned()));
}

/// A gate is decided when its rules say so, and not before.
fn check_decision(world: &World) {
    let (asked, Gate { required, policy, bypass, .. }) = (world.asked(), world.gate);
    let grants = asked.votes.iter().filter(|vote| vote.grants()).count() as u64;
    let rejects = asked.votes.len() as u64 - grants;
    let vetoed = if policy == "majority" { rejects > required / 2 } else { rejects > 0 };
    match &asked.resolution {
        Some(Resolution::Answered { value, by, at, .. }) => {
            let action = value["action"].as_str().expect("an action");
            // The outcome of several votes need not be the action of the last one.
            assert!(required > 1 || world.gate.admits(by, action), "{action} by {by}");
            assert!(*at < DAWN.plus_ms(DEADLINE_MS), "decided too late");
            let enough = (grants == required || (bypass && action == "override")) && !vetoed;
            // One approval is the decision itself; more are counted.
            assert!(required == 1 || (if world.granted() { enough } else { vetoed }), "{:?}", asked.votes);
        }
        Some(Resolution::TimedOut { at }) => assert!(*at >= DAWN.plus_ms(DEADLINE_MS), "too early"),
        None => assert!(required == 1 || (grants < required && !vetoed), "it should have been decided"),
    }
}

/// A governed gate tells of every word that counts and of everybody it turned away, and of nothing in older words.
fn check_words(world: &World) {
    let asked = world.asked();
    let told = ["approval.granted", "approval.rejected", "approval.overridden"].map(|name| world.count(name));
    let older = world.count("approval.requested") + world.count("approval.received");
    assert_eq!(world.count("authorization.decided"), asked.denied as usize);
    if !world.gate.governed {
        assert_eq!((told, asked.denied), ([0; 3], 0));
        return;
    }
    assert_eq!(older, 0);
    let answered = matches!(asked.resolution, Some(Resolution::Answered { .. }));
    let words = if world.gate.required == 1 { usize::from(answered) } else { asked.votes.len() };
    assert_eq!(told.iter().sum::<usize>(), words, "{:?}", world.log);
}

const EVERYWHERE: [&str; 11] = [
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

fn in_every_order(gate: Gate, also: &[&str]) {
    let reached = explore(gate);
    let mut expected: Vec<&str> = EVERYWHERE.iter().chain(also).copied().collect();
    if gate.required > 1 {
        expected.extend(["holdpoint.vote.cast", "holdpoint.vote.repeated", "refused: already_voted"]);
    }
    let ends = &reached.ends;
    for end in expected {
        assert!(ends.contains(end), "{gate:?} never came to {end}: {ends:?}");
    }
    assert!(reached.states.len() > 400, "{gate:?}: only {} states", reached.states.len());
}

#[test]
fn in_every_order_a_gate_is_decided_once_and_by_those_who_may() {
    for (required, policy) in [(1, "single-veto"), (2, "single-veto"), (2, "majority"), (3, "majority")] {
        in_every_order(Gate::plain(required, policy), &["approval.received"]);
    }
}

#[test]
fn in_every_order_a_governed_gate_is_decided_once_and_by_those_who_hold_what_it_takes() {
    let told = ["approval.granted", "approval.rejected", "approval.overridden", "refused: unauthenticated"];
    for (required, policy, bypass) in
        [(1, "single-veto", false), (2, "single-veto", false), (2, "majority", false), (3, "majority", true)]
    {
        in_every_order(Gate::governed(required, policy, bypass), &told);
    }
}
