//! Determines the outcome of a run from its status and the state of its thread. The response to a wait is not used.

use serde_json::Value;

use super::mapping;
use super::reference::LangGraphReference;
use super::run_stream::RunStream;
use super::scrub::scrubbed;
use super::server::{LangGraphServer, ServerRun, ThreadState};
use crate::conversion::TOOL_APPROVAL;
use crate::{LockedHandle, ProviderError, ProviderOutcome, code};

/// Error code of an answer that the graph rejected. Another answer may succeed.
const ANSWER_REJECTED: &str = "answer_rejected";
/// The server's error type for an answer of the wrong type.
const WRONG_TYPE: &str = "ValidationError";

/// Returns the outcome of a run that is no longer active.
pub(super) async fn outcome_of_run(
    server: &LangGraphServer,
    handle: &LockedHandle,
    reference: LangGraphReference,
    run: &ServerRun,
) -> Result<ProviderOutcome, ProviderError> {
    match run.status.as_str() {
        "success" => {
            let state = server.state(&reference.thread).await?.ok_or_else(thread_gone)?;
            // The stream may have begun late, or the server may not have one.
            let redaction = server.redaction(&reference.thread, &run.run_id);
            RunStream::new(handle, redaction).report_state(&state.values);
            outcome_of_state(handle, reference, state).await
        }
        "interrupted" => Ok(ProviderOutcome::Cancelled),
        "timeout" => Err(ProviderError::permanent(
            code::TIMEOUT,
            "the server stopped the graph because of its own time limit",
        )),
        "error" => Err(run_error(server, handle, &reference).await?),
        other => {
            let message = format!("the server reports an unknown run status {:?}", scrubbed(other));
            Err(ProviderError::permanent(code::REJECTED, message))
        }
    }
}

/// Returns the outcome of a thread without an active run. Stores the open interrupts before they are shown.
pub(super) async fn outcome_of_state(
    handle: &LockedHandle,
    reference: LangGraphReference,
    state: ThreadState,
) -> Result<ProviderOutcome, ProviderError> {
    let server_interrupts = state.open_interrupts();
    if !server_interrupts.is_empty() {
        let (mut interrupt, ids) = mapping::to_interrupt(server_interrupts, reference.pending_ids())?;
        for item in interrupt.items.iter_mut().filter(|item| item.kind == TOOL_APPROVAL) {
            item.call = handle.reported_call(&item.data["tool"], &item.data["input"]);
        }
        handle.keep(reference.with_pending(ids, handle.attempt()).json()).await?;
        return Ok(ProviderOutcome::Interrupted(interrupt));
    }
    if state.next.is_empty() {
        let values =
            if state.values.is_null() { Value::Object(serde_json::Map::new()) } else { state.values };
        return Ok(ProviderOutcome::Completed(values));
    }
    let message = "the graph stopped without an interrupt; remove its breakpoints";
    Err(ProviderError::permanent(code::GRAPH, message))
}

/// Returns the error for a thread or run that disappeared. It is transient: the next attempt reads the
/// remaining state.
pub(super) fn thread_gone() -> ProviderError {
    ProviderError::transient(code::UNREACHABLE, "the server lost the thread or the run")
}

async fn run_error(
    server: &LangGraphServer,
    handle: &LockedHandle,
    reference: &LangGraphReference,
) -> Result<ProviderError, ProviderError> {
    let (kind, message) = server.thread_error(&reference.thread).await?;
    if kind == WRONG_TYPE && is_typed_interrupt_open(server, handle, reference).await? {
        let message = format!("the graph rejected the answer: {}", scrubbed(&message));
        return Ok(ProviderError::permanent(ANSWER_REJECTED, message));
    }
    let message = match (kind.as_str(), message.as_str()) {
        ("", "") => "the graph failed without an error message".to_owned(),
        (kind, "") => scrubbed(kind),
        (kind, message) => scrubbed(&format!("{kind}: {message}")),
    };
    Ok(ProviderError::permanent(code::GRAPH, message))
}

/// Returns whether an interrupt that has an answer schema is still open although it was just answered: the graph
/// rejected the answer. If not, the validation error of the graph has another cause.
async fn is_typed_interrupt_open(
    server: &LangGraphServer,
    handle: &LockedHandle,
    reference: &LangGraphReference,
) -> Result<bool, ProviderError> {
    let state = server.state(&reference.thread).await?.unwrap_or_default();
    let answered_ids = reference.ids_answered_by(handle.attempt());
    Ok(state.open_interrupts().iter().any(|server_interrupt| {
        server_interrupt.response_schema.is_some()
            && answered_ids.values().any(|name| *name == server_interrupt.id)
    }))
}
