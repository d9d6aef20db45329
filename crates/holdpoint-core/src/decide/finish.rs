//! Decides what the executions of nodes do to their run.

use serde_json::Value;

use super::agent::{check_heard, suspend};
use super::ask::ask;
use super::check_unfinished;
use super::children::dispatch;
use super::complete::complete;
use super::consequences::with_consequences;
use super::failure::fail_or_retry;
use crate::command::{Effect, Outcome};
use crate::event::{Cap, Drain, Event, RunError};
use crate::interrupt::Interrupt;
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::{NodeStatus, Run, Work};
use crate::{InterruptId, NodeId, Timestamp};

pub(super) fn begin(run: &Run, node: &NodeId, effect: Effect) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    let position = run.workflow.position(node).ok_or(Refusal::NodeNotRunning)?;
    let begins = Work::Begin(position);
    // Of several nodes whose turn has come, the engine chooses.
    if run.next_work() != Some(begins) && !run.ready_work().contains(&begins) {
        return Err(Refusal::NodeNotRunning);
    }
    let (limit, observed) = (run.executions_max(), run.starts + 1);
    if observed <= limit {
        // A node that cannot use a grant starts without uses and fails when it is entered.
        let uses = match effect {
            Effect::Outside => run.usable_grants(node).unwrap_or_default(),
            Effect::None => Vec::new(),
        };
        return Ok(vec![Event::NodeStarted { node: node.clone(), uses }]);
    }
    let message = format!("node {node} would be execution {observed} of at most {limit} in this run");
    Ok(vec![
        Event::CapBreached { cap: Cap::NodeExecutions, limit, observed, node: Some(node.clone()) },
        Event::RunFailed {
            error: RunError::new("recursion_limit_exceeded", message),
            node: Some(node.clone()),
        },
    ])
}

pub(super) fn finish(
    run: &Run,
    node: &NodeId,
    outcome: &Outcome,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    check_running(run, node)?;
    // The node is entered again when the run goes on.
    if run.paused.as_ref().is_some_and(|pause| pause.drain == Drain::Immediate) {
        return Err(Refusal::WrongState(run.status()));
    }
    let node = node.clone();
    let events = match outcome {
        Outcome::Completed(completion) => {
            check_heard(run, &node)?;
            complete(run, node, completion)
        }
        Outcome::Failed(error) => fail_or_retry(run, node, error.clone(), now),
        Outcome::Asked(request) => ask(run, node, request)?,
        Outcome::Joined(interrupt) => vec![join(run, node, *interrupt)?],
        Outcome::Suspended { policy } => vec![suspend(run, node, *policy)?],
        Outcome::Dispatched(wanted) => dispatch(run, node, wanted),
        Outcome::Sleeping(until) => {
            // A sleep that is already over still goes through its timer: there is one way to wake up.
            vec![Event::SleepStarted { node, until: (*until).max(now) }]
        }
    };
    // Also when the node only pauses: what can be decided beside it must not wait for its answer.
    Ok(with_consequences(run, events, now))
}

pub(super) fn record(
    run: &Run,
    node: &NodeId,
    name: &str,
    result: &Value,
    took_ms: Option<u64>,
) -> Result<Vec<Event>, Refusal> {
    check_running(run, node)?;
    run.usable_grants(node)?;
    if run.node_state(node).is_some_and(|state| state.steps.contains_key(name)) {
        return Err(Refusal::invalid("step", format!("{name:?} was already recorded for this node")));
    }
    check_size("the step's result", result, limits::STEP_RESULT_BYTES_MAX.min(room(run)))?;
    let (node, name, result) = (node.clone(), name.to_owned(), result.clone());
    Ok(vec![Event::StepRecorded { node, name, result, took_ms }])
}

/// How many bytes nodes may still put into the run.
pub(super) fn room(run: &Run) -> usize {
    limits::RUN_BYTES_MAX.saturating_sub(run.bytes)
}

pub(super) fn check_running(run: &Run, node: &NodeId) -> Result<(), Refusal> {
    check_unfinished(run)?;
    match run.node_state(node) {
        Some(state) if state.status == NodeStatus::Running => Ok(()),
        _ => Err(Refusal::NodeNotRunning),
    }
}

/// The node waits with others. An answer that came meanwhile is found by entering the node again.
pub(super) fn join(run: &Run, node: NodeId, interrupt: InterruptId) -> Result<Event, Refusal> {
    if run.interrupt(interrupt).is_some_and(Interrupt::is_open) {
        Ok(Event::NodeSuspended { node, interrupt, all: false })
    } else {
        Err(Refusal::NodeNotRunning)
    }
}
