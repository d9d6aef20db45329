//! Answers to external events and custom interrupts, and rules for every kind: the resume schema and the size.

use holdpoint_core::{InterruptRequest, Kind, Refusal, Status, limits};
use serde_json::{Value, json};

use crate::story::{Story, given};
use crate::vocabulary::*;

fn waiting_for(request: InterruptRequest) -> Story {
    given([start(), begin("gate"), ask("gate", request)])
}

fn payment() -> Story {
    let correlation = json!({"orderId": "o-7", "status": "paid"});
    waiting_for(request(Kind::ExternalEvent, json!({"eventType": "payment", "correlation": correlation})))
        .status_is(Status::WaitingExternal)
}

#[test]
fn a_matching_event_is_recorded_unchanged() {
    for event in [
        json!({"orderId": "o-7", "status": "paid", "amount": 5}),
        json!({"eventPayload": {"orderId": "o-7", "status": "paid"}}),
    ] {
        payment().when(answer(1, event.clone())).then([resolved(1, event), resumed("gate", 1)]);
    }
}

#[test]
fn an_event_with_a_different_correlated_member_is_refused() {
    for (event, member) in [
        (json!({"orderId": "o-8", "status": "paid"}), "orderId"),
        (json!({"orderId": "o-7", "status": "open"}), "status"),
        (json!({"status": null}), "status"),
        (json!({"eventPayload": {"orderId": "o-8"}}), "orderId"),
        // If there is a payload, only the payload is compared.
        (json!({"eventPayload": {"orderId": "o-8"}, "orderId": "o-7"}), "orderId"),
    ] {
        payment()
            .when(answer(1, event))
            .refused(Refusal::CorrelationMismatch(member.to_owned()))
            .status_is(Status::WaitingExternal);
    }
}

#[test]
fn a_correlated_member_that_is_missing_in_the_event_is_not_compared() {
    for event in
        [json!({}), json!({"orderId": "o-7"}), json!({"eventPayload": {}}), json!("paid"), json!(null)]
    {
        payment().when(answer(1, event)).accepted();
    }
}

#[test]
fn a_custom_interrupt_accepts_any_value() {
    for value in [json!(null), json!("blue"), json!({"deep": [1, {"er": true}]})] {
        waiting_for(custom())
            .status_is(Status::WaitingInput)
            .when(answer(1, value.clone()))
            .then([resolved(1, value), resumed("gate", 1)]);
    }
}

#[test]
fn the_title_of_an_interrupt_is_its_event_type_or_its_custom_kind() {
    let title = |story: &Story| story.interrupt_of("gate").map(|interrupt| interrupt.title().to_owned());
    assert_eq!(title(&payment()).as_deref(), Some("payment"));
    assert_eq!(title(&waiting_for(custom())).as_deref(), Some("colour"));
}

#[test]
fn a_resume_schema_applies_to_answers_of_every_kind() {
    let schema = json!({
        "type": "object",
        "required": ["note"],
        "properties": {"note": {"type": "string", "maxLength": 5}},
    });
    let external = request(Kind::ExternalEvent, json!({"eventType": "e", "correlation": {}}));
    let questions = request(Kind::Clarification, json!({"questions": [{"id": "q", "question": "?"}]}));
    let right = json!({"note": "short", "action": "accept", "answers": {"q": 1}});
    for asking in [custom(), approval(), external, questions] {
        let bound =
            || waiting_for(InterruptRequest { resume_schema: Some(schema.clone()), ..asking.clone() });
        let refused = |field: &str, value: Value| bound().when(answer(1, value)).refused_for(field);
        refused("resumeValue/note", with(right.clone(), "note", json!("far too long")));
        refused("resumeValue/note", with(right.clone(), "note", json!(5)));
        refused("resumeValue", json!({"action": "accept", "answers": {"q": 1}}))
            .when(answer(1, right.clone()))
            .accepted();
    }
}

#[test]
fn a_resume_schema_of_false_refuses_every_answer() {
    let closed = || waiting_for(InterruptRequest { resume_schema: Some(json!(false)), ..custom() });
    closed().when(answer(1, json!({}))).refused_for("resumeValue");
}

#[test]
fn a_resume_value_is_limited_in_size() {
    let (max, quotes) = (limits::RESUME_VALUE_BYTES_MAX, 2);
    let of_bytes = |bytes: usize| waiting_for(custom()).when(answer(1, json!("x".repeat(bytes - quotes))));
    of_bytes(max).accepted();
    of_bytes(max + 1)
        .refused(Refusal::TooLarge { what: "the resume value", bytes: max + 1, max })
        .status_is(Status::WaitingInput);
}
