//! Decides what passing time does: deadlines nobody met and sleeps that are over.

use super::check_unfinished;
use super::resolve::resumed;
use crate::event::{Cap, Event, RunError};
use crate::interrupt::Kind;
use crate::refusal::Refusal;
use crate::run::Run;
use crate::{InterruptId, NodeId, Timestamp};

pub(super) fn expire(run: &Run, id: InterruptId, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    let interrupt = run.interrupt(id).ok_or(Refusal::InterruptNotFound)?;
    if !interrupt.is_open() {
        return Err(Refusal::AlreadyResolved);
    }
    if interrupt.expires_at().is_none_or(|at| now < at) {
        return Err(Refusal::NotDue);
    }
    let mut events = vec![Event::InterruptTimedOut { id }];
    // A silent approval is still received, as a timeout; questions nobody answered have no answers to report.
    // Of a governed gate nobody was promised a receipt.
    if interrupt.kind == Kind::Approval && !interrupt.is_governed() {
        events.push(Event::ApprovalReceived { interrupt: id });
    }
    events.extend(resumed(run, id));
    Ok(events)
}

pub(super) fn wake(run: &Run, node: &NodeId, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    match run.sleeping_until(node) {
        Some(until) if until <= now => Ok(vec![Event::SleepEnded { node: node.clone() }]),
        Some(_) => Err(Refusal::NotDue),
        None => Err(Refusal::NodeNotRunning),
    }
}

/// The run has taken as long as it may.
pub(super) fn time_out(run: &Run, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    let Some(limit) = run.timeout_ms() else { return Err(Refusal::NotDue) };
    let observed = u64::try_from(now.0 - run.created_at().0).unwrap_or(0);
    if observed < limit {
        return Err(Refusal::NotDue);
    }
    let message = format!("the run took longer than the {limit} ms it may take");
    Ok(vec![
        // What is observed is more than what is allowed, also in the very millisecond.
        Event::CapBreached { cap: Cap::RunDuration, limit, observed: observed.max(limit + 1), node: None },
        Event::RunFailed { error: RunError::new("run_timeout", message), node: None },
    ])
}
