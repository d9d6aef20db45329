//! What front ends say.

use holdpoint_core::{Kind, Request};
use serde_json::json;

use super::*;
use crate::agui::samples::{asking, call, entries, interrupt, permission, ticket};

fn said(request: Request, payload: Value) -> Result<Value, String> {
    let run = asking(&[request]);
    answer(interrupt(&run, 1), Some(&payload))
}

fn gate(actions: Value) -> Request {
    let data = json!({"artifactId": "a", "artifactType": "t", "title": "Go on?", "actions": actions});
    Request::new(Kind::Approval, data)
}

#[test]
fn a_call_is_allowed_changed_or_refused() {
    let of = |payload| said(permission("c1"), payload);
    assert_eq!(of(json!({"approved": true})), Ok(json!({"action": "accept"})));
    let edited = json!({"approved": true, "editedArgs": {"result": 1, "arguments": 2}});
    let expected =
        json!({"action": "edit-accept", "editedArtifactData": {"arguments": {"result": 1, "arguments": 2}}});
    assert_eq!(of(edited), Ok(expected), "all of it, whatever its members are called");
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
    assert!(said(fixed, json!({"approved": true, "editedArgs": {}})).is_err(), "not offered");
    let run = asking(&[permission("c1")]);
    assert!(answer(interrupt(&run, 1), None).is_err(), "nothing is no answer");
}

#[test]
fn a_no_to_a_tool_never_makes_the_call() {
    let of = |mode, payload| said(ticket("confirmation", mode, None), payload);
    let replay = ToolCallResumeMode::ReplayToolCall;
    assert_eq!(of(replay, json!(true)), Ok(json!({"action": "resume", "result": true})));
    for no in [json!(false), json!({"approved": false}), json!({"confirmed": false})] {
        assert_eq!(of(replay, no.clone()).unwrap()["action"], "cancel", "{no}");
    }
    let told = of(ToolCallResumeMode::PassDecisionToTool, json!(false)).unwrap();
    assert_eq!(told, json!({"action": "resume", "result": false}), "the tool decides");
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
fn a_gate_takes_yes_and_no_in_short_and_our_own_words() {
    let all = || json!(["accept", "reject", "edit-accept", "refine"]);
    let of = |payload| said(gate(all()), payload);
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
fn answers_to_questions_come_flat_or_as_they_are() {
    let questions =
        || Request::new(Kind::Clarification, json!({"questions": [{"id": "q", "question": "Q?"}]}));
    let whole = json!({"answers": {"q": 1}});
    assert_eq!(said(questions(), json!({"q": 1})), Ok(whole.clone()));
    assert_eq!(said(questions(), whole.clone()), Ok(whole));
}

#[test]
fn giving_up_declines_where_that_can_be_and_else_ends_the_run() {
    let of = |request| {
        let run = asking(&[request]);
        cancel(interrupt(&run, 1))
    };
    let Cancel::Answer(value) = of(permission("c1")) else { panic!() };
    assert_eq!(value["action"], "reject");
    let Cancel::Answer(value) = of(ticket("pick", ToolCallResumeMode::default(), None)) else { panic!() };
    assert_eq!(value["action"], "cancel");
    assert!(matches!(of(gate(json!(["accept", "reject"]))), Cancel::Answer(_)));
    assert_eq!(of(gate(json!(["accept"]))), Cancel::Run);
    assert_eq!(of(Request::new(Kind::Custom, json!({"customKind": "x"}))), Cancel::Run);
}

#[test]
fn an_unknown_outcome_can_be_told() {
    let request = holdpoint_core::agent::Ticket::outcome_unknown(
        "k".to_owned(),
        &call("c1"),
        &holdpoint_core::agent::Asking::default(),
        None,
    );
    let told = said(request.request.clone(), json!({"approved": true, "result": {"sent": 1}})).unwrap();
    assert_eq!(told["editedArtifactData"], json!({"result": {"sent": 1}}));
    assert_eq!(said(request.request, json!({"approved": true})), Ok(json!({"action": "accept"})));
}

#[test]
fn a_decision_is_named_by_what_it_says_of_what() {
    let of = |value| name(&entries(json!([value]))[0]);
    let yes = of(json!({"interruptId": "a:i1", "status": "resolved", "payload": {"x": 1, "y": 2}}));
    let again = of(json!({"payload": {"y": 2, "x": 1}, "status": "resolved", "interruptId": "a:i1"}));
    assert_eq!(yes, again);
    assert_ne!(yes, of(json!({"interruptId": "a:i2", "status": "resolved", "payload": {"x": 1, "y": 2}})));
    assert_ne!(yes, of(json!({"interruptId": "a:i1", "status": "cancelled"})));
}

#[test]
fn what_was_said_here_is_repeated_in_the_same_words_and_what_was_said_elsewhere_by_its_meaning() {
    let entry = |status: &str, payload: Value| {
        let mut entry = json!({"interruptId": "a:i1", "status": status});
        if !payload.is_null() {
            entry["payload"] = payload;
        }
        entries(json!([entry])).remove(0)
    };
    let run = asking(&[permission("c1")]);
    let refused = entry("resolved", json!({"approved": false}));
    let answered = |decision: Option<String>| {
        let (value, at) = (json!({"action": "reject", "decidedBy": "ann"}), holdpoint_core::Timestamp(0));
        let resolution = Some(Resolution::Answered { value, by: "ann".to_owned(), at, decision, via: None });
        let mut asked = interrupt(&run, 1).clone();
        asked.resolution = resolution;
        asked
    };
    let here = answered(Some(format!("{}x", name(&refused))));
    assert!(is_said_again(&here, &refused));
    assert!(!is_said_again(&here, &entry("cancelled", Value::Null)));
    assert!(!is_said_again(&here, &entry("resolved", json!({"approved": false, "reason": "no"}))));
    let elsewhere = answered(None);
    assert!(is_said_again(&elsewhere, &refused));
    assert!(is_said_again(&elsewhere, &entry("cancelled", Value::Null)));
    assert!(!is_said_again(&elsewhere, &entry("resolved", json!({"approved": true}))));
}
