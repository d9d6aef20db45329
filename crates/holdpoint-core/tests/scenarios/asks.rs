//! Questions beside a decision: they are kept and answered, and decide nothing.

use holdpoint_core::{Answer, Command, Event, InterruptId, Principal, Refusal, Request, Status, limits};
use serde_json::{Value, json};

use crate::story::{DAWN, Story, given};
use crate::words::*;

fn gate() -> Story {
    let request = approval_of(json!({"actions": ["accept", "reject", "ask"]}));
    given([start(), begin("gate"), ask("gate", request)])
}

fn wonder(question: &str) -> Command {
    answer(1, json!({"action": "ask", "question": question}))
}

fn reply(ask: u32, text: &str) -> Command {
    Command::AnswerAsk {
        interrupt: InterruptId(1),
        ask,
        answer: text.to_owned(),
        by: Principal::named("bot"),
    }
}

fn raised(ask: u32, question: &str) -> Event {
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
fn a_question_is_kept_and_the_gate_still_waits() {
    gate()
        .when(wonder("Why so much?"))
        .then([raised(1, "Why so much?")])
        .obliges([])
        .status_is(Status::WaitingApproval)
        .when(wonder("And when?"))
        .then([raised(2, "And when?")])
        .when(accept(1))
        .accepted();
}

#[test]
fn questions_and_answers_are_seen_with_the_interrupt_and_in_a_variable() {
    let story = gate().given([wonder("Why?")]).later(5).given([reply(1, "Because.")]);
    let shown = json!([{
        "interrupt": "i1", "id": 1, "question": "Why?", "askedBy": "ada", "askedAt": DAWN.to_string(),
        "answer": "Because.", "answeredBy": "bot", "answeredAt": DAWN.plus_ms(5).to_string(),
    }]);
    let asks = &story.interrupt_of("gate").expect("asked").asks;
    assert_eq!(asks[0].reply.as_ref().map(|reply| reply.text.as_str()), Some("Because."));
    story.variables_are(&json!({"_askExchanges:gate": shown}));
}

#[test]
fn a_question_is_answered_once_and_only_while_the_gate_waits() {
    let asked = || gate().given([wonder("Why?")]);
    asked()
        .when(reply(1, "So."))
        .then([Event::AskAnswered {
            interrupt: InterruptId(1),
            ask: 1,
            answer: "So.".to_owned(),
            by: "bot".to_owned(),
        }])
        .when(reply(1, "Or so."))
        .refused(Refusal::AskAnswered);
    asked().when(reply(2, "So.")).refused(Refusal::AskNotFound);
    asked().given([accept(1)]).when(reply(1, "So.")).refused(Refusal::AlreadyResolved);
    asked().given([cancel()]).when(reply(1, "So.")).refused(Refusal::InterruptCancelled);
    asked().when(reply(1, "")).refused_for("answer");
    asked().when(reply(1, &"x".repeat(limits::ASK_CHARS_MAX + 1))).refused_for("answer");
}

#[test]
fn a_question_has_words_and_a_gate_must_offer_to_be_asked() {
    for question in [json!(""), json!(5), json!(null), json!("x".repeat(limits::ASK_CHARS_MAX + 1))] {
        gate()
            .when(answer(1, json!({"action": "ask", "question": question})))
            .refused_for("resumeValue.question");
    }
    gate().when(answer(1, json!({"action": "ask"}))).refused_for("resumeValue.question");
    given([start(), begin("gate"), ask("gate", approval())])
        .when(wonder("Why?"))
        .refused_for("resumeValue.action");
}

#[test]
fn a_question_needs_not_look_like_an_answer() {
    let schema = json!({"required": ["reason"]});
    let request =
        Request { resume_schema: Some(schema), ..approval_of(json!({"actions": ["accept", "ask"]})) };
    given([start(), begin("gate"), ask("gate", request)])
        .when(wonder("Why?"))
        .accepted()
        .when(accept(1))
        .refused_for("resumeValue");
}

#[test]
fn there_are_only_so_many_questions() {
    let wondering = (0..limits::ASKS_MAX).map(|count| wonder(&count.to_string()));
    gate().given(wondering).when(wonder("One more?")).refused(Refusal::TooManyAsks(limits::ASKS_MAX));
}

#[test]
fn a_question_in_a_late_hour_is_refused_like_any_answer() {
    let timed = Request { timeout_ms: Some(10), ..approval_of(json!({"actions": ["accept", "ask"]})) };
    let story = given([start(), begin("gate"), ask("gate", timed)]).given([wonder("Why?")]).later(10);
    story.when(wonder("Still?")).refused(Refusal::Expired).when(reply(1, "So.")).refused(Refusal::Expired);
}

#[test]
fn questions_of_every_visit_are_kept_together() {
    let again = |key: &str| Request {
        key: Some(key.to_owned()),
        ..approval_of(json!({"actions": ["accept", "ask"]}))
    };
    let second = answer(2, json!({"action": "ask", "question": "Two?"}));
    let story = gate().given([wonder("One?"), accept(1), ask("gate", again("k2")), second]);
    let variable = &story.run().variables["_askExchanges:gate"];
    let questions: Vec<&Value> =
        variable.as_array().expect("a list").iter().map(|ask| &ask["question"]).collect();
    assert_eq!(questions, ["One?", "Two?"]);
}

fn reply_of(by: &Principal) -> Command {
    Command::AnswerAsk { interrupt: InterruptId(1), ask: 1, answer: "So.".to_owned(), by: by.clone() }
}

/// Ann asks something at a gate in a run of Ada.
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
fn a_question_is_answered_by_the_requester_by_another_approver_or_by_the_host() {
    let named = Principal::named;
    let lead = Principal { roles: vec!["lead".to_owned()], ..named("lea") };
    let listed = json!({"actions": ["accept", "ask"], "approversList": ["ann", "bob", "role:lead"]});
    for by in [named("ada"), named("bob"), lead, named("system:answer-service")] {
        asked_by_ann(listed.clone(), None).when(reply_of(&by)).accepted();
    }
    for by in [named("ann"), named("eve")] {
        let refusal = Refusal::MayNotReply(by.name.clone());
        asked_by_ann(listed.clone(), None).when(reply_of(&by)).refused(refusal);
    }
    // Where anybody may decide anybody may answer, but nobody their own question.
    let open = || asked_by_ann(json!({"actions": ["accept", "ask"]}), None);
    open().when(reply_of(&named("eve"))).accepted();
    open().when(reply_of(&named("ann"))).refused(Refusal::MayNotReply("ann".to_owned()));
}

#[test]
fn a_question_in_another_name_is_still_ones_own() {
    let asked = || asked_by_ann(json!({"actions": ["accept", "ask"]}), Some("bob"));
    for by in ["ann", "bob"] {
        let refusal = Refusal::MayNotReply(by.to_owned());
        asked().when(reply_of(&Principal::named(by))).refused(refusal);
    }
    asked().when(reply_of(&Principal::named("eve"))).accepted();
}
