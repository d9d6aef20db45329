//! Decides which runs a run may start, and what happens to it when one of them changes.

use super::check_unfinished;
use super::failure::fail;
use super::finish::room;
use crate::command::Dispatch;
use crate::event::{ChildResult, Event, RunError};
use crate::ids::{NodeId, RunId};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::{Run, Status};

/// The child's name is its parent's and a count: known before it is started, and never used twice.
pub(super) fn dispatch(run: &Run, node: NodeId, wanted: &Dispatch) -> Vec<Event> {
    if run.depth() >= limits::CHILD_DEPTH_MAX {
        let message = format!("{} runs are above this one, and no more may be", limits::CHILD_DEPTH_MAX);
        return fail(run, node, RunError::new("too_deep", message));
    }
    let Ok(child) = RunId::parse(&format!("{}.{}", run.id, run.children.len() + 1)) else {
        let message = "the name of this run is too long to name another after it";
        return fail(run, node, RunError::new("too_deep", message));
    };
    if let Err(refusal) = check_size("what the child is given", &wanted.inputs, room(run)) {
        return fail(run, node, RunError::new("run_too_large", refusal.to_string()));
    }
    vec![Event::NodeDispatched {
        node,
        child,
        workflow: wanted.workflow.clone(),
        inputs: wanted.inputs.clone(),
        wait: wanted.wait,
        cascade: wanted.cascade,
    }]
}

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
