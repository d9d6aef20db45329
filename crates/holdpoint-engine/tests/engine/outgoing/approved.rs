//! `core.http` with `approvedBy`: only the payload that was shown and approved is sent.

use holdpoint_engine::Error;
use holdpoint_engine::core::{ForkMode, RunRef};
use serde_json::{Value, json};

use crate::outgoing::grants::{edge, fork};
use crate::outgoing::node::{failure, open};
use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, graph, node, tenant};

on_both! {
    the_approved_payload_is_sent,
    a_payload_that_was_not_approved_is_not_sent,
    after_an_edit_only_the_edited_payload_is_sent,
    a_refinement_or_rejection_gives_no_grant,
    each_round_of_a_loop_needs_its_own_grant,
    a_branch_after_the_gate_cannot_use_the_grant_of_its_source,
    a_replay_of_a_completed_run_needs_no_grant_and_sends_no_request,
    an_invalid_approved_by_is_rejected_at_registration,
    a_payload_altered_before_the_approval_is_not_sent,
    a_payload_altered_after_the_approval_is_not_sent,
}

fn port(variable: &str) -> Value {
    json!({"type": "variable", "variableName": variable})
}

/// A gate that shows one variable, and a call that sends another.
fn paying(url: &str, shown: &str, sent: &str) -> Value {
    let actions = json!({"actions": ["accept", "reject", "refine", "edit"]});
    let mut gate = node("gate", "core.approvalGate", actions);
    gate["inputs"] = json!({"artifact": port(shown)});
    let config = json!({"method": "POST", "url": url, "approvedBy": "gate"});
    let mut pay = node("pay", "core.http", config);
    pay["inputs"] = json!({"body": port(sent)});
    graph("pay", &[gate, pay], &[edge("gate", "pay")])
}

/// Starts a server and a run that waits for an approval.
async fn waiting(env: &TestEnv, shown: &str, sent: &str, inputs: Value) -> (Peer, RunRef) {
    let peer = Peer::with_replies([PeerReply::json(200, "{}"), PeerReply::json(200, "{}")]).await;
    env.register(paying(&peer.url("/"), shown, sent)).await;
    let of = env.start_with("pay", inputs).await;
    (peer, of)
}

async fn the_approved_payload_is_sent(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    // The canonical JSON is equal: the order of members and the notation of numbers do not matter.
    let inputs = json!({"shown": {"to": "ann", "amount": 100}, "sent": {"amount": 100.0, "to": "ann"}});
    let (peer, of) = waiting(&env, "shown", "sent", inputs).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed", "{:?}", env.run(&of).await.end);
    assert_eq!(peer.requests().len(), 1);
}

async fn a_payload_that_was_not_approved_is_not_sent(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let large = 1_234_567_890_123_456_789_u64;
    for (shown, sent) in [
        (json!({"amount": 100}), json!({"amount": 999})),
        (json!({"amount": 100}), json!({"amount": 100, "to": "eve"})),
        // Two account numbers with the same double-precision value.
        (json!({"account": large}), json!({"account": large + 1})),
        (json!({"account": 9_007_199_254_740_993_u64}), json!({"account": 9_007_199_254_740_992_u64})),
        (json!({"account": 9_007_199_254_740_993_u64}), json!({"account": 9_007_199_254_740_992.0})),
    ] {
        let (peer, of) = waiting(&env, "shown", "sent", json!({"shown": shown, "sent": sent})).await;
        env.answer(&of, "gate", accept()).await.unwrap();
        env.drain().await;
        assert_eq!(failure(&env, &of).await.code, "approval_mismatch");
        assert!(peer.requests().is_empty(), "{sent} was sent for {shown}");
    }
}

async fn after_an_edit_only_the_edited_payload_is_sent(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let edit = json!({"action": "edit-accept", "editedArtifactData": {"amount": 70}});
    let (shown, edited) = (json!({"amount": 100}), json!({"amount": 70}));
    for (sent, calls) in [(&shown, 0), (&edited, 1)] {
        let (peer, of) = waiting(&env, "shown", "sent", json!({"shown": shown, "sent": sent})).await;
        env.answer(&of, "gate", edit.clone()).await.unwrap();
        env.drain().await;
        assert_eq!(peer.requests().len(), calls);
    }
}

async fn a_refinement_or_rejection_gives_no_grant(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    // A refinement passes the gate but gives no grant.
    let (peer, of) = waiting(&env, "sum", "sum", json!({"sum": 1})).await;
    let refine = json!({"action": "refine", "refineFeedback": {"scope": "whole", "text": "less"}});
    env.answer(&of, "gate", refine).await.unwrap();
    env.drain().await;
    assert_eq!(failure(&env, &of).await.code, "approval_mismatch");
    assert!(peer.requests().is_empty());
    // An edge that is taken after a rejection gives no grant, either.
    let mut flow = paying(&peer.url("/"), "sum", "sum");
    flow["edges"][0]["triggerRule"] = json!("any_failed");
    env.register(flow).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    env.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
    env.drain().await;
    assert_eq!(failure(&env, &of).await.code, "approval_mismatch");
    assert!(peer.requests().is_empty());
}

async fn each_round_of_a_loop_needs_its_own_grant(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = Peer::with_replies([PeerReply::json(200, "{}"), PeerReply::json(200, "{}")]).await;
    let mut flow = paying(&peer.url("/"), "sum", "sum");
    let nodes = flow["nodes"].as_array_mut().unwrap();
    nodes.insert(0, node("start", "core.start", json!({})));
    flow["edges"].as_array_mut().unwrap().extend([edge("start", "gate"), edge("pay", "gate")]);
    env.register(flow).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&of).await, peer.requests().len()), ("waiting-approval", 1));
    env.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&of).await, peer.requests().len()), ("failed", 1));
}

/// Returns the number of events up to and including the first one of this name.
async fn events_through_first(env: &TestEnv, of: &RunRef, name: &str) -> u64 {
    let named = format!("\"type\":\"{name}\"");
    env.log(of).await.iter().position(|line| line.contains(&named)).unwrap() as u64 + 1
}

async fn a_branch_after_the_gate_cannot_use_the_grant_of_its_source(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let (peer, of) = waiting(&env, "sum", "sum", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&of).await, peer.requests().len()), ("completed", 1));
    let granted = events_through_first(&env, &of, "interrupt.resolved").await;
    let branch = fork(&env, &of, ForkMode::Branch, granted).await;
    env.drain().await;
    let failed = failure(&env, &branch).await;
    assert_eq!(failed.code, "grant_not_transferable");
    assert!(failed.message.contains("branch before the gate"), "{}", failed.message);
    // A branch of a branch with its own approval does not get the grant, either.
    let asked = granted - 1;
    let second_branch = fork(&env, &of, ForkMode::Branch, asked).await;
    assert_eq!(env.status(&second_branch).await, "waiting-approval");
    env.answer(&second_branch, "gate", accept()).await.unwrap();
    let granted = events_through_first(&env, &second_branch, "interrupt.resolved").await;
    let again = fork(&env, &second_branch, ForkMode::Branch, granted).await;
    env.drain().await;
    assert_eq!(failure(&env, &again).await.code, "grant_not_transferable");
    // The branch that was approved again has its own grant, even though the clock has not moved.
    assert_eq!((env.status(&second_branch).await, peer.requests().len()), ("completed", 2));
}

async fn a_replay_of_a_completed_run_needs_no_grant_and_sends_no_request(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let (peer, of) = waiting(&env, "sum", "sum", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    let copy = fork(&env, &of, ForkMode::Replay, 0).await;
    env.drain().await;
    assert_eq!((env.status(&copy).await, peer.requests().len()), ("completed", 1));
    assert!(!env.run(&copy).await.diverged);
}

async fn an_invalid_approved_by_is_rejected_at_registration(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let flow = |change: &dyn Fn(&mut Value)| {
        let mut flow = paying("http://127.0.0.1:9/", "sum", "sum");
        change(&mut flow);
        flow
    };
    let flaws = [
        (flow(&|flow| flow["nodes"][1]["config"]["approvedBy"] = json!("missing")), "there is no node"),
        (flow(&|flow| flow["nodes"][1]["config"]["approvedBy"] = json!(7)), "must be the id"),
        (flow(&|flow| flow["nodes"][0] = node("gate", "core.noop", json!({}))), "is not an approval gate"),
        (flow(&|flow| flow["edges"] = json!([edge("pay", "gate")])), "no path of edges leads"),
        (flow(&|flow| flow["nodes"][1]["inputs"]["url"] = port("url")), "which approvers do not see"),
        (flow(&|flow| flow["nodes"][1]["inputs"] = json!({})), "requires the input body"),
        (
            flow(&|flow| {
                flow["edges"].as_array_mut().unwrap().push(edge("pay", "pay"));
            }),
            "one approval would serve every round",
        ),
    ];
    for (flow, expected) in flaws {
        let Err(Error::InvalidWorkflow(flaws)) = env.engine.workflows().register(&tenant(), flow).await
        else {
            panic!("{expected}: the definition was registered");
        };
        let messages: Vec<String> = flaws.iter().map(ToString::to_string).collect();
        assert!(messages.iter().any(|flaw| flaw.contains(expected)), "{expected}: {messages:?}");
    }
}

/// Changes stored events with SQL, not through the engine.
async fn alter(env: &TestEnv, from: &str, to: &str) {
    let sql = format!("UPDATE events SET events = REPLACE(events, '{from}', '{to}')");
    env.database.execute(&sql).await.unwrap();
}

async fn a_payload_altered_before_the_approval_is_not_sent(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let (peer, of) = waiting(&env, "sum", "sum", json!({"sum": 10_101})).await;
    // The input and the payload of the interrupt change together, so that they are equal.
    alter(&env, "10101", "90909").await;
    let env = env.reopen(open).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    let run = env.run(&of).await;
    assert_eq!(run.interrupts[0].data["artifactData"], 90_909, "the stored payload is altered");
    assert_eq!(failure(&env, &of).await.code, "payload_mismatch");
    assert!(peer.requests().is_empty());
}

async fn a_payload_altered_after_the_approval_is_not_sent(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let (peer, of) = waiting(&env, "sum", "sum", json!({"sum": 10_101})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    // The grant is stored, and no worker has executed the effect yet.
    alter(&env, "10101", "90909").await;
    let env = env.reopen(open).await;
    env.drain().await;
    assert_eq!(failure(&env, &of).await.code, "payload_mismatch");
    assert!(peer.requests().is_empty());
}
