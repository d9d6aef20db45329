//! The dispatch row of an activation, computed from the run.

use holdpoint_core::mailbox::{
    RunDispatch, RunDispatchResult, RunDispatchStatus, RunStatus, TerminationReason,
};
use holdpoint_core::{Run, RunEnd};

use super::work::Change;
use crate::store::dispatches::Reconciliation;

/// A dispatch that changes.
pub(super) struct DispatchUpdate {
    /// The dispatch as it is stored.
    pub from: RunDispatch,
    pub reconciliation: Reconciliation,
}

/// Returns the acknowledged dispatch of an activation that was performed in the change that caused it.
pub(super) fn performed_dispatch(change: &Change, id: &str) -> RunDispatch {
    let result = dispatch_result(&change.after, None);
    RunDispatch {
        status: RunDispatchStatus::Acked,
        run_status: Some(result.status),
        termination: result.termination,
        run_error: result.error,
        completed_at: Some(change.at),
        ..change.queued_dispatch(id)
    }
}

/// Returns the result of an activation: the status of the run after it.
pub(crate) fn dispatch_result(run: &Run, instance: Option<&str>) -> RunDispatchResult {
    let (mut termination, mut error) = (None, None);
    match &run.end {
        Some(RunEnd::Completed { .. }) => termination = Some(TerminationReason::NaturalEnd),
        Some(RunEnd::Cancelled { .. }) => termination = Some(TerminationReason::Cancelled),
        Some(RunEnd::Failed { error: why, .. }) => {
            error = Some(why.message.clone());
            termination = Some(TerminationReason::Error(why.message.clone()));
        }
        None if run.next_work().is_none() => termination = Some(TerminationReason::Suspended),
        None => {}
    }
    RunDispatchResult {
        run_id: run.id.as_str().to_owned(),
        dispatch_instance_id: instance.map(str::to_owned),
        status: termination.as_ref().map_or(RunStatus::Running, TerminationReason::run_status),
        termination,
        response: None,
        error,
    }
}
