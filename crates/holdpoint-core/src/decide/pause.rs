//! Decides who may make a run stand still, and let it go on.

use super::check_unfinished;
use crate::event::{Drain, Event};
use crate::ids::Principal;
use crate::refusal::Refusal;
use crate::run::Run;

pub(super) fn pause(
    run: &Run,
    reason: Option<&str>,
    drain: Drain,
    by: &Principal,
) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    if run.started.is_none() || run.paused.is_some() {
        return Err(Refusal::WrongState(run.status()));
    }
    Ok(vec![Event::RunPaused { reason: reason.map(str::to_owned), drain, by: by.name.clone() }])
}

pub(super) fn resume(run: &Run, by: &Principal) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    if run.paused.is_none() {
        return Err(Refusal::WrongState(run.status()));
    }
    Ok(vec![Event::RunResumed { by: by.name.clone() }])
}
