//! Decides the failure of a node: the node is retried, an edge handles the failure, or the run fails.

use super::finish::check_running;
use crate::event::{Event, RunError};
use crate::limits;
use crate::refusal::Refusal;
use crate::run::Run;
use crate::{NodeId, Timestamp};

/// Retries a node after a retryable error, up to the limit of the workflow, with exponential backoff. Otherwise the
/// node fails.
pub(super) fn fail_or_retry(run: &Run, node: NodeId, error: RunError, now: Timestamp) -> Vec<Event> {
    let own = run.workflow.node(&node).and_then(|node| node.max_retries);
    let allowed = own.unwrap_or(run.workflow.settings.max_retries);
    let retries = run.node_state(&node).map_or(0, |state| state.retries);
    if !error.retryable || retries >= allowed {
        return fail(run, node, error);
    }
    let doubled = limits::RETRY_DELAY_MS.saturating_mul(1_u64.checked_shl(retries).unwrap_or(u64::MAX));
    let delay_ms = doubled.min(limits::RETRY_DELAY_MS_MAX);
    vec![
        Event::NodeRetried { node: node.clone(), attempt: retries + 1, delay_ms, error },
        Event::SleepStarted { node, until: now.plus_ms(delay_ms) },
    ]
}

/// Records the delay of a node. Returns no event if the node already has a delay with the same `until`.
pub(super) fn delay(
    run: &Run,
    node: &NodeId,
    error: &RunError,
    until: Option<Timestamp>,
) -> Result<Vec<Event>, Refusal> {
    check_running(run, node)?;
    let known = run.node_state(node).and_then(|state| state.delay.as_ref());
    if known.is_some_and(|known| known.until == until) {
        return Ok(Vec::new());
    }
    Ok(vec![Event::NodeDelayed { node: node.clone(), error: error.clone(), until }])
}

/// Fails a node. The run fails too, unless an outgoing edge of the node has a trigger rule that admits failures.
pub(super) fn fail(run: &Run, node: NodeId, error: RunError) -> Vec<Event> {
    let position = run.workflow.position(&node);
    let admitted = position.is_some_and(|at| run.workflow.admits_failure_of(at));
    let failed = Event::NodeFailed { node: node.clone(), error: error.clone() };
    if admitted { vec![failed] } else { vec![failed, Event::RunFailed { error, node: Some(node) }] }
}
