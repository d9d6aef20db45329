//! Translates between the documents of the agent API and the types of the engine. Pure functions.

use std::borrow::Cow;

use axum::http::StatusCode;
use holdpoint_agents::AgentInput;
use holdpoint_api::agents::{
    self as api, InputRole, MESSAGE_ID_CHARS_MAX, MessageAccepted, MessageCall, MessageInput,
    ThreadInterrupted, ThreadRun, ThreadRunNow, TokenUsage,
};
use holdpoint_api::decisions::RunWaitingState;
use holdpoint_api::{ErrorCode, ErrorDetails, Object};
use holdpoint_core::agent::{CallRequest, Message, Role};
use holdpoint_core::mailbox::DispatchOptions;
use holdpoint_core::workflow::AGENT_PREFIX;
use holdpoint_core::{
    Refusal, RequestSource, Run, RunId, StartRequest, TIMED_OUT, Transport, WorkflowId, hex, limits,
};
use holdpoint_engine::{Error, RunSummary, ThreadInterruption, ThreadMessage};
use serde_json::Value;

use super::waiting;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::idempotency::ApiResponse;
use crate::thread_cursor;

/// Returns the id of the workflow that an agent is registered as. An invalid id gets the error of an unknown agent.
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

/// The optional members of a request that sends messages and can start a run.
pub(super) struct InputOptions {
    pub tags: Option<Vec<String>>,
    pub metadata: Option<Object>,
    pub dispatch: DispatchOptions,
}

/// Returns the input for an agent, sent by the caller.
pub(super) fn agent_input(
    caller: &Caller,
    agent: String,
    thread: Option<String>,
    messages: Vec<Message>,
    options: InputOptions,
) -> AgentInput {
    let (tags, metadata) = (options.tags.unwrap_or_default(), options.metadata.unwrap_or_default().0);
    let start = StartRequest { tags, metadata, dispatch: options.dispatch, ..caller.start(Transport::Rest) };
    AgentInput { agent, thread, messages, owner: caller.owner(), start: Some(Box::new(start)), once: None }
}

/// Returns the messages of a request, which has either a text or a list of messages.
pub(super) fn messages(
    caller: &Caller,
    text: Option<String>,
    list: Option<Vec<MessageInput>>,
) -> Result<Vec<Message>, ApiError> {
    let (by, source) = (caller.name().to_owned(), Some(RequestSource::user(Transport::Rest)));
    let messages = match (text, list) {
        (Some(text), None) if !text.trim().is_empty() => {
            vec![Message::new(random_id("msg")?, Role::User, text)]
        }
        (None, Some(list)) if !list.is_empty() => {
            let listed = list.into_iter().enumerate().map(|(at, input)| message(at, input));
            listed.collect::<Result<Vec<_>, _>>()?
        }
        (Some(_), None) => return Err(ApiError::invalid("message", "must not be empty")),
        (None, Some(_)) => return Err(ApiError::invalid("messages", "must not be empty")),
        (Some(_), Some(_)) => return Err(ApiError::invalid("messages", "give this or message, not both")),
        (None, None) => return Err(ApiError::invalid("message", "is missing; or give messages")),
    };
    for (at, one) in messages.iter().enumerate() {
        if messages[..at].iter().any(|other| other.id == one.id) {
            return Err(ApiError::invalid(
                &format!("messages[{at}].id"),
                "is used by an earlier message of the list",
            ));
        }
    }
    Ok(messages.into_iter().map(|one| Message { by: Some(by.clone()), source, ..one }).collect())
}

fn message(at: usize, input: MessageInput) -> Result<Message, ApiError> {
    let id = match input.id {
        Some(id) => {
            check_name(&format!("messages[{at}].id"), &id, MESSAGE_ID_CHARS_MAX)?;
            id
        }
        None => random_id("msg")?,
    };
    let content = input.content.0;
    let fits = match &content {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(parts) => !parts.is_empty() && parts.iter().all(Value::is_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    if !fits {
        let field = format!("messages[{at}].content");
        return Err(ApiError::invalid(&field, "must be a text or a list of parts, and not empty"));
    }
    let role = match input.role.unwrap_or_default() {
        InputRole::User => Role::User,
        InputRole::System => Role::System,
    };
    Ok(Message::new(id, role, content))
}

/// Returns a random id that starts with the kind.
pub(super) fn random_id(kind: &str) -> Result<String, ApiError> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    Ok(format!("{kind}_{}", hex(&bytes)))
}

/// Responds that the run has stored the messages. The agent processes them later.
pub(super) fn respond_accepted(run: &Run) -> ApiResponse {
    let (run_id, thread_id) = (run.id.clone(), run.thread().to_owned());
    ApiResponse::json(StatusCode::ACCEPTED, &MessageAccepted { run_id, thread_id, status: run.status() })
}

/// Returns the error for a run that was not started.
pub(super) fn explain_failure(error: Error) -> ApiError {
    match error {
        Error::ScopeBusy { active_run } => busy(&active_run),
        other => other.into(),
    }
}

pub(super) fn busy(active: &RunId) -> ApiError {
    let message =
        "this thread has an open run; send the message to that run, wait until it ends or cancel it";
    ApiError::new(ErrorCode::ThreadBusy, message)
        .with(ErrorDetails { active_run_id: Some(active.clone()), ..Default::default() })
        .retry_after_s(1)
}

pub(super) fn describe_message(stored: ThreadMessage) -> api::Message {
    let call = |call: CallRequest| MessageCall {
        id: call.id.into(),
        name: call.name.into(),
        arguments: Cow::Owned(call.arguments),
    };
    let message = stored.message;
    api::Message {
        id: message.id,
        role: message.role,
        content: message.content,
        calls: message.calls.into_iter().map(call).collect(),
        call_id: message.call_id,
        after: message.after,
        by: message.by,
        origin: message.source.map(|source| source.origin),
        transport: message.source.map(|source| source.transport),
        metadata: message.metadata,
        cursor: thread_cursor::cursor(&stored.run, stored.seq),
        run_id: stored.run,
        seq: stored.seq,
        at: stored.at.into(),
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

pub(super) fn describe_interruption(done: ThreadInterruption) -> ThreadInterrupted {
    let active = done.mail.active_dispatch.map(|row| row.dispatch_id);
    let superseded_count = done.mail.superseded_count;
    ThreadInterrupted {
        epoch: done.mail.new_dispatch_epoch,
        superseded_count,
        nothing_to_interrupt: superseded_count == 0 && active.is_none() && done.cancelled.is_none(),
        active_dispatch_id: active,
        cancelled_run_id: done.cancelled,
    }
}

/// Returns the current state of one run, with its suspended calls and its waiting state.
pub(super) fn describe_current(
    summary: ThreadRun,
    run: &Run,
    waiting: Option<RunWaitingState>,
) -> ThreadRunNow {
    let (mut steps, mut usage) = (0, TokenUsage::default());
    for agent in run.nodes.iter().filter_map(|state| state.agent.as_deref()) {
        steps += agent.steps;
        usage.input_tokens = usage.input_tokens.saturating_add(agent.usage.input_tokens);
        usage.output_tokens = usage.output_tokens.saturating_add(agent.usage.output_tokens);
    }
    let summary = ThreadRun { status: run.status(), ..summary };
    ThreadRunNow { run: summary, tickets: waiting::tickets(run), waiting, steps, usage }
}

/// Returns the error for messages that a run did not accept. If the run has no agent for them, gives the reason.
pub(super) fn explain_unsent(error: Error, run: &Run) -> ApiError {
    let Error::NotFound("agent") = error else { return error.into() };
    let has_agent = run.workflow.nodes.iter().any(|node| node.type_id == "core.agent");
    match (run.finished(), has_agent) {
        (true, _) => Refusal::RunFinished(run.status()).into(),
        (false, true) => Refusal::NodeNotRunning.into(),
        (false, false) => ApiError::not_found("agent in this run"),
    }
}
