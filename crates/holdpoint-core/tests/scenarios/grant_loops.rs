//! Grants in loops: an iteration uses the grant of an earlier one only if the gate permits it.

use holdpoint_core::{InterruptId, Refusal, UnusableGrant};
use serde_json::{Value, json};

use crate::grants::{begin_effect, decided, full_approval, interrupt, node_started_using, of_node, uses_of};
use crate::story::{Story, on};
use crate::vocabulary::*;

/// Returns a story in which a payment was made and repeats in the next iteration, after a gate that is not repeated.
fn second_iteration(covers: Value) -> Story {
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
fn a_later_iteration_cannot_use_the_grant_of_an_earlier_one() {
    let story = second_iteration(json!(["pay", "pay2"]));
    let used = UnusableGrant::Used { gate: node_id("gate"), node: node_id("pay") };
    assert_eq!(story.run().usable_grants(&node_id("pay")), Err(used.clone()));
    let story = story.when(begin_effect("pay")).then([node_started_using("pay", &[])]);
    let story = story.when(record("pay", "sent", json!(2))).refused(Refusal::UnusableGrant(used.clone()));
    assert_eq!(uses_of(&story, 1), [of_node("pay", 1)]);
    assert_eq!((used.code().as_str(), used.error().code.as_str()), ("grant_used", "grant_used"));
}

#[test]
fn a_later_iteration_uses_the_grant_of_a_gate_that_permits_repetition() {
    let story = second_iteration(json!([{"node": "pay", "repeat": true}, "pay2"]));
    let story = story.when(begin_effect("pay")).then([node_started_using("pay", &[1])]);
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
        let granted = interrupt(&story, 1);
        assert_eq!(granted.granted_payload(), Some(&payload));
        assert!(granted.grants_digest(&holdpoint_core::digest(&payload)));
        assert_eq!(granted.grants_digest(granted.digest.as_deref().expect("a digest")), !edited);
    }
}

#[test]
fn an_approval_requested_by_a_provider_is_for_that_node_and_visit_only() {
    let provider = with(node("gate"), "typeId", json!("core.provider"));
    let again = with(edge_if("output.again == true", "pay", "gate"), "id", json!("back"));
    let flow =
        workflow([node("first"), provider, node("pay")], [edge("first", "gate"), edge("gate", "pay"), again]);
    let story = on(flow)
        .given([start(), begin("first"), done("first"), begin_effect("gate"), ask("gate", full_approval())])
        .given([accept(1)]);
    let usable = |story: &Story, node: &str| story.run().usable_grants(&node_id(node));
    assert_eq!(usable(&story, "gate"), Ok(vec![InterruptId(1)]));
    assert_eq!(usable(&story, "pay"), Ok(Vec::new()));
    let story = story
        .given([record("gate", "called", json!(1)), done("gate"), begin_effect("pay")])
        .given([done_with("pay", json!({"again": true}))]);
    story.when(begin_effect("gate")).then([node_started_using("gate", &[])]);
}
