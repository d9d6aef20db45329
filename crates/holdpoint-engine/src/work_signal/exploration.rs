//! Explores every order in which enqueuers, holders and workers can take their steps around the real signal. Wherever
//! nothing can happen any more without the backstop, no row may be left that could be carried out.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::world::{LeftOut, Looking, Node, Row, World, dispatch, held, node};

impl World {
    fn without(self, left_out: LeftOut) -> Self {
        Self { left_out, ..self }
    }

    /// Returns how many worlds can come of this one, and one in which a row waits for the backstop, if there is any.
    fn explore(self) -> (usize, Option<World>) {
        // Hashes instead of worlds: there are some hundred thousand.
        let mut seen = HashSet::from([hash(&self)]);
        let mut open = vec![self];
        while let Some(world) = open.pop() {
            let steps = world.steps();
            if steps.is_empty() && world.dispatches.iter().any(|one| one.row != Row::Ended) {
                return (seen.len(), Some(world));
            }
            for mut next in steps {
                next.nodes.iter_mut().for_each(Node::forget_numbers);
                if seen.insert(hash(&next)) {
                    open.push(next);
                }
            }
        }
        (seen.len(), None)
    }
}

fn hash(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

fn one_busy_thread() -> World {
    World::new(vec![node(2)], vec![held(0, 0), dispatch(0, 0), dispatch(0, 0)])
}

fn few_hands() -> World {
    let busy = Node { refused: 0, ..node(1) };
    World::new(vec![busy], vec![dispatch(0, 0), dispatch(0, 0), dispatch(1, 0)])
}

fn two_nodes() -> World {
    World::new(vec![node(1), node(1)], vec![dispatch(0, 0), dispatch(0, 1)])
}

fn a_node_without_worker() -> World {
    let none = Node { worker: Looking::Never, ..node(1) };
    World::new(vec![none, node(1)], vec![held(0, 0), dispatch(0, 0)])
}

fn a_node_that_goes_down() -> World {
    let stopping = Node { may_stop: true, ..node(1) };
    World::new(vec![stopping, node(1)], vec![dispatch(0, 0), dispatch(0, 1)])
}

#[track_caller]
fn assert_no_row_waits(world: World) {
    let (seen, stuck) = world.explore();
    assert!(stuck.is_none(), "of {seen} worlds: {stuck:#?}");
    assert!(seen > 100, "only {seen} worlds");
}

#[test]
fn a_row_behind_a_holder_never_waits_for_the_backstop() {
    assert_no_row_waits(one_busy_thread());
}

#[test]
fn a_row_without_a_free_hand_never_waits_for_the_backstop() {
    assert_no_row_waits(few_hands());
}

#[test]
fn a_row_behind_a_holder_on_another_node_never_waits_for_the_backstop() {
    assert_no_row_waits(two_nodes());
}

#[test]
fn a_row_of_a_node_without_a_worker_never_waits_for_the_backstop() {
    assert_no_row_waits(a_node_without_worker());
}

#[test]
fn a_row_behind_a_node_that_goes_down_never_waits_for_the_backstop() {
    assert_no_row_waits(a_node_that_goes_down());
}

#[test]
fn the_exploration_notices_every_call_that_is_left_out() {
    let table = [
        (one_busy_thread(), LeftOut::ClaimEnds),
        (one_busy_thread(), LeftOut::EndOfLook),
        (few_hands(), LeftOut::FreedHands),
        (two_nodes(), LeftOut::ClaimEnds),
        (a_node_without_worker(), LeftOut::HintsOfEnqueuers),
        (a_node_without_worker(), LeftOut::ClaimEnds),
        (a_node_that_goes_down(), LeftOut::HintOfStopped),
    ];
    for (world, left_out) in table {
        assert!(world.without(left_out).explore().1.is_some(), "nothing is lost without {left_out:?}");
    }
}
