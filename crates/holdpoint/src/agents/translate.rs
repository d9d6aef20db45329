//! Between the wire and the engine: pure functions, no decisions.

use std::borrow::Cow;

use axum::http::StatusCode;
use holdpoint_api::agents::{
    self as api, AgentTold, InputRole, MESSAGE_ID_CHARS_MAX, MessageCall, MessageInput, ThreadRun,
    ThreadRunNow, TokenUsage,
};
use holdpoint_api::decisions::RunWaitingState;
use holdpoint_api::{ErrorCode, ErrorDetails, Object};
use holdpoint_core::agent::{CallRequest, Message, Role};
use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{Refusal, Run, RunId, Start, TIMED_OUT, WorkflowId, hex, limits};
use holdpoint_engine::{Error, RunSummary, Said, Talk};
use serde_json::Value;

use super::waiting;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::idempotency::ApiResponse;
use crate::places;

/// The workflow that an agent is registered as. An id that cannot be one is simply not found.
pub(super) fn workflow_of(agent: &str) -> Result<WorkflowId, ApiError> {
    WorkflowId::parse(&format!("{AGENT_PREFIX}{agent}")).map_err(|_| ApiError::not_found("agent"))
}

pub(super) fn agent_of(workflow: &str) -> Option<&str> {
    workflow.strip_prefix(AGENT_PREFIX)
}

pub(super) fn check_thread(id: &str) -> Result<(), ApiError> {
    check_name("threadId", id, limits::THREAD_CHARS_MAX)
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
    (tags, metadata): (Option<Vec<String>>, Option<Object>),
) -> Talk {
    let (tags, metadata) = (tags.unwrap_or_default(), metadata.unwrap_or_default().0);
    let start = Start { tags, metadata, ..caller.start() };
    Talk { agent, thread, messages, owner: caller.owner(), start: Some(Box::new(start)), once: None }
}

/// What a request says: a text, or messages with more about each.
pub(super) fn messages(
    caller: &Caller,
    text: Option<String>,
    list: Option<Vec<MessageInput>>,
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

fn message(at: usize, said: MessageInput) -> Result<Message, ApiError> {
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
    let role = match said.role.unwrap_or_default() {
        InputRole::User => Role::User,
        InputRole::System => Role::System,
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
pub(super) fn taken(run: &Run) -> ApiResponse {
    let (run_id, thread_id) = (run.id.clone(), run.thread().to_owned());
    ApiResponse::json(StatusCode::ACCEPTED, &AgentTold { run_id, thread_id, status: run.status() })
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
    ApiError::new(ErrorCode::ThreadBusy, message)
        .with(ErrorDetails { active_run_id: Some(active.clone()), ..Default::default() })
        .retry_after_s(1)
}

pub(super) fn describe_message(said: Said) -> api::Message {
    let call = |call: CallRequest| MessageCall {
        id: call.id.into(),
        name: call.name.into(),
        arguments: Cow::Owned(call.arguments),
    };
    let message = said.message;
    api::Message {
        id: message.id,
        role: message.role,
        content: message.content,
        calls: message.calls.into_iter().map(call).collect(),
        call_id: message.call_id,
        after: message.after,
        by: message.by,
        metadata: message.metadata,
        cursor: places::cursor(&said.run, said.seq),
        run_id: said.run,
        seq: said.seq,
        at: said.at.into(),
    }
}

pub(super) fn describe_run(thread: &str, run: &RunSummary) -> ThreadRun {
    ThreadRun {
        run_id: run.run.clone(),
        thread_id: thread.to_owned(),
        agent_id: agent_of(run.workflow.as_str()).map(str::to_owned),
        status: run.status,
        created_at: run.created_at.into(),
        updated_at: run.updated_at.into(),
        error_code: run.error_code.clone(),
        outcome: run.timed_out.then(|| TIMED_OUT.to_owned()),
    }
}

/// The same of one run, with the calls and the question that it waits for.
pub(super) fn describe_now(summary: ThreadRun, run: &Run, waiting: Option<RunWaitingState>) -> ThreadRunNow {
    let (mut steps, mut usage) = (0, TokenUsage::default());
    for agent in run.nodes.iter().filter_map(|state| state.agent.as_deref()) {
        steps += agent.steps;
        usage.input_tokens = usage.input_tokens.saturating_add(agent.usage.input_tokens);
        usage.output_tokens = usage.output_tokens.saturating_add(agent.usage.output_tokens);
    }
    let summary = ThreadRun { status: run.status(), ..summary };
    ThreadRunNow { run: summary, tickets: waiting::tickets(run), waiting, steps, usage }
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
