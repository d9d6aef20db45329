//! Runs for tests, built from events.

use std::sync::Arc;

use holdpoint_api::agui::ResumeEntry;
use holdpoint_core::agent::{
    ApprovalSettings, CallStatus, SuspendTicket, Suspension, Ticket, ToolCall, ToolCallResumeMode,
};
use holdpoint_core::permission::Behaviour;
use holdpoint_core::{Event, Interrupt, InterruptId, InterruptRequest, Run, RunId, Timestamp, Workflow};
use serde_json::{Value, json};

pub(super) fn workflow(id: &str, nodes: &[&str]) -> Arc<Workflow> {
    let node = |id: &&str| json!({"id": id, "typeId": "core.noop", "name": id, "config": {}, "inputs": {}, "position": {"x": 0, "y": 0}});
    let edges =
        nodes.windows(2).map(|two| json!({"id": two[0], "sourceNodeId": two[0], "targetNodeId": two[1]}));
    let definition = json!({
        "id": id, "name": id, "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": nodes.iter().map(node).collect::<Vec<_>>(), "edges": edges.collect::<Vec<_>>(),
    });
    Arc::new(Workflow::parse(&definition, 1).unwrap())
}

pub(super) fn new_run(workflow: Arc<Workflow>) -> Run {
    Run::new(RunId::parse("r").unwrap(), workflow)
}

pub(super) fn event(value: Value) -> Event {
    serde_json::from_value(value).unwrap()
}

pub(super) fn started(inputs: Value) -> Value {
    let owner = json!({"tenant": "t", "principal": "p"});
    json!({"type": "run.started", "workflow": "w", "revision": 1, "owner": owner, "inputs": inputs, "thread": "th"})
}

pub(super) fn interrupt_requested(id: u32, node: &str, request: &InterruptRequest) -> Value {
    let mut asked = json!({
        "type": "interrupt.requested", "id": id, "node": node, "kind": request.kind, "key": format!("k{id}"),
        "data": request.data,
    });
    if let Some(schema) = &request.resume_schema {
        asked["resume_schema"] = schema.clone();
    }
    if let Some(ms) = request.timeout_ms {
        asked["timeout_ms"] = json!(ms);
    }
    asked
}

pub(super) fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "sendEmail".to_owned(),
        arguments: json!({"to": "bob@example.test"}),
        step: 1,
        behaviour: Behaviour::Ask,
        why: None,
        client: false,
        run: None,
        idempotent: false,
        status: CallStatus::New,
        interrupt: None,
        begun: 0,
        begun_with: None,
    }
}

pub(super) fn permission(id: &str) -> InterruptRequest {
    Ticket::permission(format!("k:{id}"), &call(id), &ApprovalSettings::default()).request
}

pub(super) fn ticket(action: &str, mode: ToolCallResumeMode, schema: Option<Value>) -> InterruptRequest {
    let suspension = Suspension {
        id: "s1".to_owned(),
        action: action.to_owned(),
        message: "Tell me.".to_owned(),
        parameters: Value::Null,
        response_schema: schema,
    };
    let call = call("c1");
    let pending = holdpoint_core::agent::PendingToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    };
    let wanted = SuspendTicket { suspension, pending, resume_mode: mode };
    Ticket::tool_suspension("k".to_owned(), &call, &ApprovalSettings::default(), &wanted).request
}

/// Returns the approval of a call that a provider makes.
pub(super) fn provider_call(actions: Value) -> InterruptRequest {
    let data = json!({
        "customKind": "tool_approval", "graph": "claude:agent", "title": "Allow Bash?", "artifactId": "a",
        "artifactType": "tool.call", "actions": actions, "artifactData": {"tool": "Bash", "input": {"command": "ls"}},
        "providerCall": "call-1",
    });
    InterruptRequest::new(holdpoint_core::Kind::Approval, data)
}

/// Returns a run of an agent with these interrupts, requested at the time 1000.
pub(super) fn run_with_interrupts(requests: &[InterruptRequest]) -> Run {
    let mut run = new_run(workflow("agent:mailer", &["agent"]));
    run.apply(&event(started(json!({}))), Timestamp(1000));
    for (request, id) in requests.iter().zip(1..) {
        run.apply(&event(interrupt_requested(id, "agent", request)), Timestamp(1000));
    }
    run
}

pub(super) fn interrupt(run: &Run, id: u32) -> &Interrupt {
    run.interrupt(InterruptId(id)).unwrap()
}

pub(super) fn entries(value: Value) -> Vec<ResumeEntry> {
    serde_json::from_value(value).unwrap()
}
