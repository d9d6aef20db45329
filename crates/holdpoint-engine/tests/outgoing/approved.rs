//! Shown is what runs: what is sent is what somebody approved, and nothing else leaves.

use holdpoint_engine::Error;
use holdpoint_engine::core::{ForkMode, RunRef};
use serde_json::{Value, json};

use crate::grants::{edge, fork};
use crate::house::{House, accept, graph, node, tenant};
use crate::node::{failure, open};
use crate::peer::{Peer, Reply};
use crate::place::{Place, on_both};

on_both! {
    what_was_approved_is_sent,
    what_nobody_approved_is_not_sent,
    what_was_edited_is_what_must_be_sent,
    without_a_grant_nothing_is_sent,
    each_round_needs_a_grant_of_its_own,
    a_branch_behind_the_gate_needs_a_grant_of_its_own,
    a_replay_needs_no_other_grant_and_sends_nothing,
    a_gate_that_cannot_grant_is_a_flaw,
    what_was_altered_after_it_was_shown_is_not_acted_on,
    what_was_altered_after_it_was_granted_is_not_sent,
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

/// Somebody to pay, and a run that waits for an approval.
async fn waiting(house: &House, shown: &str, sent: &str, inputs: Value) -> (Peer, RunRef) {
    let peer = Peer::saying([Reply::json(200, "{}"), Reply::json(200, "{}")]).await;
    house.register(paying(&peer.url("/"), shown, sent)).await;
    let of = house.start_with("pay", inputs).await;
    (peer, of)
}

async fn what_was_approved_is_sent(place: Place) {
    let house = House::with(place, open).await;
    // The same to a canonical eye: order and spelling of numbers do not matter.
    let inputs = json!({"shown": {"to": "ann", "amount": 100}, "sent": {"amount": 100.0, "to": "ann"}});
    let (peer, of) = waiting(&house, "shown", "sent", inputs).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed", "{:?}", house.run(&of).await.end);
    assert_eq!(peer.heard().len(), 1);
}

async fn what_nobody_approved_is_not_sent(place: Place) {
    let house = House::with(place, open).await;
    let large = 1_234_567_890_123_456_789_u64;
    for (shown, sent) in [
        (json!({"amount": 100}), json!({"amount": 999})),
        (json!({"amount": 100}), json!({"amount": 100, "to": "eve"})),
        // One double to the digest, two accounts to a bank.
        (json!({"account": large}), json!({"account": large + 1})),
        (json!({"account": 9_007_199_254_740_993_u64}), json!({"account": 9_007_199_254_740_992_u64})),
        (json!({"account": 9_007_199_254_740_993_u64}), json!({"account": 9_007_199_254_740_992.0})),
    ] {
        let (peer, of) = waiting(&house, "shown", "sent", json!({"shown": shown, "sent": sent})).await;
        house.answer(&of, "gate", accept()).await.unwrap();
        house.drain().await;
        assert_eq!(failure(&house, &of).await.code, "approval_mismatch");
        assert!(peer.heard().is_empty(), "{sent} was sent for {shown}");
    }
}

async fn what_was_edited_is_what_must_be_sent(place: Place) {
    let house = House::with(place, open).await;
    let edit = json!({"action": "edit-accept", "editedArtifactData": {"amount": 70}});
    let (shown, edited) = (json!({"amount": 100}), json!({"amount": 70}));
    for (sent, calls) in [(&shown, 0), (&edited, 1)] {
        let (peer, of) = waiting(&house, "shown", "sent", json!({"shown": shown, "sent": sent})).await;
        house.answer(&of, "gate", edit.clone()).await.unwrap();
        house.drain().await;
        assert_eq!(peer.heard().len(), calls);
    }
}

async fn without_a_grant_nothing_is_sent(place: Place) {
    let house = House::with(place, open).await;
    // To ask for a better version is no grant, though the gate is passed.
    let (peer, of) = waiting(&house, "sum", "sum", json!({"sum": 1})).await;
    let refine = json!({"action": "refine", "refineFeedback": {"scope": "whole", "text": "less"}});
    house.answer(&of, "gate", refine).await.unwrap();
    house.drain().await;
    assert_eq!(failure(&house, &of).await.code, "approval_mismatch");
    assert!(peer.heard().is_empty());
    // A way around the gate leads nowhere.
    let mut flow = paying(&peer.url("/"), "sum", "sum");
    flow["edges"][0]["triggerRule"] = json!("any_failed");
    house.register(flow).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    house.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
    house.drain().await;
    assert_eq!(failure(&house, &of).await.code, "approval_mismatch");
    assert!(peer.heard().is_empty());
}

async fn each_round_needs_a_grant_of_its_own(place: Place) {
    let house = House::with(place, open).await;
    let peer = Peer::saying([Reply::json(200, "{}"), Reply::json(200, "{}")]).await;
    let mut flow = paying(&peer.url("/"), "sum", "sum");
    let nodes = flow["nodes"].as_array_mut().unwrap();
    nodes.insert(0, node("start", "core.start", json!({})));
    flow["edges"].as_array_mut().unwrap().extend([edge("start", "gate"), edge("pay", "gate")]);
    house.register(flow).await;
    let of = house.start_with("pay", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    assert_eq!((house.status(&of).await, peer.heard().len()), ("waiting-approval", 1));
    house.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
    house.drain().await;
    assert_eq!((house.status(&of).await, peer.heard().len()), ("failed", 1));
}

/// How many events there are up to and with the first of this name.
async fn behind(house: &House, of: &RunRef, name: &str) -> u64 {
    let named = format!("\"type\":\"{name}\"");
    house.log(of).await.iter().position(|line| line.contains(&named)).unwrap() as u64 + 1
}

async fn a_branch_behind_the_gate_needs_a_grant_of_its_own(place: Place) {
    let house = House::with(place, open).await;
    let (peer, of) = waiting(&house, "sum", "sum", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    assert_eq!((house.status(&of).await, peer.heard().len()), ("completed", 1));
    let granted = behind(&house, &of, "interrupt.resolved").await;
    let branch = fork(&house, &of, ForkMode::Branch, granted).await;
    house.drain().await;
    let failed = failure(&house, &branch).await;
    assert_eq!(failed.code, "grant_not_transferable");
    assert!(failed.message.contains("branch before the gate"), "{}", failed.message);
    // Nor does a branch of a branch that was asked anew bring the grant along.
    let asked = granted - 1;
    let anew = fork(&house, &of, ForkMode::Branch, asked).await;
    assert_eq!(house.status(&anew).await, "waiting-approval");
    house.answer(&anew, "gate", accept()).await.unwrap();
    let granted = behind(&house, &anew, "interrupt.resolved").await;
    let again = fork(&house, &anew, ForkMode::Branch, granted).await;
    house.drain().await;
    assert_eq!(failure(&house, &again).await.code, "grant_not_transferable");
    // The one that was asked anew has a grant of its own, though no time has passed since it was made.
    assert_eq!((house.status(&anew).await, peer.heard().len()), ("completed", 2));
}

async fn a_replay_needs_no_other_grant_and_sends_nothing(place: Place) {
    let house = House::with(place, open).await;
    let (peer, of) = waiting(&house, "sum", "sum", json!({"sum": 1})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    let copy = fork(&house, &of, ForkMode::Replay, 0).await;
    house.drain().await;
    assert_eq!((house.status(&copy).await, peer.heard().len()), ("completed", 1));
    assert!(!house.run(&copy).await.diverged);
}

async fn a_gate_that_cannot_grant_is_a_flaw(place: Place) {
    let house = House::with(place, open).await;
    let flow = |change: &dyn Fn(&mut Value)| {
        let mut flow = paying("http://127.0.0.1:9/", "sum", "sum");
        change(&mut flow);
        flow
    };
    let flaws = [
        (flow(&|flow| flow["nodes"][1]["config"]["approvedBy"] = json!("nobody")), "there is no node"),
        (flow(&|flow| flow["nodes"][1]["config"]["approvedBy"] = json!(7)), "must be the id"),
        (flow(&|flow| flow["nodes"][0] = node("gate", "core.noop", json!({}))), "is not an approval gate"),
        (flow(&|flow| flow["edges"] = json!([edge("pay", "gate")])), "no path of edges leads"),
        (flow(&|flow| flow["nodes"][1]["inputs"]["url"] = port("url")), "nobody is shown"),
        (flow(&|flow| flow["nodes"][1]["inputs"] = json!({})), "needs the input body"),
        (
            flow(&|flow| {
                flow["edges"].as_array_mut().unwrap().push(edge("pay", "pay"));
            }),
            "one approval would serve every round",
        ),
    ];
    for (flow, expected) in flaws {
        let Err(Error::InvalidWorkflow(flaws)) = house.engine.register(&tenant(), flow).await else {
            panic!("{expected}: it was registered");
        };
        let told: Vec<String> = flaws.iter().map(ToString::to_string).collect();
        assert!(told.iter().any(|flaw| flaw.contains(expected)), "{expected}: {told:?}");
    }
}

/// Changes what is stored, behind everybody's back.
async fn alter(house: &House, from: &str, to: &str) {
    let sql = format!("UPDATE events SET events = REPLACE(events, '{from}', '{to}')");
    house.place.execute(&sql).await.unwrap();
}

async fn what_was_altered_after_it_was_shown_is_not_acted_on(place: Place) {
    let house = House::with(place, open).await;
    let (peer, of) = waiting(&house, "sum", "sum", json!({"sum": 10_101})).await;
    // Both where it came from and where it was shown, so that they agree with each other.
    alter(&house, "10101", "90909").await;
    let house = house.reopen(open).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    let run = house.run(&of).await;
    assert_eq!(run.interrupts[0].data["artifactData"], 90_909, "it was altered");
    assert_eq!(failure(&house, &of).await.code, "payload_mismatch");
    assert!(peer.heard().is_empty());
}

async fn what_was_altered_after_it_was_granted_is_not_sent(place: Place) {
    let house = House::with(place, open).await;
    let (peer, of) = waiting(&house, "sum", "sum", json!({"sum": 10_101})).await;
    house.answer(&of, "gate", accept()).await.unwrap();
    // The grant is stored, and no worker has come by yet.
    alter(&house, "10101", "90909").await;
    let house = house.reopen(open).await;
    house.drain().await;
    assert_eq!(failure(&house, &of).await.code, "payload_mismatch");
    assert!(peer.heard().is_empty());
}
