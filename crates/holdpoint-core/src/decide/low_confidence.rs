//! Decides model replies with low confidence: records the decision, opens the interrupt that asks for its ratification,
//! and cancels the calls of a reply that is not ratified.

use serde_json::json;

use super::agent::{SUPERSEDED, add_messages, agent_of, retract_interrupt};
use super::finish::remaining_bytes;
use super::interrupt_request::{agent_decided, request_without_suspension};
use super::resolve::resume_waiting_nodes;
use crate::agent::{CallStatus, Message, Role};
use crate::event::Event;
use crate::interrupt::{AgentDecision, InterruptRequest};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::Run;
use crate::{NodeId, Timestamp};

/// The recorded reason of calls whose reply was not ratified. Agents and clients read it.
const OVERRULED: &str = "the reply was not ratified";

/// Records the decision of an agent. Opens the interrupt `question`, if there is one, which asks for its ratification.
pub(super) fn record_decision(
    run: &Run,
    node: &NodeId,
    decision: &AgentDecision,
    question: Option<&InterruptRequest>,
) -> Result<Vec<Event>, Refusal> {
    check_size("the decision", &decision.decision, limits::STEP_RESULT_BYTES_MAX.min(remaining_bytes(run)))?;
    let reply = agent_of(run, node).and_then(|agent| agent.last_reply()).ok_or(Refusal::NodeNotRunning)?;
    let mut decided = agent_decided(node.clone(), decision);
    if let Event::AgentDecided { message, .. } = &mut decided {
        *message = Some(reply.id.clone());
    }
    let mut events = vec![decided];
    if let Some(request) = question {
        let mut request = request.clone();
        request.data["messageId"] = json!(reply.id);
        events.extend(request_without_suspension(run, node, &request)?.1);
    }
    Ok(events)
}

/// Cancels the calls of an overruled reply and adds a message that tells the agent the decision that replaces it.
pub(super) fn overrule_reply(run: &Run, node: &NodeId) -> Result<Vec<Event>, Refusal> {
    let unratified =
        agent_of(run, node).and_then(|agent| agent.unratified).filter(|unratified| unratified.overruled);
    let asked = unratified
        .and_then(|unratified| run.interrupt(unratified.interrupt))
        .ok_or(Refusal::NodeNotRunning)?;
    let (content, by) = asked.override_message();
    let mut message = Message::new(format!("decision-{}", asked.id.0), Role::User, content);
    message.by = by;
    let mut events = cancel_calls(run, node, OVERRULED);
    events.extend(add_messages(run, node, &[message])?);
    Ok(events)
}

/// Retracts a reply that waits for ratification, because a new message supersedes it.
pub(super) fn supersede_reply(run: &Run, node: &NodeId, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    let Some(unratified) = agent_of(run, node).and_then(|agent| agent.unratified) else {
        return Ok(Vec::new());
    };
    let Some(asked) = run.interrupt(unratified.interrupt).filter(|asked| asked.is_open()) else {
        return overrule_reply(run, node);
    };
    let mut events = vec![retract_interrupt(asked)];
    events.extend(resume_waiting_nodes(run, unratified.interrupt));
    let mut after = run.clone();
    events.iter().for_each(|event| after.apply(event, now));
    events.extend(cancel_calls(&after, node, SUPERSEDED));
    Ok(events)
}

fn cancel_calls(run: &Run, node: &NodeId, why: &str) -> Vec<Event> {
    let calls = agent_of(run, node).into_iter().flat_map(|agent| &agent.calls);
    let unmade = calls.filter(|call| !call.status.is_terminal()).map(|call| Event::ToolReturned {
        node: node.clone(),
        call: call.id.clone(),
        status: CallStatus::Cancelled,
        content: json!({ "cancelled": why }),
    });
    unmade.collect()
}
