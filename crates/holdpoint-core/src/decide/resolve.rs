//! Decides answers to interrupts: votes, side questions, denials and resolutions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finish::remaining_bytes;
use super::side_questions::raise_side_question;
use crate::Via;
use crate::event::Event;
use crate::interrupt::{Answer, AnswerAuthor, AnswerResult, ExternalEvent, Interrupt, Kind, repeats_answer};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::{Run, RunEnd};
use crate::{InterruptId, NodeId, Principal, Timestamp};

/// The principal name of answers that the host gives itself.
pub(super) const HOST: &str = "system:host";

/// Decides several answers as one command: all of them are accepted, or none.
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
    // Each answer is decided on the state after the answers before it: only the last of several answers may resume an
    // agent that waits for all of them.
    let mut after = run.clone();
    let mut events = Vec::new();
    for (id, answer) in answers {
        let decided = resolve_one(&after, *id, answer, now)?;
        // If one answer is denied, none is accepted: only the denial is recorded.
        if decided.iter().any(|event| event.denial().is_some()) {
            return Ok(decided);
        }
        decided.iter().for_each(|event| after.apply(event, now));
        events.extend(decided);
    }
    Ok(events)
}

/// Decides an answer to the interrupt of a node.
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
    check_size("the client metadata", &answer.client_metadata, limits::CLIENT_METADATA_BYTES_MAX)?;
    let (via, client_metadata) = (answer.via.clone(), answer.client_metadata.clone());
    match interrupt.evaluate_answer(&run.requesters(), answer, now)? {
        AnswerResult::Asked { question, who } => {
            Ok(vec![raise_side_question(run, interrupt, question, who, via)?])
        }
        AnswerResult::Voted { value, by } => {
            check_size("the vote", &(&value, &client_metadata), remaining_bytes(run))?;
            let gate_event = governed_gate_event(interrupt, &value);
            let decision = answer.decision.clone();
            let copied = answer.copied;
            let cast = Event::VoteCast { interrupt: id, value, by, decision, copied, via, client_metadata };
            Ok(std::iter::once(cast).chain(gate_event).collect())
        }
        AnswerResult::Repeated { who: AnswerAuthor { by, acted_by }, action } => {
            Ok(vec![Event::VoteRepeated { interrupt: id, action, by, acted_by, via }])
        }
        AnswerResult::Denied { by, action, reason } => {
            check_denial(run, interrupt, &by, &reason)?;
            let action = action.to_owned();
            Ok(vec![Event::AuthorizationDecided { interrupt: id, by, action, allowed: false, reason, via }])
        }
        AnswerResult::Decided { value, by, vote } => {
            let (decision, copied) = (answer.decision.clone(), answer.copied);
            Ok(resolution_events(
                run,
                interrupt,
                Event::InterruptResolved { id, value, by, decision, vote, copied, via, client_metadata },
            ))
        }
    }
}

/// Refuses the answer without a recorded denial if the gate has the maximum number of denials or the run is full, so
/// that repeated attempts do not fill the log.
fn check_denial(run: &Run, asked: &Interrupt, by: &str, reason: &str) -> Result<(), Refusal> {
    if asked.denied >= limits::DENIALS_MAX || by.len() + reason.len() > remaining_bytes(run) {
        return Err(Refusal::NotAuthorized(reason.to_owned()));
    }
    Ok(())
}

/// Returns the event of a governed gate for an answer that counts. Other interrupts have no such event.
fn governed_gate_event(asked: &Interrupt, value: &Value) -> Option<Event> {
    let interrupt = asked.id;
    match value.get("action").and_then(Value::as_str).filter(|_| asked.is_governed())? {
        "override" => Some(Event::ApprovalOverridden { interrupt }),
        "reject" => Some(Event::ApprovalRejected { interrupt }),
        _ => Some(Event::ApprovalGranted { interrupt }),
    }
}

/// Resolves an interrupt with an external event. The event is checked like an answer of its sender, and the log records
/// the id of the event.
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
    if interrupt.needs_key() || interrupt.checks_assignees() {
        return Err(Refusal::NotAuthorized(
            "this interrupt restricts who may answer it; an event cannot resolve it".to_owned(),
        ));
    }
    interrupt.evaluate_answer(&run.requesters(), &Answer::new(event.resume_value(), by.clone()), now)?;
    let (value, by, via) = (event.recorded_value(), by.name.clone(), Some(Via::event()));
    let resolved = unnamed_resolution(id, value, by, via);
    Ok(resolution_events(run, interrupt, resolved))
}

/// Returns whether the decision with this id was already recorded with the same answer. A decision id identifies one
/// decision of a run; the same id with another answer is a conflict.
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

fn resolution_events(run: &Run, interrupt: &Interrupt, resolved: Event) -> Vec<Event> {
    let id = interrupt.id;
    let Event::InterruptResolved { value, vote, .. } = &resolved else { return vec![resolved] };
    let value = vote.as_ref().unwrap_or(value);
    let second = governed_gate_event(interrupt, value).or_else(|| companion_event(interrupt.kind, id));
    let mut events = vec![resolved];
    events.extend(second);
    events.extend(resume_waiting_nodes(run, id));
    events
}

/// Returns the event of an answer that the host gives itself.
pub(super) fn resolve_by_host(id: InterruptId, value: Value) -> Event {
    unnamed_resolution(id, value, HOST.to_owned(), None)
}

/// Returns the event of an answer that is not a decision with an id.
fn unnamed_resolution(id: InterruptId, value: Value, by: String, via: Option<Via>) -> Event {
    let client_metadata = serde_json::Map::new();
    Event::InterruptResolved {
        id,
        value,
        by,
        decision: None,
        vote: None,
        copied: false,
        via,
        client_metadata,
    }
}

pub(super) fn open_interrupt(run: &Run, id: InterruptId, now: Timestamp) -> Result<&Interrupt, Refusal> {
    let interrupt = run.interrupt(id).ok_or(Refusal::InterruptNotFound)?;
    if !interrupt.is_open() {
        return Err(Refusal::AlreadyResolved);
    }
    match &run.end {
        Some(RunEnd::Cancelled { parent: Some(_), .. }) => return Err(Refusal::InterruptGone),
        Some(RunEnd::Cancelled { parent: None, .. }) => return Err(Refusal::InterruptCancelled),
        Some(RunEnd::Completed { .. } | RunEnd::Failed { .. }) => return Err(Refusal::AlreadyResolved),
        None => {}
    }
    match interrupt.expires_at() {
        Some(at) if at <= now => Err(Refusal::Expired),
        _ => Ok(interrupt),
    }
}

impl Run {
    /// Returns the interrupt if it accepts answers now, otherwise the refusal that an answer would get.
    pub fn answerable(&self, id: InterruptId, now: Timestamp) -> Result<&Interrupt, Refusal> {
        open_interrupt(self, id, now)
    }
}

/// Returns the event that clients of older versions expect in addition to `interrupt.resolved`.
pub(super) fn companion_event(kind: Kind, interrupt: InterruptId) -> Option<Event> {
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

/// Resumes the nodes that wait for this interrupt. Several nodes wait for it if they use the same key. An agent with
/// several open interrupts resumes with the first answer or with the last one, depending on its resume policy.
pub(super) fn resume_waiting_nodes(run: &Run, id: InterruptId) -> impl Iterator<Item = Event> {
    let states = run.workflow.nodes.iter().zip(&run.nodes);
    let waiting = states.filter(move |(_, state)| state.is_resumed_by(id));
    waiting.map(move |(node, _)| Event::NodeResumed { node: node.id.clone(), interrupt: id })
}
