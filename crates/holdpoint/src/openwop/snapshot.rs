//! The snapshot of a run as a document of the protocol.

use std::borrow::Cow;

use holdpoint_api::Members;
use holdpoint_api::runs::RunError;
use holdpoint_api::snapshot::{
    Ancestor, ChildInterrupt, ChildRun, NodeDelay, NodeState, OpenInterrupt, RunSnapshot, RunTrigger,
};
use holdpoint_core::{
    ChildInterrupt as OpenOfChild, ChildRunState, Interrupt, NodeId, NodeStatus, OutageDelay, Refusal, Run,
    RunEnd,
};
use serde_json::{Map, Value};

use super::documents::{redact_map, redact_values};
use crate::links::NewLink;

/// The version of the event log schema, as the protocol numbers it. Versions below 2 have no event log.
pub(super) const EVENT_LOG_SCHEMA: u32 = 2;

/// Describes a run. The document borrows from the run, because a snapshot is the most frequent request.
pub(crate) fn describe(run: &Run) -> RunSnapshot<'_> {
    let started = run.started.as_deref();
    let parent = started.and_then(|started| started.parent.as_ref());
    let fork = started.and_then(|started| started.fork.as_ref());
    let source = started.and_then(|started| started.source);
    let paused = run.paused.as_ref().filter(|_| !run.finished());
    let draining = run.draining.as_ref().filter(|_| !run.finished());
    let pause = paused.or(draining);
    RunSnapshot {
        run_id: run.id.clone(),
        workflow_id: run.workflow.id.clone(),
        workflow_version: Cow::Borrowed(&run.workflow.version),
        status: run.status(),
        owner: started.map(|started| Cow::Borrowed(&started.owner)),
        origin: source.map(|source| source.origin),
        transport: source.map(|source| source.transport),
        tags: started.map(|started| Cow::Borrowed(&started.tags[..])),
        metadata: started.map(|started| Cow::Borrowed(&started.metadata)),
        configurable: started.map(|started| Cow::Borrowed(&started.configurable)),
        inputs: started.map(|started| redact_values(run, &started.inputs)),
        current_node_id: current_node(run).cloned(),
        started_at: run.begun_at().into(),
        completed_at: run.end.as_ref().map(|end| end.at().into()),
        interrupt: run.waiting_on().map(|interrupt| describe_interrupt(run, interrupt)),
        error: match &run.end {
            Some(RunEnd::Failed { error, node, .. }) => Some(failure(error, node.as_ref())),
            Some(RunEnd::Completed { .. } | RunEnd::Cancelled { .. }) | None => None,
        },
        paused_at: paused.map(|pause| pause.at.into()),
        paused_by: paused.map(|pause| Cow::Borrowed(&*pause.by)),
        pause_requested_at: draining.map(|pause| pause.at.into()),
        pause_requested_by: draining.map(|pause| Cow::Borrowed(&*pause.by)),
        drain_policy: pause.map(|pause| pause.drain),
        pause_reason: pause.and_then(|pause| pause.reason.as_deref()).map(Cow::Borrowed),
        parent_run_id: parent.map(|parent| parent.run.clone()),
        parent_node_id: parent.map(|parent| parent.node.clone()),
        source_run_id: fork.map(|fork| fork.source.clone()),
        from_seq: fork.map(|fork| fork.from_seq),
        fork_mode: fork.map(|fork| fork.mode),
        forked_by: Cow::Borrowed(started.map(|started| &started.forked_by[..]).unwrap_or_default()),
        requested_by: Cow::Borrowed(started.map(|started| &started.requested_by[..]).unwrap_or_default()),
        trigger: started.and_then(|started| started.trigger.as_deref()).map(|trigger| RunTrigger {
            subscription_id: trigger.subscription.clone(),
            delivery_id: trigger.delivery.clone(),
        }),
        child_runs: run.children.iter().map(|child| child_run(child)).collect(),
        child_interrupts: run
            .child_interrupts()
            .map(|(child, open)| child_interrupt(run, child, open))
            .collect(),
        node_states: node_states(run),
        channels: Some(run.channel_states())
            .filter(|states| !states.is_empty())
            .map(|states| redact_map(run, &states)),
        variables: run
            .variables
            .as_object()
            .map_or_else(|| Members(Vec::new()), |all| redact_values(run, all)),
        event_log_schema_version: EVENT_LOG_SCHEMA,
        engine_version: started.and_then(|started| started.engine_version),
    }
}

/// Adds a link with which the caller can answer. Logs and streams never contain it, because they have many readers.
pub(crate) fn add_link(snapshot: &mut RunSnapshot<'_>, minted: NewLink) {
    if let Some(open) = &mut snapshot.interrupt {
        open.interrupt_token = Some(minted.token);
        open.callback_url = Some(minted.url);
    }
}

pub(super) fn error(error: &holdpoint_core::RunError) -> RunError<'_> {
    RunError {
        code: Cow::Borrowed(&error.code),
        message: Cow::Borrowed(&error.message),
        retryable: error.retryable.then_some(true),
        details: (!error.details.is_empty()).then_some(Cow::Borrowed(&error.details)),
    }
}

/// Describes why a run failed. The protocol allows no additional members here, so extensions are under `details`.
fn failure<'a>(error: &'a holdpoint_core::RunError, node: Option<&NodeId>) -> RunError<'a> {
    let mut details = Map::from_iter([("retryable".to_owned(), Value::from(error.retryable))]);
    details.extend(node.map(|node| ("failedNodeId".to_owned(), Value::from(node.as_str()))));
    details.extend(error.details.clone());
    RunError {
        code: Cow::Borrowed(&error.code),
        message: Cow::Borrowed(&error.message),
        retryable: None,
        details: Some(Cow::Owned(details)),
    }
}

fn child_run(child: &ChildRunState) -> ChildRun {
    ChildRun {
        run_id: child.run.clone(),
        workflow_id: child.workflow.clone(),
        node_id: child.node.clone(),
        status: child.status,
    }
}

/// Describes an open interrupt of a child run, or of a run below it.
pub(super) fn child_interrupt(run: &Run, child: &ChildRunState, open: &OpenOfChild) -> ChildInterrupt {
    let (mut path, mut last) = (Vec::new(), (&run.id, &run.workflow.id));
    let first = child.as_descendant();
    for step in std::iter::once(&first).chain(&open.below) {
        path.push(Ancestor {
            run_id: last.0.clone(),
            workflow_id: last.1.clone(),
            node_id: step.node.clone(),
        });
        last = (&step.run, &step.workflow);
    }
    ChildInterrupt {
        interrupt_id: open.name(&child.run),
        kind: open.kind,
        run_id: last.0.clone(),
        workflow_id: last.1.clone(),
        node_id: open.node.clone(),
        path,
    }
}

fn node_states(run: &Run) -> Members<'_, NodeState<'_>> {
    let nodes = run.workflow.nodes.iter().zip(&run.nodes).map(|(node, state)| {
        let shown = NodeState {
            status: state.status.name(),
            type_id: Cow::Borrowed(&node.type_id),
            started_at: state.started_at.map(Into::into),
            completed_at: state.ended_at.map(Into::into),
            error: state.error.as_ref().map(error),
            delay: state.delay.as_deref().map(delay),
        };
        (Cow::Borrowed(node.id.as_str()), shown)
    });
    Members(nodes.collect())
}

fn delay(delay: &OutageDelay) -> NodeDelay<'_> {
    NodeDelay { since: delay.since.into(), until: delay.until.map(Into::into), error: error(&delay.error) }
}

fn describe_interrupt<'a>(run: &Run, interrupt: &'a Interrupt) -> OpenInterrupt<'a> {
    OpenInterrupt {
        interrupt_id: run.interrupt_name(interrupt.id),
        open_interrupt_ids: match run.addressed_interrupt(&interrupt.node, None) {
            Err(Refusal::InterruptAmbiguous(names)) => names,
            Ok(_) | Err(_) => Vec::new(),
        },
        kind: interrupt.kind,
        node_id: interrupt.node.clone(),
        key: Cow::Borrowed(&interrupt.key),
        data: Cow::Borrowed(&interrupt.data),
        requested_at: interrupt.requested_at.into(),
        timeout_ms: interrupt.timeout_ms,
        expires_at: interrupt.expires_at().map(Into::into),
        resume_schema: interrupt.resume_schema.as_deref().map(Cow::Borrowed),
        interrupt_token: None,
        callback_url: None,
    }
}

fn current_node(run: &Run) -> Option<&NodeId> {
    if run.finished() {
        return None;
    }
    let busy = |status: &NodeStatus| match status {
        NodeStatus::Running | NodeStatus::Waiting(_) | NodeStatus::Sleeping(_) | NodeStatus::Awaiting(_) => {
            true
        }
        NodeStatus::Pending | NodeStatus::Completed | NodeStatus::Failed | NodeStatus::Skipped => false,
    };
    let active = || run.nodes.iter().position(|state| busy(&state.status));
    let waiting = run.waiting_on().map(|interrupt| &interrupt.node);
    waiting.or_else(|| active().map(|position| &run.workflow.nodes[position].id))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdpoint_core::{Event, RunId, Timestamp, Workflow};
    use serde_json::json;

    use super::*;

    fn run(events: &[Value]) -> Value {
        let node = |id: &str| json!({"id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
        let flow = json!({
            "id": "f", "name": "f", "version": "1", "nodes": [node("a"), node("b")], "edges": [], "triggers": [],
            "variables": [{"name": "pin", "type": "string", "sensitive": true}], "metadata": {}, "settings": {},
        });
        let events: Vec<Event> =
            events.iter().map(|event| serde_json::from_value(event.clone()).unwrap()).collect();
        let workflow = Arc::new(Workflow::parse(&flow, 1).unwrap());
        let run = Run::replay(RunId::parse("r").unwrap(), workflow, (0..).map(Timestamp).zip(&events));
        serde_json::to_value(describe(&run)).unwrap()
    }

    fn started(more: Value) -> Value {
        let mut started = json!({
            "type": "run.started", "workflow": "f", "revision": 1, "owner": {"tenant": "t", "principal": "ann"},
        });
        started.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        started
    }

    #[test]
    fn a_parent_shows_its_children_and_the_node_that_waits_for_one() {
        let seen = run(&[
            started(json!({})),
            json!({"type": "node.started", "node": "a"}),
            json!({"type": "node.dispatched", "node": "a", "child": "r.1", "workflow": "g", "wait": true, "cascade": true}),
            json!({"type": "holdpoint.child.changed", "child": "r.1", "status": "waiting-approval"}),
        ]);
        let child = json!({"runId": "r.1", "workflowId": "g", "nodeId": "a", "status": "waiting-approval"});
        assert_eq!((&seen["childRuns"], &seen["currentNodeId"]), (&json!([child]), &json!("a")));
        assert_eq!(seen["nodeStates"]["a"]["status"], "awaiting");
    }

    #[test]
    fn a_run_shows_its_parent_and_its_fork_source() {
        let parent = json!({"run": "up", "workflow": "g", "node": "call", "depth": 1});
        let fork = json!({"source": "s", "origin": "o", "from_seq": 3, "mode": "branch"});
        let seen = run(&[started(json!({"parent": parent, "fork": fork}))]);
        assert_eq!((&seen["parentRunId"], &seen["parentNodeId"]), (&json!("up"), &json!("call")));
        assert_eq!((&seen["sourceRunId"], &seen["fromSeq"]), (&json!("s"), &json!(3)));
        assert_eq!(seen["forkMode"], "branch");
        let plain = run(&[started(json!({}))]);
        for absent in
            ["parentRunId", "sourceRunId", "forkMode", "childRuns", "pausedAt", "error", "interrupt"]
        {
            assert!(plain.get(absent).is_none(), "{absent}");
        }
    }

    #[test]
    fn a_paused_run_shows_time_and_reason_until_it_is_resumed() {
        let pause = json!({"type": "run.paused", "reason": "lunch", "drain": "immediate", "by": "ann"});
        let paused = run(&[started(json!({})), pause.clone()]);
        assert_eq!(
            (&paused["status"], &paused["pausedAt"]),
            (&json!("paused"), &json!("1970-01-01T00:00:00.001Z"))
        );
        assert_eq!((&paused["pauseReason"], &paused["drainPolicy"]), (&json!("lunch"), &json!("immediate")));
        let resumed = run(&[started(json!({})), pause, json!({"type": "run.resumed", "by": "ann"})]);
        assert!(resumed.get("pausedAt").is_none());
        let asked = json!({"type": "holdpoint.pause.requested", "reason": "lunch", "by": "ann"});
        let draining = run(&[started(json!({})), json!({"type": "node.started", "node": "a"}), asked]);
        assert_eq!((&draining["status"], draining.get("pausedAt")), (&json!("running"), None));
        assert_eq!(draining["pauseRequestedAt"], "1970-01-01T00:00:00.002Z");
        assert_eq!(
            (&draining["pauseRequestedBy"], &draining["pauseReason"]),
            (&json!("ann"), &json!("lunch"))
        );
        assert_eq!(draining["drainPolicy"], "drain-current-node");
    }

    #[test]
    fn a_failure_has_the_members_of_the_protocol_and_sensitive_values_are_redacted() {
        let error = json!({"code": "boom", "message": "it broke", "retryable": true});
        let seen = run(&[
            started(json!({"inputs": {"pin": "1234", "other": 1}})),
            json!({"type": "run.failed", "error": error, "node": "a"}),
        ]);
        let details = json!({"retryable": true, "failedNodeId": "a"});
        assert_eq!(seen["error"], json!({"code": "boom", "message": "it broke", "details": details}));
        let shown = json!({"pin": "[redacted]", "other": 1});
        assert_eq!((&seen["inputs"], &seen["variables"]), (&shown, &shown));
    }

    #[test]
    fn a_run_shows_the_version_of_the_engine_that_started_it() {
        assert_eq!(run(&[started(json!({"engine_version": 20}))])["engineVersion"], 20);
        assert!(
            run(&[started(json!({}))]).get("engineVersion").is_none(),
            "earlier versions did not record it"
        );
    }
}
