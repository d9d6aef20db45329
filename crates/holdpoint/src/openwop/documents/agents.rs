//! What agents hear, say and do.

use holdpoint_api::payloads::EventPayload;
use holdpoint_core::agent::{Agent, Message};
use holdpoint_core::{Event, NodeId, Run};
use holdpoint_engine::Recorded;
use serde_json::{Map, Value, json};

use super::Description;

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a Recorded) -> Description<'a> {
    let (kind, node, payload) = match &recorded.event {
        Event::MessageAdded { node, message } => {
            (recorded.event.name(), node, json!({ "nodeId": node, "message": shown(message) }))
        }
        Event::ModelReplied { node, message, usage, model, took_ms, .. } => {
            let mut payload = json!({ "nodeId": node, "message": shown(message), "usage": usage });
            if !model.is_empty() {
                payload["model"] = json!(model);
            }
            if let Some(ms) = took_ms {
                payload["durationMs"] = json!(ms);
            }
            (recorded.event.name(), node, payload)
        }
        Event::ToolCalled { node, call, behaviour, why, .. } => {
            let mut payload = of_call(run, node, call);
            payload["permission"] = json!(behaviour);
            if let Some(why) = why {
                payload["reason"] = json!(why);
            }
            (recorded.event.name(), node, payload)
        }
        Event::ToolSuspended { node, call, interrupt, mode } => {
            let mut payload = of_call(run, node, call);
            payload["interruptId"] = json!(run.interrupt_name(*interrupt));
            payload["resumeMode"] = json!(mode);
            (recorded.event.name(), node, payload)
        }
        Event::ToolBegun { node, call, arguments, uses } => {
            let mut payload = of_call(run, node, call);
            if let Some(arguments) = arguments {
                payload["effectiveArguments"] = arguments.clone();
            }
            if !uses.is_empty() {
                payload["grantIds"] = uses.iter().map(|id| run.grant_id(*id)).collect();
            }
            (recorded.event.name(), node, payload)
        }
        Event::ToolReturned { node, call, status, content } => {
            let mut payload = of_call(run, node, call);
            payload["status"] = json!(status);
            payload["result"] = content.clone();
            (recorded.event.name(), node, payload)
        }
        // The caller sends only the events of agents.
        other => return (other.name(), None, EventPayload::Other(Value::Null)),
    };
    (kind, Some(node), EventPayload::Other(payload))
}

/// A message as clients know it: calls by the names that front ends use.
pub(crate) fn shown(message: &Message) -> Value {
    let mut shown = Map::from_iter([
        ("id".to_owned(), json!(message.id)),
        ("role".to_owned(), json!(message.role)),
        ("content".to_owned(), message.content.clone()),
    ]);
    if !message.calls.is_empty() {
        shown.insert("toolCalls".to_owned(), json!(message.calls));
    }
    if let Some(call) = &message.call_id {
        shown.insert("toolCallId".to_owned(), json!(call));
    }
    if let Some(by) = &message.by {
        shown.insert("by".to_owned(), json!(by));
    }
    if !message.metadata.is_empty() {
        shown.insert("metadata".to_owned(), json!(message.metadata));
    }
    Value::Object(shown)
}

fn of_call(run: &Run, node: &NodeId, call: &str) -> Value {
    let agent = run.node_state(node).and_then(|state| state.agent.as_deref());
    let known = agent.and_then(|agent: &Agent| agent.call(call));
    let mut payload = json!({ "nodeId": node, "agentId": agent_id(run, node), "callId": call });
    if let Some(known) = known {
        payload["toolName"] = json!(known.name);
        payload["arguments"] = known.arguments.clone();
    }
    payload
}

/// What the agent at a node is called: as its definition says, else as the node.
fn agent_id(run: &Run, node: &NodeId) -> String {
    let config = run.workflow.node(node).map(|node| &node.config);
    let named = config.and_then(|config| config.get("agentId")).and_then(Value::as_str);
    named.map_or_else(|| node.to_string(), str::to_owned)
}
