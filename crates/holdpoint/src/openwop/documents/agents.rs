//! Events of agents: messages, replies of models and calls of tools.

use std::borrow::Cow;

use holdpoint_api::agents::{MessageCall, TokenUsage};
use holdpoint_api::payloads::{
    AgentCall, AgentMessage, EventPayload, MessageAdded, ModelReplied, ToolBegun, ToolCalled, ToolReturned,
    ToolSuspended,
};
use holdpoint_core::agent::{Agent, Message};
use holdpoint_core::{Event, NodeId, Run};
use holdpoint_engine::RecordedEvent;
use serde_json::Value;

use super::Description;

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a RecordedEvent) -> Description<'a> {
    let (node, payload) = match &recorded.event {
        Event::MessageAdded { node, message } => {
            (node, MessageAdded { node_id: node.clone(), message: describe_message(message) }.into())
        }
        Event::ModelReplied { node, message, usage, model, took_ms, .. } => {
            let payload = ModelReplied {
                node_id: node.clone(),
                message: describe_message(message),
                usage: TokenUsage { input_tokens: usage.input_tokens, output_tokens: usage.output_tokens },
                model: (!model.is_empty()).then_some(Cow::Borrowed(model)),
                duration_ms: *took_ms,
            };
            (node, payload.into())
        }
        Event::ToolCalled { node, call, behaviour, why, .. } => {
            let (call, reason) = (describe_call(run, node, call), why.as_deref().map(Cow::Borrowed));
            (node, ToolCalled { call, permission: *behaviour, reason }.into())
        }
        Event::ToolSuspended { node, call, interrupt, mode } => {
            let (call, interrupt_id) = (describe_call(run, node, call), run.interrupt_name(*interrupt));
            (node, ToolSuspended { call, interrupt_id, resume_mode: *mode }.into())
        }
        Event::ToolBegun { node, call, arguments, uses } => {
            let payload = ToolBegun {
                call: describe_call(run, node, call),
                effective_arguments: arguments.as_ref().map(Cow::Borrowed),
                grant_ids: (!uses.is_empty()).then(|| uses.iter().map(|id| run.grant_id(*id)).collect()),
            };
            (node, payload.into())
        }
        Event::ToolReturned { node, call, status, content } => {
            let (call, result) = (describe_call(run, node, call), Cow::Borrowed(content));
            (node, ToolReturned { call, status: *status, result }.into())
        }
        // Not reached: the caller passes only the events above.
        other => return (other.name(), None, EventPayload::Other(Value::Null)),
    };
    (recorded.event.name(), Some(node), payload)
}

fn describe_message(message: &Message) -> AgentMessage<'_> {
    let calls = message.calls.iter().map(|call| MessageCall {
        id: Cow::Borrowed(&call.id),
        name: Cow::Borrowed(&call.name),
        arguments: Cow::Borrowed(&call.arguments),
    });
    let parts = message.reasoning.iter().filter(|part| part.shown && !part.text.is_empty());
    let reasoning: Vec<Cow<'_, str>> = parts.map(|part| Cow::Borrowed(part.text.as_str())).collect();
    AgentMessage {
        id: Cow::Borrowed(&message.id),
        role: message.role,
        content: Cow::Borrowed(&message.content),
        reasoning: (!reasoning.is_empty()).then_some(reasoning),
        tool_calls: (!message.calls.is_empty()).then(|| calls.collect()),
        tool_call_id: message.call_id.as_deref().map(Cow::Borrowed),
        by: message.by.as_deref().map(Cow::Borrowed),
        metadata: (!message.metadata.is_empty()).then_some(Cow::Borrowed(&message.metadata)),
    }
}

fn describe_call<'a>(run: &'a Run, node: &'a NodeId, call: &'a str) -> AgentCall<'a> {
    let agent = run.node_state(node).and_then(|state| state.agent.as_deref());
    let known = agent.and_then(|agent: &Agent| agent.call(call));
    AgentCall {
        node_id: node.clone(),
        agent_id: agent_id(run, node),
        call_id: Cow::Borrowed(call),
        tool_name: known.map(|known| Cow::Borrowed(known.name.as_str())),
        arguments: known.map(|known| Cow::Borrowed(&known.arguments)),
    }
}

/// Returns the id in the definition of the agent, or the id of its node.
fn agent_id<'a>(run: &'a Run, node: &NodeId) -> Cow<'a, str> {
    let config = run.workflow.node(node).map(|node| &node.config);
    let named = config.and_then(|config| config.get("agentId")).and_then(Value::as_str);
    named.map_or_else(|| Cow::Owned(node.to_string()), Cow::Borrowed)
}
