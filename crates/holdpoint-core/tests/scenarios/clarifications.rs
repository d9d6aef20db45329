//! Clarifications: every question is answered once, nothing else is, and each answer is what its question wants.

use holdpoint_core::{Event, InterruptId, Kind, Status};
use serde_json::{Value, json};

use crate::story::{Story, given};
use crate::words::*;

/// Two questions wait: a colour, and an amount that must be a whole number of at least 1.
fn asked() -> Story {
    let questions = json!([
        {"id": "colour", "question": "Which colour?"},
        {"id": "amount", "question": "How many?", "schema": {"type": "integer", "minimum": 1}},
    ]);
    let asking = request(Kind::Clarification, json!({"questions": questions}));
    given([start(), begin("gate"), ask("gate", asking)]).status_is(Status::WaitingInput)
}

fn answered(answers: Value) -> Story {
    asked().when(answer(1, with(json!({}), "answers", answers)))
}

#[test]
fn answers_come_as_a_list_or_as_an_object_and_are_recorded_as_an_object() {
    let list = json!([{"id": "colour", "answer": "blue"}, {"id": "amount", "answer": 3}]);
    let object = json!({"colour": "blue", "amount": 3});
    for form in [list, object.clone()] {
        answered(form)
            .then([
                resolved(1, json!({"answers": object})),
                Event::ClarificationResolved { interrupt: InterruptId(1) },
                resumed("gate", 1),
            ])
            .next_is("enter gate");
    }
}

#[test]
fn the_question_is_announced_in_the_older_vocabulary_too() {
    let asking = || request(Kind::Clarification, json!({"questions": [{"id": "q", "question": "Why?"}]}));
    let story = given([start(), begin("gate")]).when(ask("gate", asking())).then([
        requested(1, "gate", asking()),
        suspended("gate", 1),
        Event::ClarificationRequested { interrupt: InterruptId(1) },
    ]);
    assert_eq!(story.interrupt_of("gate").map(holdpoint_core::Interrupt::title), Some("Why?"));
}

#[test]
fn every_question_must_be_answered() {
    answered(json!({"amount": 3})).refused_for("resumeValue.answers").status_is(Status::WaitingInput);
    answered(json!([])).refused_for("resumeValue.answers");
    answered(json!({})).refused_for("resumeValue.answers");
}

#[test]
fn what_was_not_asked_is_not_answered() {
    answered(json!({"colour": "blue", "amount": 3, "size": "L"})).refused_for("resumeValue.answers");
}

#[test]
fn a_question_is_answered_once() {
    let twice = json!([
        {"id": "colour", "answer": "blue"},
        {"id": "amount", "answer": 3},
        {"id": "colour", "answer": "red"},
    ]);
    answered(twice).refused_for("resumeValue.answers[2].id");
}

#[test]
fn an_entry_of_the_list_has_an_id_and_an_answer() {
    for entry in [
        json!({"id": "colour"}),
        json!({"answer": "blue"}),
        json!({"id": 7, "answer": "blue"}),
        json!("blue"),
    ] {
        answered(json!([{"id": "amount", "answer": 3}, entry])).refused_for("resumeValue.answers[1]");
    }
}

#[test]
fn answers_are_a_list_or_an_object() {
    for answers in [json!("blue"), json!(null), json!(7)] {
        answered(answers).refused_for("resumeValue.answers");
    }
    for value in [json!({}), json!(null), json!("blue"), json!({"answer": {}})] {
        asked().when(answer(1, value)).refused_for("resumeValue.answers");
    }
}

#[test]
fn an_answer_obeys_the_schema_of_its_question() {
    answered(json!({"colour": "blue", "amount": "three"})).refused_for("resumeValue.answers.amount");
    answered(json!({"colour": "blue", "amount": 0})).refused_for("resumeValue.answers.amount");
    // A question without a schema takes anything, null included.
    answered(json!({"colour": null, "amount": 1})).accepted();
}
