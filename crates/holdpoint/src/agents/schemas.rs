//! Agents, threads and decisions as the OpenAPI document describes them.

use holdpoint_core::{TIMED_OUT, limits};
use serde_json::{Value, json};

use super::translate::{DECISION_ID_CHARS_MAX, MESSAGE_ID_CHARS_MAX, THREAD_CHARS_MAX};

const NO_CONTROL: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";

pub(crate) fn parameters() -> Value {
    json!({
        "after": {
            "name": "after", "in": "query",
            "description": "The cursor of the last message or event that the reader has seen.",
            "schema": {"type": "string"},
        },
    })
}

pub(crate) fn all() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "minimum": 0});
    json!({
        "AgentDefinition": definition(),
        "AgentRegistered": {
            "type": "object",
            "required": ["agentId", "revision"],
            "properties": {"agentId": text, "revision": {"type": "integer", "minimum": 1}},
        },
        "Agent": {
            "type": "object",
            "required": ["agentId", "revision", "updatedAt", "definition"],
            "properties": {
                "agentId": text, "revision": {"type": "integer", "minimum": 1},
                "updatedAt": reference("Instant"), "definition": {"type": "object"},
            },
        },
        "Agents": page("agents", &json!({
            "type": "object",
            "required": ["agentId", "name", "revision", "updatedAt"],
            "properties": {
                "agentId": text, "name": text, "revision": {"type": "integer", "minimum": 1},
                "updatedAt": reference("Instant"),
            },
        })),
        "StartAgent": said(&["threadId", "tags", "metadata"]),
        "SayInThread": said(&["agentId", "mode", "tags", "metadata"]),
        "TellRun": said(&[]),
        "AgentTold": {
            "type": "object",
            "required": ["runId", "threadId", "status"],
            "properties": {"runId": text, "threadId": text, "status": reference("RunStatus")},
        },
        "Message": message(),
        "Messages": page("messages", &reference("Message")),
        "ThreadRuns": page("runs", &thread_run(&[])),
        "ThreadRunNow": thread_run(&["tickets", "steps", "usage"]),
        "InterruptThread": {
            "type": "object", "additionalProperties": false,
            "properties": {"keepWaiting": {
                "type": ["boolean", "null"], "description": "A run that waits for somebody goes on waiting.",
            }},
        },
        "ThreadInterrupted": {
            "type": "object",
            "required": ["epoch", "supersededCount", "nothingToInterrupt"],
            "properties": {
                "epoch": number, "supersededCount": number, "activeDispatchId": text,
                "cancelledRunId": text, "nothingToInterrupt": {"type": "boolean"},
            },
        },
        "CancelThread": {
            "type": "object", "additionalProperties": false,
            "properties": {"reason": {"type": ["string", "null"], "maxLength": limits::REASON_CHARS_MAX}},
        },
        "DecideCall": decide(),
        "CallDecided": {
            "type": "object",
            "required": ["runId", "threadId", "decisionId", "status", "outcome", "ticketId", "toolCallId"],
            "properties": {
                "runId": text, "threadId": text, "decisionId": text, "status": reference("RunStatus"),
                "outcome": {"type": "string", "enum": ["resolved", "voted", "repeated", "asked"]},
                "ticketId": {"type": ["string", "null"]}, "toolCallId": {"type": ["string", "null"]},
            },
        },
        "RunWaitingState": waiting(),
        "ToolTicket": ticket(),
    })
}

/// The frame of it. What is wrong inside is told when a definition is refused.
fn definition() -> Value {
    let text = json!({"type": ["string", "null"]});
    let word = |words: &[&str]| json!({"type": "string", "enum": words});
    json!({
        "type": "object",
        "required": ["model"],
        "additionalProperties": false,
        "properties": {
            "agentId": {
                "type": "string", "minLength": limits::AGENT_ID_CHARS_MIN,
                "maxLength": limits::AGENT_NAME_CHARS_MAX, "pattern": "^[A-Za-z0-9._-]+$",
            },
            "name": {"type": ["string", "null"], "minLength": 1}, "description": text, "instructions": text,
            "model": {"type": "object", "description": "{use: NAME} names a connection of the operator's."},
            "tools": {"type": "array", "items": {"type": "object"}},
            "permissions": {"type": ["object", "null"]},
            "onDeny": word(&["error", "block_run"]),
            "approval": {"type": "object"},
            "resume": word(&["as_decided", "wait_all"]),
            "toolExecution": word(&["parallel", "sequential"]),
            "limits": {"type": "object"},
            "state": {"type": "object", "description": "What the state of a run begins with."},
            "escalationThreshold": {
                "type": ["number", "null"], "minimum": 0, "maximum": 1,
                "description": "Replies that the model is less sure of are ratified first.",
            },
        },
        "examples": [{"model": {"use": "main"}, "instructions": "You answer mail."}],
    })
}

/// A text, or messages; and what else may stand beside them.
fn said(more: &[&str]) -> Value {
    let entry = json!({
        "type": "object",
        "required": ["content"],
        "additionalProperties": false,
        "properties": {
            "id": {
                "type": ["string", "null"], "minLength": 1, "maxLength": MESSAGE_ID_CHARS_MAX,
                "pattern": NO_CONTROL,
            },
            "role": {"enum": ["user", "system", null]},
            "content": {"anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "object"}, "minItems": 1},
            ]},
        },
    });
    let mut properties = json!({
        "message": {"type": "string", "minLength": 1},
        "messages": {"type": "array", "items": entry, "minItems": 1, "maxItems": limits::MESSAGES_MAX},
    });
    for name in more {
        properties[*name] = match *name {
            "threadId" => json!({
                "type": ["string", "null"], "minLength": 1, "maxLength": THREAD_CHARS_MAX, "pattern": NO_CONTROL,
            }),
            "agentId" => {
                json!({"type": ["string", "null"], "description": "Who is spoken to; whoever was last."})
            }
            "mode" => json!({
                "enum": ["queue", "live_then_queue", "steer", "interrupt_then_queue", "resume_open_run", null],
                "description": "interrupt_then_queue cancels the open run and also requires the scope runs:cancel.",
            }),
            "tags" => json!({
                "type": ["array", "null"], "maxItems": limits::TAGS_MAX,
                "items": {"type": "string", "maxLength": limits::TAG_CHARS_MAX},
            }),
            _ => json!({"type": ["object", "null"]}),
        };
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "oneOf": [{"required": ["message"]}, {"required": ["messages"]}],
        "examples": [{"message": "Hello"}],
    })
}

fn message() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["id", "role", "runId", "seq", "at", "cursor"],
        "properties": {
            "id": text, "role": {"type": "string", "enum": ["system", "user", "assistant", "tool"]},
            "content": {"description": "A text, or parts; of a tool, what it returned."},
            "calls": {"type": "array", "items": {
                "type": "object",
                "required": ["id", "name", "arguments"],
                "properties": {"id": text, "name": text, "arguments": {}},
            }},
            "callId": text, "after": text, "by": text, "metadata": {"type": "object"}, "runId": text,
            "seq": {"type": "integer", "minimum": 0}, "at": reference("Instant"), "cursor": text,
        },
    })
}

fn thread_run(more: &[&str]) -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "minimum": 0});
    let mut required = vec!["runId", "threadId", "agentId", "status", "createdAt", "updatedAt"];
    required.extend(more);
    let mut shown = json!({
        "type": "object",
        "required": required,
        "properties": {
            "runId": text, "threadId": text, "agentId": {"type": ["string", "null"]},
            "status": reference("RunStatus"), "createdAt": reference("Instant"),
            "updatedAt": reference("Instant"), "errorCode": text,
            "outcome": {"type": "string", "const": TIMED_OUT},
        },
    });
    if !more.is_empty() {
        shown["properties"]["tickets"] = json!({"type": "array", "items": reference("ToolTicket")});
        shown["properties"]["waiting"] = reference("RunWaitingState");
        shown["properties"]["steps"] = number.clone();
        shown["properties"]["usage"] = json!({
            "type": "object",
            "required": ["inputTokens", "outputTokens"],
            "properties": {"inputTokens": number, "outputTokens": number},
        });
    }
    shown
}

fn decide() -> Value {
    let name = json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["action"],
        "additionalProperties": false,
        "properties": {
            "toolCallId": name, "ticketId": name,
            "action": {"type": "string", "enum": ["resume", "cancel"]},
            "result": {"description": "What the tool asked for; {arguments} or {result} change a call that is allowed."},
            "payload": {"description": "Another name of result."},
            "reason": {"type": ["string", "null"]},
            "decisionId": {
                "type": ["string", "null"], "minLength": 1, "maxLength": DECISION_ID_CHARS_MAX,
                "pattern": NO_CONTROL,
                "description": "Told again under the same name, it is the same decision; else the Idempotency-Key.",
            },
            "digest": {
                "type": ["string", "null"],
                "description": "Of what was shown to whoever decides, as the pending view tells it; refused when it is of something else.",
            },
        },
        "oneOf": [{"required": ["toolCallId"]}, {"required": ["ticketId"]}],
        "not": {"required": ["result", "payload"]},
        "examples": [{"toolCallId": "call-1-0", "action": "resume"}],
    })
}

fn waiting() -> Value {
    let reasons = ["user_input", "tool_permission", "external_event", "manual_pause"];
    json!({
        "type": "object",
        "required": ["reason", "ticketIds", "tickets"],
        "properties": {
            "reason": {"type": "string", "enum": reasons},
            "ticketIds": {"type": "array", "items": {"type": "string"}},
            "tickets": {"type": "array", "items": reference("ToolTicket")},
            "message": {"type": "string"},
            "sinceDispatchId": {
                "type": "string",
                "description": "The dispatch in which the run came to wait, as long as it is kept.",
            },
        },
    })
}

fn ticket() -> Value {
    let text = json!({"type": "string"});
    let modes = ["replay_tool_call", "use_decision_as_tool_result", "pass_decision_to_tool"];
    json!({
        "type": "object",
        "required": [
            "ticketId", "toolCallId", "toolName", "arguments", "resumeMode", "reason", "message", "status",
        ],
        "properties": {
            "ticketId": text, "toolCallId": text, "toolName": text, "arguments": {},
            "resumeMode": {"type": "string", "enum": modes}, "reason": text, "message": text,
            "responseSchema": {}, "expiresAt": reference("Instant"),
            "status": {"type": "string", "enum": ["suspended", "resuming"]},
            "decision": {
                "type": "object",
                "required": ["decidedAt", "timedOut"],
                "properties": {
                    "decisionId": text, "decidedBy": text, "decidedAt": reference("Instant"),
                    "timedOut": {"type": "boolean"},
                },
            },
        },
    })
}

fn page(name: &str, item: &Value) -> Value {
    json!({
        "type": "object",
        "required": [name],
        "properties": {name: {"type": "array", "items": item}, "nextCursor": {"type": "string"}},
    })
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}
