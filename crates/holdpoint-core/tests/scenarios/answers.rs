//! Answers to external events and custom interrupts, and what holds for every kind: the resume schema and the size.

use holdpoint_core::{Kind, Refusal, Request, Status, limits};
use serde_json::{Value, json};

use crate::story::{Story, given};
use crate::words::*;

fn asked(request: Request) -> Story {
    given([start(), begin("gate"), ask("gate", request)])
}

fn payment() -> Story {
    let correlation = json!({"orderId": "o-7", "status": "paid"});
    asked(request(Kind::ExternalEvent, json!({"eventType": "payment", "correlation": correlation})))
        .status_is(Status::WaitingExternal)
}

#[test]
fn the_event_that_matches_is_recorded_as_it_came() {
    for event in [
        json!({"orderId": "o-7", "status": "paid", "amount": 5}),
        json!({"eventPayload": {"orderId": "o-7", "status": "paid"}}),
    ] {
        payment().when(answer(1, event.clone())).then([resolved(1, event), resumed("gate", 1)]);
    }
}

#[test]
fn an_event_that_differs_in_a_correlated_member_is_not_the_one() {
    for (event, member) in [
        (json!({"orderId": "o-8", "status": "paid"}), "orderId"),
        (json!({"orderId": "o-7", "status": "open"}), "status"),
        (json!({"status": null}), "status"),
        (json!({"eventPayload": {"orderId": "o-8"}}), "orderId"),
        // With a payload only the payload is the event.
        (json!({"eventPayload": {"orderId": "o-8"}, "orderId": "o-7"}), "orderId"),
    ] {
        payment()
            .when(answer(1, event))
            .refused(Refusal::CorrelationMismatch(member.to_owned()))
            .status_is(Status::WaitingExternal);
    }
}

#[test]
fn a_correlated_member_that_the_event_does_not_carry_says_nothing() {
    for event in
        [json!({}), json!({"orderId": "o-7"}), json!({"eventPayload": {}}), json!("paid"), json!(null)]
    {
        payment().when(answer(1, event)).accepted();
    }
}

#[test]
fn a_custom_interrupt_takes_any_value() {
    for value in [json!(null), json!("blue"), json!({"deep": [1, {"er": true}]})] {
        asked(custom())
            .status_is(Status::WaitingInput)
            .when(answer(1, value.clone()))
            .then([resolved(1, value), resumed("gate", 1)]);
    }
}

#[test]
fn interrupts_are_called_by_what_they_are_about() {
    let title = |story: &Story| story.interrupt_of("gate").map(|interrupt| interrupt.title().to_owned());
    assert_eq!(title(&payment()).as_deref(), Some("payment"));
    assert_eq!(title(&asked(custom())).as_deref(), Some("colour"));
}

#[test]
fn a_resume_schema_binds_every_kind_of_answer() {
    let schema = json!({
        "type": "object",
        "required": ["note"],
        "properties": {"note": {"type": "string", "maxLength": 5}},
    });
    let external = request(Kind::ExternalEvent, json!({"eventType": "e", "correlation": {}}));
    let questions = request(Kind::Clarification, json!({"questions": [{"id": "q", "question": "?"}]}));
    let right = json!({"note": "short", "action": "accept", "answers": {"q": 1}});
    for asking in [custom(), approval(), external, questions] {
        let bound = || asked(Request { resume_schema: Some(schema.clone()), ..asking.clone() });
        let refused = |field: &str, value: Value| bound().when(answer(1, value)).refused_for(field);
        refused("resumeValue/note", with(right.clone(), "note", json!("far too long")));
        refused("resumeValue/note", with(right.clone(), "note", json!(5)));
        refused("resumeValue", json!({"action": "accept", "answers": {"q": 1}}))
            .when(answer(1, right.clone()))
            .accepted();
    }
}

#[test]
fn a_schema_of_false_lets_nothing_pass() {
    let closed = || asked(Request { resume_schema: Some(json!(false)), ..custom() });
    closed().when(answer(1, json!({}))).refused_for("resumeValue");
}

#[test]
fn a_resume_value_is_limited_in_size() {
    let (max, quotes) = (limits::RESUME_VALUE_BYTES_MAX, 2);
    let of_bytes = |bytes: usize| asked(custom()).when(answer(1, json!("x".repeat(bytes - quotes))));
    of_bytes(max).accepted();
    of_bytes(max + 1)
        .refused(Refusal::TooLarge { what: "the resume value", bytes: max + 1, max })
        .status_is(Status::WaitingInput);
}
