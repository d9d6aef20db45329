//! Decides the cancellation and the abandonment of a run.

use super::check_unfinished;
use super::pause::check_reason;
use crate::Principal;
use crate::event::{Event, RunError};
use crate::refusal::Refusal;
use crate::run::Run;

pub(super) fn cancel(run: &Run, reason: Option<&str>, by: &Principal) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    check_reason(reason)?;
    Ok(vec![Event::RunCancelled { reason: reason.map(str::to_owned), by: by.name.clone(), parent: None }])
}

/// Fails a run that the engine cannot execute.
pub(super) fn abandon(run: &Run, error: &RunError) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    Ok(vec![Event::RunFailed { error: error.clone(), node: None }])
}

/// Cancels a child run together with its parent.
pub(super) fn cancel_with_parent(run: &Run) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    let parent = run.started.as_ref().and_then(|started| started.parent.as_ref());
    let parent = parent.map(|parent| parent.run.clone());
    let reason = Some("parent-cancelled".to_owned());
    Ok(vec![Event::RunCancelled { reason, by: "system:parent".to_owned(), parent }])
}
