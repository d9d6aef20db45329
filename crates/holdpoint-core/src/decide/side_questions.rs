//! Decides about questions that approvers put beside a decision. They never decide anything.

use super::finish::room;
use super::resolve::open_interrupt;
use crate::Via;
use crate::event::Event;
use crate::interrupt::{Interrupt, Who};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::Run;
use crate::{InterruptId, Principal, Timestamp};

pub(super) fn raise(
    run: &Run,
    asked: &Interrupt,
    question: String,
    who: Who,
    via: Option<Via>,
) -> Result<Event, Refusal> {
    if asked.asks.len() >= limits::ASKS_MAX {
        return Err(Refusal::TooManyAsks(limits::ASKS_MAX));
    }
    check_size("the question", &question, room(run))?;
    let ask = u32::try_from(asked.asks.len() + 1).unwrap_or(u32::MAX);
    let Who { by, acted_by } = who;
    Ok(Event::AskRaised { interrupt: asked.id, ask, question, by, acted_by, via })
}

pub(super) fn answer(
    run: &Run,
    id: InterruptId,
    ask: u32,
    answer: &str,
    by: &Principal,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    let asked = open_interrupt(run, id, now)?;
    let known = asked.asks.iter().find(|known| known.id == ask).ok_or(Refusal::AskNotFound)?;
    if !asked.may_reply(&run.requesters(), known, by) {
        return Err(Refusal::MayNotReply(by.name.clone()));
    }
    if known.reply.is_some() {
        return Err(Refusal::AskAnswered);
    }
    let max = limits::ASK_CHARS_MAX;
    if answer.is_empty() || answer.chars().count() > max {
        return Err(Refusal::invalid("answer", format!("must be a text of 1 to {max} characters")));
    }
    check_size("the answer", &answer, room(run))?;
    Ok(vec![Event::AskAnswered { interrupt: id, ask, answer: answer.to_owned(), by: by.name.clone() }])
}
