//! Between the protocol and the core: pure functions, no decisions.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use holdpoint_core::{
    Answer, Command, End, Interrupt, InterruptId, NodeId, NodeStatus, Owner, Refusal, Run, Start, Timestamp,
};
use holdpoint_engine::{Pending, PendingCursor};
use serde_json::{Map, Value, json};

use super::wire;
use crate::auth::Caller;
use crate::error::ApiError;

pub(crate) fn start(caller: &Caller, body: wire::CreateRun) -> Result<Start, ApiError> {
    if body.tenant_id.is_some_and(|tenant| tenant != caller.tenant().as_str()) {
        let message = "tenantId: this key belongs to another tenant";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message));
    }
    let owner = Owner { tenant: caller.tenant().clone(), principal: caller.principal().name };
    Ok(Start {
        owner,
        inputs: body.inputs.0,
        configurable: body.configurable.0,
        tags: body.tags,
        metadata: body.metadata.0,
    })
}

/// An answer to whatever the named node asks.
pub(crate) fn resolve(
    run: &Run,
    node: &str,
    body: wire::Resolve,
    caller: &Caller,
) -> Result<(InterruptId, Command), ApiError> {
    let node = NodeId::parse(node).map_err(|_| Refusal::InterruptNotFound)?;
    let id = run.interrupt_of_node(&node).ok_or(Refusal::InterruptNotFound)?.id;
    let answer = Answer { value: body.resume_value.0, by: caller.principal() };
    Ok((id, Command::Resolve { answers: BTreeMap::from([(id, answer)]) }))
}

pub(crate) fn interrupt_id(run: &str, id: InterruptId) -> String {
    format!("{run}:{id}")
}

pub(crate) fn snapshot(run: &Run) -> Value {
    let mut shown = json!({
        "runId": run.id, "workflowId": run.workflow.id, "workflowVersion": run.workflow.version,
        "status": run.status().as_str(), "startedAt": run.started_at.to_string(),
        "nodeStates": node_states(run), "variables": run.variables,
    });
    if let Some(started) = &run.started {
        shown["owner"] = json!(started.owner);
        shown["tags"] = json!(started.tags);
        shown["metadata"] = json!(started.metadata);
        shown["configurable"] = json!(started.configurable);
    }
    if let Some(node) = current_node(run) {
        shown["currentNodeId"] = json!(node);
    }
    if let Some(interrupt) = run.waiting_on() {
        shown["interrupt"] = open_interrupt(run, interrupt);
    }
    match &run.end {
        Some(End::Failed { error, .. }) => shown["error"] = json!(error),
        Some(End::Completed { .. } | End::Cancelled { .. }) | None => {}
    }
    if let Some(end) = &run.end {
        shown["completedAt"] = json!(end.at().to_string());
    }
    shown
}

fn current_node(run: &Run) -> Option<&NodeId> {
    if run.finished() {
        return None;
    }
    let busy = |status: &NodeStatus| matches!(status, NodeStatus::Running | NodeStatus::Sleeping(_));
    let active = || run.nodes.iter().position(|state| busy(&state.status));
    let waiting = run.waiting_on().map(|interrupt| &interrupt.node);
    waiting.or_else(|| active().map(|position| &run.workflow.nodes[position].id))
}

fn node_states(run: &Run) -> Map<String, Value> {
    let states = run.workflow.nodes.iter().zip(&run.nodes);
    let shown = states.map(|(node, state)| {
        let mut shown = json!({"status": state.status.as_str(), "typeId": node.type_id});
        if let Some(at) = state.started_at {
            shown["startedAt"] = json!(at.to_string());
        }
        if let Some(at) = state.ended_at {
            shown["completedAt"] = json!(at.to_string());
        }
        if let Some(error) = &state.error {
            shown["error"] = json!(error);
        }
        (node.id.to_string(), shown)
    });
    shown.collect()
}

fn open_interrupt(run: &Run, interrupt: &Interrupt) -> Value {
    let mut shown = json!({
        "interruptId": interrupt_id(run.id.as_str(), interrupt.id), "kind": interrupt.kind.as_str(),
        "nodeId": interrupt.node, "key": interrupt.key, "data": interrupt.data,
        "requestedAt": interrupt.requested_at.to_string(),
    });
    if let Some(at) = interrupt.expires_at() {
        shown["timeoutMs"] = json!(interrupt.timeout_ms);
        shown["expiresAt"] = json!(at.to_string());
    }
    if let Some(schema) = &interrupt.resume_schema {
        shown["resumeSchema"] = schema.clone();
    }
    shown
}

pub(crate) fn pending(row: &Pending, now: Timestamp) -> Value {
    let mut shown = json!({
        "runId": row.run, "nodeId": row.node, "interruptId": interrupt_id(row.run.as_str(), row.id),
        "kind": row.kind, "key": row.key, "workflowId": row.workflow, "title": row.title,
        "requestedAt": row.requested_at.to_string(), "ageMs": now.0 - row.requested_at.0,
        "statusUrl": format!("/v1/runs/{}", row.run),
    });
    if let Some(at) = row.expires_at {
        shown["expiresAt"] = json!(at.to_string());
    }
    shown
}

/// A cursor is opaque to callers: instant, interrupt and run of the last row seen.
pub(crate) fn cursor(row: &Pending) -> String {
    format!("{}.{}.{}", row.requested_at.0, row.id.0, row.run)
}

pub(crate) fn parse_cursor(text: &str) -> Result<PendingCursor, ApiError> {
    let mut parts = text.splitn(3, '.');
    let mut number = || parts.next().and_then(|part| part.parse::<i64>().ok());
    let parsed = number().zip(number());
    match (parsed, parts.next()) {
        (Some((requested_ms, interrupt)), Some(run)) => {
            Ok(PendingCursor { requested_ms, interrupt, run: run.to_owned() })
        }
        _ => Err(ApiError::invalid("cursor", "is not one that this server handed out")),
    }
}
