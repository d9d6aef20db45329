//! Documents of what nodes do on their way: values they set, runs they start, rounds they go.

use holdpoint_core::{Event, NodeId, Run, RunError, Timestamp};
use holdpoint_engine::Recorded;
use serde_json::{Value, json};

use super::{Description, HIDDEN, failure};

pub(super) fn describe<'a>(run: &Run, recorded: &'a Recorded) -> Description<'a> {
    match &recorded.event {
        Event::NodeRetried { node, attempt, delay_ms, error } => {
            let payload = json!({
                "nodeId": node, "attempt": attempt, "delayMs": delay_ms, "lastError": failure(error),
            });
            ("node.retried", Some(node), payload)
        }
        Event::NodeDelayed { node, error, until } => delayed(node, error, *until),
        Event::VariableChanged { node, name, previous, next } => {
            let shown = |value: &Value| if run.is_hidden(name) { json!(HIDDEN) } else { value.clone() };
            let mut payload = json!({"nodeId": node, "name": name, "next": shown(next)});
            if let Some(previous) = previous {
                payload["previous"] = shown(previous);
            }
            ("variable.changed", Some(node), payload)
        }
        Event::ChannelWritten { node, channel, value, reducer, .. } => {
            let value = if run.is_hidden(channel) { json!(HIDDEN) } else { value.clone() };
            let payload = json!({
                "nodeId": node, "channel": channel, "value": value, "reducer": reducer,
                "writtenAt": recorded.at.to_string(),
            });
            ("channel.written", Some(node), payload)
        }
        Event::MessageChunk { node, chunk, last, meta } => {
            let mut payload = json!({"nodeId": node, "runId": run.id, "chunk": chunk, "isLast": last});
            if !meta.is_empty() {
                payload["meta"] = json!(meta);
            }
            ("ai.message.chunk", Some(node), payload)
        }
        Event::ArtifactCreated { node, artifact, version } => {
            let kind = run.workflow.node(node).and_then(|node| node.artifact_type.as_deref());
            let payload = json!({
                "nodeId": node, "artifactId": artifact, "artifactType": kind, "version": version.to_string(),
            });
            ("artifact.created", Some(node), payload)
        }
        Event::LoopbackLimit { node, iterations, limit } => {
            let payload = json!({"nodeId": node, "iterations": iterations, "limit": limit});
            ("workflow.loopback-limit", Some(node), payload)
        }
        Event::NodeDispatched { node, child, workflow, call, .. } => {
            let mut payload = json!({"childRunId": child, "childWorkflowId": workflow});
            if let Some(call) = call {
                payload["toolCallId"] = json!(call);
            }
            ("node.dispatched", Some(node), payload)
        }
        Event::StepRecorded { node, name, .. } => {
            ("holdpoint.step.recorded", Some(node), json!({"nodeId": node, "step": name}))
        }
        Event::NodeAwaiting { node, child } => {
            ("holdpoint.node.awaiting", Some(node), json!({"nodeId": node, "childRunId": child}))
        }
        Event::LoopTurned { edge, iteration } => {
            ("holdpoint.loop.turned", None, json!({"edgeId": edge, "iteration": iteration}))
        }
        Event::ChildChanged { child, status } => {
            ("holdpoint.child.changed", None, json!({"childRunId": child, "status": status}))
        }
        Event::ChildEnded { child, status, .. } => {
            ("holdpoint.child.ended", None, json!({"childRunId": child, "status": status}))
        }
        // The caller sends only those above.
        _ => ("", None, Value::Null),
    }
}

fn delayed<'a>(node: &'a NodeId, error: &RunError, until: Option<Timestamp>) -> Description<'a> {
    let mut payload = json!({"nodeId": node, "error": failure(error)});
    if let Some(until) = until {
        payload["until"] = json!(until.to_string());
    }
    ("holdpoint.node.delayed", Some(node), payload)
}
