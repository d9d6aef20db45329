//! Decides the pause of a run, immediately or after its executing nodes have ended, and the end of the pause.

use super::check_unfinished;
use super::finish::remaining_bytes;
use crate::Principal;
use crate::event::{Drain, Event};
use crate::limits;
use crate::refusal::Refusal;
use crate::run::Run;

/// Pauses a run, or requests the pause if nodes must drain first.
pub(super) fn pause(
    run: &Run,
    reason: Option<&str>,
    drain: Drain,
    by: &Principal,
) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    // A second request can replace a draining pause by an immediate one.
    let again = run.draining.is_some() && drain == Drain::DrainCurrentNode;
    if run.started.is_none() || run.paused.is_some() || again {
        return Err(Refusal::WrongState(run.status()));
    }
    check_reason(reason)?;
    // Repeated pauses must not let the run grow without a limit.
    if remaining_bytes(run) == 0 {
        return Err(Refusal::TooLarge { what: "the run", bytes: run.bytes, max: limits::RUN_BYTES_MAX });
    }
    let (reason, by) = (reason.map(str::to_owned), by.name.clone());
    if drain == Drain::DrainCurrentNode && run.has_node_to_drain() {
        return Ok(vec![Event::PauseRequested { reason, by }]);
    }
    Ok(vec![Event::RunPaused { reason, drain, by }])
}

/// Resumes a paused run, or withdraws a pause that is draining.
pub(super) fn resume(run: &Run, by: &Principal) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    if run.paused.is_none() && run.draining.is_none() {
        return Err(Refusal::WrongState(run.status()));
    }
    Ok(vec![Event::RunResumed { by: by.name.clone() }])
}

/// Rejects a reason for a pause or a cancellation that is too long.
pub fn check_reason(reason: Option<&str>) -> Result<(), Refusal> {
    match reason.map(|reason| reason.chars().count()) {
        Some(chars) if chars > limits::REASON_CHARS_MAX => {
            let message = format!("is longer than {} characters", limits::REASON_CHARS_MAX);
            Err(Refusal::invalid("reason", message))
        }
        Some(_) | None => Ok(()),
    }
}
