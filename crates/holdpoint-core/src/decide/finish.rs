//! Decides when node executions begin and what their outcomes cause, and records their steps.

use serde_json::Value;

use super::agent::{check_agent_finished, suspend_agent};
use super::check_unfinished;
use super::children::start_child;
use super::complete::complete;
use super::failure::fail_or_retry;
use super::interrupt_request::request_interrupt;
use crate::command::{Effect, NodeOutcome};
use crate::event::{Cap, Drain, Event, RunError};
use crate::interrupt::Interrupt;
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::run::{NodeStatus, NodeWork, Run};
use crate::{InterruptId, NodeId, Timestamp};

/// Begins a node that is ready. Fails the run if it has reached its limit of node executions.
pub(super) fn begin(run: &Run, node: &NodeId, effect: Effect) -> Result<Vec<Event>, Refusal> {
    check_unfinished(run)?;
    let position = run.workflow.position(node).ok_or(Refusal::NodeNotRunning)?;
    let begins = NodeWork::Begin(position);
    // The engine may begin any node that is ready, not only the next one.
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
    let message = format!("node {node} would be execution {observed}; at most {limit} are allowed");
    Ok(vec![
        Event::CapBreached { cap: Cap::NodeExecutions, limit, observed, node: Some(node.clone()) },
        Event::RunFailed {
            error: RunError::new("recursion_limit_exceeded", message),
            node: Some(node.clone()),
        },
    ])
}

/// Records the outcome of a node execution.
pub(super) fn finish(
    run: &Run,
    node: &NodeId,
    outcome: &NodeOutcome,
    now: Timestamp,
) -> Result<Vec<Event>, Refusal> {
    check_running(run, node)?;
    // An immediate pause discards the outcome. The worker enters the node again after the run is resumed.
    if run.paused.as_ref().is_some_and(|pause| pause.drain == Drain::Immediate) {
        return Err(Refusal::WrongState(run.status()));
    }
    let node = node.clone();
    Ok(match outcome {
        NodeOutcome::Completed(completion) => {
            check_agent_finished(run, &node)?;
            complete(run, node, completion)
        }
        NodeOutcome::Failed(error) => fail_or_retry(run, node, error.clone(), now),
        NodeOutcome::Asked(request) => request_interrupt(run, node, request)?,
        NodeOutcome::Joined(interrupt) => vec![join_interrupt(run, node, *interrupt)?],
        NodeOutcome::Suspended { policy } => vec![suspend_agent(run, node, *policy)?],
        NodeOutcome::ChildRequested(request) => start_child(run, node, request),
        NodeOutcome::Sleeping(until) => {
            // A sleep whose end has passed also needs a timer, because only a timer wakes a node.
            vec![Event::SleepStarted { node, until: (*until).max(now) }]
        }
    })
}

/// Records the result of a step, so that the node does not perform its effect again.
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
    check_size("the step's result", result, limits::STEP_RESULT_BYTES_MAX.min(remaining_bytes(run)))?;
    let (node, name, result) = (node.clone(), name.to_owned(), result.clone());
    Ok(vec![Event::StepRecorded { node, name, result, took_ms }])
}

/// Returns the number of bytes that nodes may still add to the run.
pub(super) fn remaining_bytes(run: &Run) -> usize {
    limits::RUN_BYTES_MAX.saturating_sub(run.bytes)
}

pub(super) fn check_running(run: &Run, node: &NodeId) -> Result<(), Refusal> {
    check_unfinished(run)?;
    match run.node_state(node) {
        Some(state) if state.status == NodeStatus::Running => Ok(()),
        _ => Err(Refusal::NodeNotRunning),
    }
}

/// Suspends a node on an interrupt that another node opened. Refuses a closed interrupt; the worker then enters the
/// node again.
pub(super) fn join_interrupt(run: &Run, node: NodeId, interrupt: InterruptId) -> Result<Event, Refusal> {
    if run.interrupt(interrupt).is_some_and(Interrupt::is_open) {
        Ok(Event::NodeSuspended { node, interrupt, all: false })
    } else {
        Err(Refusal::NodeNotRunning)
    }
}
