//! Decides the commands of timers: deadlines of interrupts, ends of sleeps and the timeout of the run.

use super::check_unfinished;
use super::resolve::resume_waiting_nodes;
use crate::event::{Cap, Event, RunError};
use crate::interrupt::Kind;
use crate::refusal::Refusal;
use crate::run::Run;
use crate::{InterruptId, NodeId, Timestamp};

/// Closes an interrupt whose deadline has passed.
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
    // The expiry of an approval also emits `approval.received`. The expiry of a clarification has no answers to report,
    // and governed gates never emit this event.
    if interrupt.kind == Kind::Approval && !interrupt.is_governed() {
        events.push(Event::ApprovalReceived { interrupt: id });
    }
    events.extend(resume_waiting_nodes(run, id));
    Ok(events)
}

/// Ends the sleep of a node.
pub(super) fn wake(run: &Run, node: &NodeId, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    match run.sleeping_until(node) {
        Some(until) if until <= now => Ok(vec![Event::SleepEnded { node: node.clone() }]),
        Some(_) => Err(Refusal::NotDue),
        None => Err(Refusal::NodeNotRunning),
    }
}

/// Fails a run that has exceeded its timeout.
pub(super) fn time_out(run: &Run, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    let Some(limit) = run.timeout_ms() else { return Err(Refusal::NotDue) };
    let observed = u64::try_from(now.0 - run.created_at().0).unwrap_or(0);
    if observed < limit {
        return Err(Refusal::NotDue);
    }
    let message = format!("the run exceeded its timeout of {limit} ms");
    Ok(vec![
        // The observed value must exceed the limit, even if the timer fires in the millisecond of the deadline.
        Event::CapBreached { cap: Cap::RunDuration, limit, observed: observed.max(limit + 1), node: None },
        Event::RunFailed { error: RunError::new("run_timeout", message), node: None },
    ])
}
