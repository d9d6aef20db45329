//! The one fold. `apply` never judges and never fails: what is in the log has happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::event::{ChildResult, Event, Owner, Started};
use crate::ids::{InterruptId, NodeId, RunId, Timestamp};
use crate::interrupt::{Interrupt, Kind, Resolution};
use crate::refusal::json_bytes;
use crate::workflow::{Node, Turn, Workflow, judge_edge, next_turn, resolve_inputs};

mod state;

pub use state::{Child, End, NodeState, NodeStatus, Pause, Status, Verdict, Work};

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
    /// Runs that this one started, in that order.
    pub children: Vec<Arc<Child>>,
    pub paused: Option<Pause>,
    pub end: Option<End>,
}

impl Run {
    /// A run to which nothing has happened yet.
    pub fn unborn(id: RunId, workflow: Arc<Workflow>) -> Self {
        let untouched = NodeState {
            status: NodeStatus::Pending,
            started_at: None,
            ended_at: None,
            outputs: Arc::new(Value::Object(Map::new())),
            error: None,
            steps: BTreeMap::new(),
            slept: 0,
        };
        let nodes = vec![untouched; workflow.nodes.len()];
        let conditions = vec![None; workflow.edges.len()];
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
            children: Vec::new(),
            paused: None,
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
        self.seq += 1;
        self.updated_at = at;
        self.bytes += weight(event);
        match event {
            Event::RunStarted(started) => self.start(started, at),
            Event::NodeStarted { node } => {
                self.starts += 1;
                self.touch(node, |state| {
                    state.status = NodeStatus::Running;
                    state.started_at = Some(at);
                });
            }
            Event::NodeCompleted { node, outputs, branch } => {
                self.complete_node(node, outputs, branch.as_deref(), at)
            }
            Event::NodeFailed { node, error } => self.touch(node, |state| {
                state.status = NodeStatus::Failed;
                state.error = Some(error.clone());
                state.ended_at = Some(at);
            }),
            Event::NodeSkipped { node, .. } => self.touch(node, |state| state.status = NodeStatus::Skipped),
            Event::NodeSuspended { node, interrupt } => {
                self.touch(node, |state| state.status = NodeStatus::Waiting(*interrupt));
            }
            Event::NodeResumed { node, .. } => self.touch(node, |state| state.status = NodeStatus::Running),
            Event::InterruptRequested { id, node, kind, key, data, resume_schema, timeout_ms } => {
                self.interrupts.push(Arc::new(Interrupt {
                    id: *id,
                    node: node.clone(),
                    kind: *kind,
                    key: key.clone(),
                    data: data.clone(),
                    resume_schema: resume_schema.clone(),
                    timeout_ms: *timeout_ms,
                    requested_at: at,
                    resolution: None,
                }));
            }
            Event::InterruptResolved { id, value, by } => {
                self.close(*id, Resolution::Answered { value: value.clone(), by: by.clone(), at });
            }
            Event::InterruptTimedOut { id } => self.close(*id, Resolution::TimedOut { at }),
            Event::StepRecorded { node, name, result } => self.touch(node, |state| {
                state.steps.insert(name.clone(), result.clone());
            }),
            Event::SleepStarted { node, until } => {
                self.touch(node, |state| state.status = NodeStatus::Sleeping(*until));
            }
            Event::SleepEnded { node } => self.touch(node, |state| {
                state.status = NodeStatus::Running;
                state.slept += 1;
            }),
            Event::RunCompleted => self.end = Some(End::Completed { at }),
            Event::RunFailed { error, node } => {
                self.end = Some(End::Failed { at, error: error.clone(), node: node.clone() });
            }
            Event::RunCancelled { reason, by, parent } => {
                let (reason, by, parent) = (reason.clone(), by.clone(), parent.clone());
                self.end = Some(End::Cancelled { at, reason, by, parent });
            }
            Event::NodeDispatched { .. } | Event::ChildChanged { .. } | Event::ChildEnded { .. } => {
                self.apply_child(event);
            }
            Event::RunPaused { reason, drain, by } => {
                self.paused = Some(Pause { at, reason: reason.clone(), drain: *drain, by: by.clone() });
            }
            Event::RunResumed { .. } => self.paused = None,
            Event::VariableChanged { name, next, .. } => self.set_variable(name, next),
            Event::ChannelWritten { .. } | Event::LoopTurned { .. } | Event::NodeRetried { .. } => {}
            // These repeat, for readers of older vocabularies, what the interrupt's own events said; or they only
            // tell readers something.
            Event::MessageChunk { .. }
            | Event::ArtifactCreated { .. }
            | Event::LoopbackLimit { .. }
            | Event::CapBreached { .. }
            | Event::ReplayDiverged { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalReceived { .. }
            | Event::ClarificationRequested { .. }
            | Event::ClarificationResolved { .. } => {}
        }
    }

    fn start(&mut self, started: &Started, at: Timestamp) {
        let mut variables = Map::new();
        for variable in &self.workflow.variables {
            if let Some(default) = &variable.default {
                variables.insert(variable.name.clone(), default.clone());
            }
        }
        variables.extend(started.inputs.clone());
        self.variables = Arc::new(Value::Object(variables));
        self.started = Some(Arc::new(started.clone()));
        self.started_at = at;
    }

    fn apply_child(&mut self, event: &Event) {
        match event {
            Event::NodeDispatched { node, child, workflow, inputs, wait, cascade } => {
                self.children.push(Arc::new(Child {
                    run: child.clone(),
                    node: node.clone(),
                    workflow: workflow.clone(),
                    inputs: inputs.clone(),
                    wait: *wait,
                    cascade: *cascade,
                    status: Status::Pending,
                    result: None,
                }));
                if *wait {
                    self.touch(node, |state| state.status = NodeStatus::Awaiting(child.clone()));
                }
            }
            Event::ChildChanged { child, status } => self.hear_of(child, *status, None),
            Event::ChildEnded { child, status, result } => self.hear_of(child, *status, Some(result)),
            _ => {}
        }
    }

    fn hear_of(&mut self, child: &RunId, status: Status, result: Option<&ChildResult>) {
        let Some(known) = self.children.iter_mut().find(|known| known.run == *child) else { return };
        let known = Arc::make_mut(known);
        known.status = status;
        let Some(result) = result else { return };
        known.result = Some(Arc::new(result.clone()));
        let node = known.node.clone();
        self.touch(&node, |state| {
            if state.status == NodeStatus::Awaiting(child.clone()) {
                state.status = NodeStatus::Running;
            }
        });
    }

    fn set_variable(&mut self, name: &str, value: &Value) {
        if let Value::Object(variables) = Arc::make_mut(&mut self.variables) {
            variables.insert(name.to_owned(), value.clone());
        }
    }

    fn complete_node(
        &mut self,
        node: &NodeId,
        outputs: &Map<String, Value>,
        branch: Option<&str>,
        at: Timestamp,
    ) {
        let _ = branch;
        if !outputs.is_empty()
            && let Value::Object(variables) = Arc::make_mut(&mut self.variables)
        {
            variables.extend(outputs.clone());
        }
        self.touch(node, |state| {
            state.status = NodeStatus::Completed;
            state.outputs = Arc::new(Value::Object(outputs.clone()));
            state.ended_at = Some(at);
        });
        self.judge_edges(node);
    }

    /// Later changes to variables must not turn back what was already decided.
    fn judge_edges(&mut self, node: &NodeId) {
        let Some(source) = self.workflow.position(node) else { return };
        let workflow = self.workflow.clone();
        for (position, edge) in workflow.edges.iter().enumerate().filter(|(_, edge)| edge.source == source) {
            self.conditions[position] = Some(judge_edge(self, edge));
        }
    }

    fn touch(&mut self, node: &NodeId, change: impl FnOnce(&mut NodeState)) {
        if let Some(position) = self.workflow.position(node) {
            change(&mut self.nodes[position]);
        }
    }

    fn close(&mut self, id: InterruptId, resolution: Resolution) {
        if let Some(interrupt) = self.interrupts.iter_mut().find(|interrupt| interrupt.id == id) {
            Arc::make_mut(interrupt).resolution = Some(resolution);
        }
    }

    pub fn status(&self) -> Status {
        match &self.end {
            Some(End::Completed { .. }) => return Status::Completed,
            Some(End::Failed { .. }) => return Status::Failed,
            Some(End::Cancelled { .. }) => return Status::Cancelled,
            None => {}
        }
        if self.started.is_none() {
            return Status::Pending;
        }
        if self.paused.is_some() {
            return Status::Paused;
        }
        match self.waiting_on() {
            Some(interrupt) if self.next_work().is_none() => match interrupt.kind {
                Kind::Approval => Status::WaitingApproval,
                Kind::Clarification | Kind::Custom => Status::WaitingInput,
                Kind::ExternalEvent => Status::WaitingExternal,
            },
            _ => Status::Running,
        }
    }

    pub fn finished(&self) -> bool {
        self.end.is_some()
    }

    /// The oldest interrupt that still holds the run.
    pub fn waiting_on(&self) -> Option<&Interrupt> {
        if self.finished() { None } else { self.open_interrupts().next() }
    }

    pub fn open_interrupts(&self) -> impl Iterator<Item = &Interrupt> {
        self.interrupts.iter().map(Arc::as_ref).filter(|interrupt| interrupt.is_open())
    }

    pub fn interrupt(&self, id: InterruptId) -> Option<&Interrupt> {
        self.interrupts.iter().map(Arc::as_ref).find(|interrupt| interrupt.id == id)
    }

    pub fn interrupt_by_key(&self, key: &str) -> Option<&Interrupt> {
        self.interrupts.iter().rev().map(Arc::as_ref).find(|interrupt| interrupt.key == key)
    }

    /// The interrupt a caller means who names a node: the open one, else the last one it asked.
    pub fn interrupt_of_node(&self, node: &NodeId) -> Option<&Interrupt> {
        let waiting = self.node_state(node).and_then(|state| match state.status {
            NodeStatus::Waiting(id) => self.interrupt(id),
            _ => None,
        });
        waiting.or_else(|| {
            self.interrupts.iter().rev().map(Arc::as_ref).find(|interrupt| interrupt.node == *node)
        })
    }

    /// The last of a node's interrupts that was closed.
    pub fn closed_interrupt_of_node(&self, node: &NodeId) -> Option<&Interrupt> {
        let closed = self.interrupts.iter().rev().map(Arc::as_ref).filter(|interrupt| !interrupt.is_open());
        closed.into_iter().find(|interrupt| interrupt.node == *node)
    }

    /// How long the run may take: what its caller said, else what its workflow says.
    pub fn timeout_ms(&self) -> Option<u64> {
        let started = self.started.as_ref()?;
        started.configurable.get("runTimeoutMs").and_then(Value::as_u64).filter(|ms| *ms > 0)
    }

    pub fn owner(&self) -> Option<&Owner> {
        self.started.as_ref().map(|started| &started.owner)
    }

    pub fn node_state(&self, node: &NodeId) -> Option<&NodeState> {
        self.workflow.position(node).map(|position| &self.nodes[position])
    }

    pub fn sleeping_until(&self, node: &NodeId) -> Option<Timestamp> {
        if let NodeStatus::Sleeping(until) = self.node_state(node)?.status { Some(until) } else { None }
    }

    /// What a worker can do now; nothing when the run is unborn, ended, or waits for somebody or something.
    pub fn next_work(&self) -> Option<Work> {
        if self.started.is_none() || self.finished() {
            return None;
        }
        let running = self.nodes.iter().position(|state| state.status == NodeStatus::Running);
        running.map(Work::Enter).or_else(|| match next_turn(self) {
            Some(Turn::Begin(position)) => Some(Work::Begin(position)),
            Some(Turn::Skip(..) | Turn::Stuck(..)) | None => None,
        })
    }

    /// A node's input ports with their values, or the port that has none and why.
    pub fn inputs_of(&self, node: &Node) -> Result<Map<String, Value>, (String, String)> {
        resolve_inputs(self, node)
    }
}

/// How much an event adds to what a run carries around.
fn weight(event: &Event) -> usize {
    match event {
        Event::NodeCompleted { outputs, .. } if !outputs.is_empty() => json_bytes(outputs),
        Event::StepRecorded { result, .. } => json_bytes(result),
        Event::InterruptRequested { data, .. } => json_bytes(data),
        Event::InterruptResolved { value, .. } => json_bytes(value),
        Event::VariableChanged { next, .. } => json_bytes(next),
        Event::ChannelWritten { value, .. } => json_bytes(value),
        Event::ChildEnded { result, .. } => json_bytes(&result.outputs),
        Event::NodeDispatched { inputs, .. } => json_bytes(inputs),
        Event::MessageChunk { chunk, .. } => chunk.len(),
        Event::NodeCompleted { .. }
        | Event::NodeRetried { .. }
        | Event::ArtifactCreated { .. }
        | Event::LoopTurned { .. }
        | Event::LoopbackLimit { .. }
        | Event::CapBreached { .. }
        | Event::ChildChanged { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed { .. }
        | Event::ReplayDiverged { .. }
        | Event::RunStarted(_)
        | Event::NodeStarted { .. }
        | Event::NodeFailed { .. }
        | Event::NodeSkipped { .. }
        | Event::NodeSuspended { .. }
        | Event::NodeResumed { .. }
        | Event::ApprovalRequested { .. }
        | Event::ClarificationRequested { .. }
        | Event::InterruptTimedOut { .. }
        | Event::ApprovalReceived { .. }
        | Event::ClarificationResolved { .. }
        | Event::SleepStarted { .. }
        | Event::SleepEnded { .. }
        | Event::RunCompleted
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => 0,
    }
}
