//! Side questions: they are recorded and answered, and do not decide the interrupt.

use holdpoint_core::{
    Answer, Command, Event, InterruptId, InterruptRequest, Principal, Refusal, Status, limits,
};
use serde_json::{Value, json};

use crate::story::{START_TIME, Story, given};
use crate::vocabulary::*;

fn gate() -> Story {
    let request = approval_of(json!({"actions": ["accept", "reject", "ask"]}));
    given([start(), begin("gate"), ask("gate", request)])
}

fn ask_question(question: &str) -> Command {
    answer(1, json!({"action": "ask", "question": question}))
}

fn answer_question(ask: u32, text: &str) -> Command {
    Command::AnswerSideQuestion {
        interrupt: InterruptId(1),
        ask,
        answer: text.to_owned(),
        by: Principal::named("bot"),
    }
}

fn question_asked(ask: u32, question: &str) -> Event {
    Event::AskRaised {
        interrupt: InterruptId(1),
        ask,
        question: question.to_owned(),
        by: "ada".to_owned(),
        acted_by: None,
        via: None,
    }
}

#[test]
fn a_side_question_is_recorded_and_the_gate_stays_open() {
    gate()
        .when(ask_question("Why so much?"))
        .then([question_asked(1, "Why so much?")])
        .obliges([])
        .status_is(Status::WaitingApproval)
        .when(ask_question("And when?"))
        .then([question_asked(2, "And when?")])
        .when(accept(1))
        .accepted();
}

#[test]
fn side_questions_and_answers_are_shown_in_the_interrupt_and_in_a_variable() {
    let story = gate().given([ask_question("Why?")]).later(5).given([answer_question(1, "Because.")]);
    let shown = json!([{
        "interrupt": "i1", "id": 1, "question": "Why?", "askedBy": "ada", "askedAt": START_TIME.to_string(),
        "answer": "Because.", "answeredBy": "bot", "answeredAt": START_TIME.plus_ms(5).to_string(),
    }]);
    let asks = &story.interrupt_of("gate").expect("an interrupt").side_questions;
    assert_eq!(asks[0].answer.as_ref().map(|answer| answer.text.as_str()), Some("Because."));
    story.variables_are(&json!({"_askExchanges:gate": shown}));
}

#[test]
fn a_side_question_is_answered_once_and_only_while_the_gate_is_open() {
    let asked = || gate().given([ask_question("Why?")]);
    asked()
        .when(answer_question(1, "So."))
        .then([Event::AskAnswered {
            interrupt: InterruptId(1),
            ask: 1,
            answer: "So.".to_owned(),
            by: "bot".to_owned(),
        }])
        .when(answer_question(1, "Or so."))
        .refused(Refusal::SideQuestionAnswered);
    asked().when(answer_question(2, "So.")).refused(Refusal::SideQuestionNotFound);
    asked().given([accept(1)]).when(answer_question(1, "So.")).refused(Refusal::AlreadyResolved);
    asked().given([cancel()]).when(answer_question(1, "So.")).refused(Refusal::InterruptCancelled);
    asked().when(answer_question(1, "")).refused_for("answer");
    asked().when(answer_question(1, &"x".repeat(limits::ASK_CHARS_MAX + 1))).refused_for("answer");
}

#[test]
fn a_side_question_has_text_and_the_gate_must_offer_the_action() {
    for question in [json!(""), json!(5), json!(null), json!("x".repeat(limits::ASK_CHARS_MAX + 1))] {
        gate()
            .when(answer(1, json!({"action": "ask", "question": question})))
            .refused_for("resumeValue.question");
    }
    gate().when(answer(1, json!({"action": "ask"}))).refused_for("resumeValue.question");
    given([start(), begin("gate"), ask("gate", approval())])
        .when(ask_question("Why?"))
        .refused_for("resumeValue.action");
}

#[test]
fn a_side_question_is_not_checked_against_the_resume_schema() {
    let schema = json!({"required": ["reason"]});
    let request = InterruptRequest {
        resume_schema: Some(schema),
        ..approval_of(json!({"actions": ["accept", "ask"]}))
    };
    given([start(), begin("gate"), ask("gate", request)])
        .when(ask_question("Why?"))
        .accepted()
        .when(accept(1))
        .refused_for("resumeValue");
}

#[test]
fn the_number_of_side_questions_is_limited() {
    let questions = (0..limits::ASKS_MAX).map(|count| ask_question(&count.to_string()));
    gate()
        .given(questions)
        .when(ask_question("One more?"))
        .refused(Refusal::TooManySideQuestions(limits::ASKS_MAX));
}

#[test]
fn a_side_question_after_the_deadline_is_refused() {
    let timed =
        InterruptRequest { timeout_ms: Some(10), ..approval_of(json!({"actions": ["accept", "ask"]})) };
    let story = given([start(), begin("gate"), ask("gate", timed)]).given([ask_question("Why?")]).later(10);
    story
        .when(ask_question("Still?"))
        .refused(Refusal::Expired)
        .when(answer_question(1, "So."))
        .refused(Refusal::Expired);
}

#[test]
fn side_questions_of_all_interrupts_of_a_node_are_in_one_variable() {
    let again = |key: &str| InterruptRequest {
        key: Some(key.to_owned()),
        ..approval_of(json!({"actions": ["accept", "ask"]}))
    };
    let second = answer(2, json!({"action": "ask", "question": "Two?"}));
    let story = gate().given([ask_question("One?"), accept(1), ask("gate", again("k2")), second]);
    let variable = &story.run().variables["_askExchanges:gate"];
    let questions: Vec<&Value> =
        variable.as_array().expect("a list").iter().map(|ask| &ask["question"]).collect();
    assert_eq!(questions, ["One?", "Two?"]);
}

fn answer_question_by(by: &Principal) -> Command {
    Command::AnswerSideQuestion {
        interrupt: InterruptId(1),
        ask: 1,
        answer: "So.".to_owned(),
        by: by.clone(),
    }
}

/// Returns a story in which Ann asks a side question about a gate in a run of Ada.
fn asked_by_ann(data: Value, decided_by: Option<&str>) -> Story {
    let mut value = json!({"action": "ask", "question": "Why?"});
    if let Some(name) = decided_by {
        value["decidedBy"] = json!(name);
    }
    let asking = Answer { acting_as: true, ..Answer::new(value, Principal::named("ann")) };
    let raise = Command::Resolve { answers: [(InterruptId(1), asking)].into() };
    given([start(), begin("gate"), ask("gate", approval_of(data)), raise])
}

#[test]
fn a_side_question_is_answered_by_the_requester_by_another_approver_or_by_the_host() {
    let named = Principal::named;
    let lead = Principal { roles: vec!["lead".to_owned()], ..named("lea") };
    let listed = json!({"actions": ["accept", "ask"], "approversList": ["ann", "bob", "role:lead"]});
    for by in [named("ada"), named("bob"), lead, named("system:answer-service")] {
        asked_by_ann(listed.clone(), None).when(answer_question_by(&by)).accepted();
    }
    for by in [named("ann"), named("eve")] {
        let refusal = Refusal::MayNotAnswerSideQuestion(by.name.clone());
        asked_by_ann(listed.clone(), None).when(answer_question_by(&by)).refused(refusal);
    }
    // If every principal may decide, every principal except the sender of the question may answer it.
    let open = || asked_by_ann(json!({"actions": ["accept", "ask"]}), None);
    open().when(answer_question_by(&named("eve"))).accepted();
    open()
        .when(answer_question_by(&named("ann")))
        .refused(Refusal::MayNotAnswerSideQuestion("ann".to_owned()));
}

#[test]
fn neither_the_sender_nor_the_named_principal_may_answer_a_side_question() {
    let asked = || asked_by_ann(json!({"actions": ["accept", "ask"]}), Some("bob"));
    for by in ["ann", "bob"] {
        let refusal = Refusal::MayNotAnswerSideQuestion(by.to_owned());
        asked().when(answer_question_by(&Principal::named(by))).refused(refusal);
    }
    asked().when(answer_question_by(&Principal::named("eve"))).accepted();
}
