//! Between the wire and the engine: pure functions, no decisions.

use axum::http::StatusCode;
use holdpoint_core::agent::{Message, Role, Usage};
use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{Refusal, Run, RunId, Start, TIMED_OUT, WorkflowId, hex, limits};
use holdpoint_engine::{Done, Error, RunSummary, Said, Talk};
use serde_json::{Value, json};

use super::{waiting, wire};
use crate::auth::Caller;
use crate::body::Object;
use crate::error::ApiError;
use crate::idempotency::Answer;
use crate::places;

/// Characters of a thread's id and of a message's.
pub(super) const THREAD_CHARS_MAX: usize = limits::THREAD_CHARS_MAX;
pub(super) const MESSAGE_ID_CHARS_MAX: usize = 128;
/// Characters of what somebody calls a decision: an idempotency key may be one.
pub(super) const DECISION_ID_CHARS_MAX: usize = 255;

/// The workflow that an agent is registered as. An id that cannot be one is simply not found.
pub(super) fn workflow_of(agent: &str) -> Result<WorkflowId, ApiError> {
    WorkflowId::parse(&format!("{AGENT_PREFIX}{agent}")).map_err(|_| ApiError::not_found("agent"))
}

pub(super) fn agent_of(workflow: &str) -> Option<&str> {
    workflow.strip_prefix(AGENT_PREFIX)
}

pub(super) fn check_thread(id: &str) -> Result<(), ApiError> {
    check_name("threadId", id, THREAD_CHARS_MAX)
}

pub(super) fn check_name(field: &str, text: &str, most: usize) -> Result<(), ApiError> {
    if (1..=most).contains(&text.chars().count()) && !text.contains(char::is_control) {
        return Ok(());
    }
    Err(ApiError::invalid(field, format!("must be 1 to {most} characters, none of them a control character")))
}

/// What is said, and to whom, in the caller's name.
pub(super) fn talk(
    caller: &Caller,
    agent: String,
    thread: Option<String>,
    messages: Vec<Message>,
    (tags, metadata): (Vec<String>, Object),
) -> Talk {
    let start = Start { tags, metadata: metadata.0, ..caller.start() };
    Talk { agent, thread, messages, owner: caller.owner(), start: Some(Box::new(start)) }
}

/// What a request says: a text, or messages with more about each.
pub(super) fn messages(
    caller: &Caller,
    text: Option<String>,
    list: Option<Vec<wire::Said>>,
) -> Result<Vec<Message>, ApiError> {
    let by = caller.principal().name;
    let said = match (text, list) {
        (Some(text), None) if !text.trim().is_empty() => {
            vec![Message::new(fresh("msg")?, Role::User, text)]
        }
        (None, Some(list)) if !list.is_empty() => {
            let listed = list.into_iter().enumerate().map(|(at, said)| message(at, said));
            listed.collect::<Result<Vec<_>, _>>()?
        }
        (Some(_), None) => return Err(ApiError::invalid("message", "must not be empty")),
        (None, Some(_)) => return Err(ApiError::invalid("messages", "must not be empty")),
        (Some(_), Some(_)) => return Err(ApiError::invalid("messages", "cannot stand beside message")),
        (None, None) => return Err(ApiError::invalid("message", "is missing; or give messages")),
    };
    for (at, one) in said.iter().enumerate() {
        if said[..at].iter().any(|other| other.id == one.id) {
            return Err(ApiError::invalid(&format!("messages[{at}].id"), "is there twice"));
        }
    }
    Ok(said.into_iter().map(|one| Message { by: Some(by.clone()), ..one }).collect())
}

fn message(at: usize, said: wire::Said) -> Result<Message, ApiError> {
    let id = match said.id {
        Some(id) => {
            check_name(&format!("messages[{at}].id"), &id, MESSAGE_ID_CHARS_MAX)?;
            id
        }
        None => fresh("msg")?,
    };
    let content = said.content.0;
    let fits = match &content {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(parts) => !parts.is_empty() && parts.iter().all(Value::is_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    if !fits {
        let field = format!("messages[{at}].content");
        return Err(ApiError::invalid(&field, "must be a text or a list of parts, and not empty"));
    }
    let role = match said.role {
        wire::Speaker::User => Role::User,
        wire::Speaker::System => Role::System,
    };
    Ok(Message::new(id, role, content))
}

/// A name that nothing else has.
pub(super) fn fresh(kind: &str) -> Result<String, ApiError> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    Ok(format!("{kind}_{}", hex(&bytes)))
}

/// What was said is with the run; what comes of it is yet to come.
pub(super) fn taken(done: Done<'_>) -> Answer {
    let Done::Run(run) = done else { return Answer::nothing() };
    let shown = json!({"runId": run.id, "threadId": run.thread(), "status": run.status().as_str()});
    Answer::json(StatusCode::ACCEPTED, &shown)
}

/// Why a run did not begin.
pub(super) fn refused(error: Error) -> ApiError {
    match error {
        Error::ScopeBusy { active_run } => busy(&active_run),
        other => other.into(),
    }
}

pub(super) fn busy(active: &RunId) -> ApiError {
    let message = "a run is open in this thread; say it there, wait for its end or cancel it";
    ApiError::new(StatusCode::CONFLICT, "thread_busy", message)
        .with(json!({"activeRunId": active}))
        .retry_after_s(1)
}

pub(super) fn entry(said: Said) -> wire::Entry {
    let cursor = places::cursor(&said.run, said.seq);
    wire::Entry { message: said.message, run_id: said.run.to_string(), seq: said.seq, at: said.at, cursor }
}

pub(super) fn summary(thread: &str, run: &RunSummary) -> Value {
    let mut shown = json!({
        "runId": run.run, "threadId": thread, "agentId": agent_of(run.workflow.as_str()), "status": run.status,
        "createdAt": run.created_at.to_string(), "updatedAt": run.updated_at.to_string(),
    });
    if let Some(code) = &run.error_code {
        shown["errorCode"] = json!(code);
    }
    if run.timed_out {
        shown["outcome"] = json!(TIMED_OUT);
    }
    shown
}

/// The same of one run, with what it is waiting for.
pub(super) fn shown(summary: Value, run: &Run, waiting: Option<wire::Waiting>) -> Value {
    let Value::Object(mut members) = summary else { return summary };
    members.insert("status".to_owned(), json!(run.status().as_str()));
    members.insert("tickets".to_owned(), json!(waiting::tickets(run)));
    if let Some(waiting) = waiting {
        members.insert("waiting".to_owned(), json!(waiting));
    }
    let (mut steps, mut usage) = (0, Usage::default());
    for agent in run.nodes.iter().filter_map(|state| state.agent.as_deref()) {
        steps += agent.steps;
        usage.input_tokens = usage.input_tokens.saturating_add(agent.usage.input_tokens);
        usage.output_tokens = usage.output_tokens.saturating_add(agent.usage.output_tokens);
    }
    members.insert("steps".to_owned(), json!(steps));
    members.insert("usage".to_owned(), json!(usage));
    Value::Object(members)
}

/// Why nobody in a run listens.
pub(super) fn deaf(run: &Run) -> ApiError {
    let has_agent = run.workflow.nodes.iter().any(|node| node.type_id == "core.agent");
    match (run.finished(), has_agent) {
        (true, _) => Refusal::RunFinished(run.status()).into(),
        (false, true) => Refusal::NodeNotRunning.into(),
        (false, false) => ApiError::not_found("agent in this run"),
    }
}
