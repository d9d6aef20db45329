//! What follows by itself once events have happened: nodes that can never run are skipped, a run with nothing left
//! to do is completed. Recorded like everything else, so that readers need no rules of their own.

use crate::event::{Event, RunError};
use crate::ids::Timestamp;
use crate::run::{NodeStatus, Run};
use crate::workflow::{Turn, next_turn};

/// The events, followed by everything they entail.
pub(super) fn with_consequences(run: &Run, mut events: Vec<Event>) -> Vec<Event> {
    let mut after = run.clone();
    for event in &events {
        after.apply(event, Timestamp::default());
    }
    while let Some(event) = consequence(&after) {
        after.apply(&event, Timestamp::default());
        events.push(event);
    }
    events
}

fn consequence(run: &Run) -> Option<Event> {
    if run.finished() {
        return None;
    }
    match next_turn(run) {
        Some(Turn::Begin(_)) => None,
        Some(Turn::Skip(position, reason)) => {
            Some(Event::NodeSkipped { node: run.workflow.nodes[position].id.clone(), reason })
        }
        Some(Turn::Stuck(position, why)) => Some(Event::RunFailed {
            error: RunError::new("condition_failed", why),
            node: Some(run.workflow.nodes[position].id.clone()),
        }),
        None => is_done(run).then_some(Event::RunCompleted),
    }
}

fn is_done(run: &Run) -> bool {
    run.nodes.iter().all(|state| match state.status {
        NodeStatus::Completed | NodeStatus::Failed | NodeStatus::Skipped => true,
        NodeStatus::Pending
        | NodeStatus::Running
        | NodeStatus::Waiting(_)
        | NodeStatus::Sleeping(_)
        | NodeStatus::Awaiting(_) => false,
    })
}
