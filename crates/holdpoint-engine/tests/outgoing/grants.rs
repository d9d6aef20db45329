//! One approval permits each effect behind it once, and only in the run that received it.

use std::collections::BTreeMap;

use holdpoint_engine::core::{Answer, Command, Drain, ForkMode, InterruptId, Principal, Run, RunRef};
use holdpoint_engine::{Error, ForkRequest, Overlay, Payload};
use serde_json::{Value, json};

use crate::house::{House, accept, alice, graph, node, tenant};
use crate::node::{failure, open};
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

on_both! {
    replays_during_a_delay_do_not_pay_again,
    a_replay_of_a_branch_does_not_pay_again,
    votes_of_the_source_do_not_count_in_a_copy,
    a_copy_before_the_gate_asks_again_and_pays_once,
    each_effect_behind_a_gate_uses_the_grant_once,
    a_node_that_opts_out_runs_in_a_copy,
    a_body_that_differs_from_the_shown_variable_is_not_sent,
    child_runs_carry_the_grant_and_their_copies_cannot_use_it,
    children_behind_a_grant_are_not_restarted_in_a_copy,
    a_replay_of_a_completed_run_repeats_its_record,
    a_branch_that_ends_before_the_failure_of_its_source_fails,
}

pub(crate) fn edge(from: &str, to: &str) -> Value {
    json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
}

fn variable(name: &str) -> Value {
    json!({"type": "variable", "variableName": name})
}

pub(crate) fn gate(config: Value) -> Value {
    let mut gate = node("gate", "core.approvalGate", config);
    gate["inputs"] = json!({"artifact": variable("sum")});
    gate
}

pub(crate) fn pay(id: &str, peer: &Peer) -> Value {
    let mut pay = node(id, "core.http", json!({"method": "POST", "url": peer.url("/")}));
    pay["inputs"] = json!({"body": variable("sum")});
    pay
}

pub(crate) async fn peer() -> Peer {
    Peer::saying([Reply::json(200, "{}")]).await
}

/// A gate, a delay that can be used for copies, and a payment.
fn delayed(peer: &Peer, config: Value) -> Value {
    let delay = node("delay", "core.delay", json!({"ms": 60_000}));
    graph("pay", &[gate(config), delay, pay("pay", peer)], &[edge("gate", "delay"), edge("delay", "pay")])
}

pub(crate) async fn fork(house: &House, of: &RunRef, mode: ForkMode, from_seq: u64) -> RunRef {
    let request = ForkRequest {
        by: "bot".to_owned(),
        credential: None,
        mode,
        from_seq,
        overlay: Overlay::default(),
        once: None,
    };
    let run = house.engine.fork(of, request).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

/// Returns the number of events up to and including the last one of this name.
pub(crate) async fn behind(house: &House, of: &RunRef, name: &str) -> u64 {
    let named = format!("\"type\":\"{name}\"");
    house.log(of).await.iter().rposition(|line| line.contains(&named)).unwrap() as u64 + 1
}

async fn vote(house: &House, of: &RunRef, name: &str) -> Result<(), Error> {
    let answer = Answer::new(accept(), Principal::named(name));
    let command = Command::Resolve { answers: BTreeMap::from([(InterruptId(1), answer)]) };
    house.engine.execute(of, &command).await.map(|_| ())
}

pub(crate) fn uses(run: &Run) -> Vec<(String, u32)> {
    let uses = run.interrupts.iter().flat_map(|asked| &asked.uses);
    uses.map(|used| (used.node.to_string(), used.visit)).collect()
}

/// Earlier, one approval and five replays made six payments.
async fn replays_during_a_delay_do_not_pay_again(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    house.register(delayed(&peer, json!({}))).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    let mut copies = Vec::new();
    for _ in 0..5 {
        copies.push(fork(&house, &of, ForkMode::Replay, 0).await);
    }
    house.clock.advance(60_000);
    house.drain().await;
    assert_eq!((house.status(&of).await, peer.heard().len()), ("completed", 1));
    for copy in &copies {
        let failed = failure(&house, copy).await;
        assert_eq!(failed.code, "grant_not_transferable");
        assert!(failed.message.contains("branch before the gate"), "{}", failed.message);
        assert_eq!(uses(&*house.run(copy).await), []);
    }
}

/// Earlier, a pause, a branch at `run.resumed` and replays of that branch paid again after the run had completed.
async fn a_replay_of_a_branch_does_not_pay_again(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    house.register(graph("pay", &[gate(json!({})), pay("pay", &peer)], &[edge("gate", "pay")])).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    let pause = Command::Pause { reason: None, drain: Drain::DrainCurrentNode, by: alice() };
    house.engine.execute(&of, &pause).await.unwrap();
    house.answer(&of, "gate", accept()).await.unwrap();
    house.engine.execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    house.drain().await;
    assert_eq!((house.status(&of).await, peer.heard().len()), ("completed", 1));
    let resumed = behind(&house, &of, "run.resumed").await;
    let branch = fork(&house, &of, ForkMode::Branch, resumed - 1).await;
    let replay = fork(&house, &branch, ForkMode::Replay, 0).await;
    let deeper = fork(&house, &replay, ForkMode::Replay, 0).await;
    for copy in [&branch, &replay, &deeper] {
        house.engine.execute(copy, &Command::Resume { by: alice() }).await.unwrap();
        house.drain().await;
        assert_eq!(failure(&house, copy).await.code, "grant_not_transferable");
    }
    assert_eq!(peer.heard().len(), 1);
}

/// Earlier, one vote on the source and one in each branch made three payments.
async fn votes_of_the_source_do_not_count_in_a_copy(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    let config = json!({"requiredApprovals": 2});
    house.register(graph("pay", &[gate(config), pay("pay", &peer)], &[edge("gate", "pay")])).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    vote(&house, &of, "ann").await.unwrap();
    let cast = behind(&house, &of, "holdpoint.vote.cast").await;
    for mode in [ForkMode::Branch, ForkMode::Replay] {
        let copy = fork(&house, &of, mode, cast).await;
        vote(&house, &copy, "bob").await.unwrap();
        house.drain().await;
        assert_eq!((house.status(&copy).await, peer.heard().len()), ("waiting-approval", 0));
        let run = house.run(&copy).await;
        let shown: Vec<_> =
            run.interrupts[0].votes.iter().map(|vote| (vote.by.as_str(), vote.copied)).collect();
        assert_eq!(shown, [("ann", true), ("bob", false)]);
    }
    // A voter of the source can vote on the copy.
    let copy = fork(&house, &of, ForkMode::Branch, cast).await;
    vote(&house, &copy, "ann").await.unwrap();
    vote(&house, &copy, "bob").await.unwrap();
    house.drain().await;
    assert_eq!((house.status(&copy).await, peer.heard().len()), ("completed", 1));
    assert_eq!(house.run(&copy).await.interrupts[0].deciders(), ["ann", "bob"]);
}

async fn a_copy_before_the_gate_asks_again_and_pays_once(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    house.register(delayed(&peer, json!({}))).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    let copy = fork(&house, &of, ForkMode::Replay, 0).await;
    house.answer(&copy, "gate", accept()).await.unwrap();
    house.clock.advance(60_000);
    house.drain().await;
    assert_eq!((house.status(&copy).await, house.status(&of).await), ("completed", "waiting-approval"));
    assert_eq!((peer.heard().len(), uses(&*house.run(&copy).await)), (1, vec![("pay".to_owned(), 1)]));
}

/// Effects without `approvedBy` use the grant, too.
async fn each_effect_behind_a_gate_uses_the_grant_once(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    let nodes = [gate(json!({})), pay("one", &peer), pay("two", &peer), pay("three", &peer)];
    let edges = [edge("gate", "one"), edge("gate", "two"), edge("two", "three")];
    house.register(graph("pay", &nodes, &edges)).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    let granted = behind(&house, &of, "interrupt.resolved").await;
    house.drain().await;
    assert_eq!((house.status(&of).await, peer.heard().len()), ("completed", 3));
    let mut used = uses(&*house.run(&of).await);
    used.sort();
    assert_eq!(used, [("one".to_owned(), 1), ("three".to_owned(), 1), ("two".to_owned(), 1)]);
    // A copy that was cut inside the run's last effect cannot make it again.
    let begun = behind(&house, &of, "node.started").await;
    for from_seq in [granted, begun] {
        let branch = fork(&house, &of, ForkMode::Branch, from_seq).await;
        house.drain().await;
        assert_eq!(failure(&house, &branch).await.code, "grant_not_transferable");
    }
    assert_eq!(peer.heard().len(), 3);
}

async fn a_node_that_opts_out_runs_in_a_copy(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    let mut free = pay("pay", &peer);
    free["grant"] = json!("none");
    house.register(graph("pay", &[gate(json!({})), free], &[edge("gate", "pay")])).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    let granted = behind(&house, &of, "interrupt.resolved").await;
    house.drain().await;
    let branch = fork(&house, &of, ForkMode::Branch, granted).await;
    house.drain().await;
    assert_eq!((house.status(&branch).await, peer.heard().len()), ("completed", 2));
    assert_eq!(uses(&*house.run(&of).await), []);
    let notes = house.engine.grant_notes(&house.run(&of).await.workflow);
    assert!(notes[0].message.contains("grant: \"none\""), "{notes:?}");
}

/// `approvedBy` is implied where the gate shows the variable that the call sends.
async fn a_body_that_differs_from_the_shown_variable_is_not_sent(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    let change = node("change", "core.setVariable", json!({"name": "sum", "value": 1_000_000}));
    let nodes = [gate(json!({"actions": ["accept", "edit-accept"]})), change, pay("pay", &peer)];
    house.register(graph("changed", &nodes, &[edge("gate", "change"), edge("change", "pay")])).await;
    let of = house.start_with("changed", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    assert_eq!(failure(&house, &of).await.code, "approval_mismatch");
    // An edited value is what was granted, and this call does not send it.
    house.register(graph("pay", &[nodes[0].clone(), nodes[2].clone()], &[edge("gate", "pay")])).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    let edit = json!({"action": "edit-accept", "editedArtifactData": 2});
    house.answer(&of, "gate", edit).await.unwrap();
    house.drain().await;
    assert_eq!(failure(&house, &of).await.code, "approval_mismatch");
    assert!(peer.heard().is_empty());
    let permits =
        house.engine.permits(&house.run(&of).await.workflow, &house.run(&of).await.interrupts[0].node);
    assert_eq!(permits[0].payload, Payload::Fixed);
}

fn parent() -> Value {
    let child =
        node("child", "core.subWorkflow", json!({"workflowId": "child", "inputMapping": {"sum": "sum"}}));
    graph("parent", &[gate(json!({})), child], &[edge("gate", "child")])
}

async fn child_runs_carry_the_grant_and_their_copies_cannot_use_it(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    house.register(graph("child", &[pay("pay", &peer)], &[])).await;
    house.register(parent()).await;
    let of = house.start_with("parent", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    assert_eq!((house.status(&of).await, peer.heard().len()), ("completed", 1));
    let run = house.run(&of).await;
    assert_eq!(uses(&run), [("child".to_owned(), 1)]);
    let child = RunRef { tenant: tenant(), run: run.children[0].run.clone() };
    let carried = house.run(&child).await.started.as_ref().unwrap().grants.clone();
    assert_eq!(carried, [run.grant_id(InterruptId(1))]);
    for mode in [ForkMode::Branch, ForkMode::Replay] {
        let copy = fork(&house, &child, mode, 0).await;
        house.drain().await;
        if mode == ForkMode::Branch {
            assert_eq!(failure(&house, &copy).await.code, "grant_not_transferable");
        }
    }
    // Nor does a copy of the parent start the child again.
    let branch = fork(&house, &of, ForkMode::Branch, behind(&house, &of, "interrupt.resolved").await).await;
    house.drain().await;
    assert_eq!(failure(&house, &branch).await.code, "grant_not_transferable");
    assert_eq!(peer.heard().len(), 1);
}

async fn children_behind_a_grant_are_not_restarted_in_a_copy(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    let delay = node("delay", "core.delay", json!({"ms": 60_000}));
    house.register(graph("child", &[delay, pay("pay", &peer)], &[edge("delay", "pay")])).await;
    house.register(parent()).await;
    let of = house.start_with("parent", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    let copies = [
        fork(&house, &of, ForkMode::Replay, 0).await,
        fork(&house, &of, ForkMode::Branch, house.log(&of).await.len() as u64).await,
    ];
    house.clock.advance(60_000);
    house.drain().await;
    for copy in &copies {
        let failed = failure(&house, copy).await;
        assert!(format!("{failed:?}").contains("grant_not_transferable"), "{failed:?}");
    }
    assert_eq!((house.status(&of).await, peer.heard().len()), ("completed", 1));
}

async fn a_replay_of_a_completed_run_repeats_its_record(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    house.register(graph("child", &[pay("pay", &peer)], &[])).await;
    house.register(parent()).await;
    let of = house.start_with("parent", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    let replay = fork(&house, &of, ForkMode::Replay, 0).await;
    house.drain().await;
    assert_eq!((house.status(&replay).await, peer.heard().len()), ("completed", 1));
    assert!(!house.log(&replay).await.iter().any(|line| line.contains("replay.diverged")));
}

/// A copy of a copy that is cut between the failure of a node and that of the run has nothing left to do.
async fn a_branch_that_ends_before_the_failure_of_its_source_fails(place: Place) {
    let house = House::with(place, open).await;
    let peer = peer().await;
    house.register(delayed(&peer, json!({}))).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    let copy = fork(&house, &of, ForkMode::Replay, 0).await;
    house.clock.advance(60_000);
    house.drain().await;
    let failed = behind(&house, &copy, "node.failed").await;
    let branch = fork(&house, &copy, ForkMode::Branch, failed).await;
    house.drain().await;
    assert_eq!(failure(&house, &branch).await.code, "grant_not_transferable");
    assert_eq!(peer.heard().len(), 1);
}
