//! The one fold. `apply` never judges and never fails: what is in the log has happened.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::event::{Drain, Event, RunError, Started};
use crate::interrupt::Interrupt;
use crate::workflow::{Workflow, judge_edge};
use crate::{NodeId, RunId, Timestamp};

mod agents;
pub(crate) mod channels;
mod children;
mod clock;
mod conversations;
mod doubts;
mod grants;
mod interrupts;
mod keys;
mod loops;
mod reading;
mod state;
mod weight;

pub(crate) use clock::deadline;
pub use conversations::Conversation;
use grants::CopiedPart;
pub use grants::UnusableGrant;
pub use holdpoint_ids::Status;
pub use state::{Child, Delay, End, NodeState, NodeStatus, Pause, Verdict, Work};

#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub id: RunId,
    pub workflow: Arc<Workflow>,
    /// How many events were folded; also the sequence number of the next one.
    pub seq: u64,
    pub started: Option<Arc<Started>>,
    pub started_at: Timestamp,
    pub updated_at: Timestamp,
    /// A JSON object: declared defaults, then inputs, then what nodes put there. Shared, because folds are cloned
    /// with every change and values can be large.
    pub variables: Arc<Value>,
    /// By position in the workflow.
    pub nodes: Vec<NodeState>,
    /// By ordinal: `InterruptId(1)` comes first.
    pub interrupts: Vec<Arc<Interrupt>>,
    /// By position in the workflow: what the edge's condition said when its source completed.
    pub conditions: Vec<Option<Verdict>>,
    /// Bytes of JSON that nodes and answers put into the run so far.
    pub bytes: usize,
    /// How many executions of nodes began.
    pub starts: u64,
    /// By position in the workflow: how often the edge was taken back, since whatever is around it came round.
    pub turns: Vec<u32>,
    /// The names of the variables that are channels.
    pub channels: BTreeSet<String>,
    /// Runs that this one started, in that order.
    pub children: Vec<Arc<Child>>,
    /// In the order in which they were opened.
    pub conversations: Vec<Arc<Conversation>>,
    pub paused: Option<Pause>,
    /// A pause that waits for the nodes at work.
    pub draining: Option<Pause>,
    /// Of a replay: it came to something else than its source.
    pub diverged: bool,
    copied: CopiedPart,
    pub end: Option<End>,
}

impl Run {
    /// A run to which nothing has happened yet.
    pub fn unborn(id: RunId, workflow: Arc<Workflow>) -> Self {
        let nodes = vec![NodeState::untouched(); workflow.nodes.len()];
        let conditions = vec![None; workflow.edges.len()];
        let turns = vec![0; workflow.edges.len()];
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
            conditions,
            bytes: 0,
            starts: 0,
            turns,
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

    pub fn replay<'a>(
        id: RunId,
        workflow: Arc<Workflow>,
        events: impl IntoIterator<Item = (Timestamp, &'a Event)>,
    ) -> Self {
        let mut run = Self::unborn(id, workflow);
        for (at, event) in events {
            run.apply(event, at);
        }
        run
    }

    pub fn apply(&mut self, event: &Event, at: Timestamp) {
        (self.seq, self.updated_at) = (self.seq + 1, at);
        self.bytes += weight::weight(event);
        match event {
            Event::RunStarted(started) => self.start(started, at),
            Event::NodeStarted { node, .. } => self.start_node(node, at),
            Event::NodeCompleted { node, .. } => self.complete_node(node, event, at),
            Event::NodeFailed { node, error } => self.fail_node(node, error, at),
            Event::NodeSkipped { node, .. } => self.touch(node, |state| state.status = NodeStatus::Skipped),
            Event::NodeSuspended { .. } | Event::NodeDelayed { .. } => self.hold_node(event, at),
            Event::NodeResumed { node, .. } => self.touch(node, |state| state.status = NodeStatus::Running),
            Event::NodeRetried { node, .. } => self.touch(node, NodeState::retry),
            Event::InterruptRequested { .. } => self.ask(event, at),
            Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
                self.close(*id, event, at);
            }
            Event::VoteCast { .. }
            | Event::VoteRepeated { .. }
            | Event::AskRaised { .. }
            | Event::AskAnswered { .. }
            | Event::AuthorizationDecided { .. } => self.hear_approver(event, at),
            Event::ConversationOpened { interrupt, name } => {
                self.open_conversation(*interrupt, name.as_deref());
            }
            Event::ConversationClosed { interrupt } => self.close_conversation(*interrupt),
            Event::StepRecorded { node, name, result, .. } => {
                self.touch(node, |state| state.record(name, result));
            }
            Event::MessageAdded { .. }
            | Event::ModelReplied { .. }
            | Event::ToolCalled { .. }
            | Event::ToolSuspended { .. }
            | Event::ToolBegun { .. }
            | Event::ToolReturned { .. } => self.hear_agent(event),
            Event::MessageChunk { node, last, meta, .. } => self.hear_piece(node, *last, meta),
            Event::SleepStarted { node, until } => self.touch(node, |state| state.sleep(*until)),
            Event::SleepEnded { node } => self.touch(node, |state| state.wake(at)),
            Event::NodeDispatched { .. } | Event::NodeAwaiting { .. } => self.adopt(event),
            Event::ChildChanged { child, status } => self.hear_of(child, *status, None),
            Event::ChildEnded { child, status, result } => self.hear_of(child, *status, Some(result)),
            Event::VariableChanged { name, next, .. } => self.set_variable(name, next),
            Event::ChannelWritten { .. } => self.write_channel(event, at),
            Event::LoopTurned { edge, iteration } => self.turn_back(edge, *iteration),
            Event::PauseRequested { .. } | Event::RunPaused { .. } | Event::RunResumed { .. } => {
                self.pause(event, at);
            }
            Event::RunCompleted | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                self.finish(event, at);
            }
            Event::ReplayDiverged { source, .. } => self.diverge(source),
            // These repeat, for readers of older vocabularies, what the interrupt's own events said; or they only
            // tell readers something.
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

    /// Folds pauses and their ends.
    fn pause(&mut self, event: &Event, at: Timestamp) {
        (self.paused, self.draining) = (None, None);
        if matches!(event, Event::RunResumed { .. }) {
            // No attempt was made while the run was paused: an outage is counted from now on.
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
            Some(End::Failed { at, error: error.clone(), node: node.clone() })
        } else if let Event::RunCancelled { reason, by, parent } = event {
            let (reason, by, parent) = (reason.clone(), by.clone(), parent.clone());
            Some(End::Cancelled { at, reason, by, parent })
        } else {
            Some(End::Completed { at })
        };
    }

    fn start(&mut self, started: &Started, at: Timestamp) {
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
        self.started = Some(Arc::new(started.clone()));
        self.started_at = at;
    }

    fn start_node(&mut self, node: &NodeId, at: Timestamp) {
        self.starts += 1;
        self.touch(node, |state| {
            state.status = NodeStatus::Running;
            state.started_at = Some(at);
            state.tried_at = Some(at);
        });
    }

    /// The node waits, for an answer or for a server.
    fn hold_node(&mut self, event: &Event, at: Timestamp) {
        if let Event::NodeSuspended { node, interrupt, all } = event {
            self.touch(node, |state| state.wait(*interrupt, *all));
        } else if let Event::NodeDelayed { node, error, until } = event {
            self.touch(node, |state| state.delay(error, *until, at));
        }
    }

    fn fail_node(&mut self, node: &NodeId, error: &RunError, at: Timestamp) {
        self.touch(node, |state| state.fail(error, at));
        for child in self.runs_of_calls(node) {
            self.give_up(&child);
        }
    }

    pub(super) fn set_variable(&mut self, name: &str, value: &Value) {
        if let Value::Object(variables) = Arc::make_mut(&mut self.variables) {
            variables.insert(name.to_owned(), value.clone());
        }
    }

    fn complete_node(&mut self, node: &NodeId, event: &Event, at: Timestamp) {
        let Event::NodeCompleted { outputs, branch, unmapped, .. } = event else { return };
        if !outputs.is_empty()
            && let Value::Object(variables) = Arc::make_mut(&mut self.variables)
        {
            let mapped = outputs.iter().filter(|(name, _)| !unmapped.contains(name));
            variables.extend(mapped.map(|(name, value)| (name.clone(), value.clone())));
        }
        self.touch(node, |state| {
            state.status = NodeStatus::Completed;
            state.outputs = Arc::new(Value::Object(outputs.clone()));
            state.ended_at = Some(at);
        });
        self.judge_edges(node, branch.as_deref());
    }

    /// Later changes to variables must not turn back what was already decided.
    fn judge_edges(&mut self, node: &NodeId, branch: Option<&str>) {
        let Some(source) = self.workflow.position(node) else { return };
        let workflow = self.workflow.clone();
        for (position, edge) in workflow.edges.iter().enumerate().filter(|(_, edge)| edge.source == source) {
            self.conditions[position] = Some(judge_edge(self, edge, branch));
        }
    }

    pub(super) fn touch(&mut self, node: &NodeId, change: impl FnOnce(&mut NodeState)) {
        if let Some(position) = self.workflow.position(node) {
            // Something happens to the node again: a delay is over, unless this is one.
            let before = self.nodes[position].delay.take();
            change(&mut self.nodes[position]);
            self.nodes[position].continue_delay(before);
        }
    }
}
