//! Queries of a run: its status, interrupts and limits, and the work that a worker can do next.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{ChildRunState, NodeState, NodeStatus, NodeWork, Run, RunEnd, Status};
use crate::event::{Owner, Parent};
use crate::interrupt::{Interrupt, Kind};
use crate::limits::NODE_EXECUTIONS_MAX;
use crate::refusal::Refusal;
use crate::workflow::{
    GraphAction, InputError, Node, next_action, next_consequence, readable_variables, ready_nodes,
    resolve_inputs,
};
use crate::{InterruptId, NodeId, RunId, Timestamp};

impl Run {
    /// Returns the status of the run.
    pub fn status(&self) -> Status {
        match &self.end {
            Some(RunEnd::Completed { .. }) => return Status::Completed,
            Some(RunEnd::Failed { .. }) => return Status::Failed,
            Some(RunEnd::Cancelled { .. }) => return Status::Cancelled,
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
                // The host resolves these two kinds immediately.
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

    /// Returns the status of the first awaited child run that waits for input.
    fn child_status(&self) -> Option<Status> {
        let awaited = |child: &&Arc<ChildRunState>| {
            self.node_state(&child.node).is_some_and(|state| state.awaits(&child.run))
        };
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

    /// Returns whether the run has ended.
    pub fn finished(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the oldest open interrupt, or None if the run has ended.
    pub fn waiting_on(&self) -> Option<&Interrupt> {
        if self.finished() { None } else { self.open_interrupts().next() }
    }

    /// Returns the open interrupts, oldest first.
    pub fn open_interrupts(&self) -> impl Iterator<Item = &Interrupt> {
        self.interrupts.iter().map(Arc::as_ref).filter(|interrupt| interrupt.is_open())
    }

    /// Returns the interrupt with this id.
    pub fn interrupt(&self, id: InterruptId) -> Option<&Interrupt> {
        self.interrupts.iter().map(Arc::as_ref).find(|interrupt| interrupt.id == id)
    }

    /// Returns the latest interrupt with this key.
    pub fn interrupt_by_key(&self, key: &str) -> Option<&Interrupt> {
        self.interrupts.iter().rev().map(Arc::as_ref).find(|interrupt| interrupt.key == key)
    }

    /// Returns the interrupt that a node waits for, otherwise the last interrupt that it requested.
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
    /// latest one. Refuses an answer without a name if several are open, because it could reach an interrupt that its
    /// sender was not shown.
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

    /// Returns the most recently closed interrupt of a node.
    pub fn closed_interrupt_of_node(&self, node: &NodeId) -> Option<&Interrupt> {
        let of_node = self.interrupts.iter().map(Arc::as_ref).filter(|interrupt| interrupt.node == *node);
        let closed = of_node.filter_map(|one| Some((one.resolution.as_ref()?.at(), one)));
        closed.max_by_key(|(at, _)| *at).map(|(_, closed)| closed)
    }

    /// Returns the limit of node executions of the run.
    pub fn executions_max(&self) -> u64 {
        let option = self.started.as_ref().and_then(|started| started.configurable.get("recursionLimit"));
        option.and_then(Value::as_u64).map_or(NODE_EXECUTIONS_MAX, |limit| limit.min(NODE_EXECUTIONS_MAX))
    }

    /// Returns whether this run is a fork of `source`.
    pub fn is_fork_of(&self, source: &RunId) -> bool {
        let fork = self.started.as_ref().and_then(|started| started.fork.as_ref());
        fork.is_some_and(|fork| fork.source == *source)
    }

    /// Returns the parent of the run, if a node of another run started it.
    pub fn parent(&self) -> Option<&Parent> {
        self.started.as_ref()?.parent.as_ref()
    }

    /// Returns the number of ancestors of the run.
    pub fn depth(&self) -> u32 {
        self.parent().map_or(0, |parent| parent.depth)
    }

    /// Returns the ids of the ancestors of the run, beginning with its parent. The id of a child run is that of its
    /// parent with a dot and a number.
    pub fn ancestor_ids(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(parent_id(self.id.as_str()), |id| parent_id(id)).take(self.depth() as usize)
    }

    /// Returns the id of the root: the first of its ancestors, or the run itself.
    pub fn root_id(&self) -> RunId {
        let root = self.ancestor_ids().last().and_then(|id| RunId::parse(id).ok());
        root.unwrap_or_else(|| self.id.clone())
    }

    /// Returns how often back edges to a node were taken. A new iteration of an enclosing loop resets the number.
    pub fn iteration_of(&self, position: usize) -> u32 {
        let loops = self.workflow.loops.iter().map(|found| found.edge);
        loops
            .filter(|edge| self.workflow.edges[*edge].target == position)
            .map(|edge| self.loop_iterations[edge])
            .sum()
    }

    /// Returns the variables of the run that a node may read.
    pub fn variables_of(&self, node: &Node) -> Arc<Value> {
        readable_variables(self, node)
    }

    /// Returns the outputs of the run: those of the completed nodes without outgoing edges, in the order of the
    /// workflow.
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

    /// Returns whether the workflow declares a variable or a channel as sensitive.
    pub fn is_hidden(&self, name: &str) -> bool {
        self.workflow.variables.iter().any(|variable| variable.sensitive && variable.name == name)
            || self.workflow.channels.get(name).is_some_and(|channel| channel.sensitive)
    }

    /// Returns the owner of the run.
    pub fn owner(&self) -> Option<&Owner> {
        self.started.as_ref().map(|started| &started.owner)
    }

    /// Returns the principals that requested the run: its owner, its forkers, the principals that sent messages to an
    /// agent in it, and those that it inherits from its parent.
    pub fn requesters(&self) -> Vec<&str> {
        let Some(started) = &self.started else { return Vec::new() };
        let agents = self.nodes.iter().filter_map(|node| node.agent.as_deref());
        let senders = agents.flat_map(|agent| &agent.messages).filter_map(|message| message.by.as_ref());
        let mut all: Vec<&str> = Vec::new();
        let given = std::iter::once(&started.owner.principal).chain(&started.forked_by);
        for name in given.chain(&started.requested_by).chain(senders) {
            if !all.contains(&name.as_str()) {
                all.push(name);
            }
        }
        all
    }

    /// Returns the requesters that a child run inherits as
    /// [`RunParameters::requested_by`](crate::RunParameters::requested_by): all but the owner and the forkers, which
    /// the child run records separately.
    pub fn inherited_requesters(&self) -> Vec<String> {
        let Some(started) = &self.started else { return Vec::new() };
        let by_itself =
            |name: &&str| *name == started.owner.principal || started.forked_by.iter().any(|by| by == name);
        self.requesters().into_iter().filter(|name| !by_itself(name)).map(str::to_owned).collect()
    }

    /// Returns the state of a node.
    pub fn node_state(&self, node: &NodeId) -> Option<&NodeState> {
        self.workflow.position(node).map(|position| &self.nodes[position])
    }

    /// Returns the time at which the sleep of a node ends.
    pub fn sleeping_until(&self, node: &NodeId) -> Option<Timestamp> {
        if let NodeStatus::Sleeping(until) = self.node_state(node)?.status { Some(until) } else { None }
    }

    /// Returns the work that a worker can do now. Returns None if the run is not started, is paused, has ended or
    /// waits.
    pub fn next_work(&self) -> Option<NodeWork> {
        if self.started.is_none() || self.finished() || self.paused.is_some() {
            return None;
        }
        let running = self.nodes.iter().position(|state| state.status == NodeStatus::Running);
        running.map(NodeWork::Enter).or_else(|| match next_action(self) {
            // A draining run begins no node.
            Some(GraphAction::Begin(_)) if self.draining.is_some() => None,
            Some(GraphAction::Begin(position)) => Some(NodeWork::Begin(position)),
            Some(GraphAction::Skip(..) | GraphAction::ConditionFailed(..) | GraphAction::TakeBackEdge(_))
            | None => None,
        })
    }

    /// Returns whether a draining pause must wait for a node that runs or sleeps. It does not wait for nodes that need
    /// an answer, a child run or an operator to continue.
    pub(crate) fn has_node_to_drain(&self) -> bool {
        let ends_by_itself = |state: &NodeState| match state.status {
            NodeStatus::Running => !state.waits_for_operator(),
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

    /// Returns all work that a worker can do now, side by side: the running nodes, then the nodes that can begin. If loops
    /// wait for one another, the result may not contain [`Run::next_work`].
    pub fn ready_work(&self) -> Vec<NodeWork> {
        if self.next_work().is_none() {
            return Vec::new();
        }
        let nodes = self.nodes.iter().enumerate();
        let running = nodes.filter(|(_, state)| state.status == NodeStatus::Running);
        let begins = if self.draining.is_none() { ready_nodes(self) } else { Vec::new() };
        let running = running.map(|(position, _)| NodeWork::Enter(position));
        running.chain(begins.into_iter().map(NodeWork::Begin)).collect()
    }

    /// Returns whether no event follows from the state of the run besides the work of nodes. Otherwise
    /// [`Command::Settle`](crate::Command::Settle) records the events.
    pub fn is_settled(&self) -> bool {
        self.finished() || next_consequence(self).is_none()
    }

    /// Returns whether a change by another party can give the run more work while the nodes at these positions execute:
    /// another node is active, or one is ready and has not begun.
    pub fn can_get_work_beside(&self, at_work: &[usize]) -> bool {
        let others = (0..self.nodes.len()).filter(|position| !at_work.contains(position));
        others.clone().any(|position| self.nodes[position].status.is_active())
            || !ready_nodes(self).is_empty()
    }

    /// Returns the values of the input ports of a node, or the error of the first port without a value.
    pub fn inputs_of(&self, node: &Node) -> Result<Map<String, Value>, InputError> {
        resolve_inputs(self, node)
    }
}

fn parent_id(id: &str) -> Option<&str> {
    id.rsplit_once('.').map(|(parent, _)| parent)
}
