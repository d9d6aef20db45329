//! Decides what passing time does: deadlines nobody met and sleeps that are over.

use super::check_unfinished;
use super::resolve::resumed;
use crate::event::Event;
use crate::ids::{InterruptId, NodeId, Timestamp};
use crate::interrupt::Kind;
use crate::refusal::Refusal;
use crate::run::Run;

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
    if interrupt.kind == Kind::Approval {
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
