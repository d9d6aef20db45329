//! Decides what an answer does to a waiting run. Knows nothing of links, protocols or storage.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finish::room;
use super::side_questions::raise;
use crate::event::Event;
use crate::ids::{InterruptId, NodeId, Principal, Timestamp};
use crate::interrupt::{Answer, ExternalEvent, Interrupt, Judged, Kind};
use crate::refusal::{Refusal, check_size};
use crate::run::{End, NodeStatus, Run};

pub(super) fn resolve(
    run: &Run,
    answers: &BTreeMap<InterruptId, Answer>,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    if answers.is_empty() {
        return Err(Refusal::InterruptNotFound);
    }
    let mut events = Vec::new();
    for (id, answer) in answers {
        events.extend(resolve_one(run, *id, answer, now)?);
    }
    Ok(events)
}

pub(super) fn resolve_node(
    run: &Run,
    node: &NodeId,
    answer: &Answer,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    let interrupt = run.interrupt_of_node(node).ok_or(Refusal::InterruptNotFound)?;
    resolve_one(run, interrupt.id, answer, now)
}

fn resolve_one(run: &Run, id: InterruptId, answer: &Answer, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    let interrupt = open_interrupt(run, id, now)?;
    let owner = run.owner().map(|owner| owner.principal.as_str());
    match interrupt.judge(owner, answer, now)? {
        Judged::Asked { question, by } => Ok(vec![raise(run, interrupt, question, by)?]),
        Judged::Voted { value, by } => {
            check_size("the vote", &value, room(run))?;
            Ok(vec![Event::VoteCast { interrupt: id, value, by }])
        }
        Judged::Repeated { by, action } => Ok(vec![Event::VoteRepeated { interrupt: id, action, by }]),
        Judged::Decided { value, by } => Ok(decided(run, interrupt, value, by)),
    }
}

/// The event is judged as whoever brings it to the run would be; its name goes into the log with it.
pub(super) fn deliver(
    run: &Run,
    id: InterruptId,
    event: &ExternalEvent,
    by: &Principal,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    let interrupt = open_interrupt(run, id, now)?;
    interrupt.check_awaits(event)?;
    let owner = run.owner().map(|owner| owner.principal.as_str());
    interrupt.judge(owner, &Answer::new(event.resume_value(), by.clone()), now)?;
    Ok(decided(run, interrupt, event.recorded_value(), by.name.clone()))
}

fn decided(run: &Run, interrupt: &Interrupt, value: Value, by: String) -> Vec<Event> {
    let id = interrupt.id;
    let mut events = vec![Event::InterruptResolved { id, value, by }];
    events.extend(receipt(interrupt.kind, id));
    events.extend(resumed(run, id));
    events
}

pub(super) fn open_interrupt(run: &Run, id: InterruptId, now: Timestamp) -> Result<&Interrupt, Refusal> {
    let interrupt = run.interrupt(id).ok_or(Refusal::InterruptNotFound)?;
    if !interrupt.is_open() {
        return Err(Refusal::AlreadyResolved);
    }
    match &run.end {
        Some(End::Cancelled { parent: Some(_), .. }) => return Err(Refusal::InterruptGone),
        Some(End::Cancelled { parent: None, .. }) => return Err(Refusal::InterruptCancelled),
        Some(End::Completed { .. } | End::Failed { .. }) => return Err(Refusal::AlreadyResolved),
        None => {}
    }
    match interrupt.expires_at() {
        Some(at) if at <= now => Err(Refusal::Expired),
        _ => Ok(interrupt),
    }
}

/// The event that other vocabularies expect beside `interrupt.resolved`.
pub(super) fn receipt(kind: Kind, interrupt: InterruptId) -> Option<Event> {
    match kind {
        Kind::Approval => Some(Event::ApprovalReceived { interrupt }),
        Kind::Clarification => Some(Event::ClarificationResolved { interrupt }),
        Kind::ConversationExchange => Some(Event::ConversationExchanged { interrupt }),
        Kind::ExternalEvent
        | Kind::Custom
        | Kind::ConversationStart
        | Kind::ConversationClose
        | Kind::LowConfidence => None,
    }
}

/// Every node that waits for this answer goes on; several may have asked under one key.
pub(super) fn resumed(run: &Run, id: InterruptId) -> impl Iterator<Item = Event> {
    let states = run.workflow.nodes.iter().zip(&run.nodes);
    let waiting = states.filter(move |(_, state)| state.status == NodeStatus::Waiting(id));
    waiting.map(move |(node, _)| Event::NodeResumed { node: node.id.clone(), interrupt: id })
}
