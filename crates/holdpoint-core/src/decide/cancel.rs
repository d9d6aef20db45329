//! Decides how a run ends before its time.

use super::check_unfinished;
use crate::event::{Event, RunError};
use crate::ids::Principal;
use crate::refusal::Refusal;
use crate::run::Run;

pub(super) fn cancel(run: &Run, reason: Option<&str>, by: &Principal) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    Ok(vec![Event::RunCancelled { reason: reason.map(str::to_owned), by: by.name.clone() }])
}

pub(super) fn abandon(run: &Run, error: &RunError) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    Ok(vec![Event::RunFailed { error: error.clone(), node: None }])
}
