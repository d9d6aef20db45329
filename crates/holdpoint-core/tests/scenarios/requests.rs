//! Interrupt requests as JSON, in the form of `interrupt` and of `suspend`.

use holdpoint_core::{InterruptRequest, Kind};
use serde_json::{Value, json};

use crate::vocabulary::object;

fn read(members: Value) -> Result<InterruptRequest, String> {
    InterruptRequest::from_json(&object(members)).map_err(|bad| bad.field)
}

#[test]
fn an_interrupt_and_a_suspend_are_equivalent() {
    let expected = InterruptRequest {
        key: Some("k".to_owned()),
        resume_schema: Some(json!(true)),
        timeout_ms: Some(5),
        ..InterruptRequest::new(Kind::Custom, json!({"customKind": "c"}))
    };
    let data = json!({"customKind": "c"});
    let canonical = json!({"kind": "custom", "key": "k", "data": data, "resumeSchema": true, "timeoutMs": 5});
    let alias =
        json!({"reason": "custom", "resumeKey": "k", "data": data, "answerSchema": true, "timeoutMs": 5});
    assert_eq!(read(canonical), Ok(expected.clone()));
    assert_eq!(read(alias), Ok(expected));
}

#[test]
fn every_kind_is_read_by_its_name() {
    for kind in Kind::ALL {
        assert_eq!(read(json!({"kind": kind.as_str(), "data": {}})).map(|request| request.kind), Ok(kind));
        assert_eq!(serde_json::to_value(kind).expect("a name"), kind.as_str());
    }
}

#[test]
fn an_invalid_request_is_reported_with_its_member() {
    let refused = |members: Value| read(members).expect_err("an invalid request");
    assert_eq!(refused(json!({})), "kind");
    assert_eq!(refused(json!({"kind": "dance"})), "kind");
    assert_eq!(refused(json!({"kind": "custom", "reason": "approval"})), "reason");
    assert_eq!(refused(json!({"kind": "custom", "key": 5})), "key");
    assert_eq!(refused(json!({"kind": "custom", "resumeKey": 5})), "resumeKey");
    assert_eq!(refused(json!({"kind": "custom", "timeoutMs": -1})), "timeoutMs");
    assert_eq!(refused(json!({"kind": "custom", "timeout": 5})), "timeout");
    assert!(
        read(json!({"kind": "custom", "reason": "custom"})).is_ok(),
        "equal values of both names are accepted"
    );
}

#[test]
fn the_entries_of_a_list_of_approvers_are_not_blank() {
    let asked = |kind: Kind, list: Value| {
        let data = json!({
            "title": "t", "artifactId": "a", "artifactType": "text", "actions": ["accept"],
            "questions": [{"id": "q", "question": "?"}], "approversList": list,
        });
        InterruptRequest::new(kind, data).check().map_err(|bad| bad.field)
    };
    for kind in [Kind::Approval, Kind::Clarification] {
        for bad in [json!("ann"), json!([5]), json!([""]), json!(["ann", " "]), json!(["a\nb"])] {
            assert_eq!(asked(kind, bad.clone()), Err("data.approversList".to_owned()), "{kind:?} {bad}");
        }
        assert_eq!(asked(kind, json!(["ann", "role:x y"])), Ok(()));
    }
}
