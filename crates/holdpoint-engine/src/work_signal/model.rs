//! A model of enqueuers, claim holders and workers that use the real signal, with every step that one of them can take
//! next. The store is a list of dispatches. A step is one atomic action: a commit, a call of the signal or a read.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

/// The state of a dispatch in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum DispatchState {
    Absent,
    Queued,
    Claimed,
    Ended,
}

/// A dispatch with the states of its enqueuer and its claim holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Dispatch {
    pub(super) thread: usize,
    pub(super) enqueued_on: usize,
    pub(super) row: DispatchState,
    /// The enqueuer has committed the dispatch and not signalled it yet.
    pub(super) unsignalled: bool,
    pub(super) holder: ClaimHolder,
}

/// The holder of the claim, and its remaining steps after the end of the claim is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClaimHolder {
    None,
    /// A program on this node that uses the mailbox without a worker.
    Program(usize),
    Worker(usize),
    EndUnsignalled {
        node: usize,
        slot: bool,
    },
    SlotTaken(usize),
}

/// The next step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WorkerState {
    /// There is no worker.
    Never,
    Begin,
    Read(PollMark),
    Claim(PollMark, AvailableWork),
    End {
        mark: PollMark,
        shortage: Shortage,
        again: bool,
    },
    Asleep,
}

/// A process with its worker and its signal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) worker: WorkerState,
    pub(super) slots: usize,
    /// The progress of a change that takes a slot and is rejected: 0 before, 1 while it has the slot, 2 after.
    pub(super) rejected_change: u8,
    pub(super) may_stop: bool,
    pub(super) signal: SignalState,
    /// Another node has sent a hint about work.
    pub(super) hint: bool,
}

impl Node {
    /// Makes states equal that differ only in counts. Only whether a condition occurred since the poll began
    /// matters.
    pub(super) fn normalize_counts(&mut self) {
        let now = PollMark { claim_ends: self.signal.claim_ends.1, free_slots: self.signal.free_slots.1 };
        let mark = match &mut self.worker {
            WorkerState::Read(mark) | WorkerState::Claim(mark, _) | WorkerState::End { mark, .. } => {
                std::mem::replace(mark, PollMark { claim_ends: 0, free_slots: 0 })
            }
            WorkerState::Never | WorkerState::Begin | WorkerState::Asleep => now,
        };
        self.signal.claim_ends.1 = u64::from(now.claim_ends != mark.claim_ends);
        self.signal.free_slots.1 = u64::from(now.free_slots != mark.free_slots);
    }
}

/// The state of a signal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SignalState {
    pub(super) raised: bool,
    pub(super) claim_ends: (bool, u64),
    pub(super) free_slots: (bool, u64),
}

impl SignalState {
    fn take(signal: &WorkSignal) -> Self {
        let condition =
            |of: &Condition| (of.awaited.load(Ordering::SeqCst), of.occurred.load(Ordering::SeqCst));
        let waiting = pin!(signal.wait()).poll(&mut Context::from_waker(Waker::noop()));
        Self {
            raised: waiting == Poll::Ready(()),
            claim_ends: condition(&signal.claim_ends),
            free_slots: condition(&signal.free_slots),
        }
    }

    fn signal(&self) -> WorkSignal {
        let condition = |(awaited, occurred): (bool, u64)| Condition {
            awaited: AtomicBool::new(awaited),
            occurred: AtomicU64::new(occurred),
        };
        let (claim_ends, free_slots) = (condition(self.claim_ends), condition(self.free_slots));
        let signal = WorkSignal { claim_ends, free_slots, ..WorkSignal::default() };
        if self.raised {
            signal.raise();
        }
        signal
    }
}

/// A call that is omitted, to show that the exploration detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OmittedCall {
    None,
    ClaimEnds,
    FreedSlots,
    EndOfPoll,
    HintsOfEnqueuers,
    HintOfStopped,
}

/// The state of all dispatches and nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SignalModel {
    pub(super) dispatches: Vec<Dispatch>,
    pub(super) nodes: Vec<Node>,
    pub(super) omitted: OmittedCall,
}

pub(super) fn node(slots: usize) -> Node {
    let (worker, signal) = (WorkerState::Begin, SignalState::take(&WorkSignal::default()));
    Node { worker, slots, rejected_change: 2, may_stop: false, signal, hint: false }
}

pub(super) fn dispatch(thread: usize, enqueued_on: usize) -> Dispatch {
    Dispatch {
        thread,
        enqueued_on,
        row: DispatchState::Absent,
        unsignalled: false,
        holder: ClaimHolder::None,
    }
}

/// Returns a dispatch that a program without a worker has claimed before the first step.
pub(super) fn claimed(thread: usize, node: usize) -> Dispatch {
    Dispatch { row: DispatchState::Claimed, holder: ClaimHolder::Program(node), ..dispatch(thread, node) }
}

impl SignalModel {
    pub(super) fn new(nodes: Vec<Node>, dispatches: Vec<Dispatch>) -> Self {
        Self { dispatches, nodes, omitted: OmittedCall::None }
    }

    fn is_free(&self, thread: usize) -> bool {
        !self.dispatches.iter().any(|one| one.thread == thread && one.row == DispatchState::Claimed)
    }

    fn available(&self) -> AvailableWork {
        let queued = || self.dispatches.iter().filter(|one| one.row == DispatchState::Queued);
        let ready = queued().any(|one| self.is_free(one.thread));
        AvailableWork { queued: queued().next().is_some(), ready, ..AvailableWork::default() }
    }

    fn call_signal<T>(&mut self, node: usize, call: impl FnOnce(&WorkSignal) -> T) -> T {
        let signal = self.nodes[node].signal.signal();
        let returned = call(&signal);
        self.nodes[node].signal = SignalState::take(&signal);
        returned
    }

    fn send_hints(&mut self, node: usize) {
        (0..self.nodes.len()).filter(|other| *other != node).for_each(|other| self.nodes[other].hint = true);
    }

    /// Returns every state that is reachable in one step.
    pub(super) fn steps(&self) -> Vec<SignalModel> {
        let mut steps = Vec::new();
        for at in 0..self.dispatches.len() {
            steps.extend(self.enqueuer_step(at));
            steps.extend(self.holder_step(at));
        }
        for at in 0..self.nodes.len() {
            steps.extend(self.worker_step(at));
            steps.extend(self.rejected_change_step(at));
            steps.extend(self.stop_step(at));
            steps.extend(self.hint_step(at));
        }
        steps
    }

    fn enqueuer_step(&self, at: usize) -> Option<SignalModel> {
        let one = &self.dispatches[at];
        if one.row != DispatchState::Absent && !one.unsignalled {
            return None;
        }
        let mut model = self.clone();
        if one.row == DispatchState::Absent {
            model.dispatches[at].row = DispatchState::Queued;
            model.dispatches[at].unsignalled = true;
            return Some(model);
        }
        model.dispatches[at].unsignalled = false;
        model.call_signal(one.enqueued_on, WorkSignal::raise);
        if self.omitted != OmittedCall::HintsOfEnqueuers {
            model.send_hints(one.enqueued_on);
        }
        Some(model)
    }

    fn holder_step(&self, at: usize) -> Option<SignalModel> {
        if self.dispatches[at].holder == ClaimHolder::None {
            return None;
        }
        let mut model = self.clone();
        model.dispatches[at].holder = match self.dispatches[at].holder {
            ClaimHolder::None => ClaimHolder::None,
            ClaimHolder::Program(node) => {
                model.dispatches[at].row = DispatchState::Ended;
                ClaimHolder::EndUnsignalled { node, slot: false }
            }
            ClaimHolder::Worker(node) => {
                model.dispatches[at].row = DispatchState::Ended;
                ClaimHolder::EndUnsignalled { node, slot: true }
            }
            ClaimHolder::EndUnsignalled { node, slot } => {
                if self.omitted != OmittedCall::ClaimEnds && model.call_signal(node, WorkSignal::claim_ended)
                {
                    model.send_hints(node);
                }
                if slot { ClaimHolder::SlotTaken(node) } else { ClaimHolder::None }
            }
            ClaimHolder::SlotTaken(node) => {
                model.free_slot(node);
                ClaimHolder::None
            }
        };
        Some(model)
    }

    fn free_slot(&mut self, node: usize) {
        self.nodes[node].slots += 1;
        if self.omitted != OmittedCall::FreedSlots {
            self.call_signal(node, WorkSignal::slot_freed);
        }
    }

    fn worker_step(&self, at: usize) -> Option<SignalModel> {
        let woken = self.nodes[at].worker != WorkerState::Asleep || self.nodes[at].signal.raised;
        if self.nodes[at].worker == WorkerState::Never || !woken {
            return None;
        }
        let mut model = self.clone();
        model.nodes[at].worker = match self.nodes[at].worker {
            WorkerState::Never => WorkerState::Never,
            WorkerState::Begin => WorkerState::Read(model.call_signal(at, WorkSignal::begin_poll)),
            WorkerState::Read(mark) => WorkerState::Claim(mark, self.available()),
            WorkerState::Claim(mark, available) => {
                let free = self.nodes[at].slots;
                let shortage = match self.omitted {
                    OmittedCall::EndOfPoll => Shortage { slots: false, threads: false },
                    _ => Shortage::of(&available, free),
                };
                if available.ready {
                    model.claim(at, free);
                }
                // After a claim the worker polls again at once, or after a moment if another node claimed first.
                WorkerState::End { mark, shortage, again: available.ready && free > 0 }
            }
            WorkerState::End { mark, shortage, again } => {
                model.call_signal(at, |signal| signal.end_poll(mark, shortage));
                if again { WorkerState::Begin } else { WorkerState::Asleep }
            }
            WorkerState::Asleep => {
                model.nodes[at].signal.raised = false;
                WorkerState::Begin
            }
        };
        Some(model)
    }

    fn claim(&mut self, node: usize, free: usize) {
        let mut claimed = 0;
        for at in 0..self.dispatches.len() {
            let one = &self.dispatches[at];
            if claimed < free && one.row == DispatchState::Queued && self.is_free(one.thread) {
                self.dispatches[at].row = DispatchState::Claimed;
                self.dispatches[at].holder = ClaimHolder::Worker(node);
                claimed += 1;
            }
        }
        self.nodes[node].slots -= claimed;
    }

    /// Returns the step of a change that takes a slot for its dispatch and is rejected.
    fn rejected_change_step(&self, at: usize) -> Option<SignalModel> {
        let (rejected_change, slots) = (self.nodes[at].rejected_change, self.nodes[at].slots);
        if rejected_change == 2 || (rejected_change == 0 && slots == 0) {
            return None;
        }
        let mut model = self.clone();
        model.nodes[at].rejected_change += 1;
        if rejected_change == 0 {
            model.nodes[at].slots -= 1;
        } else {
            model.free_slot(at);
        }
        Some(model)
    }

    /// Returns the step in which the worker stops before its next poll. Its claims end later.
    fn stop_step(&self, at: usize) -> Option<SignalModel> {
        let ready_to = matches!(self.nodes[at].worker, WorkerState::Begin | WorkerState::Asleep);
        if !self.nodes[at].may_stop || !ready_to {
            return None;
        }
        let mut model = self.clone();
        model.nodes[at].worker = WorkerState::Never;
        model.call_signal(at, WorkSignal::stop_polling);
        if self.omitted != OmittedCall::HintOfStopped {
            model.send_hints(at);
        }
        Some(model)
    }

    fn hint_step(&self, at: usize) -> Option<SignalModel> {
        if !self.nodes[at].hint {
            return None;
        }
        let mut model = self.clone();
        model.nodes[at].hint = false;
        model.call_signal(at, WorkSignal::raise);
        Some(model)
    }
}
