//! Decides side questions of approvers and the answers to them. Neither resolves the interrupt.

use super::finish::remaining_bytes;
use super::resolve::open_interrupt;
use crate::Via;
use crate::event::Event;
use crate::interrupt::{AnswerAuthor, Interrupt};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::Run;
use crate::{InterruptId, Principal, Timestamp};

/// Records a side question.
pub(super) fn raise_side_question(
    run: &Run,
    asked: &Interrupt,
    question: String,
    who: AnswerAuthor,
    via: Option<Via>,
) -> Result<Event, Refusal> {
    if asked.side_questions.len() >= limits::ASKS_MAX {
        return Err(Refusal::TooManySideQuestions(limits::ASKS_MAX));
    }
    check_size("the question", &question, remaining_bytes(run))?;
    let ask = u32::try_from(asked.side_questions.len() + 1).unwrap_or(u32::MAX);
    let AnswerAuthor { by, acted_by } = who;
    Ok(Event::AskRaised { interrupt: asked.id, ask, question, by, acted_by, via })
}

/// Records the answer to a side question.
pub(super) fn answer(
    run: &Run,
    id: InterruptId,
    ask: u32,
    answer: &str,
    by: &Principal,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    let asked = open_interrupt(run, id, now)?;
    let known =
        asked.side_questions.iter().find(|known| known.id == ask).ok_or(Refusal::SideQuestionNotFound)?;
    if !asked.may_answer_side_question(&run.requesters(), known, by) {
        return Err(Refusal::MayNotAnswerSideQuestion(by.name.clone()));
    }
    if known.answer.is_some() {
        return Err(Refusal::SideQuestionAnswered);
    }
    let max = limits::ASK_CHARS_MAX;
    if answer.is_empty() || answer.chars().count() > max {
        return Err(Refusal::invalid("answer", format!("must be a text of 1 to {max} characters")));
    }
    check_size("the answer", &answer, remaining_bytes(run))?;
    Ok(vec![Event::AskAnswered { interrupt: id, ask, answer: answer.to_owned(), by: by.name.clone() }])
}
