//! Decides the start of child runs, and records the changes of their status in the parent run.

use serde_json::{Map, Value};

use super::check_unfinished;
use super::failure::fail;
use super::finish::remaining_bytes;
use crate::command::ChildRunRequest;
use crate::event::{ChildInterruptChanges, ChildResult, Event, RunError};
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::{Run, Status};
use crate::{NodeId, RunId, WorkflowId};

/// Returns the event that starts a child run. The id of the child run is the id of its parent with a number: it is
/// known before the start and is used only once.
fn child_start_event(
    run: &Run,
    node: &NodeId,
    request: &ChildRunRequest,
    call: Option<&str>,
) -> Result<Event, RunError> {
    // A replay does not check grants for the starts that its source recorded.
    if !run.follows_record() {
        run.usable_grants(node).map_err(|grant| grant.error())?;
    }
    if run.depth() >= limits::CHILD_DEPTH_MAX {
        let message = format!("child runs may be nested at most {} levels deep", limits::CHILD_DEPTH_MAX);
        return Err(RunError::new("too_deep", message));
    }
    let Ok(child) = RunId::parse(&format!("{}.{}", run.id, run.children.len() + 1)) else {
        let message = "the id of this run is too long to derive the id of a child run from it";
        return Err(RunError::new("too_deep", message));
    };
    check_size("the input of the child run", &request.inputs, remaining_bytes(run))
        .map_err(|refusal| RunError::new("run_too_large", refusal.to_string()))?;
    Ok(Event::NodeDispatched {
        node: node.clone(),
        child,
        workflow: request.workflow.clone(),
        inputs: request.inputs.clone(),
        wait: request.wait,
        cascade: request.cascade,
        call: call.map(str::to_owned),
    })
}

/// Starts a child run for a node. If the start is not possible, the node fails.
pub(super) fn start_child(run: &Run, node: NodeId, request: &ChildRunRequest) -> Vec<Event> {
    match child_start_event(run, &node, request, None) {
        Ok(event) => vec![event],
        Err(error) => fail(run, node, error),
    }
}

/// Starts a child run that executes a tool call. The agent waits for it, and it is cancelled with this run. If the
/// start is not possible, the caller returns the error to the agent as the result of the call.
pub(super) fn start_child_for_call(
    run: &Run,
    node: &NodeId,
    call: &str,
    workflow: &WorkflowId,
    inputs: Map<String, Value>,
) -> Result<Event, RunError> {
    let request = ChildRunRequest { workflow: workflow.clone(), inputs, wait: true, cascade: true };
    child_start_event(run, node, &request, Some(call))
}

/// Records a change of the status or of the open interrupts of a child run. Returns no event if the parent run already
/// has both, because the engine may report them twice.
pub(super) fn update_child(
    run: &Run,
    child: &RunId,
    status: Status,
    changes: &ChildInterruptChanges,
    result: Option<&ChildResult>,
) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    let known = run.children.iter().find(|known| known.run == *child).ok_or(Refusal::ChildNotFound)?;
    let interrupts = known.new_changes(changes);
    if known.result.is_some() || (known.status == status && interrupts.is_empty() && result.is_none()) {
        return Ok(Vec::new());
    }
    let child = child.clone();
    Ok(vec![match result {
        Some(result) => {
            Event::ChildEnded { child, status, result: result.clone(), closed: interrupts.closed }
        }
        None => Event::ChildChanged { child, status, interrupts },
    }])
}
