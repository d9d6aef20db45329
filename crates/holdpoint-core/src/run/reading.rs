//! What can be asked of a fold: its status, its interrupts, its limits, the next thing to do.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Child, End, NodeState, NodeStatus, Run, Status, Work};
use crate::event::Owner;
use crate::interrupt::{Interrupt, Kind};
use crate::limits::NODE_EXECUTIONS_MAX;
use crate::refusal::Refusal;
use crate::workflow::{NoInput, Node, Turn, beginnable, next_turn, readable_variables, resolve_inputs};
use crate::{InterruptId, NodeId, RunId, Timestamp};

impl Run {
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
                Kind::Approval | Kind::LowConfidence | Kind::ConversationExchange => Status::WaitingApproval,
                Kind::Clarification
                | Kind::Custom
                // Nobody is waited for in these two.
                | Kind::ConversationStart
                | Kind::ConversationClose => Status::WaitingInput,
                Kind::ExternalEvent => Status::WaitingExternal,
            },
            None if !self.children.is_empty() && self.next_work().is_none() => {
                self.child_status().unwrap_or(Status::Running)
            }
            Some(_) | None => Status::Running,
        }
    }

    /// What the oldest of the runs that are waited for waits for itself.
    fn child_status(&self) -> Option<Status> {
        let awaited =
            |child: &&Arc<Child>| self.node_state(&child.node).is_some_and(|state| state.awaits(&child.run));
        let waits = |status: &Status| match status {
            Status::WaitingApproval | Status::WaitingInput | Status::WaitingExternal => true,
            Status::Pending
            | Status::Running
            | Status::Paused
            | Status::Completed
            | Status::Failed
            | Status::Cancelled => false,
        };
        self.children.iter().filter(awaited).map(|child| child.status).find(waits)
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
        let waiting = self.awaited_by(node).and_then(|id| self.interrupt(id));
        waiting.or_else(|| {
            self.interrupts.iter().rev().map(Arc::as_ref).find(|interrupt| interrupt.node == *node)
        })
    }

    /// Returns the interrupt that a node waits for. Another node with the same key may have requested it.
    fn awaited_by(&self, node: &NodeId) -> Option<InterruptId> {
        match self.node_state(node)?.status {
            NodeStatus::Waiting(id) => Some(id),
            NodeStatus::Pending
            | NodeStatus::Running
            | NodeStatus::Sleeping(_)
            | NodeStatus::Awaiting(_)
            | NodeStatus::Completed
            | NodeStatus::Failed
            | NodeStatus::Skipped => None,
        }
    }

    /// Returns the interrupt that an answer to a node is for: the named one, otherwise the only open one, otherwise the
    /// latest one. An answer without a name is refused if several are open, because it could reach an interrupt that
    /// its sender was not shown.
    pub fn addressed_interrupt(&self, node: &NodeId, named: Option<&str>) -> Result<&Interrupt, Refusal> {
        let joined = self.awaited_by(node);
        let is_of_node = |one: &Interrupt| one.node == *node || Some(one.id) == joined;
        if let Some(name) = named {
            return self
                .interrupt_named(name)
                .filter(|one| is_of_node(one))
                .ok_or(Refusal::InterruptNotFound);
        }
        let open = self.open_interrupts().filter(|one| is_of_node(one) && !self.finished());
        match open.collect::<Vec<_>>().as_slice() {
            [] => self.interrupt_of_node(node).ok_or(Refusal::InterruptNotFound),
            [only] => Ok(only),
            several => {
                let names = several.iter().map(|one| self.interrupt_name(one.id));
                Err(Refusal::InterruptAmbiguous(names.collect()))
            }
        }
    }

    /// Returns the interrupt of a node that was closed last.
    pub fn closed_interrupt_of_node(&self, node: &NodeId) -> Option<&Interrupt> {
        let of_node = self.interrupts.iter().map(Arc::as_ref).filter(|interrupt| interrupt.node == *node);
        let closed = of_node.filter_map(|one| Some((one.resolution.as_ref()?.at(), one)));
        closed.max_by_key(|(at, _)| *at).map(|(_, closed)| closed)
    }

    /// How many executions of nodes may begin.
    pub fn executions_max(&self) -> u64 {
        let asked = self.started.as_ref().and_then(|started| started.configurable.get("recursionLimit"));
        asked.and_then(Value::as_u64).map_or(NODE_EXECUTIONS_MAX, |asked| asked.min(NODE_EXECUTIONS_MAX))
    }

    /// Whether this run is a copy of that one.
    pub fn is_fork_of(&self, source: &RunId) -> bool {
        let fork = self.started.as_ref().and_then(|started| started.fork.as_ref());
        fork.is_some_and(|fork| fork.source == *source)
    }

    /// How many runs are above this one.
    pub fn depth(&self) -> u32 {
        let parent = self.started.as_ref().and_then(|started| started.parent.as_ref());
        parent.map_or(0, |parent| parent.depth)
    }

    /// How often a node was led back to, since whatever is around it came round.
    pub fn iteration_of(&self, position: usize) -> u32 {
        let loops = self.workflow.loops.iter().map(|found| found.edge);
        loops.filter(|edge| self.workflow.edges[*edge].target == position).map(|edge| self.turns[edge]).sum()
    }

    /// The run's variables as a node may see them.
    pub fn variables_of(&self, node: &Node) -> Arc<Value> {
        readable_variables(self, node)
    }

    /// What it came to: the outputs of the nodes that nothing follows, in the order of the workflow.
    pub fn outputs(&self) -> Map<String, Value> {
        let mut last = vec![true; self.nodes.len()];
        for edge in &self.workflow.edges {
            last[edge.source] = false;
        }
        let ended = self.nodes.iter().zip(last);
        let ended = ended.filter(|(state, last)| *last && state.status == NodeStatus::Completed);
        let outputs = ended.filter_map(|(state, _)| state.outputs.as_object()).flatten();
        outputs.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether the workflow's author has declared that a variable or a channel must not be shown.
    pub fn is_hidden(&self, name: &str) -> bool {
        self.workflow.variables.iter().any(|variable| variable.sensitive && variable.name == name)
            || self.workflow.channels.get(name).is_some_and(|channel| channel.sensitive)
    }

    pub fn owner(&self) -> Option<&Owner> {
        self.started.as_ref().map(|started| &started.owner)
    }

    /// Returns the principals that requested the run: its owner, its forkers, the principals that sent messages to an
    /// agent in it, and those that it inherits from its parent.
    pub fn requesters(&self) -> Vec<&str> {
        let Some(started) = &self.started else { return Vec::new() };
        let agents = self.nodes.iter().filter_map(|node| node.agent.as_deref());
        let told = agents.flat_map(|agent| &agent.messages).filter_map(|message| message.by.as_ref());
        let mut all: Vec<&str> = Vec::new();
        let given = std::iter::once(&started.owner.principal).chain(&started.forked_by);
        for name in given.chain(&started.requested_by).chain(told) {
            if !all.contains(&name.as_str()) {
                all.push(name);
            }
        }
        all
    }

    /// Returns the requesters that a child run inherits as [`Started::requested_by`](crate::Started::requested_by): all
    /// but the owner and the forkers, which the child run records separately.
    pub fn inherited_requesters(&self) -> Vec<String> {
        let Some(started) = &self.started else { return Vec::new() };
        let by_itself =
            |name: &&str| *name == started.owner.principal || started.forked_by.iter().any(|by| by == name);
        self.requesters().into_iter().filter(|name| !by_itself(name)).map(str::to_owned).collect()
    }

    pub fn node_state(&self, node: &NodeId) -> Option<&NodeState> {
        self.workflow.position(node).map(|position| &self.nodes[position])
    }

    pub fn sleeping_until(&self, node: &NodeId) -> Option<Timestamp> {
        if let NodeStatus::Sleeping(until) = self.node_state(node)?.status { Some(until) } else { None }
    }

    /// What a worker can do now; nothing when the run is unborn, paused, ended, or waits for somebody or something.
    pub fn next_work(&self) -> Option<Work> {
        if self.started.is_none() || self.finished() || self.paused.is_some() {
            return None;
        }
        let running = self.nodes.iter().position(|state| state.status == NodeStatus::Running);
        running.map(Work::Enter).or_else(|| match next_turn(self) {
            // A run that is about to pause begins no node.
            Some(Turn::Begin(_)) if self.draining.is_some() => None,
            Some(Turn::Begin(position)) => Some(Work::Begin(position)),
            Some(Turn::Skip(..) | Turn::Stuck(..) | Turn::Back(_)) | None => None,
        })
    }

    /// Returns whether a node is at work that a pause can wait for: it ends without anybody's answer.
    pub(crate) fn has_node_to_drain(&self) -> bool {
        let ends_by_itself = |state: &NodeState| match state.status {
            NodeStatus::Running => !state.is_given_up(),
            NodeStatus::Sleeping(_) => true,
            NodeStatus::Pending
            | NodeStatus::Waiting(_)
            | NodeStatus::Awaiting(_)
            | NodeStatus::Completed
            | NodeStatus::Failed
            | NodeStatus::Skipped => false,
        };
        self.nodes.iter().any(ends_by_itself)
    }

    /// Returns everything that a worker can do now: the nodes that run, or if none does, those whose turn has come. Where
    /// loops wait for one another, [`Run::next_work`] may be none of them.
    pub fn ready_work(&self) -> Vec<Work> {
        match self.next_work() {
            None => Vec::new(),
            Some(Work::Begin(_)) => beginnable(self).into_iter().map(Work::Begin).collect(),
            Some(Work::Enter(_)) => {
                let nodes = self.nodes.iter().enumerate();
                let running = nodes.filter(|(_, state)| state.status == NodeStatus::Running);
                running.map(|(position, _)| Work::Enter(position)).collect()
            }
        }
    }

    /// A node's input ports with their values, or the port that has none and why.
    pub fn inputs_of(&self, node: &Node) -> Result<Map<String, Value>, NoInput> {
        resolve_inputs(self, node)
    }
}
