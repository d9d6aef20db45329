//! Approvals: the actions that count, the approvers, and the record of a decision.

use holdpoint_core::{
    Answer, Command, InterruptId, InterruptRequest, Principal, Refusal, Resolution, Status,
};
use serde_json::{Value, json};

use crate::story::{START_TIME, Story, given};
use crate::vocabulary::*;

/// Returns a story in which a gate with these members waits.
fn gate(members: Value) -> Story {
    given([start(), begin("gate"), ask("gate", approval_of(members))])
}

fn offering<const N: usize>(actions: [&str; N]) -> Story {
    gate(json!({"actions": actions.as_slice()}))
}

fn decided(mut value: Value) -> Value {
    value["decidedBy"] = json!("ada");
    value["decidedAt"] = json!(START_TIME.to_string());
    value
}

#[track_caller]
fn assert_recorded(story: Story, value: &Value) {
    story.when(answer(1, value.clone())).then([
        resolved(1, decided(value.clone())),
        approval_received(1),
        resumed("gate", 1),
    ]);
}

#[test]
fn every_offered_action_counts_and_is_recorded_with_its_decider_and_time() {
    assert_recorded(offering(["accept"]), &json!({"action": "accept", "feedback": "fine"}));
    assert_recorded(offering(["reject"]), &json!({"action": "reject"}));
    assert_recorded(
        offering(["edit-accept"]),
        &json!({"action": "edit-accept", "editedArtifactData": {"amount": 5}}),
    );
    assert_recorded(
        offering(["refine"]),
        &json!({"action": "refine", "refineFeedback": {"scope": "whole", "text": "shorter"}}),
    );
}

#[test]
fn an_action_that_is_not_offered_is_refused_and_the_gate_still_waits() {
    for action in ["reject", "refine", "edit-accept", "ask", "ACCEPT", ""] {
        offering(["accept"])
            .when(answer(1, json!({"action": action, "editedArtifactData": 1})))
            .refused_for("resumeValue.action")
            .status_is(Status::WaitingApproval);
    }
    offering(["accept", "edit"]).when(answer(1, json!({"action": "dance"}))).refused(Refusal::invalid(
        "resumeValue.action",
        r#""dance" is not offered here; offered: accept, edit-accept"#,
    ));
}

#[test]
fn offering_edit_permits_the_action_edit_accept_but_not_edit() {
    let edited = json!({"action": "edit-accept", "editedArtifactData": {"amount": 5}});
    assert_recorded(offering(["edit"]), &edited);
    offering(["edit"]).when(answer(1, json!({"action": "edit"}))).refused_for("resumeValue.action");
}

#[test]
fn edit_accept_needs_the_edited_data() {
    offering(["edit"])
        .when(answer(1, json!({"action": "edit-accept"})))
        .refused_for("resumeValue.editedArtifactData");
}

#[test]
fn a_refinement_has_a_scope_with_its_members() {
    let refine = |feedback: Value| {
        let value = json!({"action": "refine", "refineFeedback": feedback});
        offering(["refine"]).when(answer(1, value))
    };
    offering(["refine"])
        .when(answer(1, json!({"action": "refine"})))
        .refused_for("resumeValue.refineFeedback");
    refine(json!("shorter")).refused_for("resumeValue.refineFeedback");
    refine(json!({})).refused_for("resumeValue.refineFeedback.scope");
    refine(json!({"scope": "half"})).refused_for("resumeValue.refineFeedback.scope");
    refine(json!({"scope": "section"})).refused_for("resumeValue.refineFeedback.sectionPath");
    refine(json!({"scope": "items"})).refused_for("resumeValue.refineFeedback.itemIds");
    refine(json!({"scope": "items", "itemIds": [1]})).refused_for("resumeValue.refineFeedback.itemIds");
    refine(json!({"scope": "whole"})).accepted();
    refine(json!({"scope": "section", "sectionPath": "2.1"})).accepted();
    refine(json!({"scope": "items", "itemIds": ["a", "b"]})).accepted();
}

#[test]
fn an_answer_is_an_object_with_an_action() {
    for value in [json!("accept"), json!(null), json!(["accept"]), json!(true)] {
        offering(["accept"]).when(answer(1, value)).refused_for("resumeValue");
    }
    for value in [json!({}), json!({"action": 1}), json!({"action": null})] {
        offering(["accept"]).when(answer(1, value)).refused_for("resumeValue.action");
    }
}

#[test]
fn only_listed_approvers_decide_by_name_or_by_role() {
    let listed = |list: Value| gate(json!({"actions": ["accept"], "approversList": list}));
    let bob = || Principal { roles: vec!["ops".to_owned()], ..Principal::named("bob") };
    for list in [json!(["ada"]), json!(["bob", "finance"]), json!([])] {
        listed(list).when(accept(1)).accepted();
    }
    let accept_by = |by: Principal| answer_by(by, 1, json!({"action": "accept"}));
    listed(json!(["ada", "finance"]))
        .when(accept_by(bob()))
        .refused(Refusal::NotAnApprover("bob".to_owned()))
        .status_is(Status::WaitingApproval)
        .when(accept(1))
        .accepted();
    // The refusal of a principal that may not decide does not depend on the answer.
    listed(json!(["ada"]))
        .when(answer_by(bob(), 1, json!(7)))
        .refused(Refusal::NotAnApprover("bob".to_owned()));
}

/// Returns the recorded answer to an approval that was sent with these members.
fn record_of(story: Story, mut members: Value) -> Value {
    if members.get("action").is_none() {
        members["action"] = json!("accept");
    }
    let story = story.given([answer(1, members)]);
    match &story.interrupt_of("gate").expect("an interrupt").resolution {
        Some(Resolution::Answered { value, .. }) => value.clone(),
        other => panic!("not answered: {other:?}"),
    }
}

#[test]
fn a_decision_has_the_time_of_the_server_and_the_claimed_time_of_the_client() {
    for instant in ["2020-01-01T00:00:00.000Z", "1999-12-31T23:59:59+02:00"] {
        let value = record_of(offering(["accept"]), json!({"decidedAt": instant}));
        assert_eq!(
            value,
            decided(json!({"action": "accept", "claimedAt": instant})),
            "a client's time is a claim"
        );
    }
    for invalid in [json!("yesterday"), json!("2020-13-01T00:00:00Z"), json!(5), json!(null)] {
        let answered = json!({"action": "accept", "decidedAt": invalid});
        offering(["accept"]).when(answer(1, answered)).refused_for("resumeValue.decidedAt");
    }
    let without_claim = record_of(offering(["accept"]), json!({"claimedAt": "2020-01-01T00:00:00Z"}));
    assert_eq!(without_claim.get("claimedAt"), None);
}

#[test]
fn feedback_must_be_a_text() {
    offering(["accept"])
        .when(answer(1, json!({"action": "accept", "feedback": 5})))
        .refused_for("resumeValue.feedback");
}

#[test]
fn unknown_members_of_an_approval_are_recorded_as_ignored() {
    let sent = json!({
        "payment": {"amount": 7}, "comment": "fine", "editedArtifactData": 1, "quorum": 2, "ignored": {"before": 3},
    });
    let value = record_of(offering(["accept", "edit"]), sent);
    let ignored = json!({"payment": {"amount": 7}, "editedArtifactData": 1, "quorum": 2, "before": 3});
    assert_eq!(value, decided(json!({"action": "accept", "comment": "fine", "ignored": ignored})));
    let edited = json!({"action": "edit-accept", "editedArtifactData": 1});
    assert_eq!(record_of(offering(["edit"]), edited.clone()), decided(edited));
    let schema = json!({"properties": {"ticket": {"type": "string"}, "quorum": true}, "required": ["desk"]});
    let asked =
        InterruptRequest { resume_schema: Some(schema), ..approval_of(json!({"actions": ["accept"]})) };
    let story = given([start(), begin("gate"), ask("gate", asked.clone())]);
    let value = record_of(story, json!({"ticket": "T-1", "desk": 4, "quorum": 9}));
    let expected = json!({"action": "accept", "ticket": "T-1", "desk": 4, "ignored": {"quorum": 9}});
    assert_eq!(value, decided(expected));
    let gate = asked.outputs(&value);
    let names: Vec<&str> = gate.outputs.keys().map(String::as_str).collect();
    assert_eq!(names, ["ticket", "desk", "action", "decidedBy", "decidedAt"]);
    assert_eq!(gate.unmapped, ["ticket", "desk"]);
    // An older version recorded all members of an answer.
    let older = asked.outputs(&json!({"action": "accept", "payment": 7}));
    assert_eq!(older.outputs, object(json!({"action": "accept"})));
}

#[test]
fn a_repeated_decision_with_ignored_members_is_recognized() {
    let named = |value: Value| {
        let answer = Answer { decision: Some("d1".to_owned()), ..Answer::new(value, ada()) };
        Command::Resolve { answers: [(InterruptId(1), answer)].into() }
    };
    let sent = json!({"action": "accept", "payment": 7, "decidedAt": "2020-01-01T00:00:00Z"});
    let story = offering(["accept"]).given([named(sent.clone())]);
    let story = story.when(named(sent)).then([]);
    story
        .when(named(json!({"action": "accept", "payment": 8})))
        .refused(Refusal::DecisionConflict("d1".to_owned()));
}

#[test]
fn the_older_decision_values_are_mapped_to_actions() {
    let all = ["accept", "reject", "refine"];
    let decided = |members: Value| {
        let mut value = json!({"decidedBy": "ada", "decidedAt": START_TIME.to_string()});
        object(members).into_iter().for_each(|(name, member)| value[name] = member);
        [resolved(1, value), approval_received(1), resumed("gate", 1)]
    };
    let whole = json!({"scope": "whole", "text": "too dear"});
    let section = json!({"scope": "section", "sectionPath": "2"});
    for (given, understood) in [
        (json!({"decision": "approved"}), json!({"action": "accept"})),
        (
            json!({"decision": "approved", "feedback": "fine"}),
            json!({"action": "accept", "feedback": "fine"}),
        ),
        (json!({"decision": "rejected"}), json!({"action": "reject"})),
        (json!({"decision": "rejected", "feedback": ""}), json!({"action": "reject", "feedback": ""})),
        (
            json!({"decision": "rejected", "feedback": "too dear"}),
            json!({"action": "refine", "feedback": "too dear", "refineFeedback": whole}),
        ),
        (
            json!({"decision": "rejected", "feedback": "too dear", "refineFeedback": section}),
            json!({"action": "refine", "feedback": "too dear", "refineFeedback": section}),
        ),
    ] {
        offering(all).when(answer(1, given)).then(decided(understood));
    }
    // If `refine` is not offered, a rejection with feedback stays a rejection.
    offering(["accept", "reject"])
        .when(answer(1, json!({"decision": "rejected", "feedback": "too dear"})))
        .then(decided(json!({"action": "reject", "feedback": "too dear"})));
    offering(["accept"]).when(answer(1, json!({"decision": "rejected"}))).refused_for("resumeValue.action");
    for unknown in ["timeout", "cancelled", "maybe"] {
        offering(all).when(answer(1, json!({"decision": unknown}))).refused_for("resumeValue.decision");
    }
    let both = json!({"action": "accept", "decision": "rejected"});
    offering(all).when(answer(1, both.clone())).then(decided(both));
}

#[test]
fn a_decision_has_the_time_of_the_answer_not_of_the_request() {
    let at = START_TIME.plus_ms(90_000).to_string();
    let value = json!({"action": "accept", "decidedBy": "ada", "decidedAt": at});
    offering(["accept"]).later(90_000).when(accept(1)).then([
        resolved(1, value),
        approval_received(1),
        resumed("gate", 1),
    ]);
}

#[test]
fn the_title_of_an_approval_comes_from_its_data() {
    let story = offering(["accept"]);
    assert_eq!(story.interrupt_of("gate").map(holdpoint_core::Interrupt::title), Some("Pay?"));
}
