//! Recorded events as the protocol's documents.

use std::borrow::Cow;

use holdpoint_api::events::Event as EventDocument;
use holdpoint_core::{Drain, Event, InterruptId, NodeId, Run, RunError};
use holdpoint_engine::Recorded;
use serde_json::{Map, Value, json};

mod agents;
mod governance;
mod interrupts;
mod progress;
mod voices;

pub(crate) use interrupts::decision;

/// The document of a recorded event. `run` is the fold right after it, neither earlier nor later: so the document is
/// the same on every read.
pub(crate) fn document(run: &Run, recorded: &Recorded) -> EventDocument<'static> {
    let (kind, node_id, payload) = describe(run, recorded);
    EventDocument {
        event_id: format!("{}:{}", run.id, recorded.seq),
        run_id: run.id.clone(),
        kind: Cow::Borrowed(kind),
        node_id: node_id.cloned(),
        payload,
        timestamp: recorded.at.into(),
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
        | Event::PauseRequested { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed { .. }
        | Event::CapBreached { .. }
        | Event::ReplayDiverged { .. } => of_run(run, recorded),
        Event::NodeRetried { .. }
        | Event::NodeDelayed { .. }
        | Event::VariableChanged { .. }
        | Event::ChannelWritten { .. }
        | Event::MessageChunk { .. }
        | Event::ArtifactCreated { .. }
        | Event::LoopTurned { .. }
        | Event::LoopbackLimit { .. }
        | Event::NodeDispatched { .. }
        | Event::NodeAwaiting { .. }
        | Event::StepRecorded { .. }
        | Event::ChildChanged { .. }
        | Event::ChildEnded { .. } => progress::describe(run, recorded),
        Event::NodeSuspended { .. }
        | Event::NodeResumed { .. }
        | Event::InterruptRequested { .. }
        | Event::ApprovalRequested { .. }
        | Event::ClarificationRequested { .. }
        | Event::InterruptResolved { .. }
        | Event::InterruptTimedOut { .. }
        | Event::ApprovalReceived { .. }
        | Event::ClarificationResolved { .. } => interrupts::describe(run, recorded),
        Event::AuthorizationDecided { .. }
        | Event::ApprovalGranted { .. }
        | Event::ApprovalRejected { .. }
        | Event::ApprovalOverridden { .. } => governance::describe(run, recorded),
        Event::VoteCast { .. }
        | Event::VoteRepeated { .. }
        | Event::AskRaised { .. }
        | Event::AskAnswered { .. }
        | Event::ConversationOpened { .. }
        | Event::ConversationExchanged { .. }
        | Event::ConversationClosed { .. }
        | Event::AgentDecided { .. } => voices::describe(run, recorded),
        Event::MessageAdded { .. }
        | Event::ModelReplied { .. }
        | Event::ToolCalled { .. }
        | Event::ToolSuspended { .. }
        | Event::ToolBegun { .. }
        | Event::ToolReturned { .. } => agents::describe(run, recorded),
        Event::NodeStarted { node, uses } => ("node.started", Some(node), started(run, node, uses)),
        Event::NodeCompleted { node, outputs, .. } => {
            ("node.completed", Some(node), completed(run, node, outputs))
        }
        Event::NodeFailed { node, error } => {
            ("node.failed", Some(node), json!({"nodeId": node, "error": failure(error)}))
        }
        Event::NodeSkipped { node, reason } => {
            ("node.skipped", Some(node), json!({"nodeId": node, "reason": reason}))
        }
        Event::SleepStarted { node, until } => {
            ("holdpoint.sleep.started", Some(node), json!({"nodeId": node, "until": until.to_string()}))
        }
        Event::SleepEnded { node } => ("holdpoint.sleep.ended", Some(node), json!({"nodeId": node})),
    }
}

fn started(run: &Run, node: &NodeId, uses: &[InterruptId]) -> Value {
    let type_id = run.workflow.node(node).map_or("", |node| node.type_id.as_str());
    // A node that is tried again goes on in the same start.
    let mut payload = json!({"nodeId": node, "typeId": type_id, "attempt": 0});
    if !uses.is_empty() {
        payload["grantIds"] = uses.iter().map(|id| run.grant_id(*id)).collect();
    }
    if run.workflow.node(node).is_some_and(|node| !node.needs_grant) {
        payload["grant"] = json!("none");
    }
    payload
}

fn completed(run: &Run, node: &NodeId, outputs: &Map<String, Value>) -> Value {
    let mut payload = json!({"nodeId": node, "outputs": shown(run, outputs)});
    if let Some(ms) = duration_ms(run, node) {
        payload["durationMs"] = json!(ms);
    }
    payload
}

fn of_pause<'a>(event: &Event) -> Description<'a> {
    let (name, mut payload, reason) = match event {
        Event::PauseRequested { reason, by } => {
            let payload = json!({"drainPolicy": Drain::DrainCurrentNode, "requestedBy": by});
            ("holdpoint.pause.requested", payload, reason.as_ref())
        }
        Event::RunPaused { reason, drain, by } => {
            ("run.paused", json!({"drainPolicy": drain, "pausedBy": by}), reason.as_ref())
        }
        Event::RunResumed { by } => ("run.resumed", json!({"resumedBy": by}), None),
        // The caller sends only the events that are about pauses.
        _ => (event.name(), Value::Null, None),
    };
    if let Some(reason) = reason {
        payload["reason"] = json!(reason);
    }
    (name, None, payload)
}

fn of_run<'a>(run: &Run, recorded: &'a Recorded) -> Description<'a> {
    let duration_ms = recorded.at.0 - run.begun_at().0;
    match &recorded.event {
        Event::RunFailed { error, node } => {
            let mut payload = json!({"error": failure(error), "durationMs": duration_ms});
            if let Some(node) = node {
                payload["failedNodeId"] = json!(node);
            }
            ("run.failed", None, payload)
        }
        Event::PauseRequested { .. } | Event::RunPaused { .. } | Event::RunResumed { .. } => {
            of_pause(&recorded.event)
        }
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
            if !started.metadata.is_empty() {
                payload["metadata"] = json!(started.metadata);
            }
            // The protocol has a number in runs and a text in events.
            if let Some(version) = started.engine_version {
                payload["engineVersion"] = json!(version.to_string());
            }
            ("run.started", None, payload)
        }
        // The caller sends only the events that are about the whole run.
        _ => {
            let mut payload = json!({"durationMs": duration_ms});
            let outputs = run.outputs();
            if !outputs.is_empty() {
                payload["outputs"] = json!(shown(run, &outputs));
            }
            ("run.completed", None, payload)
        }
    }
}

fn failure(error: &RunError) -> Value {
    let mut shown = json!({"code": error.code, "message": error.message, "retryable": error.retryable});
    if !error.details.is_empty() {
        shown["details"] = json!(error.details);
    }
    shown
}

/// How long the execution took that has just ended.
fn duration_ms(run: &Run, node: &NodeId) -> Option<i64> {
    let state = run.node_state(node)?;
    Some(state.ended_at?.0 - state.started_at?.0)
}

/// What stands for a value that is nobody's business.
pub(super) const HIDDEN: &str = "[redacted]";

/// Values by the name of the variable they go to, without those that are nobody's business.
pub(super) fn shown(run: &Run, values: &Map<String, Value>) -> Map<String, Value> {
    let one = |(name, value): (&String, &Value)| {
        let value = if run.is_hidden(name) { json!(HIDDEN) } else { value.clone() };
        (name.clone(), value)
    };
    values.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdpoint_core::{RunId, Timestamp, Workflow};

    use super::*;

    /// The payloads of a log, each from the fold right after its event.
    fn payloads(events: &[Value]) -> Vec<Value> {
        let node = |id: &str| json!({"id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
        let flow = json!({
            "id": "f", "name": "f", "version": "1", "nodes": [node("a"), node("b"), node("c")],
            "edges": [{"id": "1", "sourceNodeId": "a", "targetNodeId": "b"}], "triggers": [],
            "variables": [{"name": "pin", "type": "string", "sensitive": true}], "metadata": {}, "settings": {},
        });
        let workflow = Arc::new(Workflow::parse(&flow, 1).unwrap());
        let mut run = Run::unborn(RunId::parse("r").unwrap(), workflow);
        let mut told = |(seq, event): (u64, &Value)| {
            let event: Event = serde_json::from_value(event.clone()).unwrap();
            let at = Timestamp(10 * i64::try_from(seq).unwrap());
            run.apply(&event, at);
            document(&run, &Recorded { seq, at, event }).payload
        };
        (0..).zip(events).map(&mut told).collect()
    }

    fn log() -> Vec<Value> {
        let owner = json!({"tenant": "t", "principal": "ann"});
        let inputs = json!({"pin": "1234"});
        let completed =
            |node: &str, outputs: Value| json!({"type": "node.completed", "node": node, "outputs": outputs});
        vec![
            json!({"type": "run.started", "workflow": "f", "revision": 1, "owner": owner, "inputs": inputs}),
            json!({"type": "node.started", "node": "a"}),
            json!({"type": "variable.changed", "node": "a", "name": "pin", "previous": "1234", "next": "5678"}),
            completed("a", json!({"pin": "1234", "x": 1})),
            json!({"type": "node.started", "node": "b"}),
            completed("b", json!({"y": 2, "pin": "5678"})),
            json!({"type": "node.skipped", "node": "c", "reason": "disabled"}),
            json!({"type": "run.completed"}),
        ]
    }

    #[test]
    fn what_a_workflow_declares_sensitive_is_in_no_event() {
        let payloads = payloads(&log());
        assert!(payloads.iter().all(|payload| !payload.to_string().contains("1234")), "{payloads:?}");
        assert!(payloads.iter().all(|payload| !payload.to_string().contains("5678")), "{payloads:?}");
        assert_eq!(payloads[2], json!({"nodeId": "a", "name": "pin", "previous": HIDDEN, "next": HIDDEN}));
        assert_eq!(payloads[3]["outputs"], json!({"pin": HIDDEN, "x": 1}));
    }

    #[test]
    fn a_run_comes_to_what_its_last_nodes_came_to_and_says_how_long_it_took() {
        let payloads = payloads(&log());
        assert_eq!(payloads[7], json!({"durationMs": 70, "outputs": {"y": 2, "pin": HIDDEN}}));
        assert_eq!((&payloads[3]["durationMs"], &payloads[5]["durationMs"]), (&json!(20), &json!(10)));
    }

    #[test]
    fn what_happens_later_does_not_change_what_was_said() {
        let mut again = log();
        // The same node once more: its state is another then, its first document is not.
        let more =
            [json!({"type": "node.started", "node": "a"}), json!({"type": "node.completed", "node": "a"})];
        again.splice(6..6, more);
        assert_eq!(payloads(&again)[..6], payloads(&log())[..6]);
        assert_eq!(payloads(&again)[7], json!({"nodeId": "a", "outputs": {}, "durationMs": 10}));
    }
}
