//! Obligations: work that an event requires later. The engine writes each one as a row in the transaction of the event.

use crate::event::{Event, RunParameters};
use crate::run::{Run, deadline};
use crate::{InterruptId, NodeId, RunId, Timestamp};

/// Work that an event requires later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obligation {
    /// Activates the run: a worker must execute it.
    Activate,
    /// Sets a timer.
    SetTimer {
        /// The timer.
        timer: Timer,
        /// The time at which it fires.
        due: Timestamp,
    },
    /// Removes a timer.
    ClearTimer {
        /// The timer.
        timer: Timer,
        /// The time for which it was set.
        due: Timestamp,
    },
    /// Starts a child run, in the same commit.
    StartChild {
        /// The id of the child run.
        child: RunId,
    },
    /// Cancels a child run, in the same commit.
    CancelChild {
        /// The id of the child run.
        child: RunId,
    },
}

/// The purpose of a timer. A run has at most one timer for each purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The deadline of an interrupt.
    Interrupt(InterruptId),
    /// The end of the sleep of a node.
    Sleep(NodeId),
    /// The time limit of the run.
    Run,
}

/// Returns the obligations of an event. `run` is the state before the event.
pub fn react(run: &Run, event: &Event, at: Timestamp) -> Vec<Obligation> {
    match event {
        Event::RunStarted(started) => begin(run, started, at),
        Event::RunResumed { .. } | Event::MessageAdded { .. } => vec![Obligation::Activate],
        Event::NodeDispatched { child, .. } => vec![Obligation::StartChild { child: child.clone() }],
        Event::ChildEnded { child, .. } if run.awaits(child) => vec![Obligation::Activate],
        Event::ToolReturned { node, call, .. } => cancel_all(run.run_of_call(node, call)),
        Event::NodeFailed { node, .. } => cancel_all(run.runs_of_calls(node)),
        Event::InterruptRequested { id, timeout_ms: Some(ms), .. } => {
            vec![Obligation::SetTimer { timer: Timer::Interrupt(*id), due: run.live_from(at).plus_ms(*ms) }]
        }
        Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
            let wakes = !run.nodes.iter().any(|state| state.stays_suspended_after(*id));
            wakes.then_some(Obligation::Activate).into_iter().chain(clear_deadline(run, *id)).collect()
        }
        Event::SleepStarted { node, until } => vec![wake_at(node, *until)],
        Event::SleepEnded { node } => wake(run, node),
        // Child runs of a completed run continue.
        Event::RunCompleted => clear_all(run),
        Event::RunFailed { .. } | Event::RunCancelled { .. } => {
            clear_all(run).into_iter().chain(cancel_children(run)).collect()
        }
        Event::InterruptRequested { timeout_ms: None, .. }
        | Event::NodeStarted { .. }
        | Event::NodeCompleted { .. }
        | Event::NodeSkipped { .. }
        | Event::NodeDelayed { .. }
        | Event::NodeSuspended { .. }
        | Event::NodeResumed { .. }
        | Event::ApprovalRequested { .. }
        | Event::ApprovalReceived { .. }
        | Event::ClarificationRequested { .. }
        | Event::ClarificationResolved { .. }
        | Event::VoteCast { .. }
        | Event::VoteRepeated { .. }
        | Event::AskRaised { .. }
        | Event::AskAnswered { .. }
        | Event::AuthorizationDecided { .. }
        | Event::ApprovalGranted { .. }
        | Event::ApprovalRejected { .. }
        | Event::ApprovalOverridden { .. }
        | Event::ConversationOpened { .. }
        | Event::ConversationExchanged { .. }
        | Event::ConversationClosed { .. }
        | Event::AgentDecided { .. }
        | Event::StepRecorded { .. }
        | Event::NodeRetried { .. }
        | Event::VariableChanged { .. }
        | Event::ChannelWritten { .. }
        | Event::MessageChunk { .. }
        | Event::ReasoningChunk { .. }
        | Event::ToolCallChunk { .. }
        | Event::ActivityReported { .. }
        | Event::ModelReplied { .. }
        | Event::ToolCalled { .. }
        | Event::ToolSuspended { .. }
        | Event::ToolBegun { .. }
        | Event::ArtifactCreated { .. }
        | Event::LoopTurned { .. }
        | Event::LoopbackLimit { .. }
        | Event::CapBreached { .. }
        | Event::NodeAwaiting { .. }
        | Event::ChildChanged { .. }
        | Event::ChildEnded { .. }
        | Event::PauseRequested { .. }
        | Event::RunPaused { .. }
        | Event::ReplayDiverged { .. } => Vec::new(),
    }
}

fn begin(run: &Run, started: &RunParameters, at: Timestamp) -> Vec<Obligation> {
    let limit = deadline(&run.workflow, started, at);
    let limit = limit.map(|due| Obligation::SetTimer { timer: Timer::Run, due });
    std::iter::once(Obligation::Activate).chain(limit).collect()
}

fn wake_at(node: &NodeId, due: Timestamp) -> Obligation {
    Obligation::SetTimer { timer: Timer::Sleep(node.clone()), due }
}

fn wake(run: &Run, node: &NodeId) -> Vec<Obligation> {
    std::iter::once(Obligation::Activate).chain(clear_sleep(run, node)).collect()
}

fn clear_deadline(run: &Run, id: InterruptId) -> Option<Obligation> {
    let due = run.interrupt(id)?.expires_at()?;
    Some(Obligation::ClearTimer { timer: Timer::Interrupt(id), due })
}

fn clear_sleep(run: &Run, node: &NodeId) -> Option<Obligation> {
    let due = run.sleeping_until(node)?;
    Some(Obligation::ClearTimer { timer: Timer::Sleep(node.clone()), due })
}

/// Returns the obligations to remove all timers of the run.
fn clear_all(run: &Run) -> Vec<Obligation> {
    let deadlines = run.open_interrupts().filter_map(|interrupt| clear_deadline(run, interrupt.id));
    let sleeps = run.workflow.nodes.iter().filter_map(|node| clear_sleep(run, &node.id));
    let limit = run.deadline().map(|due| Obligation::ClearTimer { timer: Timer::Run, due });
    deadlines.chain(sleeps).chain(limit).collect()
}

/// Returns the obligations to cancel these child runs.
fn cancel_all(children: impl IntoIterator<Item = RunId>) -> Vec<Obligation> {
    children.into_iter().map(|child| Obligation::CancelChild { child }).collect()
}

fn cancel_children(run: &Run) -> impl Iterator<Item = Obligation> {
    let unended = run.children.iter().filter(|child| child.cascade && child.result.is_none());
    unended.map(|child| Obligation::CancelChild { child: child.run.clone() })
}
