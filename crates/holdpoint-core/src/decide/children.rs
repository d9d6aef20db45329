//! Decides what happens to a run when one that it started changes.

use super::check_unfinished;
use crate::event::{ChildResult, Event};
use crate::ids::RunId;
use crate::refusal::Refusal;
use crate::run::{Run, Status};

/// Nothing when the run has heard of it already: the same news may come twice.
pub(super) fn child(
    run: &Run,
    child: &RunId,
    status: Status,
    result: Option<&ChildResult>,
) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    let known = run.children.iter().find(|known| known.run == *child).ok_or(Refusal::ChildNotFound)?;
    if known.result.is_some() || (known.status == status && result.is_none()) {
        return Ok(Vec::new());
    }
    let child = child.clone();
    Ok(vec![match result {
        Some(result) => Event::ChildEnded { child, status, result: result.clone() },
        None => Event::ChildChanged { child, status },
    }])
}
