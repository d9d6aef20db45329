//! One approval permits each effect behind it once, and only in the run that received it.

use std::collections::BTreeMap;

use holdpoint_engine::core::{Answer, Command, Drain, ForkMode, InterruptId, Principal, Run, RunRef};
use holdpoint_engine::{Error, ForkRequest, Overlay, PayloadBinding};
use serde_json::{Value, json};

use crate::outgoing::node::{failure, open};
use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, alice, graph, node, tenant};

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
    Peer::with_replies([PeerReply::json(200, "{}")]).await
}

/// A gate, a delay that can be used for copies, and a payment.
fn delayed(peer: &Peer, config: Value) -> Value {
    let delay = node("delay", "core.delay", json!({"ms": 60_000}));
    graph("pay", &[gate(config), delay, pay("pay", peer)], &[edge("gate", "delay"), edge("delay", "pay")])
}

pub(crate) async fn fork(env: &TestEnv, of: &RunRef, mode: ForkMode, from_seq: u64) -> RunRef {
    let request = ForkRequest {
        by: "bot".to_owned(),
        credential: None,
        mode,
        from_seq,
        overlay: Overlay::default(),
        once: None,
    };
    let run = env.engine.runs().fork(of, request).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

/// Returns the number of events up to and including the last one of this name.
pub(crate) async fn events_through(env: &TestEnv, of: &RunRef, name: &str) -> u64 {
    let named = format!("\"type\":\"{name}\"");
    env.log(of).await.iter().rposition(|line| line.contains(&named)).unwrap() as u64 + 1
}

async fn vote(env: &TestEnv, of: &RunRef, name: &str) -> Result<(), Error> {
    let answer = Answer::new(accept(), Principal::named(name));
    let command = Command::Resolve { answers: BTreeMap::from([(InterruptId(1), answer)]) };
    env.engine.runs().execute(of, &command).await.map(|_| ())
}

pub(crate) fn uses(run: &Run) -> Vec<(String, u32)> {
    let uses = run.interrupts.iter().flat_map(|asked| &asked.uses);
    uses.map(|used| (used.node.to_string(), used.visit)).collect()
}

/// Earlier, one approval and five replays made six payments.
async fn replays_during_a_delay_do_not_pay_again(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    env.register(delayed(&peer, json!({}))).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    let mut copies = Vec::new();
    for _ in 0..5 {
        copies.push(fork(&env, &of, ForkMode::Replay, 0).await);
    }
    env.clock.advance(60_000);
    env.drain().await;
    assert_eq!((env.status(&of).await, peer.requests().len()), ("completed", 1));
    for copy in &copies {
        let failed = failure(&env, copy).await;
        assert_eq!(failed.code, "grant_not_transferable");
        assert!(failed.message.contains("branch before the gate"), "{}", failed.message);
        assert_eq!(uses(&*env.run(copy).await), []);
    }
}

/// Earlier, a pause, a branch at `run.resumed` and replays of that branch paid again after the run had completed.
async fn a_replay_of_a_branch_does_not_pay_again(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    env.register(graph("pay", &[gate(json!({})), pay("pay", &peer)], &[edge("gate", "pay")])).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    let pause = Command::Pause { reason: None, drain: Drain::DrainCurrentNode, by: alice() };
    env.engine.runs().execute(&of, &pause).await.unwrap();
    env.answer(&of, "gate", accept()).await.unwrap();
    env.engine.runs().execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&of).await, peer.requests().len()), ("completed", 1));
    let resumed = events_through(&env, &of, "run.resumed").await;
    let branch = fork(&env, &of, ForkMode::Branch, resumed - 1).await;
    let replay = fork(&env, &branch, ForkMode::Replay, 0).await;
    let deeper = fork(&env, &replay, ForkMode::Replay, 0).await;
    for copy in [&branch, &replay, &deeper] {
        env.engine.runs().execute(copy, &Command::Resume { by: alice() }).await.unwrap();
        env.drain().await;
        assert_eq!(failure(&env, copy).await.code, "grant_not_transferable");
    }
    assert_eq!(peer.requests().len(), 1);
}

/// Earlier, one vote on the source and one in each branch made three payments.
async fn votes_of_the_source_do_not_count_in_a_copy(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let config = json!({"requiredApprovals": 2});
    env.register(graph("pay", &[gate(config), pay("pay", &peer)], &[edge("gate", "pay")])).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    vote(&env, &of, "ann").await.unwrap();
    let cast = events_through(&env, &of, "holdpoint.vote.cast").await;
    for mode in [ForkMode::Branch, ForkMode::Replay] {
        let copy = fork(&env, &of, mode, cast).await;
        vote(&env, &copy, "bob").await.unwrap();
        env.drain().await;
        assert_eq!((env.status(&copy).await, peer.requests().len()), ("waiting-approval", 0));
        let run = env.run(&copy).await;
        let shown: Vec<_> =
            run.interrupts[0].votes.iter().map(|vote| (vote.by.as_str(), vote.copied)).collect();
        assert_eq!(shown, [("ann", true), ("bob", false)]);
    }
    // A voter of the source can vote on the copy.
    let copy = fork(&env, &of, ForkMode::Branch, cast).await;
    vote(&env, &copy, "ann").await.unwrap();
    vote(&env, &copy, "bob").await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&copy).await, peer.requests().len()), ("completed", 1));
    assert_eq!(env.run(&copy).await.interrupts[0].deciders(), ["ann", "bob"]);
}

async fn a_copy_before_the_gate_asks_again_and_pays_once(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    env.register(delayed(&peer, json!({}))).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    let copy = fork(&env, &of, ForkMode::Replay, 0).await;
    env.answer(&copy, "gate", accept()).await.unwrap();
    env.clock.advance(60_000);
    env.drain().await;
    assert_eq!((env.status(&copy).await, env.status(&of).await), ("completed", "waiting-approval"));
    assert_eq!((peer.requests().len(), uses(&*env.run(&copy).await)), (1, vec![("pay".to_owned(), 1)]));
}

/// Effects without `approvedBy` use the grant, too.
async fn each_effect_behind_a_gate_uses_the_grant_once(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let nodes = [gate(json!({})), pay("one", &peer), pay("two", &peer), pay("three", &peer)];
    let edges = [edge("gate", "one"), edge("gate", "two"), edge("two", "three")];
    env.register(graph("pay", &nodes, &edges)).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    let granted = events_through(&env, &of, "interrupt.resolved").await;
    env.drain().await;
    assert_eq!((env.status(&of).await, peer.requests().len()), ("completed", 3));
    let mut used = uses(&*env.run(&of).await);
    used.sort();
    assert_eq!(used, [("one".to_owned(), 1), ("three".to_owned(), 1), ("two".to_owned(), 1)]);
    // A copy that ends within the last effect of the run cannot repeat the effect.
    let begun = events_through(&env, &of, "node.started").await;
    for from_seq in [granted, begun] {
        let branch = fork(&env, &of, ForkMode::Branch, from_seq).await;
        env.drain().await;
        assert_eq!(failure(&env, &branch).await.code, "grant_not_transferable");
    }
    assert_eq!(peer.requests().len(), 3);
}

async fn a_node_that_opts_out_runs_in_a_copy(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let mut free = pay("pay", &peer);
    free["grant"] = json!("none");
    env.register(graph("pay", &[gate(json!({})), free], &[edge("gate", "pay")])).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    let granted = events_through(&env, &of, "interrupt.resolved").await;
    env.drain().await;
    let branch = fork(&env, &of, ForkMode::Branch, granted).await;
    env.drain().await;
    assert_eq!((env.status(&branch).await, peer.requests().len()), ("completed", 2));
    assert_eq!(uses(&*env.run(&of).await), []);
    let notes = env.engine.workflows().grant_notes(&env.run(&of).await.workflow);
    assert!(notes[0].message.contains("grant: \"none\""), "{notes:?}");
}

/// `approvedBy` is implied where the gate shows the variable that the call sends.
async fn a_body_that_differs_from_the_shown_variable_is_not_sent(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let change = node("change", "core.setVariable", json!({"name": "sum", "value": 1_000_000}));
    let nodes = [gate(json!({"actions": ["accept", "edit-accept"]})), change, pay("pay", &peer)];
    env.register(graph("changed", &nodes, &[edge("gate", "change"), edge("change", "pay")])).await;
    let of = env.start_with("changed", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!(failure(&env, &of).await.code, "approval_mismatch");
    // An edited value is what was granted, and this call does not send it.
    env.register(graph("pay", &[nodes[0].clone(), nodes[2].clone()], &[edge("gate", "pay")])).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    let edit = json!({"action": "edit-accept", "editedArtifactData": 2});
    env.answer(&of, "gate", edit).await.unwrap();
    env.drain().await;
    assert_eq!(failure(&env, &of).await.code, "approval_mismatch");
    assert!(peer.requests().is_empty());
    let permits =
        env.engine.workflows().permits(&env.run(&of).await.workflow, &env.run(&of).await.interrupts[0].node);
    assert_eq!(permits[0].payload, PayloadBinding::Fixed);
}

fn parent() -> Value {
    let child =
        node("child", "core.subWorkflow", json!({"workflowId": "child", "inputMapping": {"sum": "sum"}}));
    graph("parent", &[gate(json!({})), child], &[edge("gate", "child")])
}

async fn child_runs_carry_the_grant_and_their_copies_cannot_use_it(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    env.register(graph("child", &[pay("pay", &peer)], &[])).await;
    env.register(parent()).await;
    let of = env.start_with("parent", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&of).await, peer.requests().len()), ("completed", 1));
    let run = env.run(&of).await;
    assert_eq!(uses(&run), [("child".to_owned(), 1)]);
    let child = RunRef { tenant: tenant(), run: run.children[0].run.clone() };
    let carried = env.run(&child).await.started.as_ref().unwrap().grants.clone();
    assert_eq!(carried, [run.grant_id(InterruptId(1))]);
    for mode in [ForkMode::Branch, ForkMode::Replay] {
        let copy = fork(&env, &child, mode, 0).await;
        env.drain().await;
        if mode == ForkMode::Branch {
            assert_eq!(failure(&env, &copy).await.code, "grant_not_transferable");
        }
    }
    // A copy of the parent does not start the child again, either.
    let branch =
        fork(&env, &of, ForkMode::Branch, events_through(&env, &of, "interrupt.resolved").await).await;
    env.drain().await;
    assert_eq!(failure(&env, &branch).await.code, "grant_not_transferable");
    assert_eq!(peer.requests().len(), 1);
}

async fn children_behind_a_grant_are_not_restarted_in_a_copy(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let delay = node("delay", "core.delay", json!({"ms": 60_000}));
    env.register(graph("child", &[delay, pay("pay", &peer)], &[edge("delay", "pay")])).await;
    env.register(parent()).await;
    let of = env.start_with("parent", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    let copies = [
        fork(&env, &of, ForkMode::Replay, 0).await,
        fork(&env, &of, ForkMode::Branch, env.log(&of).await.len() as u64).await,
    ];
    env.clock.advance(60_000);
    env.drain().await;
    for copy in &copies {
        let failed = failure(&env, copy).await;
        assert!(format!("{failed:?}").contains("grant_not_transferable"), "{failed:?}");
    }
    assert_eq!((env.status(&of).await, peer.requests().len()), ("completed", 1));
}

async fn a_replay_of_a_completed_run_repeats_its_record(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    env.register(graph("child", &[pay("pay", &peer)], &[])).await;
    env.register(parent()).await;
    let of = env.start_with("parent", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    let replay = fork(&env, &of, ForkMode::Replay, 0).await;
    env.drain().await;
    assert_eq!((env.status(&replay).await, peer.requests().len()), ("completed", 1));
    assert!(!env.log(&replay).await.iter().any(|line| line.contains("replay.diverged")));
}

/// A copy of a copy that ends between the failure of a node and the failure of the run has no work left.
async fn a_branch_that_ends_before_the_failure_of_its_source_fails(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    env.register(delayed(&peer, json!({}))).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    let copy = fork(&env, &of, ForkMode::Replay, 0).await;
    env.clock.advance(60_000);
    env.drain().await;
    let failed = events_through(&env, &copy, "node.failed").await;
    let branch = fork(&env, &copy, ForkMode::Branch, failed).await;
    env.drain().await;
    assert_eq!(failure(&env, &branch).await.code, "grant_not_transferable");
    assert_eq!(peer.requests().len(), 1);
}
