//! The waiting state of a run, read from its fold: suspended tool calls and their decisions.

use std::sync::Arc;

use holdpoint_api::decisions::{RunWaitingState, TicketDecision, TicketStatus, ToolTicket, WaitingReason};
use holdpoint_core::agent::{CallStatus, ToolCall};
use holdpoint_core::{Interrupt, Resolution, Run, Status};
use serde_json::Value;

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// Returns the waiting state with the dispatch in which the run began to wait, or None if the run does not wait. The
/// dispatch is not in the events of the run, and is missing once ended dispatches are deleted. A run that waits for a
/// child run has the message of its interrupt; the tickets of a child run are part of its own state.
pub(super) async fn read(
    app: &App,
    caller: &Caller,
    run: &Arc<Run>,
) -> Result<Option<RunWaitingState>, ApiError> {
    let Some(mut waiting) = from_run(run) else { return Ok(None) };
    if waiting.message.is_none() && run.child_interrupts().next().is_some() {
        let open = app.engine.interrupts().of_family(caller.tenant(), run).await?;
        waiting.message = open.iter().find_map(|one| message(one.interrupt()?));
    }
    let since_dispatch_id = app.engine.threads().waiting_since(caller.tenant(), run).await?;
    Ok(Some(RunWaitingState { since_dispatch_id, ..waiting }))
}

/// Returns the waiting state of a run, or None if the run does not wait.
fn from_run(run: &Run) -> Option<RunWaitingState> {
    let tickets = tickets(run);
    let first = run.waiting_on();
    let reason = match run.status() {
        Status::Paused => WaitingReason::ManualPause,
        Status::WaitingExternal => WaitingReason::ExternalEvent,
        Status::WaitingApproval if !tickets.is_empty() => WaitingReason::ToolPermission,
        // Other calls are running; an approver can decide without waiting for them.
        Status::Running if tickets.iter().any(|ticket| ticket.status == TicketStatus::Suspended) => {
            WaitingReason::ToolPermission
        }
        Status::WaitingApproval | Status::WaitingInput => WaitingReason::UserInput,
        Status::Pending | Status::Running | Status::Completed | Status::Failed | Status::Cancelled => {
            return None;
        }
    };
    let ticket_ids = tickets.iter().map(|ticket| ticket.ticket_id.clone()).collect();
    let message = first.and_then(message);
    Some(RunWaitingState { reason, ticket_ids, message, tickets, since_dispatch_id: None })
}

/// Returns the calls that wait for a decision, and those whose decision is not executed yet.
pub(super) fn tickets(run: &Run) -> Vec<ToolTicket> {
    let agents = run.nodes.iter().filter_map(|state| state.agent.as_deref());
    agents.flat_map(|agent| &agent.calls).filter_map(|call| ticket(run, call)).collect()
}

pub(super) fn decision(asked: &Interrupt) -> Option<TicketDecision> {
    match asked.resolution.as_ref()? {
        Resolution::Answered { by, at, decision, .. } => Some(TicketDecision {
            decision_id: decision.clone(),
            decided_by: Some(by.clone()),
            decided_at: (*at).into(),
            timed_out: false,
        }),
        Resolution::TimedOut { at } => Some(TicketDecision {
            decision_id: None,
            decided_by: None,
            decided_at: (*at).into(),
            timed_out: true,
        }),
    }
}

fn ticket(run: &Run, call: &ToolCall) -> Option<ToolTicket> {
    let status = match call.status {
        CallStatus::Suspended => TicketStatus::Suspended,
        CallStatus::Resuming => TicketStatus::Resuming,
        CallStatus::New
        | CallStatus::Running
        | CallStatus::Succeeded
        | CallStatus::Failed
        | CallStatus::Cancelled => return None,
    };
    let waiting = call.interrupt?;
    let asked = run.interrupt(waiting.id)?;
    let text = |pointer: &str| asked.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    Some(ToolTicket {
        ticket_id: asked.ticket_id().unwrap_or_default().to_owned(),
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        arguments: call.effective_arguments().clone(),
        resume_mode: waiting.mode,
        reason: text("/suspension/action").to_owned(),
        message: text("/suspension/message").to_owned(),
        response_schema: asked.data.pointer("/suspension/response_schema").cloned(),
        expires_at: asked.expires_at().map(Into::into),
        status,
        decision: decision(asked),
    })
}

fn message(asked: &Interrupt) -> Option<String> {
    let places = ["/suspension/message", "/message", "/title"];
    let text = places.iter().find_map(|place| asked.data.pointer(place)?.as_str());
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}
