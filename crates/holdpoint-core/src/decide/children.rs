//! Decides which runs a run may start, and what happens to it when one of them changes.

use serde_json::{Map, Value};

use super::check_unfinished;
use super::failure::fail;
use super::finish::room;
use crate::command::Dispatch;
use crate::event::{ChildResult, Event, RunError};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::{Run, Status};
use crate::{NodeId, RunId, WorkflowId};

/// The child's name is its parent's and a count: known before it is started, and never used twice.
fn started(run: &Run, node: &NodeId, wanted: &Dispatch, call: Option<&str>) -> Result<Event, RunError> {
    // The start of a child that is on record was permitted when it happened.
    if !run.follows_record() {
        run.usable_grants(node).map_err(|grant| grant.error())?;
    }
    if run.depth() >= limits::CHILD_DEPTH_MAX {
        let message = format!("{} runs are above this one, and no more may be", limits::CHILD_DEPTH_MAX);
        return Err(RunError::new("too_deep", message));
    }
    let Ok(child) = RunId::parse(&format!("{}.{}", run.id, run.children.len() + 1)) else {
        let message = "the name of this run is too long to name another after it";
        return Err(RunError::new("too_deep", message));
    };
    check_size("what the child is given", &wanted.inputs, room(run))
        .map_err(|refusal| RunError::new("run_too_large", refusal.to_string()))?;
    Ok(Event::NodeDispatched {
        node: node.clone(),
        child,
        workflow: wanted.workflow.clone(),
        inputs: wanted.inputs.clone(),
        wait: wanted.wait,
        cascade: wanted.cascade,
        call: call.map(str::to_owned),
    })
}

pub(super) fn dispatch(run: &Run, node: NodeId, wanted: &Dispatch) -> Vec<Event> {
    match started(run, &node, wanted, None) {
        Ok(event) => vec![event],
        Err(error) => fail(run, node, error),
    }
}

/// A run that carries out a call of an agent: waited for, and cancelled with this one. An agent is told what keeps it from
/// beginning, and can do something else.
pub(super) fn carry_out(
    run: &Run,
    node: &NodeId,
    call: &str,
    workflow: &WorkflowId,
    inputs: Map<String, Value>,
) -> Result<Event, RunError> {
    let wanted = Dispatch { workflow: workflow.clone(), inputs, wait: true, cascade: true };
    started(run, node, &wanted, Some(call))
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
