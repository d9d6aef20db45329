//! Explores every order of the steps of enqueuers, claim holders and workers with the real signal. In every state
//! without a next step, except for the backstop, all rows must have ended.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::model::{DispatchState, Node, OmittedCall, SignalModel, WorkerState, claimed, dispatch, node};

impl SignalModel {
    fn without(self, omitted: OmittedCall) -> Self {
        Self { omitted, ..self }
    }

    /// Returns the number of reachable states, and one in which a row waits for the backstop, if there is any.
    fn explore(self) -> (usize, Option<SignalModel>) {
        // Hashes instead of states: there are some hundred thousand.
        let mut seen = HashSet::from([hash(&self)]);
        let mut open = vec![self];
        while let Some(model) = open.pop() {
            let steps = model.steps();
            if steps.is_empty() && model.dispatches.iter().any(|one| one.row != DispatchState::Ended) {
                return (seen.len(), Some(model));
            }
            for mut next in steps {
                next.nodes.iter_mut().for_each(Node::normalize_counts);
                if seen.insert(hash(&next)) {
                    open.push(next);
                }
            }
        }
        (seen.len(), None)
    }
}

fn hash(model: &SignalModel) -> u64 {
    let mut hasher = DefaultHasher::new();
    model.hash(&mut hasher);
    hasher.finish()
}

fn one_busy_thread() -> SignalModel {
    SignalModel::new(vec![node(2)], vec![claimed(0, 0), dispatch(0, 0), dispatch(0, 0)])
}

fn few_slots() -> SignalModel {
    let busy = Node { rejected_change: 0, ..node(1) };
    SignalModel::new(vec![busy], vec![dispatch(0, 0), dispatch(0, 0), dispatch(1, 0)])
}

fn two_nodes() -> SignalModel {
    SignalModel::new(vec![node(1), node(1)], vec![dispatch(0, 0), dispatch(0, 1)])
}

fn a_node_without_worker() -> SignalModel {
    let none = Node { worker: WorkerState::Never, ..node(1) };
    SignalModel::new(vec![none, node(1)], vec![claimed(0, 0), dispatch(0, 0)])
}

fn a_stopping_node() -> SignalModel {
    let stopping = Node { may_stop: true, ..node(1) };
    SignalModel::new(vec![stopping, node(1)], vec![dispatch(0, 0), dispatch(0, 1)])
}

#[track_caller]
fn assert_no_row_waits(model: SignalModel) {
    let (seen, stuck) = model.explore();
    assert!(stuck.is_none(), "of {seen} states: {stuck:#?}");
    assert!(seen > 100, "only {seen} states");
}

#[test]
fn a_row_of_a_busy_thread_never_waits_for_the_backstop() {
    assert_no_row_waits(one_busy_thread());
}

#[test]
fn a_row_without_a_free_slot_never_waits_for_the_backstop() {
    assert_no_row_waits(few_slots());
}

#[test]
fn a_row_of_a_thread_that_is_busy_on_another_node_never_waits_for_the_backstop() {
    assert_no_row_waits(two_nodes());
}

#[test]
fn a_row_of_a_node_without_a_worker_never_waits_for_the_backstop() {
    assert_no_row_waits(a_node_without_worker());
}

#[test]
fn a_row_of_a_thread_that_is_busy_on_a_stopping_node_never_waits_for_the_backstop() {
    assert_no_row_waits(a_stopping_node());
}

#[test]
fn the_exploration_detects_every_omitted_call() {
    let table = [
        (one_busy_thread(), OmittedCall::ClaimEnds),
        (one_busy_thread(), OmittedCall::EndOfPoll),
        (few_slots(), OmittedCall::FreedSlots),
        (two_nodes(), OmittedCall::ClaimEnds),
        (a_node_without_worker(), OmittedCall::HintsOfEnqueuers),
        (a_node_without_worker(), OmittedCall::ClaimEnds),
        (a_stopping_node(), OmittedCall::HintOfStopped),
    ];
    for (model, omitted) in table {
        assert!(model.without(omitted).explore().1.is_some(), "no signal is lost without {omitted:?}");
    }
}
