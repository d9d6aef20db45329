//! Decides which reports of a provider are recorded. None is refused, because the outcome of the turn does not depend on
//! them.

use super::agent::agent_of;
use super::finish::remaining_bytes;
use super::message_chunk::RESERVE;
use crate::NodeId;
use crate::agent::{Behaviour, ProviderReply, ProviderReport};
use crate::event::Event;
use crate::limits;
use crate::refusal::json_bytes;
use crate::run::Run;

/// The reason in the record of a call: no permission rule of the engine applies to it.
const DECIDED_BY_PROVIDER: &str = "the provider decides";

/// Returns the events of a report. Returns none if it is already recorded, if it does not belong to a known call, or if
/// it would use the bytes that are reserved for the outcome.
pub(super) fn report_events(run: &Run, node: &NodeId, report: &ProviderReport) -> Vec<Event> {
    match report {
        ProviderReport::Reply(reply) => reply_events(run, node, reply),
        ProviderReport::Result { call, status, content } => {
            let known = agent_of(run, node).and_then(|agent| agent.call(call));
            let is_open = known.is_some_and(|known| !known.status.is_terminal());
            if !is_open || !status.is_terminal() || !has_room(run, json_bytes(content)) {
                return Vec::new();
            }
            let (call, content) = (call.clone(), content.clone());
            vec![Event::ToolReturned { node: node.clone(), call, status: *status, content }]
        }
    }
}

fn reply_events(run: &Run, node: &NodeId, reply: &ProviderReply) -> Vec<Event> {
    let agent = agent_of(run, node);
    let is_known = |id: &str| agent.is_some_and(|agent| agent.messages.iter().any(|known| known.id == id));
    let count = agent.map_or(0, |agent| agent.messages.len());
    let mut message = reply.message.clone();
    if is_known(&message.id) || count >= limits::MESSAGES_MAX {
        return Vec::new();
    }
    let mut seen: Vec<String> = Vec::new();
    message.calls.retain(|call| {
        let is_new = !call.id.is_empty() && !seen.contains(&call.id);
        let is_open = is_new && agent.is_none_or(|agent| agent.call(&call.id).is_none());
        seen.push(call.id.clone());
        is_open
    });
    message.calls.truncate(limits::CALLS_PER_REPLY_MAX);
    if !has_room(run, json_bytes(&message)) {
        return Vec::new();
    }
    let calls: Vec<String> = message.calls.iter().map(|call| call.id.clone()).collect();
    let mut events = vec![Event::ModelReplied {
        node: node.clone(),
        message: Box::new(message),
        seen: count,
        usage: reply.usage,
        model: reply.model.clone(),
        took_ms: None,
        provider: true,
    }];
    events.extend(calls.into_iter().map(|call| Event::ToolCalled {
        node: node.clone(),
        call,
        behaviour: Behaviour::Allow,
        why: Some(DECIDED_BY_PROVIDER.to_owned()),
        idempotent: false,
        client: false,
    }));
    events
}

fn has_room(run: &Run, bytes: usize) -> bool {
    bytes <= limits::STEP_RESULT_BYTES_MAX && bytes + RESERVE <= remaining_bytes(run)
}
