//! The state of a run and its fold. `apply` never rejects an event: events in the log have happened.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::event::{Drain, Event, RunError, RunParameters};
use crate::interrupt::Interrupt;
use crate::workflow::{Workflow, evaluate_edge};
use crate::{NodeId, RunId, Timestamp};

mod agents;
pub(crate) mod channels;
mod child_interrupts;
mod children;
mod conversations;
mod derived_names;
mod event_size;
mod grants;
mod interrupts;
mod loops;
mod low_confidence;
mod queries;
mod state;
mod times;
mod unseen;

pub use conversations::Conversation;
use grants::CopiedPart;
pub use grants::UnusableGrant;
pub use holdpoint_ids::Status;
pub use state::{ChildRunState, EdgeOutcome, NodeState, NodeStatus, NodeWork, OutageDelay, Pause, RunEnd};
pub(crate) use times::deadline;
pub use unseen::UnseenChanges;

/// The state of a run: the fold of its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The id of the run.
    pub id: RunId,
    /// The revision of the workflow that the run executes.
    pub workflow: Arc<Workflow>,
    /// The number of folded events, which is the sequence of the next event.
    pub seq: u64,
    /// The parameters of the start. None before the run is started.
    pub started: Option<Arc<RunParameters>>,
    /// The time of the first event.
    pub started_at: Timestamp,
    /// The time of the last event.
    pub updated_at: Timestamp,
    /// The variables as a JSON object: declared defaults, overwritten by inputs and then by nodes. Shared, because the
    /// run is cloned for every change and values can be large.
    pub variables: Arc<Value>,
    /// The states of the nodes, by position in the workflow.
    pub nodes: Vec<NodeState>,
    /// The interrupts in the order of their ids, starting with `InterruptId(1)`.
    pub interrupts: Vec<Arc<Interrupt>>,
    /// The outcomes of the edge conditions when their source nodes completed, by position in the workflow.
    pub edge_outcomes: Vec<Option<EdgeOutcome>>,
    /// The bytes of JSON that nodes and answers have added to the run.
    pub bytes: usize,
    /// The number of node executions that have begun.
    pub starts: u64,
    /// The number of times that each edge was taken as a back edge, by position in the workflow. A new iteration of an
    /// enclosing loop resets it.
    pub loop_iterations: Vec<u32>,
    /// The names of the variables that are channels.
    pub channels: BTreeSet<String>,
    /// The child runs, in the order of their starts.
    pub children: Vec<Arc<ChildRunState>>,
    /// The conversations, in the order in which they were opened.
    pub conversations: Vec<Arc<Conversation>>,
    /// The pause, if the run is paused.
    pub paused: Option<Pause>,
    /// A requested pause that waits for the executing nodes.
    pub draining: Option<Pause>,
    /// True for a replay whose events differ from those of its source.
    pub diverged: bool,
    copied: CopiedPart,
    /// The end of the run. None while the run is not finished.
    pub end: Option<RunEnd>,
}

impl Run {
    /// Creates a run without events.
    pub fn new(id: RunId, workflow: Arc<Workflow>) -> Self {
        let nodes = vec![NodeState::new(); workflow.nodes.len()];
        let edge_outcomes = vec![None; workflow.edges.len()];
        let loop_iterations = vec![0; workflow.edges.len()];
        Self {
            id,
            workflow,
            seq: 0,
            started: None,
            started_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            variables: Arc::new(Value::Object(Map::new())),
            nodes,
            interrupts: Vec::new(),
            edge_outcomes,
            bytes: 0,
            starts: 0,
            loop_iterations,
            channels: BTreeSet::new(),
            children: Vec::new(),
            conversations: Vec::new(),
            paused: None,
            draining: None,
            diverged: false,
            copied: CopiedPart::Nothing,
            end: None,
        }
    }

    /// Folds the events of a run.
    pub fn replay<'a>(
        id: RunId,
        workflow: Arc<Workflow>,
        events: impl IntoIterator<Item = (Timestamp, &'a Event)>,
    ) -> Self {
        let mut run = Self::new(id, workflow);
        for (at, event) in events {
            run.apply(event, at);
        }
        run
    }

    /// Folds one event.
    pub fn apply(&mut self, event: &Event, at: Timestamp) {
        (self.seq, self.updated_at) = (self.seq + 1, at);
        self.bytes += event_size::stored_bytes(event);
        match event {
            Event::RunStarted(started) => self.start(started, at),
            Event::NodeStarted { node, .. } => self.start_node(node, at),
            Event::NodeCompleted { node, .. } => self.complete_node(node, event, at),
            Event::NodeFailed { node, error } => self.fail_node(node, error, at),
            Event::NodeSkipped { node, .. } => self.set_node_status(node, NodeStatus::Skipped),
            Event::NodeSuspended { .. } | Event::NodeDelayed { .. } => self.suspend_or_delay_node(event, at),
            Event::NodeResumed { node, .. } => self.set_node_status(node, NodeStatus::Running),
            Event::NodeRetried { node, .. } => self.update_node(node, NodeState::retry),
            Event::InterruptRequested { .. } => self.add_interrupt(event, at),
            Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                self.close_interrupt(*id, event, at);
            }
            Event::VoteCast { .. }
            | Event::VoteRepeated { .. }
            | Event::AskRaised { .. }
            | Event::AskAnswered { .. }
            | Event::AuthorizationDecided { .. } => self.apply_approver_event(event, at),
            Event::ConversationOpened { interrupt, name } => {
                self.open_conversation(*interrupt, name.as_deref());
            }
            Event::ConversationClosed { interrupt } => self.close_conversation(*interrupt),
            Event::StepRecorded { node, name, result, .. } => {
                self.update_node(node, |state| state.record(name, result));
            }
            Event::MessageAdded { .. }
            | Event::ModelReplied { .. }
            | Event::ToolCalled { .. }
            | Event::ToolSuspended { .. }
            | Event::ToolBegun { .. }
            | Event::ToolReturned { .. } => self.apply_agent_event(event),
            Event::MessageChunk { node, meta, .. }
            | Event::ReasoningChunk { node, meta, .. }
            | Event::ToolCallChunk { node, meta, .. } => self.apply_stream_chunk(node, meta),
            Event::ActivityReported { node, .. } => self.count_activity(node),
            Event::SleepStarted { node, until } => self.update_node(node, |state| state.sleep(*until)),
            Event::SleepEnded { node } => self.update_node(node, |state| state.wake(at)),
            Event::NodeDispatched { .. } | Event::NodeAwaiting { .. } => self.add_child(event),
            Event::ChildChanged { .. } | Event::ChildEnded { .. } => self.update_child(event),
            Event::VariableChanged { node, name, next, .. } => self.change_variable(node, name, next),
            Event::ChannelWritten { .. } => self.write_channel(event, at),
            Event::LoopTurned { edge, iteration } => self.take_back_edge(edge, *iteration),
            Event::PauseRequested { .. } | Event::RunPaused { .. } | Event::RunResumed { .. } => {
                self.pause(event, at);
            }
            Event::RunCompleted | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                self.finish(event, at);
            }
            Event::ReplayDiverged { source, .. } => self.mark_diverged(source),
            // These events change no state. They inform clients, or repeat the content of an interrupt event for
            // clients of older versions.
            Event::AgentDecided { .. }
            | Event::ConversationExchanged { .. }
            | Event::ArtifactCreated { .. }
            | Event::LoopbackLimit { .. }
            | Event::CapBreached { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalReceived { .. }
            | Event::ApprovalGranted { .. }
            | Event::ApprovalRejected { .. }
            | Event::ApprovalOverridden { .. }
            | Event::ClarificationRequested { .. }
            | Event::ClarificationResolved { .. } => {}
        }
        self.record_uses(event, at);
    }

    fn set_node_status(&mut self, node: &NodeId, status: NodeStatus) {
        self.update_node(node, |state| state.status = status);
    }

    /// Folds requested pauses, pauses and resumptions.
    fn pause(&mut self, event: &Event, at: Timestamp) {
        (self.paused, self.draining) = (None, None);
        if matches!(event, Event::RunResumed { .. }) {
            // No attempt was made while the run was paused, so the duration of an outage is counted from zero again.
            self.nodes.iter_mut().for_each(|state| state.delay = None);
        }
        if let Event::PauseRequested { reason, by } = event {
            let (reason, by) = (reason.clone(), by.clone());
            self.draining = Some(Pause { at, reason, drain: Drain::DrainCurrentNode, by });
        } else if let Event::RunPaused { reason, drain, by } = event {
            self.paused = Some(Pause { at, reason: reason.clone(), drain: *drain, by: by.clone() });
        }
    }

    fn finish(&mut self, event: &Event, at: Timestamp) {
        self.end = if let Event::RunFailed { error, node } = event {
            Some(RunEnd::Failed { at, error: error.clone(), node: node.clone() })
        } else if let Event::RunCancelled { reason, by, parent } = event {
            let (reason, by, parent) = (reason.clone(), by.clone(), parent.clone());
            Some(RunEnd::Cancelled { at, reason, by, parent })
        } else {
            Some(RunEnd::Completed { at })
        };
    }

    fn start(&mut self, started: &Arc<RunParameters>, at: Timestamp) {
        let mut variables = Map::new();
        for variable in &self.workflow.variables {
            if let Some(default) = &variable.default {
                variables.insert(variable.name.clone(), default.clone());
            }
        }
        for (name, channel) in &self.workflow.channels {
            self.channels.insert(name.clone());
            if let Some(default) = &channel.default {
                variables.insert(name.clone(), default.clone());
            }
        }
        variables.extend(started.inputs.clone());
        self.variables = Arc::new(Value::Object(variables));
        self.copied = CopiedPart::of(started);
        self.started = Some(started.clone());
        self.started_at = at;
    }

    fn start_node(&mut self, node: &NodeId, at: Timestamp) {
        self.starts += 1;
        self.update_node(node, |state| {
            state.status = NodeStatus::Running;
            state.started_at = Some(at);
            state.tried_at = Some(at);
        });
    }

    /// Folds the suspension of a node on an interrupt, or its delay because of an outage.
    fn suspend_or_delay_node(&mut self, event: &Event, at: Timestamp) {
        if let Event::NodeSuspended { node, interrupt, all } = event {
            self.update_node(node, |state| {
                state.status = NodeStatus::Waiting(*interrupt);
                state.waits_for_all = *all;
            });
        } else if let Event::NodeDelayed { node, error, until } = event {
            self.update_node(node, |state| state.delay(error, *until, at));
        }
    }

    fn fail_node(&mut self, node: &NodeId, error: &RunError, at: Timestamp) {
        self.update_node(node, |state| state.fail(error, at));
        for child in self.runs_of_calls(node) {
            self.abandon_child(&child);
        }
    }

    fn change_variable(&mut self, node: &NodeId, name: &str, value: &Value) {
        self.keep_variables_of_siblings(node);
        self.show_own_change(node, name, value);
        self.set_variable(name, value);
    }

    pub(super) fn set_variable(&mut self, name: &str, value: &Value) {
        if let Value::Object(variables) = Arc::make_mut(&mut self.variables) {
            variables.insert(name.to_owned(), value.clone());
        }
    }

    fn complete_node(&mut self, node: &NodeId, event: &Event, at: Timestamp) {
        let Event::NodeCompleted { outputs, branch, unmapped, .. } = event else { return };
        self.keep_variables_of_siblings(node);
        self.hide_outputs(node);
        if !outputs.is_empty()
            && let Value::Object(variables) = Arc::make_mut(&mut self.variables)
        {
            let mapped = outputs.iter().filter(|(name, _)| !unmapped.contains(name));
            variables.extend(mapped.map(|(name, value)| (name.clone(), value.clone())));
        }
        self.update_node(node, |state| {
            state.status = NodeStatus::Completed;
            state.outputs = Arc::new(Value::Object(outputs.clone()));
            state.ended_at = Some(at);
        });
        self.evaluate_edges(node, branch.as_deref());
    }

    /// Records the outcomes of the outgoing edges of a node. Later changes of variables do not change them.
    fn evaluate_edges(&mut self, node: &NodeId, branch: Option<&str>) {
        let Some(source) = self.workflow.position(node) else { return };
        let workflow = self.workflow.clone();
        for (position, edge) in workflow.edges.iter().enumerate().filter(|(_, edge)| edge.source == source) {
            self.edge_outcomes[position] = Some(evaluate_edge(self, edge, branch));
        }
    }

    pub(super) fn update_node(&mut self, node: &NodeId, change: impl FnOnce(&mut NodeState)) {
        if let Some(position) = self.workflow.position(node) {
            // An event of the node ends its delay, unless the event is another delay.
            let before = self.nodes[position].delay.take();
            let state = &mut self.nodes[position];
            change(state);
            state.continue_delay(before);
            // A node sees the current state of the run when it begins and when it is resumed.
            if state.status != NodeStatus::Running {
                state.unseen = None;
            }
        }
    }
}
