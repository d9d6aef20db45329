//! Tests of the translation of payloads into answers.

use holdpoint_core::{InterruptRequest, Kind};
use serde_json::json;

use super::*;
use crate::agui::test_runs::{
    call, entries, interrupt, permission, provider_call, run_with_interrupts, ticket,
};

fn answer_to(request: InterruptRequest, payload: Value) -> Result<Value, String> {
    let run = run_with_interrupts(&[request]);
    answer(interrupt(&run, 1), Some(&payload))
}

fn gate(actions: Value) -> InterruptRequest {
    let data = json!({"artifactId": "a", "artifactType": "t", "title": "Go on?", "actions": actions});
    InterruptRequest::new(Kind::Approval, data)
}

#[test]
fn a_payload_allows_edits_or_rejects_a_call() {
    let of = |payload| answer_to(permission("c1"), payload);
    assert_eq!(of(json!({"approved": true})), Ok(json!({"action": "accept"})));
    let edited = json!({"approved": true, "editedArgs": {"result": 1, "arguments": 2}});
    let expected =
        json!({"action": "edit-accept", "editedArtifactData": {"arguments": {"result": 1, "arguments": 2}}});
    assert_eq!(of(edited), Ok(expected), "all members are arguments");
    assert_eq!(of(json!({"approved": false})), Ok(json!({"action": "reject"})));
    let why = json!({"approved": false, "reason": "no", "editedArgs": {}});
    assert_eq!(of(why), Ok(json!({"action": "reject", "feedback": "no"})));
    for bad in [
        json!({}),
        json!(true),
        json!("yes"),
        json!({"approved": "yes"}),
        json!({"approved": true, "editedArgs": 7}),
    ] {
        assert!(of(bad.clone()).is_err(), "{bad}");
    }
    let mut fixed = permission("c1");
    fixed.data["actions"] = json!(["accept", "reject"]);
    assert!(answer_to(fixed, json!({"approved": true, "editedArgs": {}})).is_err(), "edits are not allowed");
    let run = run_with_interrupts(&[permission("c1")]);
    assert!(answer(interrupt(&run, 1), None).is_err(), "a payload is required");
}

#[test]
fn a_call_of_a_provider_accepts_edited_arguments_and_the_answers_of_a_gate() {
    let of = |payload| answer_to(provider_call(json!(["accept", "reject", "edit-accept"])), payload);
    let edited = json!({"approved": true, "editedArgs": {"command": "pwd"}});
    let expected = json!({"action": "edit-accept",
        "editedArtifactData": {"tool": "Bash", "input": {"command": "pwd"}}});
    assert_eq!(of(edited), Ok(expected));
    assert_eq!(of(json!({"approved": true})), Ok(json!({"action": "accept"})));
    assert_eq!(of(json!(true)), Ok(json!({"action": "accept"})));
    let rejected = Ok(json!({"action": "reject", "feedback": "no"}));
    assert_eq!(of(json!({"approved": false, "reason": "no", "editedArgs": {}})), rejected);
    assert_eq!(of(json!({"action": "reject", "feedback": "no"})), rejected);
    assert!(of(json!({"approved": true, "editedArgs": 7})).is_err());
    let fixed = provider_call(json!(["accept", "reject"]));
    assert!(answer_to(fixed, json!({"approved": true, "editedArgs": {}})).is_err(), "edits are not allowed");
}

#[test]
fn a_rejected_tool_call_is_never_made() {
    let of = |mode, payload| answer_to(ticket("confirmation", mode, None), payload);
    let replay = ToolCallResumeMode::ReplayToolCall;
    assert_eq!(of(replay, json!(true)), Ok(json!({"action": "resume", "result": true})));
    for no in [json!(false), json!({"approved": false}), json!({"confirmed": false})] {
        assert_eq!(of(replay, no.clone()).unwrap()["action"], "cancel", "{no}");
    }
    let given = of(ToolCallResumeMode::PassDecisionToTool, json!(false)).unwrap();
    assert_eq!(given, json!({"action": "resume", "result": false}), "the tool decides");
    for neither in [
        json!(0),
        json!("no"),
        json!("false"),
        json!({}),
        json!({"approved": "false"}),
        json!({"answer": false}),
    ] {
        assert!(of(replay, neither.clone()).is_err(), "{neither}");
        assert!(of(ToolCallResumeMode::PassDecisionToTool, neither.clone()).is_err(), "{neither}");
    }
}

#[test]
fn a_gate_accepts_booleans_and_holdpoint_answers() {
    let all = || json!(["accept", "reject", "edit-accept", "refine"]);
    let of = |payload| answer_to(gate(all()), payload);
    assert_eq!(of(json!(true)), Ok(json!({"action": "accept"})));
    assert_eq!(of(json!(false)), Ok(json!({"action": "reject"})));
    let no = json!({"approved": false, "feedback": "later"});
    assert_eq!(of(no), Ok(json!({"action": "reject", "feedback": "later"})));
    let own = json!({"action": "refine", "refineFeedback": {"scope": "whole"}});
    assert_eq!(of(own.clone()), Ok(own));
    let edited = json!({"approved": true, "editedArtifactData": {"a": 1}});
    assert_eq!(of(edited).unwrap()["action"], "edit-accept");
    assert!(of(json!("yes")).is_err() && of(json!({})).is_err());
}

#[test]
fn answers_to_a_clarification_may_be_flat_or_wrapped() {
    let questions =
        || InterruptRequest::new(Kind::Clarification, json!({"questions": [{"id": "q", "question": "Q?"}]}));
    let whole = json!({"answers": {"q": 1}});
    assert_eq!(answer_to(questions(), json!({"q": 1})), Ok(whole.clone()));
    assert_eq!(answer_to(questions(), whole.clone()), Ok(whole));
}

#[test]
fn cancelling_declines_the_interrupt_if_possible_and_otherwise_ends_the_run() {
    let of = |request| {
        let run = run_with_interrupts(&[request]);
        cancel(interrupt(&run, 1))
    };
    let CancelEffect::Answer(value) = of(permission("c1")) else { panic!() };
    assert_eq!(value["action"], "reject");
    let CancelEffect::Answer(value) = of(ticket("pick", ToolCallResumeMode::default(), None)) else {
        panic!()
    };
    assert_eq!(value["action"], "cancel");
    assert!(matches!(of(gate(json!(["accept", "reject"]))), CancelEffect::Answer(_)));
    assert_eq!(of(gate(json!(["accept"]))), CancelEffect::Run);
    assert_eq!(of(InterruptRequest::new(Kind::Custom, json!({"customKind": "x"}))), CancelEffect::Run);
}

#[test]
fn the_result_of_a_call_with_unknown_outcome_can_be_given() {
    let request = holdpoint_core::agent::Ticket::outcome_unknown(
        "k".to_owned(),
        &call("c1"),
        &holdpoint_core::agent::ApprovalSettings::default(),
        None,
    );
    let given = answer_to(request.request.clone(), json!({"approved": true, "result": {"sent": 1}})).unwrap();
    assert_eq!(given["editedArtifactData"], json!({"result": {"sent": 1}}));
    assert_eq!(answer_to(request.request, json!({"approved": true})), Ok(json!({"action": "accept"})));
}

#[test]
fn the_decision_prefix_depends_on_interrupt_status_and_payload() {
    let of = |value| decision_prefix(&entries(json!([value]))[0]);
    let yes = of(json!({"interruptId": "a:i1", "status": "resolved", "payload": {"x": 1, "y": 2}}));
    let again = of(json!({"payload": {"y": 2, "x": 1}, "status": "resolved", "interruptId": "a:i1"}));
    assert_eq!(yes, again);
    assert_ne!(yes, of(json!({"interruptId": "a:i2", "status": "resolved", "payload": {"x": 1, "y": 2}})));
    assert_ne!(yes, of(json!({"interruptId": "a:i1", "status": "cancelled"})));
}

#[test]
fn an_answer_of_ag_ui_is_repeated_by_the_same_entry_and_another_answer_by_an_equivalent_one() {
    let entry = |status: &str, payload: Value| {
        let mut entry = json!({"interruptId": "a:i1", "status": status});
        if !payload.is_null() {
            entry["payload"] = payload;
        }
        entries(json!([entry])).remove(0)
    };
    let run = run_with_interrupts(&[permission("c1")]);
    let refused = entry("resolved", json!({"approved": false}));
    let answered = |decision: Option<String>| {
        let (value, at) = (json!({"action": "reject", "decidedBy": "ann"}), holdpoint_core::Timestamp(0));
        let resolution = Some(Resolution::Answered {
            value,
            by: "ann".to_owned(),
            at,
            decision,
            via: None,
            client_metadata: serde_json::Map::new(),
        });
        let mut asked = interrupt(&run, 1).clone();
        asked.resolution = resolution;
        asked
    };
    let here = answered(Some(format!("{}x", decision_prefix(&refused))));
    assert!(is_repeated(&here, &refused));
    assert!(!is_repeated(&here, &entry("cancelled", Value::Null)));
    assert!(!is_repeated(&here, &entry("resolved", json!({"approved": false, "reason": "no"}))));
    let elsewhere = answered(None);
    assert!(is_repeated(&elsewhere, &refused));
    assert!(is_repeated(&elsewhere, &entry("cancelled", Value::Null)));
    assert!(!is_repeated(&elsewhere, &entry("resolved", json!({"approved": true}))));
}
