//! Decides what a node that asks something does to its run.

use holdpoint_ids::digest;
use serde_json::{Value, json};

use super::conversation::placed;
use super::failure::fail;
use super::finish::{join, room};
use super::resolve::{receipt, resolve_by_host};
use crate::event::{Event, RunError};
use crate::interrupt::{Decision, Kind, Request, is_governed};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::Run;
use crate::{InterruptId, NodeId};

pub(super) fn ask(run: &Run, node: NodeId, request: &Request) -> Result<Vec<Event>, Refusal> {
    // The key rule, enforced where events are made: a key that was asked is never asked again.
    if let Some(asked) = request.key.as_deref().and_then(|key| run.interrupt_by_key(key)) {
        return join(run, node, asked.id).map(|event| vec![event]);
    }
    let asked = match requested(run, &node, request) {
        Ok(asked) => asked,
        Err(error) => return Ok(fail(run, node, error)),
    };
    let mut events = Vec::new();
    // Whoever listens learns what was decided before learning that it must be ratified.
    if let (Kind::LowConfidence, Event::InterruptRequested { data, .. }) = (request.kind, &asked) {
        events.push(agent_decided(node.clone(), &unsure(data)));
    }
    events.push(asked);
    events.extend(follow(next_id(run), node, request));
    Ok(events)
}

/// A question that is asked while its node goes on: an agent's, about one of its calls.
pub(super) fn aside(
    run: &Run,
    node: &NodeId,
    request: &Request,
) -> Result<(InterruptId, Vec<Event>), Refusal> {
    if request.key.as_deref().is_some_and(|key| run.interrupt_by_key(key).is_some()) {
        return Err(Refusal::invalid("key", "was asked before"));
    }
    let invalid = |error: RunError| Refusal::InvalidRequest { field: error.code, message: error.message };
    let id = next_id(run);
    let mut events = vec![requested(run, node, request).map_err(invalid)?];
    if request.kind == Kind::Approval && !is_governed(&request.data) {
        events.push(Event::ApprovalRequested { interrupt: id });
    } else if request.kind == Kind::Clarification {
        events.push(Event::ClarificationRequested { interrupt: id });
    }
    Ok((id, events))
}

fn next_id(run: &Run) -> InterruptId {
    InterruptId(u32::try_from(run.interrupts.len() + 1).unwrap_or(u32::MAX))
}

/// The request as an event, or why it cannot be made.
fn requested(run: &Run, node: &NodeId, request: &Request) -> Result<Event, RunError> {
    let invalid = |why: String| RunError::new("invalid_interrupt", why);
    check_size("interrupt data", &request.data, limits::INTERRUPT_DATA_BYTES_MAX)
        .map_err(|refusal| RunError::new("interrupt_too_large", refusal.to_string()))?;
    request.check().map_err(|bad| invalid(bad.to_string()))?;
    let key = request.key.clone().ok_or_else(|| invalid("key: is missing".to_owned()))?;
    if run.interrupts.len() >= limits::INTERRUPTS_PER_RUN_MAX {
        let message = format!("a run may ask at most {} times", limits::INTERRUPTS_PER_RUN_MAX);
        return Err(RunError::new("too_many_interrupts", message));
    }
    let data = placed(run, request).map_err(|bad| invalid(bad.to_string()))?;
    check_size("what the node asks", &data, room(run))
        .map_err(|refusal| RunError::new("run_too_large", refusal.to_string()))?;
    let waits = !request.kind.returns_at_once() && request.rehearsed.is_none();
    Ok(Event::InterruptRequested {
        id: next_id(run),
        node: node.clone(),
        kind: request.kind,
        key,
        digest: Some(digest(&data)),
        data,
        resume_schema: request.resume_schema.clone(),
        // As with `settings.timeout`, zero means that there is no deadline.
        timeout_ms: request.timeout_ms.filter(|ms| waits && *ms > 0),
    })
}

/// What comes after the request itself.
fn follow(id: InterruptId, node: NodeId, request: &Request) -> Vec<Event> {
    let answered = |value: Value| resolve_by_host(id, value);
    let suspended = Event::NodeSuspended { node: node.clone(), interrupt: id, all: false };
    match request.kind {
        // A governed gate is announced by its request alone.
        Kind::Approval if is_governed(&request.data) => vec![suspended],
        Kind::Approval => vec![suspended, Event::ApprovalRequested { interrupt: id }],
        Kind::Clarification => vec![suspended, Event::ClarificationRequested { interrupt: id }],
        Kind::ExternalEvent | Kind::Custom | Kind::LowConfidence => vec![suspended],
        Kind::ConversationStart => {
            let name = request.data.get("conversationId").and_then(Value::as_str).map(str::to_owned);
            vec![Event::ConversationOpened { interrupt: id, name }, answered(Value::Null)]
        }
        Kind::ConversationClose => {
            vec![Event::ConversationClosed { interrupt: id }, answered(Value::Null)]
        }
        Kind::ConversationExchange => {
            let mut events = vec![suspended];
            if let Some(value) = &request.rehearsed {
                events.push(answered(value.clone()));
                events.extend(receipt(request.kind, id));
                events.push(Event::NodeResumed { node, interrupt: id });
            }
            events
        }
    }
}

/// The decision that is to be ratified.
fn unsure(data: &Value) -> Decision {
    Decision {
        agent: data.get("agentId").and_then(Value::as_str).unwrap_or_default().to_owned(),
        decision: data.get("decision").cloned().unwrap_or(json!(null)),
        confidence: data.get("observed").and_then(Value::as_f64),
    }
}

pub(super) fn agent_decided(node: NodeId, decided: &Decision) -> Event {
    let finite = decided.confidence.filter(|confidence| confidence.is_finite());
    let flaw = (finite.is_none() && decided.confidence.is_some())
        .then(|| "the agent's confidence is not a finite number".to_owned());
    let (agent, decision) = (decided.agent.clone(), decided.decision.clone());
    Event::AgentDecided { node, agent, decision, confidence: finite, flaw, message: None }
}
