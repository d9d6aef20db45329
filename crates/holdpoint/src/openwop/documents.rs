//! Translates recorded events into documents of the protocol.

use std::borrow::Cow;

use holdpoint_api::Members;
use holdpoint_api::events::Event as EventDocument;
use holdpoint_api::payloads::{
    CapBreached, DivergencePoint, EventPayload, NodeCompleted, NodeFailed, NodeSkipped, NodeStarted,
    PauseRequested, ReplayDiverged, RunCancelled, RunCompleted, RunFailed, RunPaused, RunResumed, RunStarted,
    SleepEnded, SleepStarted,
};
use holdpoint_core::{Drain, Event, EventTransport, InterruptId, NodeId, Run, RunError, RunParameters};
use holdpoint_engine::RecordedEvent;
use serde_json::{Map, Value};

use super::snapshot;

mod agents;
mod governance;
mod interrupts;
mod progress;
mod votes_and_conversations;

pub(crate) use interrupts::decision;

/// Returns the document of a recorded event. `run` must be the fold right after the event, so that the document is the
/// same on every read.
pub(crate) fn document<'a>(run: &'a Run, recorded: &'a RecordedEvent) -> EventDocument<EventPayload<'a>> {
    let (kind, node_id, payload) = describe(run, recorded);
    EventDocument {
        event_id: format!("{}:{}", run.id, recorded.seq),
        run_id: run.id.clone(),
        kind: Cow::Borrowed(kind),
        node_id: node_id.cloned(),
        payload,
        timestamp: recorded.at.into(),
        sequence: recorded.seq,
        causation_id: causation_id(&recorded.event),
    }
}

/// Returns the delivery of a trigger that started the run.
fn causation_id(event: &Event) -> Option<String> {
    let Event::RunStarted(started) = event else { return None };
    started.trigger.as_ref().map(|trigger| trigger.delivery.clone())
}

type Description<'a> = (&'static str, Option<&'a NodeId>, EventPayload<'a>);

fn describe<'a>(run: &'a Run, recorded: &'a RecordedEvent) -> Description<'a> {
    match &recorded.event {
        Event::RunStarted(_)
        | Event::RunCompleted
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. }
        | Event::PauseRequested { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed { .. }
        | Event::CapBreached { .. }
        | Event::ReplayDiverged { .. } => describe_run(run, recorded),
        Event::NodeRetried { .. }
        | Event::NodeDelayed { .. }
        | Event::VariableChanged { .. }
        | Event::ChannelWritten { .. }
        | Event::MessageChunk { .. }
        | Event::ReasoningChunk { .. }
        | Event::ToolCallChunk { .. }
        | Event::ActivityReported { .. }
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
        | Event::AgentDecided { .. } => votes_and_conversations::describe(run, recorded),
        Event::MessageAdded { .. }
        | Event::ModelReplied { .. }
        | Event::ToolCalled { .. }
        | Event::ToolSuspended { .. }
        | Event::ToolBegun { .. }
        | Event::ToolReturned { .. } => agents::describe(run, recorded),
        Event::NodeStarted { .. }
        | Event::NodeCompleted { .. }
        | Event::NodeFailed { .. }
        | Event::NodeSkipped { .. }
        | Event::SleepStarted { .. }
        | Event::SleepEnded { .. } => describe_node(run, recorded),
    }
}

fn describe_node<'a>(run: &'a Run, recorded: &'a RecordedEvent) -> Description<'a> {
    match &recorded.event {
        Event::NodeStarted { node, uses } => {
            ("node.started", Some(node), node_started(run, node, uses).into())
        }
        Event::NodeCompleted { node, outputs, .. } => {
            let (duration_ms, outputs) = (duration_ms(run, node), redact_values(run, outputs));
            let payload = NodeCompleted { duration_ms, node_id: node.clone(), outputs };
            ("node.completed", Some(node), payload.into())
        }
        Event::NodeFailed { node, error } => {
            let payload = NodeFailed { error: failure(error), node_id: node.clone() };
            ("node.failed", Some(node), payload.into())
        }
        Event::NodeSkipped { node, reason } => {
            let payload = NodeSkipped { node_id: node.clone(), reason: Cow::Borrowed(reason) };
            ("node.skipped", Some(node), payload.into())
        }
        Event::SleepStarted { node, until } => {
            let payload = SleepStarted { node_id: node.clone(), until: (*until).into() };
            ("holdpoint.sleep.started", Some(node), payload.into())
        }
        Event::SleepEnded { node } => {
            ("holdpoint.sleep.ended", Some(node), SleepEnded { node_id: node.clone() }.into())
        }
        // Not reached: the caller passes only the events above.
        other => (other.name(), None, EventPayload::Other(Value::Null)),
    }
}

fn node_started<'a>(run: &'a Run, node: &NodeId, uses: &[InterruptId]) -> NodeStarted<'a> {
    let known = run.workflow.node(node);
    NodeStarted {
        // Always 0: a retry does not start the node again.
        attempt: 0,
        grant: known.filter(|node| !node.needs_grant).map(|_| Cow::Borrowed("none")),
        grant_ids: (!uses.is_empty()).then(|| uses.iter().map(|id| run.grant_id(*id)).collect()),
        node_id: node.clone(),
        type_id: Cow::Borrowed(known.map_or("", |node| &node.type_id)),
    }
}

fn describe_pause(event: &Event) -> Description<'_> {
    match event {
        Event::PauseRequested { reason, by } => {
            let payload = PauseRequested {
                drain_policy: Drain::DrainCurrentNode,
                reason: reason.as_deref().map(Cow::Borrowed),
                requested_by: Cow::Borrowed(by),
            };
            ("holdpoint.pause.requested", None, payload.into())
        }
        Event::RunPaused { reason, drain, by } => {
            let payload = RunPaused {
                drain_policy: *drain,
                paused_by: Cow::Borrowed(by),
                reason: reason.as_deref().map(Cow::Borrowed),
            };
            ("run.paused", None, payload.into())
        }
        Event::RunResumed { by } => {
            ("run.resumed", None, RunResumed { resumed_by: Cow::Borrowed(by) }.into())
        }
        // Not reached: the caller passes only the events above.
        _ => (event.name(), None, EventPayload::Other(Value::Null)),
    }
}

fn describe_run<'a>(run: &Run, recorded: &'a RecordedEvent) -> Description<'a> {
    let duration_ms = recorded.at.0 - run.begun_at().0;
    match &recorded.event {
        Event::RunFailed { error, node } => {
            let payload = RunFailed { duration_ms, error: failure(error), failed_node_id: node.clone() };
            ("run.failed", None, payload.into())
        }
        Event::PauseRequested { .. } | Event::RunPaused { .. } | Event::RunResumed { .. } => {
            describe_pause(&recorded.event)
        }
        Event::CapBreached { cap, limit, observed, node } => {
            let payload =
                CapBreached { kind: *cap, limit: *limit, node_id: node.clone(), observed: *observed };
            ("cap.breached", node.as_ref(), payload.into())
        }
        Event::ReplayDiverged { source, at_sequence, expected, found } => {
            let payload = ReplayDiverged {
                at_sequence: *at_sequence,
                divergence_kind: Cow::Borrowed("event-mismatch"),
                divergence_point: DivergencePoint {
                    expected: Cow::Borrowed(expected),
                    found: Cow::Borrowed(found),
                },
                original_event_id: format!("{source}:{at_sequence}"),
                source_run_id: source.clone(),
            };
            ("replay.diverged", None, payload.into())
        }
        Event::RunCancelled { reason, by, parent } => {
            let payload = RunCancelled {
                cancelled_by: Cow::Borrowed(by),
                duration_ms,
                parent_run_id: parent.clone(),
                reason: reason.as_deref().map(Cow::Borrowed),
            };
            ("run.cancelled", None, payload.into())
        }
        Event::RunStarted(started) => ("run.started", None, run_started(started).into()),
        // `run.completed`: the caller passes only events of the run itself.
        _ => {
            let outputs = Some(run.outputs()).filter(|outputs| !outputs.is_empty());
            let outputs = outputs.map(|outputs| redact_map(run, &outputs));
            ("run.completed", None, RunCompleted { duration_ms, outputs }.into())
        }
    }
}

fn run_started(started: &RunParameters) -> RunStarted<'_> {
    RunStarted {
        engine_version: started.engine_version.map(|version| version.to_string()),
        metadata: (!started.metadata.is_empty()).then_some(Cow::Borrowed(&started.metadata)),
        origin: started.source.map(|source| source.origin),
        owner: Cow::Borrowed(&started.owner),
        tags: (!started.tags.is_empty()).then_some(Cow::Borrowed(&started.tags)),
        transport: started.source.map_or(EventTransport::Rest, |source| source.transport.in_event()),
        workflow_id: started.workflow.clone(),
    }
}

fn failure(error: &RunError) -> holdpoint_api::runs::RunError<'_> {
    holdpoint_api::runs::RunError { retryable: Some(error.retryable), ..snapshot::error(error) }
}

/// Returns the duration of the execution that has just ended.
fn duration_ms(run: &Run, node: &NodeId) -> Option<i64> {
    let state = run.node_state(node)?;
    Some(state.ended_at?.0 - state.started_at?.0)
}

/// The placeholder for the value of a sensitive variable.
const REDACTED: &str = "[redacted]";

/// Returns the value of a variable, or a placeholder if the variable is sensitive.
pub(super) fn redact<'a>(run: &Run, name: &str, value: &'a Value) -> Cow<'a, Value> {
    if run.is_hidden(name) { Cow::Owned(REDACTED.into()) } else { Cow::Borrowed(value) }
}

/// Returns values by the name of their variable. Values of sensitive variables are redacted.
pub(super) fn redact_values<'a>(run: &Run, values: &'a Map<String, Value>) -> Members<'a, Cow<'a, Value>> {
    let one =
        |(name, value): (&'a String, &'a Value)| (Cow::Borrowed(name.as_str()), redact(run, name, value));
    Members(values.iter().map(one).collect())
}

/// Returns the same values as an owned map.
pub(super) fn redact_map(run: &Run, values: &Map<String, Value>) -> Map<String, Value> {
    values.iter().map(|(name, value)| (name.clone(), redact(run, name, value).into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdpoint_core::{RunId, Timestamp, Workflow};
    use serde_json::json;

    use super::*;

    /// Returns the payloads of a log, each from the fold right after its event.
    fn payloads(events: &[Value]) -> Vec<Value> {
        let node = |id: &str| json!({"id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
        let flow = json!({
            "id": "f", "name": "f", "version": "1", "nodes": [node("a"), node("b"), node("c")],
            "edges": [{"id": "1", "sourceNodeId": "a", "targetNodeId": "b"}], "triggers": [],
            "variables": [{"name": "pin", "type": "string", "sensitive": true}], "metadata": {}, "settings": {},
        });
        let workflow = Arc::new(Workflow::parse(&flow, 1).unwrap());
        let mut run = Run::new(RunId::parse("r").unwrap(), workflow);
        let mut payload = |(seq, event): (u64, &Value)| {
            let event: Event = serde_json::from_value(event.clone()).unwrap();
            let at = Timestamp(10 * i64::try_from(seq).unwrap());
            run.apply(&event, at);
            json!(document(&run, &RecordedEvent { seq, at, event }).payload)
        };
        (0..).zip(events).map(&mut payload).collect()
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
    fn values_of_sensitive_variables_are_in_no_event() {
        let payloads = payloads(&log());
        assert!(payloads.iter().all(|payload| !payload.to_string().contains("1234")), "{payloads:?}");
        assert!(payloads.iter().all(|payload| !payload.to_string().contains("5678")), "{payloads:?}");
        assert_eq!(
            payloads[2],
            json!({"nodeId": "a", "name": "pin", "previous": REDACTED, "next": REDACTED})
        );
        assert_eq!(payloads[3]["outputs"], json!({"pin": REDACTED, "x": 1}));
    }

    #[test]
    fn a_completed_run_has_the_outputs_of_its_last_nodes_and_its_duration() {
        let payloads = payloads(&log());
        assert_eq!(payloads[7], json!({"durationMs": 70, "outputs": {"y": 2, "pin": REDACTED}}));
        assert_eq!((&payloads[3]["durationMs"], &payloads[5]["durationMs"]), (&json!(20), &json!(10)));
    }

    #[test]
    fn later_events_do_not_change_earlier_documents() {
        let mut again = log();
        // A second visit of the node changes its state, but not its first document.
        let more =
            [json!({"type": "node.started", "node": "a"}), json!({"type": "node.completed", "node": "a"})];
        again.splice(6..6, more);
        assert_eq!(payloads(&again)[..6], payloads(&log())[..6]);
        assert_eq!(payloads(&again)[7], json!({"nodeId": "a", "outputs": {}, "durationMs": 10}));
    }
}
