//! Recorded events as the protocol's documents, and which stream modes show them.

use holdpoint_core::{Event, Interrupt, InterruptId, Kind, NodeId, Resolution, Run, RunError};
use holdpoint_engine::Recorded;
use serde_json::{Value, json};

use super::translate::interrupt_id;
use super::wire::EventDoc;

mod progress;

/// What a stream shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Updates,
    Debug,
}

impl Mode {
    pub(crate) const NAMES: [&str; 2] = ["updates", "debug"];

    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "updates" => Some(Self::Updates),
            "debug" => Some(Self::Debug),
            _ => None,
        }
    }

    pub(crate) fn shows(self, event: &Event) -> bool {
        self == Self::Debug
            || match event {
                Event::NodeStarted { .. }
                | Event::NodeResumed { .. }
                | Event::StepRecorded { .. }
                | Event::SleepStarted { .. }
                | Event::SleepEnded { .. }
                | Event::NodeRetried { .. }
                | Event::VariableChanged { .. }
                | Event::ChannelWritten { .. }
                | Event::MessageChunk { .. }
                | Event::LoopTurned { .. }
                | Event::LoopbackLimit { .. }
                | Event::CapBreached { .. }
                | Event::ChildChanged { .. }
                | Event::ChildEnded { .. }
                | Event::ReplayDiverged { .. } => false,
                Event::RunStarted(_)
                | Event::NodeCompleted { .. }
                | Event::NodeFailed { .. }
                | Event::NodeSkipped { .. }
                | Event::NodeSuspended { .. }
                | Event::InterruptRequested { .. }
                | Event::ApprovalRequested { .. }
                | Event::ClarificationRequested { .. }
                | Event::InterruptResolved { .. }
                | Event::InterruptTimedOut { .. }
                | Event::ApprovalReceived { .. }
                | Event::ClarificationResolved { .. }
                | Event::ArtifactCreated { .. }
                | Event::NodeDispatched { .. }
                | Event::RunPaused { .. }
                | Event::RunResumed { .. }
                | Event::RunCompleted
                | Event::RunFailed { .. }
                | Event::RunCancelled { .. } => true,
            }
    }
}

/// The document of a recorded event. `run` is the fold at that event or any later one: what is taken from it
/// never changes once it is there.
pub(crate) fn document(run: &Run, recorded: &Recorded) -> EventDoc {
    let (kind, node_id, payload) = describe(run, recorded);
    EventDoc {
        event_id: format!("{}:{}", run.id, recorded.seq),
        run_id: run.id.clone(),
        kind,
        node_id: node_id.map(ToString::to_string),
        payload,
        timestamp: recorded.at,
        sequence: recorded.seq,
    }
}

type Description<'a> = (&'static str, Option<&'a NodeId>, Value);

fn describe<'a>(run: &'a Run, recorded: &'a Recorded) -> Description<'a> {
    match &recorded.event {
        Event::RunStarted(_)
        | Event::RunCompleted
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed { .. }
        | Event::CapBreached { .. }
        | Event::ReplayDiverged { .. } => of_run(run, recorded),
        Event::NodeRetried { .. }
        | Event::VariableChanged { .. }
        | Event::ChannelWritten { .. }
        | Event::MessageChunk { .. }
        | Event::ArtifactCreated { .. }
        | Event::LoopTurned { .. }
        | Event::LoopbackLimit { .. }
        | Event::NodeDispatched { .. }
        | Event::ChildChanged { .. }
        | Event::ChildEnded { .. } => progress::describe(run, recorded),
        Event::NodeStarted { node } => {
            let type_id = run.workflow.node(node).map_or("", |node| node.type_id.as_str());
            ("node.started", Some(node), json!({"nodeId": node, "typeId": type_id}))
        }
        Event::NodeCompleted { node, outputs, .. } => {
            ("node.completed", Some(node), json!({"nodeId": node, "outputs": outputs}))
        }
        Event::NodeFailed { node, error } => {
            ("node.failed", Some(node), json!({"nodeId": node, "error": failure(error)}))
        }
        Event::NodeSkipped { node, reason } => {
            ("node.skipped", Some(node), json!({"nodeId": node, "reason": reason}))
        }
        Event::NodeSuspended { node, interrupt } => {
            ("node.suspended", Some(node), suspension(run, node, *interrupt))
        }
        Event::NodeResumed { node, interrupt } => {
            let id = interrupt_id(run.id.as_str(), *interrupt);
            ("node.resumed", Some(node), json!({"nodeId": node, "interruptId": id}))
        }
        Event::InterruptRequested { id, .. } => of_interrupt(run, *id, "interrupt.requested", requested),
        Event::ApprovalRequested { interrupt } => {
            of_interrupt(run, *interrupt, "approval.requested", approval_requested)
        }
        Event::ClarificationRequested { interrupt } => {
            of_interrupt(run, *interrupt, "clarification.requested", clarification_requested)
        }
        Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
            of_interrupt(run, *id, "interrupt.resolved", resolved)
        }
        Event::ApprovalReceived { interrupt } => {
            of_interrupt(run, *interrupt, "approval.received", approval_received)
        }
        Event::ClarificationResolved { interrupt } => {
            of_interrupt(run, *interrupt, "clarification.resolved", clarification_resolved)
        }
        Event::StepRecorded { node, name, .. } => {
            ("holdpoint.step.recorded", Some(node), json!({"nodeId": node, "step": name}))
        }
        Event::SleepStarted { node, until } => {
            ("holdpoint.sleep.started", Some(node), json!({"nodeId": node, "until": until.to_string()}))
        }
        Event::SleepEnded { node } => ("holdpoint.sleep.ended", Some(node), json!({"nodeId": node})),
    }
}

fn of_run<'a>(run: &Run, recorded: &'a Recorded) -> Description<'a> {
    let duration_ms = recorded.at.0 - run.started_at.0;
    match &recorded.event {
        Event::RunFailed { error, node } => {
            let mut payload = json!({"error": failure(error), "durationMs": duration_ms});
            if let Some(node) = node {
                payload["failedNodeId"] = json!(node);
            }
            ("run.failed", None, payload)
        }
        Event::RunPaused { reason, drain, by } => {
            let mut payload = json!({"drainPolicy": drain, "pausedBy": by});
            if let Some(reason) = reason {
                payload["reason"] = json!(reason);
            }
            ("run.paused", None, payload)
        }
        Event::RunResumed { by } => ("run.resumed", None, json!({"resumedBy": by})),
        Event::CapBreached { cap, limit, observed, node } => {
            let mut payload = json!({"kind": cap, "limit": limit, "observed": observed});
            if let Some(node) = node {
                payload["nodeId"] = json!(node);
            }
            ("cap.breached", node.as_ref(), payload)
        }
        Event::ReplayDiverged { source, at_sequence, expected, found } => {
            let payload = json!({
                "sourceRunId": source, "atSequence": at_sequence, "divergenceKind": "event-mismatch",
                "originalEventId": format!("{source}:{at_sequence}"),
                "divergencePoint": {"expected": expected, "found": found},
            });
            ("replay.diverged", None, payload)
        }
        Event::RunCancelled { reason, by, parent } => {
            let mut payload = json!({"cancelledBy": by, "durationMs": duration_ms});
            if let Some(parent) = parent {
                payload["parentRunId"] = json!(parent);
            }
            if let Some(reason) = reason {
                payload["reason"] = json!(reason);
            }
            ("run.cancelled", None, payload)
        }
        // Inputs stay out of events: callers put secrets into them.
        Event::RunStarted(started) => {
            let mut payload =
                json!({"workflowId": started.workflow, "transport": "rest", "owner": started.owner});
            if !started.tags.is_empty() {
                payload["tags"] = json!(started.tags);
            }
            ("run.started", None, payload)
        }
        // The caller sends only the four events that are about the whole run.
        _ => ("run.completed", None, json!({"durationMs": duration_ms})),
    }
}

fn failure(error: &RunError) -> Value {
    json!({"code": error.code, "message": error.message, "retryable": error.retryable})
}

fn of_interrupt<'a>(
    run: &'a Run,
    id: InterruptId,
    kind: &'static str,
    payload: fn(&Run, &Interrupt) -> Value,
) -> Description<'a> {
    match run.interrupt(id) {
        Some(interrupt) => (kind, Some(&interrupt.node), payload(run, interrupt)),
        None => (kind, None, Value::Null),
    }
}

fn suspension(run: &Run, node: &NodeId, id: InterruptId) -> Value {
    let mut payload = json!({"nodeId": node, "interruptId": interrupt_id(run.id.as_str(), id)});
    if let Some(interrupt) = run.interrupt(id) {
        payload["kind"] = json!(interrupt.kind.as_str());
        payload["key"] = json!(interrupt.key);
    }
    payload
}

fn requested(run: &Run, interrupt: &Interrupt) -> Value {
    let mut payload = json!({
        "runId": run.id, "nodeId": interrupt.node, "interruptId": interrupt_id(run.id.as_str(), interrupt.id),
        "kind": interrupt.kind.as_str(), "key": interrupt.key, "data": interrupt.data,
        "requestedAt": interrupt.requested_at.to_string(),
    });
    if let Some(ms) = interrupt.timeout_ms {
        payload["timeoutMs"] = json!(ms);
    }
    payload
}

fn approval_requested(run: &Run, interrupt: &Interrupt) -> Value {
    let mut payload = json!({
        "nodeId": interrupt.node, "interruptId": interrupt_id(run.id.as_str(), interrupt.id),
    });
    for member in ["artifactId", "artifactType", "actions", "approversList", "requiredApprovals"] {
        if let Some(value) = interrupt.data.get(member) {
            payload[member] = value.clone();
        }
    }
    payload
}

fn clarification_requested(run: &Run, interrupt: &Interrupt) -> Value {
    json!({
        "nodeId": interrupt.node, "interruptId": interrupt_id(run.id.as_str(), interrupt.id),
        "questions": interrupt.data.get("questions"),
    })
}

fn resolved(run: &Run, interrupt: &Interrupt) -> Value {
    let mut payload = json!({
        "runId": run.id, "nodeId": interrupt.node, "interruptId": interrupt_id(run.id.as_str(), interrupt.id),
        "kind": interrupt.kind.as_str(),
    });
    match &interrupt.resolution {
        Some(Resolution::Answered { value, by, at }) => {
            payload["resumeValue"] = value.clone();
            payload["resolvedAt"] = json!(at.to_string());
            payload["resolvedBy"] = json!(by);
            if let (Kind::Approval, Some(action)) =
                (interrupt.kind, value.get("action").and_then(Value::as_str))
            {
                payload["action"] = json!(action);
                // Asking for a better version is neither.
                match action {
                    "reject" => payload["decision"] = json!("rejected"),
                    "accept" | "edit-accept" => payload["decision"] = json!("granted"),
                    _ => {}
                }
            }
        }
        Some(Resolution::TimedOut { at }) => {
            payload["resumeValue"] = Value::Null;
            payload["resolvedAt"] = json!(at.to_string());
            payload["resolvedBy"] = json!(TIMEOUT);
            for (member, value) in [
                ("action", "timeout"),
                ("decision", "rejected"),
                ("outcome", "rejected"),
                ("reason", "timeout"),
            ] {
                payload[member] = json!(value);
            }
        }
        None => {}
    }
    payload
}

/// Who "decided" when nobody did.
const TIMEOUT: &str = "system:timeout";

fn approval_received(_run: &Run, interrupt: &Interrupt) -> Value {
    match &interrupt.resolution {
        Some(Resolution::Answered { value, .. }) => {
            let mut payload = value.clone();
            payload["nodeId"] = json!(interrupt.node);
            payload
        }
        Some(Resolution::TimedOut { at }) => {
            let node = &interrupt.node;
            json!({"nodeId": node, "action": "timeout", "decidedBy": TIMEOUT, "decidedAt": at.to_string()})
        }
        None => Value::Null,
    }
}

fn clarification_resolved(_run: &Run, interrupt: &Interrupt) -> Value {
    match &interrupt.resolution {
        Some(Resolution::Answered { value, by, .. }) => {
            json!({"nodeId": interrupt.node, "answers": value.get("answers"), "answeredBy": by})
        }
        Some(Resolution::TimedOut { .. }) | None => Value::Null,
    }
}
