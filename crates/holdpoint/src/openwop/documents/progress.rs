//! Documents of the progress of nodes: values, child runs, retries and loops.

use std::borrow::Cow;

use holdpoint_api::payloads::{
    ActivityReported, ArtifactCreated, ChannelWritten, ChildChanged, EventPayload, LoopTurned, LoopbackLimit,
    MessageChunk, NodeAwaiting, NodeDelayed, NodeDispatched, NodeRetried, ReasoningChunk, StepRecorded,
    ToolCallChunk, VariableChanged,
};
use holdpoint_api::snapshot::ChildInterrupt;
use holdpoint_core::{ChildInterruptChanges, ClosedChildInterrupt, Event, Run, RunId, Status};
use holdpoint_engine::RecordedEvent;
use serde_json::Value;

use super::super::snapshot::child_interrupt;
use super::{Description, failure, redact};

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a RecordedEvent) -> Description<'a> {
    match &recorded.event {
        Event::NodeRetried { node, attempt, delay_ms, error } => {
            let (node_id, last_error) = (node.clone(), failure(error));
            let payload = NodeRetried { attempt: *attempt, delay_ms: *delay_ms, last_error, node_id };
            ("node.retried", Some(node), payload.into())
        }
        Event::NodeDelayed { node, error, until } => {
            let (node_id, until) = (node.clone(), until.map(Into::into));
            let payload = NodeDelayed { error: failure(error), node_id, until };
            ("holdpoint.node.delayed", Some(node), payload.into())
        }
        Event::VariableChanged { node, name, previous, next } => {
            let payload = VariableChanged {
                name: Cow::Borrowed(name),
                next: redact(run, name, next),
                node_id: node.clone(),
                previous: previous.as_ref().map(|previous| redact(run, name, previous)),
            };
            ("variable.changed", Some(node), payload.into())
        }
        Event::ChannelWritten { node, channel, value, reducer, .. } => {
            let payload = ChannelWritten {
                channel: Cow::Borrowed(channel),
                node_id: node.clone(),
                reducer: *reducer,
                value: redact(run, channel, value),
                written_at: recorded.at.into(),
            };
            ("channel.written", Some(node), payload.into())
        }
        Event::MessageChunk { node, chunk, last, meta } => {
            let payload = MessageChunk {
                chunk: Cow::Borrowed(chunk),
                is_last: *last,
                meta: (!meta.is_empty()).then_some(Cow::Borrowed(meta)),
                node_id: node.clone(),
                run_id: run.id.clone(),
            };
            ("ai.message.chunk", Some(node), payload.into())
        }
        Event::ReasoningChunk { .. } | Event::ToolCallChunk { .. } | Event::ActivityReported { .. } => {
            describe_stream(&recorded.event)
        }
        Event::ArtifactCreated { node, artifact, version } => {
            let kind = run.workflow.node(node).and_then(|node| node.artifact_type.as_deref());
            let payload = ArtifactCreated {
                artifact_id: Cow::Borrowed(artifact),
                artifact_type: kind.map(Cow::Borrowed),
                node_id: node.clone(),
                version: version.to_string(),
            };
            ("artifact.created", Some(node), payload.into())
        }
        Event::LoopbackLimit { node, iterations, limit } => {
            let payload = LoopbackLimit { iterations: *iterations, limit: *limit, node_id: node.clone() };
            ("workflow.loopback-limit", Some(node), payload.into())
        }
        _ => describe_child_or_loop(run, recorded),
    }
}

fn describe_stream(event: &Event) -> Description<'_> {
    match event {
        Event::ReasoningChunk { node, chunk, last, meta } => {
            let payload = ReasoningChunk {
                chunk: Cow::Borrowed(chunk),
                is_last: *last,
                meta: (!meta.is_empty()).then_some(Cow::Borrowed(meta)),
                node_id: node.clone(),
            };
            (event.name(), Some(node), payload.into())
        }
        Event::ToolCallChunk { node, call, name, chunk, last, meta } => {
            let payload = ToolCallChunk {
                call_id: Cow::Borrowed(call),
                chunk: Cow::Borrowed(chunk),
                is_last: *last,
                meta: (!meta.is_empty()).then_some(Cow::Borrowed(meta)),
                node_id: node.clone(),
                tool_name: name.as_deref().map(Cow::Borrowed),
            };
            (event.name(), Some(node), payload.into())
        }
        Event::ActivityReported { node, activity, kind, content, call } => {
            let payload = ActivityReported {
                activity_id: Cow::Borrowed(activity),
                activity_type: Cow::Borrowed(kind),
                call_id: call.as_deref().map(Cow::Borrowed),
                content: Cow::Borrowed(content),
                node_id: node.clone(),
            };
            (event.name(), Some(node), payload.into())
        }
        // Not reached: the caller passes only the events above.
        other => (other.name(), None, EventPayload::Other(Value::Null)),
    }
}

fn describe_child_or_loop<'a>(run: &Run, recorded: &'a RecordedEvent) -> Description<'a> {
    match &recorded.event {
        Event::NodeDispatched { node, child, workflow, call, .. } => {
            let payload = NodeDispatched {
                child_run_id: child.clone(),
                child_workflow_id: workflow.clone(),
                tool_call_id: call.as_deref().map(Cow::Borrowed),
            };
            ("node.dispatched", Some(node), payload.into())
        }
        Event::StepRecorded { node, name, .. } => {
            let payload = StepRecorded { node_id: node.clone(), step: Cow::Borrowed(name) };
            ("holdpoint.step.recorded", Some(node), payload.into())
        }
        Event::NodeAwaiting { node, child } => {
            let payload = NodeAwaiting { child_run_id: child.clone(), node_id: node.clone() };
            ("holdpoint.node.awaiting", Some(node), payload.into())
        }
        Event::LoopTurned { edge, iteration } => {
            let payload = LoopTurned { edge_id: Cow::Borrowed(edge), iteration: *iteration };
            ("holdpoint.loop.turned", None, payload.into())
        }
        Event::ChildChanged { child, status, interrupts: ChildInterruptChanges { opened, closed } } => {
            let state = run.child(child).into_iter();
            let opened = state.flat_map(|child| opened.iter().map(|open| child_interrupt(run, child, open)));
            let payload = child_changed(child, *status, opened.collect(), closed);
            ("holdpoint.child.changed", None, payload.into())
        }
        Event::ChildEnded { child, status, closed, .. } => {
            let payload = child_changed(child, *status, Vec::new(), closed);
            ("holdpoint.child.ended", None, payload.into())
        }
        // Not reached: the caller passes only the events above.
        _ => ("", None, EventPayload::Other(Value::Null)),
    }
}

fn child_changed(
    child: &RunId,
    status: Status,
    opened_interrupts: Vec<ChildInterrupt>,
    closed: &[ClosedChildInterrupt],
) -> ChildChanged {
    let closed_interrupt_ids = closed.iter().map(ClosedChildInterrupt::name).collect();
    ChildChanged { child_run_id: child.clone(), status, opened_interrupts, closed_interrupt_ids }
}
