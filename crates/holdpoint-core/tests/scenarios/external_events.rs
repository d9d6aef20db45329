//! External events: the interrupts that they resolve, and the record of the answer.

use holdpoint_core::{
    AUTH_REQUIRED, Answer, Command, ExternalEvent, InterruptId, InterruptRequest, Kind, Refusal, Status, Via,
};
use serde_json::{Value, json};

use crate::story::{Story, given};
use crate::vocabulary::*;

fn waiting_for(correlation: &Value) -> Story {
    waiting(InterruptRequest {
        resume_schema: Some(json!({
            "type": "object", "properties": {"eventPayload": {"type": "object"}}, "additionalProperties": false,
        })),
        ..request(Kind::ExternalEvent, json!({"eventType": "paid", "correlation": correlation}))
    })
}

fn waiting(request: InterruptRequest) -> Story {
    given([start(), begin("gate"), ask("gate", request)])
}

fn event(correlation: Value, payload: Value) -> ExternalEvent {
    let (event_type, event_id) = ("paid".to_owned(), "e1".to_owned());
    ExternalEvent { event_type, event_id, correlation: object(correlation), payload }
}

fn deliver(event: ExternalEvent) -> Command {
    Command::Deliver { interrupt: InterruptId(1), event: Box::new(event), by: ada() }
}

#[test]
fn an_event_is_recorded_with_its_payload_and_its_id() {
    waiting_for(&json!({"order": 7}))
        .when(deliver(event(json!({"order": 7}), json!({"amount": 3}))))
        // The schema is closed and does not have the member `eventId`.
        .then([
            resolved_via(1, json!({"eventPayload": {"amount": 3}, "eventId": "e1"}), Some(Via::event())),
            resumed("gate", 1),
        ])
        .status_is(Status::Running);
}

#[test]
fn an_interrupt_that_requires_a_key_is_not_resolved_by_an_event() {
    let data = json!({"eventType": "paid", "correlation": {"order": 7}, "profile": AUTH_REQUIRED});
    let story = waiting(request(Kind::ExternalEvent, data));
    let why = "this interrupt restricts who may answer it; an event cannot resolve it";
    let story = story
        .when(deliver(event(json!({"order": 7}), json!({}))))
        .refused(Refusal::NotAuthorized(why.to_owned()))
        .status_is(Status::WaitingExternal);
    let answer = Answer::new(json!({"eventPayload": {}}), ada());
    story.when(Command::Resolve { answers: [(InterruptId(1), answer)].into() }).accepted();
}

#[test]
fn every_correlated_member_of_the_event_must_equal_that_of_the_interrupt() {
    let both = json!({"order": 7, "shop": "north"});
    for matching in [json!({"order": 7}), json!({"shop": "north"}), json!({"shop": "north", "order": 7.0})] {
        waiting_for(&both).when(deliver(event(matching, json!({})))).accepted();
    }
    let mismatch = |name: &str| Refusal::CorrelationMismatch(name.to_owned());
    for (other, name) in [
        (json!({"order": 8}), "order"),
        (json!({"order": "7"}), "order"),
        (json!({"order": 7, "till": 1}), "till"),
        (json!({}), "correlation"),
    ] {
        waiting_for(&both).when(deliver(event(other, json!({})))).refused(mismatch(name));
    }
    waiting_for(&json!({})).when(deliver(event(json!({"order": 7}), json!({})))).refused(mismatch("order"));
    waiting_for(&json!({})).when(deliver(event(json!({}), json!({})))).accepted();
    let shipped = ExternalEvent { event_type: "shipped".to_owned(), ..event(json!({"order": 7}), json!({})) };
    waiting_for(&both).when(deliver(shipped)).refused(mismatch("eventType"));
}

#[test]
fn an_event_is_validated_like_an_answer() {
    let right = || json!({"order": 7});
    waiting_for(&right())
        .when(deliver(event(right(), json!("no object"))))
        .refused_for("resumeValue/eventPayload")
        .when(deliver(event(right(), json!({"order": 8}))))
        .refused(Refusal::CorrelationMismatch("order".to_owned()))
        .status_is(Status::WaitingExternal)
        .when(deliver(event(right(), json!({"order": 7.0}))))
        .accepted()
        .when(deliver(event(right(), json!({}))))
        .refused(Refusal::AlreadyResolved);
}

#[test]
fn an_event_does_not_resolve_interrupts_of_other_kinds() {
    waiting(custom()).when(deliver(event(json!({}), json!({})))).refused(Refusal::InterruptNotFound);
    waiting(approval()).when(deliver(event(json!({}), json!({})))).refused(Refusal::InterruptNotFound);
}

#[test]
fn an_invalid_event_is_refused_with_its_field() {
    let good = || event(json!({"order": 7}), json!({}));
    assert_eq!(good().check(), Ok(()));
    let many: serde_json::Map<String, Value> = (0..33).map(|n| (format!("k{n}"), json!(n))).collect();
    for (bad, field) in [
        (ExternalEvent { event_type: String::new(), ..good() }, "eventType"),
        (ExternalEvent { event_type: "x".repeat(257), ..good() }, "eventType"),
        (ExternalEvent { event_id: String::new(), ..good() }, "eventId"),
        (ExternalEvent { event_id: "a\nb".to_owned(), ..good() }, "eventId"),
        (ExternalEvent { correlation: many.clone(), ..good() }, "correlation"),
        (event(json!({"k": "x".repeat(9000)}), json!({})), "correlation"),
        (ExternalEvent { payload: json!("x".repeat(61 * 1024)), ..good() }, "payload"),
    ] {
        let Err(Refusal::InvalidRequest { field: named, .. }) = bad.check() else {
            panic!("an invalid {field} was accepted");
        };
        assert_eq!(named, field);
    }
    let too_much = request(Kind::ExternalEvent, json!({"eventType": "paid", "correlation": many}));
    assert_eq!(too_much.check().unwrap_err().field, "data.correlation");
}
