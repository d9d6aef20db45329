//! Grants in loops: a round uses the grant of another one only where the gate permits it.

use holdpoint_core::{Refusal, UnusableGrant};
use serde_json::{Value, json};

use crate::grants::{asked, begin_effect, begun, decided, of_node, uses_of};
use crate::story::Story;
use crate::words::*;

/// A payment that was made and begins again in the next round, behind a gate that is not asked again.
fn second_round(covers: Value) -> Story {
    let again = with(edge_if("output.again == true", "pay", "pay2"), "id", json!("on"));
    let back = with(edge("pay2", "pay"), "id", json!("back"));
    let flow = workflow([node("gate"), node("pay"), node("pay2")], [edge("gate", "pay"), again, back]);
    let request = approval_of(json!({"actions": ["accept"], "covers": covers}));
    decided(flow, request, accept(1))
        .given([
            begin_effect("pay"),
            record("pay", "sent", json!(1)),
            done_with("pay", json!({"again": true})),
        ])
        .given([begin("pay2"), done("pay2")])
}

#[test]
fn a_later_round_cannot_use_the_grant_of_an_earlier_one() {
    let story = second_round(json!(["pay", "pay2"]));
    let used = UnusableGrant::Used { gate: node_id("gate"), node: node_id("pay") };
    assert_eq!(story.run().usable_grants(&node_id("pay")), Err(used.clone()));
    let story = story.when(begin_effect("pay")).then([begun("pay", &[])]);
    let story = story.when(record("pay", "sent", json!(2))).refused(Refusal::UnusableGrant(used.clone()));
    assert_eq!(uses_of(&story, 1), [of_node("pay", 1)]);
    assert_eq!((used.code(), used.error().code.as_str()), ("grant_used", "grant_used"));
}

#[test]
fn a_later_round_uses_the_grant_of_a_gate_that_permits_it() {
    let story = second_round(json!([{"node": "pay", "repeat": true}, "pay2"]));
    let story = story.when(begin_effect("pay")).then([begun("pay", &[1])]);
    assert_eq!(uses_of(&story, 1), [of_node("pay", 1), of_node("pay", 2)]);
}

#[test]
fn an_edited_draft_is_the_payload_of_a_content_review() {
    let data = json!({"customKind": "content_review", "data": {"draft": "shown"}});
    for (answer_value, payload) in [
        (json!({"action": "approve"}), json!("shown")),
        (json!({"action": "approve", "draft": "edited"}), json!("edited")),
    ] {
        let request = request(holdpoint_core::Kind::Custom, data.clone());
        let story = decided(
            workflow([node("gate"), node("publish")], [edge("gate", "publish")]),
            request,
            answer(1, answer_value),
        );
        let edited = payload != json!("shown");
        let granted = asked(&story, 1);
        assert_eq!(granted.granted_payload(), Some(&payload));
        assert!(granted.grants_digest(&holdpoint_core::digest(&payload)));
        assert_eq!(granted.grants_digest(granted.digest.as_deref().expect("a digest")), !edited);
    }
}
