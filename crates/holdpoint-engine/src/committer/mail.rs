//! How a run's state shows in its dispatch.

use holdpoint_core::mailbox::{
    RunDispatch, RunDispatchResult, RunDispatchStatus, RunStatus, TerminationReason,
};
use holdpoint_core::{End, Run};

use super::work::Change;

/// The row of an activation that was carried out in the change that caused it.
pub(super) fn performed(change: &Change, id: &str) -> RunDispatch {
    let of = &change.of;
    let result = result(&change.after, None);
    RunDispatch {
        status: RunDispatchStatus::Acked,
        run_status: Some(result.status),
        termination: result.termination,
        run_error: result.error,
        completed_at: Some(change.at),
        ..RunDispatch::queued(&of.tenant, id, change.after.thread(), of.run.as_str(), change.at)
    }
}

/// What an activation made of the run.
pub(crate) fn result(run: &Run, instance: Option<&str>) -> RunDispatchResult {
    let (mut termination, mut error) = (None, None);
    match &run.end {
        Some(End::Completed { .. }) => termination = Some(TerminationReason::NaturalEnd),
        Some(End::Cancelled { .. }) => termination = Some(TerminationReason::Cancelled),
        Some(End::Failed { error: why, .. }) => {
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
