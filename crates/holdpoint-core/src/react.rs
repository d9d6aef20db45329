//! What an event obliges the shell to do later. Each obligation becomes a row in the event's own transaction.

use crate::event::{Event, Started};
use crate::run::{Run, deadline};
use crate::{InterruptId, NodeId, RunId, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obligation {
    /// The run has something to do: a worker must pick it up.
    Activate,
    SetTimer {
        timer: Timer,
        due: Timestamp,
    },
    ClearTimer {
        timer: Timer,
        due: Timestamp,
    },
    /// A run is to be started, in the same commit.
    StartChild {
        child: RunId,
    },
    /// A run that this one started is to be cancelled, in the same commit.
    CancelChild {
        child: RunId,
    },
}

/// What a timer is for; unique within its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timer {
    Interrupt(InterruptId),
    Sleep(NodeId),
    /// The time the whole run may take.
    Run,
}

/// `run` is the fold just before `event`.
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
            let wakes = !run.nodes.iter().any(|state| state.waits_on_after(*id));
            wakes.then_some(Obligation::Activate).into_iter().chain(clear_deadline(run, *id)).collect()
        }
        Event::SleepStarted { node, until } => vec![wake_at(node, *until)],
        Event::SleepEnded { node } => wake(run, node),
        // A run that has done its work leaves those it has started to theirs.
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

fn begin(run: &Run, started: &Started, at: Timestamp) -> Vec<Obligation> {
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

/// A finished run must not be woken again.
fn clear_all(run: &Run) -> Vec<Obligation> {
    let deadlines = run.open_interrupts().filter_map(|interrupt| clear_deadline(run, interrupt.id));
    let sleeps = run.workflow.nodes.iter().filter_map(|node| clear_sleep(run, &node.id));
    let limit = run.deadline().map(|due| Obligation::ClearTimer { timer: Timer::Run, due });
    deadlines.chain(sleeps).chain(limit).collect()
}

/// Runs that carry out calls which have ended without them.
fn cancel_all(children: impl IntoIterator<Item = RunId>) -> Vec<Obligation> {
    children.into_iter().map(|child| Obligation::CancelChild { child }).collect()
}

fn cancel_children(run: &Run) -> impl Iterator<Item = Obligation> {
    let unended = run.children.iter().filter(|child| child.cascade && child.result.is_none());
    unended.map(|child| Obligation::CancelChild { child: child.run.clone() })
}
