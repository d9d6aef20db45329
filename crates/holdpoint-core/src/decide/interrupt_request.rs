//! Decides the requests of nodes and agents to open an interrupt.

use std::sync::Arc;

use holdpoint_ids::digest;
use serde_json::{Value, json};

use super::conversation::with_conversation;
use super::failure::fail;
use super::finish::{join_interrupt, remaining_bytes};
use super::resolve::{companion_event, resolve_by_host};
use crate::event::{Event, RunError};
use crate::interrupt::{AgentDecision, InterruptRequest, Kind, is_governed};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::Run;
use crate::{InterruptId, NodeId};

/// Opens an interrupt for a node and suspends the node. If an interrupt has the requested key, the node joins it.
pub(super) fn request_interrupt(
    run: &Run,
    node: NodeId,
    request: &InterruptRequest,
) -> Result<Vec<Event>, Refusal> {
    // Each key opens at most one interrupt of a run.
    if let Some(asked) = request.key.as_deref().and_then(|key| run.interrupt_by_key(key)) {
        return join_interrupt(run, node, asked.id).map(|event| vec![event]);
    }
    let asked = match interrupt_requested(run, &node, request) {
        Ok(asked) => asked,
        Err(error) => return Ok(fail(run, node, error)),
    };
    let mut events = Vec::new();
    // Subscribers receive the decision before the interrupt that asks for its ratification.
    if let (Kind::LowConfidence, Event::InterruptRequested { data, .. }) = (request.kind, &asked) {
        events.push(agent_decided(node.clone(), &unratified_decision(data)));
    }
    events.push(asked);
    events.extend(follow_up_events(next_id(run), node, request));
    Ok(events)
}

/// Opens an interrupt for a tool call or a reply of an agent. Does not suspend the node, which continues.
pub(super) fn request_without_suspension(
    run: &Run,
    node: &NodeId,
    request: &InterruptRequest,
) -> Result<(InterruptId, Vec<Event>), Refusal> {
    if request.key.as_deref().is_some_and(|key| run.interrupt_by_key(key).is_some()) {
        return Err(Refusal::invalid("key", "is already used by another interrupt of this run"));
    }
    let invalid = |error: RunError| Refusal::InvalidRequest { field: error.code, message: error.message };
    let id = next_id(run);
    let mut events = vec![interrupt_requested(run, node, request).map_err(invalid)?];
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

/// Returns the event of a request, or the error with which the node fails.
fn interrupt_requested(run: &Run, node: &NodeId, request: &InterruptRequest) -> Result<Event, RunError> {
    let invalid = |why: String| RunError::new("invalid_interrupt", why);
    check_size("interrupt data", &request.data, limits::INTERRUPT_DATA_BYTES_MAX)
        .map_err(|refusal| RunError::new("interrupt_too_large", refusal.to_string()))?;
    request.check().map_err(|bad| invalid(bad.to_string()))?;
    let key = request.key.clone().ok_or_else(|| invalid("key: is missing".to_owned()))?;
    if run.interrupts.len() >= limits::INTERRUPTS_PER_RUN_MAX {
        let message = format!("a run may open at most {} interrupts", limits::INTERRUPTS_PER_RUN_MAX);
        return Err(RunError::new("too_many_interrupts", message));
    }
    let data = with_conversation(run, request).map_err(|bad| invalid(bad.to_string()))?;
    check_size("the interrupt data", &data, remaining_bytes(run))
        .map_err(|refusal| RunError::new("run_too_large", refusal.to_string()))?;
    let waits = !request.kind.returns_at_once() && request.simulated_answer.is_none();
    Ok(Event::InterruptRequested {
        id: next_id(run),
        node: node.clone(),
        kind: request.kind,
        key,
        digest: Some(digest(&data)),
        data: Arc::new(data),
        resume_schema: request.resume_schema.clone().map(Arc::new),
        // Zero means no deadline, as in `settings.timeout`.
        timeout_ms: request.timeout_ms.filter(|ms| waits && *ms > 0),
    })
}

/// Returns the events that follow `interrupt.requested`. They depend on the kind of the interrupt.
fn follow_up_events(id: InterruptId, node: NodeId, request: &InterruptRequest) -> Vec<Event> {
    let answered = |value: Value| resolve_by_host(id, value);
    let suspended = Event::NodeSuspended { node: node.clone(), interrupt: id, all: false };
    match request.kind {
        // A governed gate has no event `approval.requested`.
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
            if let Some(value) = &request.simulated_answer {
                events.push(answered(value.clone()));
                events.extend(companion_event(request.kind, id));
                events.push(Event::NodeResumed { node, interrupt: id });
            }
            events
        }
    }
}

/// Returns the decision that a low-confidence interrupt asks to ratify.
fn unratified_decision(data: &Value) -> AgentDecision {
    AgentDecision {
        agent: data.get("agentId").and_then(Value::as_str).unwrap_or_default().to_owned(),
        decision: data.get("decision").cloned().unwrap_or(json!(null)),
        confidence: data.get("observed").and_then(Value::as_f64),
    }
}

pub(super) fn agent_decided(node: NodeId, decided: &AgentDecision) -> Event {
    let finite = decided.confidence.filter(|confidence| confidence.is_finite());
    let flaw = (finite.is_none() && decided.confidence.is_some())
        .then(|| "the agent's confidence is not a finite number".to_owned());
    let (agent, decision) = (decided.agent.clone(), decided.decision.clone());
    Event::AgentDecided { node, agent, decision, confidence: finite, flaw, message: None }
}
