//! Decides what becomes of replies that are not sure enough: they are told, asked about, and taken back when somebody
//! decides something else.

use serde_json::json;

use super::agent::{SUPERSEDED, agent_of, heard, retracted};
use super::ask::{agent_decided, aside};
use super::finish::room;
use super::resolve::resumed;
use crate::agent::{CallStatus, Message, Role};
use crate::event::Event;
use crate::interrupt::{Decision, Request};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::Run;
use crate::{NodeId, Timestamp};

/// Why a call was not made, as agents and readers are told.
const OVERRULED: &str = "somebody decided otherwise";

/// What an agent decided with its reply, and the question that comes of it.
pub(super) fn decided(
    run: &Run,
    node: &NodeId,
    decision: &Decision,
    question: Option<&Request>,
) -> Result<Vec<Event>, Refusal> {
    check_size("the decision", &decision.decision, limits::STEP_RESULT_BYTES_MAX.min(room(run)))?;
    let reply = agent_of(run, node).and_then(|agent| agent.last_reply()).ok_or(Refusal::NodeNotRunning)?;
    let mut told = agent_decided(node.clone(), decision);
    if let Event::AgentDecided { message, .. } = &mut told {
        *message = Some(reply.id.clone());
    }
    let mut events = vec![told];
    if let Some(request) = question {
        let mut request = request.clone();
        request.data["messageId"] = json!(reply.id);
        events.extend(aside(run, node, &request)?.1);
    }
    Ok(events)
}

/// Nothing of the reply is done, and the agent is told what was decided instead.
pub(super) fn overruled(run: &Run, node: &NodeId) -> Result<Vec<Event>, Refusal> {
    let doubt = agent_of(run, node).and_then(|agent| agent.doubt).filter(|doubt| doubt.overruled);
    let asked = doubt.and_then(|doubt| run.interrupt(doubt.interrupt)).ok_or(Refusal::NodeNotRunning)?;
    let (content, by) = asked.decided_instead();
    let mut message = Message::new(format!("decision-{}", asked.id.0), Role::User, content);
    message.by = by;
    let mut events = taken_back(run, node, OVERRULED);
    events.extend(heard(run, node, &[message])?);
    Ok(events)
}

/// Whoever goes on talking has something else in mind than the reply that waits.
pub(super) fn superseded(run: &Run, node: &NodeId, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    let Some(doubt) = agent_of(run, node).and_then(|agent| agent.doubt) else { return Ok(Vec::new()) };
    let Some(asked) = run.interrupt(doubt.interrupt).filter(|asked| asked.is_open()) else {
        return overruled(run, node);
    };
    let mut events = vec![retracted(asked)];
    events.extend(resumed(run, doubt.interrupt));
    let mut after = run.clone();
    events.iter().for_each(|event| after.apply(event, now));
    events.extend(taken_back(&after, node, SUPERSEDED));
    Ok(events)
}

fn taken_back(run: &Run, node: &NodeId, why: &str) -> Vec<Event> {
    let calls = agent_of(run, node).into_iter().flat_map(|agent| &agent.calls);
    let unmade = calls.filter(|call| !call.status.is_terminal()).map(|call| Event::ToolReturned {
        node: node.clone(),
        call: call.id.clone(),
        status: CallStatus::Cancelled,
        content: json!({ "cancelled": why }),
    });
    unmade.collect()
}
