//! Explores every order in which enqueuers, holders and workers can take their steps around the real signal. The store
//! is a list of rows, and each step is what happens at one instant: a commit, a call of the signal, a read. Wherever
//! nothing can happen any more without the backstop, no row may be left that could be carried out.

use std::collections::HashSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    Absent,
    Queued,
    Claimed,
    Ended,
}

/// A dispatch with the steps of its enqueuer and its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Dispatch {
    thread: usize,
    enqueued_on: usize,
    row: Row,
    /// Committed and not yet signalled.
    unsaid: bool,
    holder: Holder,
}

/// The holder of the claim, and the steps that are left when its end is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    None,
    /// A program that uses the mailbox by itself, on this node.
    Raw(usize),
    Worker(usize),
    EndUnsaid {
        node: usize,
        hand: bool,
    },
    HandTaken(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Looking {
    /// There is no worker.
    Never,
    Begin,
    Read(LookMark),
    Claim(LookMark, Doable),
    End {
        mark: LookMark,
        doable: Doable,
        free: usize,
        claimed: usize,
    },
    Asleep,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    worker: Looking,
    hands: usize,
    /// A change that takes a hand and is refused: 0 before, 1 while it has the hand, 2 after.
    refused: u8,
    may_stop: bool,
    signal: Snapshot,
    /// Another node has told it of work.
    hint: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Snapshot {
    raised: bool,
    claim_ends: (bool, u64),
    free_hands: (bool, u64),
}

impl Snapshot {
    fn take(signal: &WorkSignal) -> Self {
        let condition =
            |of: &Condition| (of.awaited.load(Ordering::SeqCst), of.occurred.load(Ordering::SeqCst));
        let waiting = pin!(signal.wait()).poll(&mut Context::from_waker(Waker::noop()));
        Self {
            raised: waiting == Poll::Ready(()),
            claim_ends: condition(&signal.claim_ends),
            free_hands: condition(&signal.free_hands),
        }
    }

    fn signal(&self) -> WorkSignal {
        let condition = |(awaited, occurred): (bool, u64)| Condition {
            awaited: AtomicBool::new(awaited),
            occurred: AtomicU64::new(occurred),
        };
        let (claim_ends, free_hands) = (condition(self.claim_ends), condition(self.free_hands));
        let signal = WorkSignal { claim_ends, free_hands, ..WorkSignal::default() };
        if self.raised {
            signal.raise();
        }
        signal
    }
}

/// A call that a broken program leaves out, to show that the exploration notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LeftOut {
    Nothing,
    ClaimEnds,
    FreedHands,
    EndOfLook,
    HintsOfEnqueuers,
    HintOfStopped,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    dispatches: Vec<Dispatch>,
    nodes: Vec<Node>,
    left_out: LeftOut,
}

fn node(hands: usize) -> Node {
    let (worker, signal) = (Looking::Begin, Snapshot::take(&WorkSignal::default()));
    Node { worker, hands, refused: 2, may_stop: false, signal, hint: false }
}

fn dispatch(thread: usize, enqueued_on: usize) -> Dispatch {
    Dispatch { thread, enqueued_on, row: Row::Absent, unsaid: false, holder: Holder::None }
}

/// A dispatch that a raw holder has claimed before anything else happens.
fn held(thread: usize, node: usize) -> Dispatch {
    Dispatch { row: Row::Claimed, holder: Holder::Raw(node), ..dispatch(thread, node) }
}

impl World {
    fn new(nodes: Vec<Node>, dispatches: Vec<Dispatch>) -> Self {
        Self { dispatches, nodes, left_out: LeftOut::Nothing }
    }

    fn is_free(&self, thread: usize) -> bool {
        !self.dispatches.iter().any(|one| one.thread == thread && one.row == Row::Claimed)
    }

    fn doable(&self) -> Doable {
        let queued = || self.dispatches.iter().filter(|one| one.row == Row::Queued);
        let ready = queued().any(|one| self.is_free(one.thread));
        Doable { queued: queued().next().is_some(), ready, ..Doable::default() }
    }

    fn signalled<T>(&mut self, node: usize, call: impl FnOnce(&WorkSignal) -> T) -> T {
        let signal = self.nodes[node].signal.signal();
        let returned = call(&signal);
        self.nodes[node].signal = Snapshot::take(&signal);
        returned
    }

    fn tell_others(&mut self, node: usize) {
        (0..self.nodes.len()).filter(|other| *other != node).for_each(|other| self.nodes[other].hint = true);
    }

    /// Every world that one step makes of this one.
    fn steps(&self) -> Vec<World> {
        let mut steps = Vec::new();
        for at in 0..self.dispatches.len() {
            steps.extend(self.enqueuer_step(at));
            steps.extend(self.holder_step(at));
        }
        for at in 0..self.nodes.len() {
            steps.extend(self.worker_step(at));
            steps.extend(self.refused_step(at));
            steps.extend(self.stop_step(at));
            steps.extend(self.hint_step(at));
        }
        steps
    }

    fn enqueuer_step(&self, at: usize) -> Option<World> {
        let (mut world, one) = (self.clone(), &self.dispatches[at]);
        if one.row == Row::Absent {
            world.dispatches[at].row = Row::Queued;
            world.dispatches[at].unsaid = true;
            return Some(world);
        }
        if !one.unsaid {
            return None;
        }
        world.dispatches[at].unsaid = false;
        world.signalled(one.enqueued_on, WorkSignal::raise);
        if self.left_out != LeftOut::HintsOfEnqueuers {
            world.tell_others(one.enqueued_on);
        }
        Some(world)
    }

    fn holder_step(&self, at: usize) -> Option<World> {
        let mut world = self.clone();
        world.dispatches[at].holder = match self.dispatches[at].holder {
            Holder::None => return None,
            Holder::Raw(node) => {
                world.dispatches[at].row = Row::Ended;
                Holder::EndUnsaid { node, hand: false }
            }
            Holder::Worker(node) => {
                world.dispatches[at].row = Row::Ended;
                Holder::EndUnsaid { node, hand: true }
            }
            Holder::EndUnsaid { node, hand } => {
                if self.left_out != LeftOut::ClaimEnds && world.signalled(node, WorkSignal::claim_ended) {
                    world.tell_others(node);
                }
                if hand { Holder::HandTaken(node) } else { Holder::None }
            }
            Holder::HandTaken(node) => {
                world.free_hand(node);
                Holder::None
            }
        };
        Some(world)
    }

    fn free_hand(&mut self, node: usize) {
        self.nodes[node].hands += 1;
        if self.left_out != LeftOut::FreedHands {
            self.signalled(node, WorkSignal::hand_freed);
        }
    }

    fn worker_step(&self, at: usize) -> Option<World> {
        let mut world = self.clone();
        world.nodes[at].worker = match self.nodes[at].worker {
            Looking::Never => return None,
            Looking::Begin => Looking::Read(world.signalled(at, WorkSignal::begin_look)),
            Looking::Read(mark) => Looking::Claim(mark, self.doable()),
            Looking::Claim(mark, doable) => {
                let free = self.nodes[at].hands;
                let claimed = if doable.ready { world.claim(at, free) } else { 0 };
                Looking::End { mark, doable, free, claimed }
            }
            Looking::End { mark, doable, free, claimed } => {
                let mut shortage = Shortage::of(&doable, free);
                if self.left_out == LeftOut::EndOfLook {
                    shortage = Shortage { hands: false, threads: false };
                }
                world.signalled(at, |signal| signal.end_look(mark, shortage));
                // Where another node was faster, it is asked again after a moment.
                let contended = doable.ready && free > 0;
                if claimed > 0 || contended { Looking::Begin } else { Looking::Asleep }
            }
            Looking::Asleep => {
                if !self.nodes[at].signal.raised {
                    return None;
                }
                world.nodes[at].signal.raised = false;
                Looking::Begin
            }
        };
        Some(world)
    }

    fn claim(&mut self, node: usize, free: usize) -> usize {
        let mut claimed = 0;
        for at in 0..self.dispatches.len() {
            let one = &self.dispatches[at];
            if claimed < free && one.row == Row::Queued && self.is_free(one.thread) {
                self.dispatches[at].row = Row::Claimed;
                self.dispatches[at].holder = Holder::Worker(node);
                claimed += 1;
            }
        }
        self.nodes[node].hands -= claimed;
        claimed
    }

    /// A change takes a hand for its dispatch and is refused.
    fn refused_step(&self, at: usize) -> Option<World> {
        let mut world = self.clone();
        match self.nodes[at].refused {
            0 if self.nodes[at].hands > 0 => world.nodes[at].hands -= 1,
            1 => world.free_hand(at),
            _ => return None,
        }
        world.nodes[at].refused += 1;
        Some(world)
    }

    /// The worker goes down before its next look; what it holds ends later.
    fn stop_step(&self, at: usize) -> Option<World> {
        let ready_to = matches!(self.nodes[at].worker, Looking::Begin | Looking::Asleep);
        if !self.nodes[at].may_stop || !ready_to {
            return None;
        }
        let mut world = self.clone();
        world.nodes[at].worker = Looking::Never;
        world.signalled(at, WorkSignal::end_looks);
        if self.left_out != LeftOut::HintOfStopped {
            world.tell_others(at);
        }
        Some(world)
    }

    fn hint_step(&self, at: usize) -> Option<World> {
        let mut world = self.clone();
        if !std::mem::take(&mut world.nodes[at].hint) {
            return None;
        }
        world.signalled(at, WorkSignal::raise);
        Some(world)
    }

    fn without(self, left_out: LeftOut) -> Self {
        Self { left_out, ..self }
    }

    /// Returns how many worlds can come of this one, and one in which a row waits for the backstop, if there is any.
    fn explore(self) -> (usize, Option<World>) {
        let mut seen = HashSet::from([self.clone()]);
        let mut open = vec![self];
        while let Some(world) = open.pop() {
            let steps = world.steps();
            if steps.is_empty() && world.dispatches.iter().any(|one| one.row != Row::Ended) {
                return (seen.len(), Some(world));
            }
            open.extend(steps.into_iter().filter(|next| seen.insert(next.clone())));
        }
        (seen.len(), None)
    }
}

fn one_busy_thread() -> World {
    World::new(vec![node(2)], vec![held(0, 0), dispatch(0, 0), dispatch(0, 0)])
}

fn few_hands() -> World {
    let busy = Node { refused: 0, ..node(1) };
    World::new(vec![busy], vec![dispatch(0, 0), dispatch(0, 0), dispatch(1, 0)])
}

fn two_nodes() -> World {
    World::new(vec![node(1), node(1)], vec![dispatch(0, 0), dispatch(0, 1), dispatch(1, 1)])
}

fn a_node_without_worker() -> World {
    let none = Node { worker: Looking::Never, ..node(1) };
    World::new(vec![none, node(1)], vec![held(0, 0), dispatch(0, 0), dispatch(0, 1)])
}

fn a_node_that_goes_down() -> World {
    let stopping = Node { may_stop: true, ..node(1) };
    World::new(vec![stopping, node(1)], vec![dispatch(0, 0), dispatch(0, 1)])
}

#[test]
fn no_ready_row_waits_for_the_backstop() {
    for world in
        [one_busy_thread(), few_hands(), two_nodes(), a_node_without_worker(), a_node_that_goes_down()]
    {
        let (seen, stuck) = world.explore();
        assert!(stuck.is_none(), "of {seen} worlds: {stuck:#?}");
        assert!(seen > 100, "only {seen} worlds");
    }
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
