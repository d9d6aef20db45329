//! Derives the events that follow from other events: a back edge is taken, an unreachable node is skipped, a run
//! without remaining nodes completes. They are recorded, so readers of the log do not have to derive them.

use crate::event::{Cap, Event, RunError};
use crate::run::{Pause, Run};
use crate::workflow::{GraphAction, next_action, next_consequence};

/// Returns the next events that follow from the state of the run. They may have consequences, too.
pub(super) fn next(run: &Run) -> Vec<Event> {
    if run.finished() {
        return Vec::new();
    }
    match next_action(run) {
        Some(GraphAction::Begin(_)) => pause_if_drained(run),
        Some(action) => events_of(run, action),
        None if run.nodes.iter().all(|state| state.status.has_ended()) => vec![Event::RunCompleted],
        None => pause_if_drained(run),
    }
}

/// Returns the next events that follow although nodes are ready to begin. [`next`] stops at such nodes, and its order
/// is part of stored logs.
pub(super) fn next_beside_ready_nodes(run: &Run) -> Vec<Event> {
    if run.finished() {
        return Vec::new();
    }
    next_consequence(run).map_or_else(Vec::new, |action| events_of(run, action))
}

fn events_of(run: &Run, action: GraphAction) -> Vec<Event> {
    let name = |position: usize| run.workflow.nodes[position].id.clone();
    match action {
        GraphAction::Begin(_) => Vec::new(),
        GraphAction::Skip(position, reason) => vec![Event::NodeSkipped { node: name(position), reason }],
        GraphAction::ConditionFailed(position, why) => vec![Event::RunFailed {
            error: RunError::new("condition_failed", why),
            node: Some(name(position)),
        }],
        GraphAction::TakeBackEdge(at) => take_back_edge(run, at),
    }
}

/// Pauses a draining run as soon as no node is executing.
fn pause_if_drained(run: &Run) -> Vec<Event> {
    let Some(Pause { reason, drain, by, .. }) = run.draining.clone() else { return Vec::new() };
    if run.has_node_to_drain() { Vec::new() } else { vec![Event::RunPaused { reason, drain, by }] }
}

fn take_back_edge(run: &Run, at: usize) -> Vec<Event> {
    let found = &run.workflow.loops[at];
    let edge = &run.workflow.edges[found.edge];
    let iteration = run.loop_iterations[found.edge].saturating_add(1);
    match run.workflow.loop_limit(found) {
        Some(limit) if iteration > limit => {
            let node = run.workflow.nodes[edge.target].id.clone();
            let message = format!(
                "edge {} was taken {limit} times; settings.maxLoopbackIterations allows no more",
                edge.id
            );
            let error = RunError::new("loop_limit_exceeded", message);
            let (most, observed) = (u64::from(limit), u64::from(iteration));
            vec![
                Event::LoopbackLimit { node: node.clone(), iterations: iteration, limit },
                Event::CapBreached {
                    cap: Cap::LoopIterations,
                    limit: most,
                    observed,
                    node: Some(node.clone()),
                },
                Event::RunFailed { error, node: Some(node) },
            ]
        }
        Some(_) | None => vec![Event::LoopTurned { edge: edge.id.clone(), iteration }],
    }
}
