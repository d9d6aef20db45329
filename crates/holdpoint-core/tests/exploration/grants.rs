//! Explores every order of a few moves around a gate with two votes and two effects behind it, including copies of the
//! run. In every order each grant permits each effect once, in the run that received the decision.

use std::collections::{BTreeSet, HashSet};

use holdpoint_core::{Event, InterruptId, NodeId};

use crate::family::{EFFECTS, MOVES, Member, Move, Performed, Shape, folded};

/// The counts of an exploration.
#[derive(Default)]
struct Reached {
    states: HashSet<String>,
    ends: BTreeSet<String>,
    most_effects: usize,
    /// States from which further moves are possible.
    left: usize,
}

/// Makes every sequence of up to `depth` moves, with copies and copies of copies up to a generation.
///
/// A move changes one run or makes a copy, and no run sees another: moves with two runs can be made in either order. So
/// each run is explored alone, and a bound that holds for every run holds for the sum over a family of them. A copy that
/// was made of a shorter log is not made again of a longer one.
fn explore(shape: Shape, depth: usize, generations: usize) -> Reached {
    let mut reached = Reached::default();
    let mut frontier = vec![(0, Member::new(shape))];
    for _ in 0..depth {
        let mut beyond = Vec::new();
        for (known, member) in &frontier {
            let mut moves = MOVES.to_vec();
            if member.generation() < generations {
                moves.extend(copies(*known, member.log.len()));
            }
            for step in moves {
                match member.make(step) {
                    Err(refusal) => drop(reached.ends.insert(format!("refused: {}", refusal.code()))),
                    Ok(next) if reached.states.insert(next.seen()) => {
                        check(&next, &mut reached);
                        let known = if next.run.id == member.run.id { member.log.len() } else { 0 };
                        beyond.push((known, next));
                    }
                    Ok(_) => {}
                }
            }
        }
        frontier = beyond;
    }
    reached.left = frontier.len();
    reached
}

/// Returns the copies that can be made of a log, except those of its known part.
fn copies(known: usize, length: usize) -> Vec<Move> {
    let positions = known + 1..=length;
    let mut copies = vec![Move::Replay, Move::Branch("ann", length)];
    copies.extend(positions.clone().map(|position| Move::Branch("olga", position)));
    copies.extend(positions.map(Move::Differ));
    copies
}

fn check(member: &Member, reached: &mut Reached) {
    assert_eq!(folded(member.run.id.clone(), &member.run, &member.log), member.run, "the log is the run");
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
fn decisions(member: &Member) -> Vec<InterruptId> {
    let own = member.log[member.copied..].iter().filter_map(|event| match event.as_ref() {
        Event::InterruptResolved { id, value, copied: false, .. } if value["action"] == "accept" => Some(*id),
        _ => None,
    });
    own.collect()
}

/// Checks that an effect has one grant with one use, and that two approvers who are not requesters gave it to this run.
fn check_effect(member: &Member, performed: &Performed) {
    let [grant] = performed.grants.as_slice() else { panic!("not one grant: {performed:?}") };
    assert!(decisions(member).contains(grant), "a grant of another run: {performed:?}");
    let twice = |one: &&Performed| one.node == performed.node && one.visit == performed.visit;
    assert_eq!(member.performed.iter().filter(twice).count(), 1, "{:?}", member.performed);

    let node = NodeId::parse(&performed.node).expect("a node id");
    let asked = member.run.interrupt(*grant).expect("asked");
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
    assert!(voters.is_disjoint(&requesters), "granted by {voters:?}, wanted by {requesters:?}");
    assert_eq!(asked.deciders().into_iter().collect::<BTreeSet<_>>(), voters);
}

/// Checks that decisions and votes of another run are marked as copied.
fn check_copied_part(member: &Member) {
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

fn in_every_order(shape: Shape, depth: usize, generations: usize, effects: usize) -> Reached {
    let reached = explore(shape, depth, generations);
    for end in EVERYWHERE {
        assert!(reached.ends.contains(end), "{shape:?} never came to {end}: {:?}", reached.ends);
    }
    assert_eq!(reached.most_effects, effects, "{shape:?}");
    reached
}

const EVERYWHERE: [&str; 9] = [
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
    let reached = in_every_order(Shape::Chain, 30, 2, 2);
    assert_eq!(reached.left, 0, "orders of any length were explored");
    assert!(reached.ends.contains("completed"));
    assert!(reached.states.len() > 5_000, "only {} states", reached.states.len());
}

#[test]
fn in_every_order_effects_beside_each_other_have_a_use_each() {
    in_every_order(Shape::Beside, 9, 2, 2);
}

#[test]
fn in_every_order_a_gate_that_asks_again_grants_again() {
    in_every_order(Shape::Loop, 18, 1, 3);
}
