//! Clarifications: each question has exactly one answer, which matches the schema of the question.

use holdpoint_core::{Event, InterruptId, Kind, Status};
use serde_json::{Value, json};

use crate::story::{Story, given};
use crate::vocabulary::*;

/// Returns a story that waits for two answers: a colour, and an amount that is an integer of at least 1.
fn waiting() -> Story {
    let questions = json!([
        {"id": "colour", "question": "Which colour?"},
        {"id": "amount", "question": "How many?", "schema": {"type": "integer", "minimum": 1}},
    ]);
    let questions_request = request(Kind::Clarification, json!({"questions": questions}));
    given([start(), begin("gate"), ask("gate", questions_request)]).status_is(Status::WaitingInput)
}

fn answered(answers: Value) -> Story {
    waiting().when(answer(1, with(json!({}), "answers", answers)))
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
fn a_clarification_also_records_the_older_event() {
    let questions_request =
        || request(Kind::Clarification, json!({"questions": [{"id": "q", "question": "Why?"}]}));
    let story = given([start(), begin("gate")]).when(ask("gate", questions_request())).then([
        requested(1, "gate", questions_request()),
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
fn an_answer_to_an_unknown_question_is_refused() {
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
        waiting().when(answer(1, value)).refused_for("resumeValue.answers");
    }
}

#[test]
fn an_answer_obeys_the_schema_of_its_question() {
    answered(json!({"colour": "blue", "amount": "three"})).refused_for("resumeValue.answers.amount");
    answered(json!({"colour": "blue", "amount": 0})).refused_for("resumeValue.answers.amount");
    // A question without a schema accepts every value, including null.
    answered(json!({"colour": null, "amount": 1})).accepted();
}
