//! Explores every order of a few moves of a run with a gate, two votes and two effects, including forks of the run. In
//! every order each grant permits each effect once, in the run that received the decision.

use std::collections::{BTreeSet, HashSet};

use holdpoint_core::{Event, InterruptId, NodeId};

use crate::forks::{EFFECTS, ExploredRun, MOVES, Move, PerformedEffect, Shape, fold_log};

/// The states and outcomes that an exploration reached.
#[derive(Default)]
struct Exploration {
    states: HashSet<String>,
    ends: BTreeSet<String>,
    most_effects: usize,
    /// The number of states that were reached with the last move and not explored further.
    unexplored: usize,
}

/// Applies every sequence of up to `depth` moves, to the run and to forks up to a generation.
///
/// A move changes one run or creates a fork, and runs do not depend on each other, so moves of two runs commute. Each
/// run is therefore explored alone, and a bound that holds for every run holds for the sum over a run and its forks. A
/// fork at a position of a shorter log is not repeated for a longer log.
fn explore(shape: Shape, depth: usize, generations: usize) -> Exploration {
    let mut reached = Exploration::default();
    let mut frontier = vec![(0, ExploredRun::new(shape))];
    for _ in 0..depth {
        let mut next_frontier = Vec::new();
        for (known, member) in &frontier {
            let mut moves = MOVES.to_vec();
            if member.generation() < generations {
                moves.extend(forks(*known, member.log.len()));
            }
            for step in moves {
                match member.apply_move(step) {
                    Err(refusal) => drop(reached.ends.insert(format!("refused: {}", refusal.code()))),
                    Ok(next) if reached.states.insert(next.fingerprint()) => {
                        check(&next, &mut reached);
                        let known = if next.run.id == member.run.id { member.log.len() } else { 0 };
                        next_frontier.push((known, next));
                    }
                    Ok(_) => {}
                }
            }
        }
        frontier = next_frontier;
    }
    reached.unexplored = frontier.len();
    reached
}

/// Returns the moves that fork a log of this length, without forks at positions up to `known`.
fn forks(known: usize, length: usize) -> Vec<Move> {
    let positions = known + 1..=length;
    let mut forks = vec![Move::Replay, Move::Branch("ann", length)];
    forks.extend(positions.clone().map(|position| Move::Branch("olga", position)));
    forks.extend(positions.map(Move::Diverge));
    forks
}

fn check(member: &ExploredRun, reached: &mut Exploration) {
    assert_eq!(
        fold_log(member.run.id.clone(), &member.run, &member.log),
        member.run,
        "the fold of the log differs from the run"
    );
    for performed in &member.performed {
        check_effect(member, performed);
    }
    check_copied_part(member);
    let (effects, decisions) = (member.performed.len(), decisions(member).len());
    assert!(effects <= decisions * EFFECTS.len(), "{effects} effects of {decisions} decisions");
    reached.most_effects = reached.most_effects.max(member.performed.len());
    reached.ends.insert(member.run.status().as_str().to_owned());
    let errors = member.run.nodes.iter().filter_map(|node| node.error.as_ref());
    reached.ends.extend(errors.map(|error| error.code.clone()));
}

/// Returns the gates that were granted in this run.
fn decisions(member: &ExploredRun) -> Vec<InterruptId> {
    let own = member.log[member.copied..].iter().filter_map(|event| match event.as_ref() {
        Event::InterruptResolved { id, value, copied: false, .. } if value["action"] == "accept" => Some(*id),
        _ => None,
    });
    own.collect()
}

/// Checks that an effect has one grant with one use, and that two approvers who are not requesters gave it to this run.
fn check_effect(member: &ExploredRun, performed: &PerformedEffect) {
    let [grant] = performed.grants.as_slice() else { panic!("not one grant: {performed:?}") };
    assert!(decisions(member).contains(grant), "a grant of another run: {performed:?}");
    let twice = |one: &&PerformedEffect| one.node == performed.node && one.visit == performed.visit;
    assert_eq!(member.performed.iter().filter(twice).count(), 1, "{:?}", member.performed);

    let node = NodeId::parse(&performed.node).expect("a node id");
    let asked = member.run.interrupt(*grant).expect("an interrupt");
    let used = asked.uses.iter().filter(|one| one.node == node && one.visit == performed.visit);
    assert_eq!(used.count(), 1, "{:?}", asked.uses);

    let voters = member.log[member.copied..].iter().filter_map(|event| match event.as_ref() {
        Event::VoteCast { interrupt: id, by, copied: false, .. }
        | Event::InterruptResolved { id, by, copied: false, .. }
            if id == grant =>
        {
            Some(by.as_str())
        }
        _ => None,
    });
    let voters: BTreeSet<&str> = voters.collect();
    let requesters: BTreeSet<&str> = member.run.requesters().into_iter().collect();
    assert!(voters.len() >= 2, "granted by {voters:?}");
    assert!(voters.is_disjoint(&requesters), "granted by {voters:?}, requested by {requesters:?}");
    assert_eq!(asked.deciders().into_iter().collect::<BTreeSet<_>>(), voters);
}

/// Checks that decisions and votes of another run are marked as copied.
fn check_copied_part(member: &ExploredRun) {
    for asked in &member.run.interrupts {
        let of_this = |event: &Event| match event {
            Event::VoteCast { interrupt: id, .. } | Event::InterruptResolved { id, .. } => *id == asked.id,
            _ => false,
        };
        let own = |at: usize, event: &Event| {
            let again = matches!(
                event,
                Event::VoteCast { copied: true, .. } | Event::InterruptResolved { copied: true, .. }
            );
            at >= member.copied && !again
        };
        let votes = member.log.iter().enumerate().filter(|(_, event)| of_this(event));
        let copied: Vec<bool> = votes.map(|(at, event)| !own(at, event)).collect();
        assert_eq!(asked.votes.iter().map(|vote| vote.copied).collect::<Vec<_>>(), copied);
        assert_eq!(asked.taken_over, !asked.is_open() && copied.last() == Some(&true));
    }
}

fn check_every_order(shape: Shape, depth: usize, generations: usize, effects: usize) -> Exploration {
    let reached = explore(shape, depth, generations);
    for end in EXPECTED_ENDS {
        assert!(reached.ends.contains(end), "{shape:?} never reached {end}: {:?}", reached.ends);
    }
    assert_eq!(reached.most_effects, effects, "{shape:?}");
    reached
}

const EXPECTED_ENDS: [&str; 9] = [
    "approval_rejected",
    "grant_not_transferable",
    "cancelled",
    "paused",
    "waiting-approval",
    "refused: already_voted",
    "refused: forbidden",
    "refused: interrupt_already_resolved",
    "refused: node_not_running",
];

#[test]
fn in_every_order_each_grant_permits_each_effect_once_and_in_its_own_run() {
    let reached = check_every_order(Shape::Chain, 30, 2, 2);
    assert_eq!(reached.unexplored, 0, "the depth is too small for all orders");
    assert!(reached.ends.contains("completed"));
    assert!(reached.states.len() > 5_000, "only {} states", reached.states.len());
}

#[test]
fn in_every_order_parallel_effects_have_one_use_each() {
    check_every_order(Shape::Parallel, 9, 2, 2);
}

#[test]
fn in_every_order_a_gate_in_a_loop_grants_once_per_visit() {
    check_every_order(Shape::Loop, 18, 1, 3);
}
