//! The schema of a run's snapshot.

use serde_json::{Value, json};

use super::answers::reference;

pub(super) fn snapshot() -> Value {
    let (text, object) = (json!({"type": "string"}), json!({"type": "object"}));
    json!({
        "type": "object",
        "required": ["runId", "workflowId", "status", "startedAt", "nodeStates", "variables"],
        "properties": {
            "runId": text, "workflowId": text, "workflowVersion": text, "status": reference("RunStatus"),
            "owner": {
                "type": "object",
                "required": ["tenant", "principal"],
                "properties": {"tenant": text, "principal": text},
            },
            "currentNodeId": text, "startedAt": reference("Instant"), "completedAt": reference("Instant"),
            "interrupt": interrupt(), "error": reference("RunError"),
            "nodeStates": {"type": "object", "additionalProperties": node_state()},
            "variables": object, "tags": {"type": "array", "items": text}, "metadata": object,
            "configurable": object, "inputs": object,
            "pausedAt": reference("Instant"), "pausedBy": text, "pauseReason": text,
            "drainPolicy": {"type": "string", "enum": ["immediate", "drain-current-node"]},
            "pauseRequestedAt": reference("Instant"), "pauseRequestedBy": text,
            "parentRunId": text, "parentNodeId": text, "childRuns": {"type": "array", "items": child()},
            "sourceRunId": text, "fromSeq": {"type": "integer", "minimum": 0},
            "forkMode": {"type": "string", "enum": ["replay", "branch"]},
            "forkedBy": {"type": "array", "items": text},
            "requestedBy": {
                "type": "array", "items": text,
                "description": "Requesters that a child run inherits besides owner and forkers: principals that had sent messages to an agent above it.",
            },
            "eventLogSchemaVersion": {"type": "integer", "minimum": 0},
            "engineVersion": {
                "type": "integer", "minimum": 1,
                "description": "The version of the engine that started the run; missing in runs of versions that did not record it.",
            },
        },
    })
}

fn child() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["runId", "status"],
        "properties": {"runId": text, "workflowId": text, "nodeId": text, "status": reference("RunStatus")},
    })
}

fn node_state() -> Value {
    json!({
        "type": "object",
        "required": ["status", "typeId"],
        "properties": {
            "status": {"type": "string", "enum": [
                "pending", "running", "suspended", "sleeping", "awaiting", "completed", "failed", "skipped",
            ]},
            "typeId": {"type": "string"}, "startedAt": reference("Instant"), "completedAt": reference("Instant"),
            "error": reference("RunError"),
            "delay": {
                "type": "object",
                "required": ["since", "error"],
                "description": "A server outside that the node needs is away. The node is tried again until `until`; without it an operator must requeue the run's dispatch.",
                "properties": {
                    "since": reference("Instant"), "until": reference("Instant"), "error": reference("RunError"),
                },
            },
        },
    })
}

fn interrupt() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["interruptId", "kind", "nodeId", "key", "data", "requestedAt"],
        "properties": {
            "interruptId": text, "kind": text, "nodeId": text, "key": text, "data": {},
            "openInterruptIds": {
                "type": "array", "items": text,
                "description": "The ids of all open interrupts of this node, if there are several.",
            },
            "requestedAt": reference("Instant"), "timeoutMs": {"type": "integer", "minimum": 0},
            "expiresAt": reference("Instant"), "resumeSchema": {"type": ["object", "boolean"]},
            "interruptToken": {
                "type": "string",
                "description": "Of a link in the caller's name; for those who may answer, and not in streams.",
            },
            "callbackUrl": {"type": "string", "description": "Where that link leads."},
        },
    })
}
