//! Decides commands: the result is events or a refusal. The functions are pure: they read only the run, the command
//! and the time.

use std::sync::Arc;

use crate::Timestamp;
use crate::command::Command;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::run::Run;

mod activity;
mod agent;
mod cancel;
mod children;
mod complete;
mod configurable;
mod consequences;
mod conversation;
mod expire;
mod failure;
mod finish;
mod interrupt_request;
mod low_confidence;
mod message_chunk;
mod pause;
mod provider_report;
mod resolve;
mod side_questions;
mod start;

pub use pause::check_reason;

/// Returns the events that a command causes, or the refusal of the command.
pub fn decide(run: &Run, command: &Command, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    decide_and_apply(&mut Arc::new(run.clone()), command, now, |_, _| {})
}

/// Applies the events that a command causes, and returns them. A refused command does not change the run. Calls
/// `observe` for each event with the state before it.
pub fn decide_and_apply(
    run: &mut Arc<Run>,
    command: &Command,
    now: Timestamp,
    mut observe: impl FnMut(&Run, &Event),
) -> Result<Vec<Event>, Refusal> {
    let mut events = decide_without_consequences(run, command, now)?;
    let run = Arc::make_mut(run);
    let mut applied = 0;
    loop {
        for event in &events[applied..] {
            observe(run, event);
            run.apply(event, now);
        }
        applied = events.len();
        // The suspension of a node also has consequences: nodes that do not depend on it must not wait for its
        // interrupt.
        if matches!(command, Command::Start(_) | Command::Finish { .. }) {
            events.extend(consequences::next(run));
        } else if matches!(command, Command::Settle) {
            events.extend(consequences::next_beside_ready_nodes(run));
        }
        if events.len() == applied {
            return Ok(events);
        }
    }
}

fn decide_without_consequences(run: &Run, command: &Command, now: Timestamp) -> Result<Vec<Event>, Refusal> {
    match command {
        Command::Start(start) => start::start(run, start, now),
        Command::Settle => Ok(Vec::new()),
        Command::Begin { node, effect } => finish::begin(run, node, *effect),
        Command::Finish { node, outcome } => finish::finish(run, node, outcome, now),
        Command::Act { node, actions: acts } => agent::act(run, node, acts, now),
        Command::SendMessages { node, messages } => agent::say(run, node, messages, now),
        Command::QueueMessages { node, messages } => agent::queue(run, node, messages),
        Command::Record { node, name, result, took_ms } => finish::record(run, node, name, result, *took_ms),
        Command::Resolve { answers } => resolve::resolve(run, answers, now),
        Command::ResolveNode { node, interrupt, answer } => {
            resolve::resolve_node(run, node, interrupt.as_deref(), answer, now)
        }
        Command::Deliver { interrupt, event, by } => resolve::deliver(run, *interrupt, event, by, now),
        Command::AnswerSideQuestion { interrupt, ask, answer, by } => {
            side_questions::answer(run, *interrupt, *ask, answer, by, now)
        }
        Command::Expire { interrupt } => expire::expire(run, *interrupt, now),
        Command::Wake { node } => expire::wake(run, node, now),
        Command::Cancel { reason, by } => cancel::cancel(run, reason.as_deref(), by),
        Command::CancelWithParent => cancel::cancel_with_parent(run),
        Command::Child { child, status, interrupts, result } => {
            children::update_child(run, child, *status, interrupts, result.as_ref())
        }
        Command::Pause { reason, drain, by } => pause::pause(run, reason.as_deref(), *drain, by),
        Command::Resume { by } => pause::resume(run, by),
        Command::TimeOut => expire::time_out(run, now),
        Command::Delay { node, error, until } => failure::delay(run, node, error, *until),
        Command::Abandon { error } => cancel::abandon(run, error),
    }
}

/// Rejects commands for a finished run.
fn check_unfinished(run: &Run) -> Result<(), Refusal> {
    if run.finished() { Err(Refusal::RunFinished(run.status())) } else { Ok(()) }
}
