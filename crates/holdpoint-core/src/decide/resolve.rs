//! Decides what an answer does to a waiting run. Knows nothing of links, protocols or storage.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finish::room;
use super::side_questions::raise;
use crate::Via;
use crate::event::Event;
use crate::interrupt::{Answer, ExternalEvent, Interrupt, Judged, Kind, Who, repeats_answer};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::{End, Run};
use crate::{InterruptId, NodeId, Principal, Timestamp};

/// The name in which the host answers interrupts itself.
pub(super) const HOST: &str = "system:host";

pub(super) fn resolve(
    run: &Run,
    answers: &BTreeMap<InterruptId, Answer>,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    if answers.is_empty() {
        return Err(Refusal::InterruptNotFound);
    }
    if let (1, Some((id, answer))) = (answers.len(), answers.first_key_value()) {
        return resolve_one(run, *id, answer, now);
    }
    // Each is judged on what those before it have done: the last of several is the one that somebody goes on with.
    let mut after = run.clone();
    let mut events = Vec::new();
    for (id, answer) in answers {
        let decided = resolve_one(&after, *id, answer, now)?;
        // None of the others counts either.
        if decided.iter().any(|event| event.denial().is_some()) {
            return Ok(decided);
        }
        decided.iter().for_each(|event| after.apply(event, now));
        events.extend(decided);
    }
    Ok(events)
}

pub(super) fn resolve_node(
    run: &Run,
    node: &NodeId,
    named: Option<&str>,
    answer: &Answer,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    resolve_one(run, run.addressed_interrupt(node, named)?.id, answer, now)
}

fn resolve_one(run: &Run, id: InterruptId, answer: &Answer, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    if is_repeated(run, id, answer)? {
        return Ok(Vec::new());
    }
    let interrupt = open_interrupt(run, id, now)?;
    let via = answer.via.clone();
    match interrupt.judge(&run.requesters(), answer, now)? {
        Judged::Asked { question, who } => Ok(vec![raise(run, interrupt, question, who, via)?]),
        Judged::Voted { value, by } => {
            check_size("the vote", &value, room(run))?;
            let said = said_at_gate(interrupt, &value);
            let decision = answer.decision.clone();
            let cast = Event::VoteCast { interrupt: id, value, by, decision, copied: answer.copied, via };
            Ok(std::iter::once(cast).chain(said).collect())
        }
        Judged::Repeated { who: Who { by, acted_by }, action } => {
            Ok(vec![Event::VoteRepeated { interrupt: id, action, by, acted_by, via }])
        }
        Judged::Denied { by, action, reason } => {
            check_denial(run, interrupt, &by, &reason)?;
            let action = action.to_owned();
            Ok(vec![Event::AuthorizationDecided { interrupt: id, by, action, allowed: false, reason, via }])
        }
        Judged::Decided { value, by, vote } => {
            let (decision, copied) = (answer.decision.clone(), answer.copied);
            Ok(decided(
                run,
                interrupt,
                Event::InterruptResolved { id, value, by, decision, vote, copied, via },
            ))
        }
    }
}

/// Limits the number of recorded denials of a governed gate, so that repeated attempts do not fill the log.
fn check_denial(run: &Run, asked: &Interrupt, by: &str, reason: &str) -> Result<(), Refusal> {
    if asked.denied >= limits::DENIALS_MAX || by.len() + reason.len() > room(run) {
        return Err(Refusal::NotAuthorized(reason.to_owned()));
    }
    Ok(())
}

/// A governed gate tells of every word that counts, in its own vocabulary.
fn said_at_gate(asked: &Interrupt, value: &Value) -> Option<Event> {
    let interrupt = asked.id;
    match value.get("action").and_then(Value::as_str).filter(|_| asked.is_governed())? {
        "override" => Some(Event::ApprovalOverridden { interrupt }),
        "reject" => Some(Event::ApprovalRejected { interrupt }),
        _ => Some(Event::ApprovalGranted { interrupt }),
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
    // The permission to send events does not include the permission to answer.
    if interrupt.needs_key() || interrupt.heeds_people() {
        return Err(Refusal::NotAuthorized(
            "this interrupt takes answers of those who may answer it; an event is not enough".to_owned(),
        ));
    }
    interrupt.judge(&run.requesters(), &Answer::new(event.resume_value(), by.clone()), now)?;
    let (value, by, via) = (event.recorded_value(), by.name.clone(), Some(Via::event()));
    let resolved = Event::InterruptResolved { id, value, by, decision: None, vote: None, copied: false, via };
    Ok(decided(run, interrupt, resolved))
}

/// Whether this very decision was made before. A name stands for one decision in a run.
fn is_repeated(run: &Run, id: InterruptId, answer: &Answer) -> Result<bool, Refusal> {
    let Some(name) = &answer.decision else { return Ok(false) };
    let made = run.interrupts.iter().find_map(|asked| {
        let mut decisions = asked.decisions();
        decisions.find(|(decision, _)| decision == name).map(|(_, value)| (asked.id, value))
    });
    match made {
        None => Ok(false),
        Some((asked, value)) if asked == id && repeats_answer(value, &answer.value) => Ok(true),
        Some(_) => Err(Refusal::DecisionConflict(name.clone())),
    }
}

fn decided(run: &Run, interrupt: &Interrupt, resolved: Event) -> Vec<Event> {
    let id = interrupt.id;
    let Event::InterruptResolved { value, vote, .. } = &resolved else { return vec![resolved] };
    let value = vote.as_ref().unwrap_or(value);
    let said = said_at_gate(interrupt, value).or_else(|| receipt(interrupt.kind, id));
    let mut events = vec![resolved];
    events.extend(said);
    events.extend(resumed(run, id));
    events
}

/// Returns the event of an answer that the host gives itself.
pub(super) fn resolve_by_host(id: InterruptId, value: Value) -> Event {
    let by = HOST.to_owned();
    Event::InterruptResolved { id, value, by, decision: None, vote: None, copied: false, via: None }
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

impl Run {
    /// The interrupt, if an answer to it would be judged now; else why not.
    pub fn answerable(&self, id: InterruptId, now: Timestamp) -> Result<&Interrupt, Refusal> {
        open_interrupt(self, id, now)
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

/// Every node that waits for this answer goes on; several may have asked under one key. An agent waits for answers about
/// all its calls at once, and goes on with the first of them, or with the last.
pub(super) fn resumed(run: &Run, id: InterruptId) -> impl Iterator<Item = Event> {
    let states = run.workflow.nodes.iter().zip(&run.nodes);
    let waiting = states.filter(move |(_, state)| state.goes_on_with(id));
    waiting.map(move |(node, _)| Event::NodeResumed { node: node.id.clone(), interrupt: id })
}
