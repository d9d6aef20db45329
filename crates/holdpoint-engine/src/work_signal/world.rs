//! Enqueuers, holders and workers around the real signal, and every step that one of them can take next. The store is a
//! list of rows, and a step is what happens at one instant: a commit, a call of the signal, a read.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Row {
    Absent,
    Queued,
    Claimed,
    Ended,
}

/// A dispatch with the steps of its enqueuer and its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Dispatch {
    pub(super) thread: usize,
    pub(super) enqueued_on: usize,
    pub(super) row: Row,
    /// Committed and not yet signalled.
    pub(super) unsaid: bool,
    pub(super) holder: Holder,
}

/// The holder of the claim, and the steps that are left when its end is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Holder {
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
pub(super) enum Looking {
    /// There is no worker.
    Never,
    Begin,
    Read(LookMark),
    Claim(LookMark, Doable),
    End {
        mark: LookMark,
        shortage: Shortage,
        again: bool,
    },
    Asleep,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) worker: Looking,
    pub(super) hands: usize,
    /// A change that takes a hand and is refused: 0 before, 1 while it has the hand, 2 after.
    pub(super) refused: u8,
    pub(super) may_stop: bool,
    pub(super) signal: Snapshot,
    /// Another node has told it of work.
    pub(super) hint: bool,
}

impl Node {
    /// Makes worlds equal that differ in numbers alone: of an event it counts only whether it came since the look began.
    pub(super) fn forget_numbers(&mut self) {
        let now = LookMark { claim_ends: self.signal.claim_ends.1, free_hands: self.signal.free_hands.1 };
        let mark = match &mut self.worker {
            Looking::Read(mark) | Looking::Claim(mark, _) | Looking::End { mark, .. } => {
                std::mem::replace(mark, LookMark { claim_ends: 0, free_hands: 0 })
            }
            Looking::Never | Looking::Begin | Looking::Asleep => now,
        };
        self.signal.claim_ends.1 = u64::from(now.claim_ends != mark.claim_ends);
        self.signal.free_hands.1 = u64::from(now.free_hands != mark.free_hands);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Snapshot {
    pub(super) raised: bool,
    pub(super) claim_ends: (bool, u64),
    pub(super) free_hands: (bool, u64),
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
pub(super) enum LeftOut {
    Nothing,
    ClaimEnds,
    FreedHands,
    EndOfLook,
    HintsOfEnqueuers,
    HintOfStopped,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) dispatches: Vec<Dispatch>,
    pub(super) nodes: Vec<Node>,
    pub(super) left_out: LeftOut,
}

pub(super) fn node(hands: usize) -> Node {
    let (worker, signal) = (Looking::Begin, Snapshot::take(&WorkSignal::default()));
    Node { worker, hands, refused: 2, may_stop: false, signal, hint: false }
}

pub(super) fn dispatch(thread: usize, enqueued_on: usize) -> Dispatch {
    Dispatch { thread, enqueued_on, row: Row::Absent, unsaid: false, holder: Holder::None }
}

/// A dispatch that a raw holder has claimed before anything else happens.
pub(super) fn held(thread: usize, node: usize) -> Dispatch {
    Dispatch { row: Row::Claimed, holder: Holder::Raw(node), ..dispatch(thread, node) }
}

impl World {
    pub(super) fn new(nodes: Vec<Node>, dispatches: Vec<Dispatch>) -> Self {
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
    pub(super) fn steps(&self) -> Vec<World> {
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
        let one = &self.dispatches[at];
        if one.row != Row::Absent && !one.unsaid {
            return None;
        }
        let mut world = self.clone();
        if one.row == Row::Absent {
            world.dispatches[at].row = Row::Queued;
            world.dispatches[at].unsaid = true;
            return Some(world);
        }
        world.dispatches[at].unsaid = false;
        world.signalled(one.enqueued_on, WorkSignal::raise);
        if self.left_out != LeftOut::HintsOfEnqueuers {
            world.tell_others(one.enqueued_on);
        }
        Some(world)
    }

    fn holder_step(&self, at: usize) -> Option<World> {
        if self.dispatches[at].holder == Holder::None {
            return None;
        }
        let mut world = self.clone();
        world.dispatches[at].holder = match self.dispatches[at].holder {
            Holder::None => Holder::None,
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
        let woken = self.nodes[at].worker != Looking::Asleep || self.nodes[at].signal.raised;
        if self.nodes[at].worker == Looking::Never || !woken {
            return None;
        }
        let mut world = self.clone();
        world.nodes[at].worker = match self.nodes[at].worker {
            Looking::Never => Looking::Never,
            Looking::Begin => Looking::Read(world.signalled(at, WorkSignal::begin_look)),
            Looking::Read(mark) => Looking::Claim(mark, self.doable()),
            Looking::Claim(mark, doable) => {
                let free = self.nodes[at].hands;
                let shortage = match self.left_out {
                    LeftOut::EndOfLook => Shortage { hands: false, threads: false },
                    _ => Shortage::of(&doable, free),
                };
                if doable.ready {
                    world.claim(at, free);
                }
                // After a claim it looks on at once. Where another node was faster, it looks again after a moment.
                Looking::End { mark, shortage, again: doable.ready && free > 0 }
            }
            Looking::End { mark, shortage, again } => {
                world.signalled(at, |signal| signal.end_look(mark, shortage));
                if again { Looking::Begin } else { Looking::Asleep }
            }
            Looking::Asleep => {
                world.nodes[at].signal.raised = false;
                Looking::Begin
            }
        };
        Some(world)
    }

    fn claim(&mut self, node: usize, free: usize) {
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
    }

    /// A change takes a hand for its dispatch and is refused.
    fn refused_step(&self, at: usize) -> Option<World> {
        let (refused, hands) = (self.nodes[at].refused, self.nodes[at].hands);
        if refused == 2 || (refused == 0 && hands == 0) {
            return None;
        }
        let mut world = self.clone();
        world.nodes[at].refused += 1;
        if refused == 0 {
            world.nodes[at].hands -= 1;
        } else {
            world.free_hand(at);
        }
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
        if !self.nodes[at].hint {
            return None;
        }
        let mut world = self.clone();
        world.nodes[at].hint = false;
        world.signalled(at, WorkSignal::raise);
        Some(world)
    }
}
