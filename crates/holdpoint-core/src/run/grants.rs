//! Grants of a run: the decisions that permit effects, the effects that depend on them, and their uses.
//!
//! A grant belongs to the run that received the decision. A copy of the run shows it and cannot use it.

use holdpoint_ids::ErrorCode;

use super::Run;
use crate::event::{Event, ForkMode, RunError, RunParameters};
use crate::interrupt::{GrantUse, Interrupt, Kind};
use crate::workflow::Node;
use crate::{InterruptId, NodeId, RunId, Timestamp};

/// The reason why an effect cannot use the grants that it depends on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableGrant {
    /// The grant belongs to the run that this run was copied from.
    #[error(
        "{gate}: the approval was given before this run was copied from {source_run}, and a copy cannot use it; branch \
         before the gate, so that the copy asks again"
    )]
    NotTransferable {
        /// The gate. In a copy of a child run: a text that describes the gates of the parent run.
        gate: String,
        /// The run that this one was copied from.
        source_run: RunId,
    },
    /// Another visit of the node has used the grant.
    #[error(
        "gate {gate}: node {node} has used this approval in an earlier round of a loop; let every round pass the gate, or \
         list the node with \"repeat\": true in the gate's covers"
    )]
    Used {
        /// The gate.
        gate: NodeId,
        /// The node of the effect.
        node: NodeId,
    },
    /// The gate does not cover the node.
    #[error(
        "gate {gate}: its covers does not list node {node}, and no other gate before the node was granted; add the node to \
         covers, or set grant: \"none\" on it"
    )]
    NotCovered {
        /// The gate.
        gate: NodeId,
        /// The node of the effect.
        node: NodeId,
    },
}

/// The node type that executes the graphs of providers.
const PROVIDER: &str = "core.provider";

impl UnusableGrant {
    /// Creates the error for a copy of a child run: the grants that permitted its start belong to the parent run.
    pub fn of_parent(source: &RunId) -> Self {
        let gate = "the gates before the node that started the copied run".to_owned();
        Self::NotTransferable { gate, source_run: source.clone() }
    }

    /// Creates the error for a gate that was decided before the copy.
    pub fn of_gate(gate: &NodeId, source: &RunId) -> Self {
        Self::NotTransferable { gate: format!("gate {gate}"), source_run: source.clone() }
    }

    /// Returns the stable error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotTransferable { .. } => ErrorCode::GrantNotTransferable,
            Self::Used { .. } => ErrorCode::GrantUsed,
            Self::NotCovered { .. } => ErrorCode::GrantNotCovered,
        }
    }

    /// Returns the error with which the node fails.
    pub fn error(&self) -> RunError {
        RunError::new(self.code().as_str(), self.to_string())
    }
}

impl Run {
    /// Returns the granted decisions that an effect at this node depends on: the latest decision of each gate that
    /// leads to the node and covers it. Does not return decisions about tool calls, which permit only their call.
    pub fn grants_before(&self, node: &NodeId) -> Vec<&Interrupt> {
        let mut grants = self.granted_gates_before(node);
        grants.retain(|asked| asked.covers(node));
        grants
    }

    /// Returns the latest decision of each gate that leads to the node or is the node. Leaves out decisions that are
    /// not grants. Returns no decisions if the node needs no grant.
    fn granted_gates_before(&self, node: &NodeId) -> Vec<&Interrupt> {
        let Some(target) = self.workflow.position(node).filter(|_| !self.interrupts.is_empty()) else {
            return Vec::new();
        };
        if !self.workflow.nodes[target].needs_grant {
            return Vec::new();
        }
        let mut gates: Vec<&NodeId> = Vec::new();
        let mut grants = Vec::new();
        for asked in self.interrupts.iter().rev().filter(|asked| asked.is_gate() && !asked.is_open()) {
            if gates.contains(&&asked.node) {
                continue;
            }
            gates.push(&asked.node);
            // A gate that is the node itself opens a new interrupt in each visit, so only the current visit counts.
            let is_current = asked.node != *node || asked.visit == self.nodes[target].visit;
            if asked.is_granted() && is_current && self.leads_from(asked, target) {
                grants.push(asked.as_ref());
            }
        }
        grants.reverse();
        grants
    }

    /// Returns whether a gate leads to a node or is that node. Nodes that use the same interrupt key are one gate.
    fn leads_from(&self, asked: &Interrupt, target: usize) -> bool {
        let names_key = |node: &Node| {
            ["key", "resumeKey"]
                .iter()
                .any(|name| node.config.get(*name).is_some_and(|key| *key == asked.key.as_str()))
        };
        let mut gates = self
            .workflow
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.id == asked.node || names_key(node));
        // The interrupts of a provider node are only about its own tool calls.
        gates.any(|(gate, node)| {
            gate == target || (node.type_id != PROVIDER && self.workflow.reaches(gate, target))
        })
    }

    /// Returns the grants that an effect at this node uses, or the reason why it cannot use one of them.
    pub fn usable_grants(&self, node: &NodeId) -> Result<Vec<InterruptId>, UnusableGrant> {
        if self.workflow.node(node).is_some_and(|node| !node.needs_grant) {
            return Ok(Vec::new());
        }
        let source = self.copied_from();
        if let Some(source) = source
            && self.started.as_ref().is_some_and(|started| !started.grants.is_empty())
        {
            return Err(UnusableGrant::of_parent(source));
        }
        let gates = self.granted_gates_before(node);
        let (mut grants, mut used) = (Vec::new(), None);
        for asked in gates.iter().filter(|asked| asked.covers(node)) {
            if let Some(source) = source.filter(|_| asked.taken_over) {
                return Err(UnusableGrant::of_gate(&asked.node, source));
            }
            if self.is_used_in_another_round(asked, node) {
                used = Some(asked.node.clone());
            } else {
                grants.push(asked.id);
            }
        }
        match (gates.first(), used) {
            (Some(_), Some(gate)) if grants.is_empty() => {
                Err(UnusableGrant::Used { gate, node: node.clone() })
            }
            (Some(other), None) if grants.is_empty() => {
                Err(UnusableGrant::NotCovered { gate: other.node.clone(), node: node.clone() })
            }
            (Some(_) | None, _) => Ok(grants),
        }
    }

    /// Returns whether another visit of the node has used the grant, and the gate does not permit repetition. Returns
    /// false for definitions that were registered before loops were checked, so that their runs continue.
    fn is_used_in_another_round(&self, asked: &Interrupt, node: &NodeId) -> bool {
        let visit = self.node_state(node).map(|state| state.visit);
        let other = |used: &GrantUse| used.node == *node && Some(used.visit) != visit;
        self.workflow.loops_checked && !asked.repeats(node) && asked.uses.iter().any(other)
    }

    /// Returns the grants that a tool call uses: those of the agent's node, and the decision about the call itself.
    pub fn usable_grants_of_call(
        &self,
        node: &NodeId,
        call: &str,
    ) -> Result<Vec<InterruptId>, UnusableGrant> {
        let mut grants = self.usable_grants(node)?;
        for asked in self.permission_of_call(node, call).into_iter().chain(self.grant_of_call(node, call)) {
            if let Some(source) = self.copied_from().filter(|_| asked.taken_over) {
                return Err(UnusableGrant::of_gate(&asked.node, source));
            }
            if !grants.contains(&asked.id) {
                grants.push(asked.id);
            }
        }
        Ok(grants)
    }

    /// Returns the granted decisions that a tool call depends on.
    fn grants_before_call(&self, node: &NodeId, call: &str) -> Vec<InterruptId> {
        let gates = self.grants_before(node).into_iter();
        let of_call = self.permission_of_call(node, call).into_iter().chain(self.grant_of_call(node, call));
        let mut grants: Vec<InterruptId> = gates.chain(of_call).map(|asked| asked.id).collect();
        grants.sort_unstable();
        grants.dedup();
        grants
    }

    /// Returns the latest approval of the call, if it was granted. The tool may have raised other interrupts after it.
    fn permission_of_call(&self, node: &NodeId, call: &str) -> Option<&Interrupt> {
        let about = |asked: &&Interrupt| {
            asked.kind == Kind::Approval && asked.node == *node && asked.call_id() == Some(call)
        };
        self.interrupts.iter().rev().map(AsRef::as_ref).find(about).filter(|asked| asked.is_granted())
    }

    /// Returns the interrupt that the call waited for last, if its decision allowed the call.
    pub fn grant_of_call(&self, node: &NodeId, call: &str) -> Option<&Interrupt> {
        let agent = self.node_state(node)?.agent.as_deref()?;
        let waiting = agent.call(call)?.interrupt?;
        self.interrupt(waiting.id).filter(|asked| asked.allows_call())
    }

    /// Returns the grants that the start of a child run uses: those of the call that starts it, or of the node.
    pub fn usable_grants_for_child(
        &self,
        node: &NodeId,
        call: Option<&str>,
    ) -> Result<Vec<InterruptId>, UnusableGrant> {
        match call {
            Some(call) => self.usable_grants_of_call(node, call),
            None => self.usable_grants(node),
        }
    }

    /// Returns the ids of the grants that a child run of this node is started with: those of the node or the call, and
    /// those that this run itself was started with.
    pub fn grants_for_child(&self, node: &NodeId, call: Option<&str>) -> Vec<String> {
        let usable = self.usable_grants_for_child(node, call);
        let inherited = self.started.iter().flat_map(|started| started.grants.iter().cloned());
        let own = usable.unwrap_or_default().into_iter().map(|id| self.grant_id(id));
        inherited.chain(own).collect()
    }

    /// Returns the ids of the grants that this run used to start a child run.
    pub fn grants_used_for_child(&self, child: &RunId) -> Vec<String> {
        let Some(child) = self.children.iter().find(|known| known.run == *child) else { return Vec::new() };
        let is_start =
            |used: &GrantUse| used.node == child.node && used.visit == child.visit && used.call == child.call;
        let used = self.interrupts.iter().filter(|asked| asked.uses.iter().any(is_start));
        used.map(|asked| self.grant_id(asked.id)).collect()
    }

    /// Returns the public id of the grant of an interrupt. A grant that a replay copied has the id that it has in the
    /// source.
    pub fn grant_id(&self, interrupt: InterruptId) -> String {
        match self.interrupt(interrupt) {
            Some(asked) if asked.taken_over => self.interrupt_name(interrupt),
            Some(_) | None => format!("{}:{interrupt}", self.id),
        }
    }

    /// Returns whether the event that is being folded was copied from another run.
    pub(super) fn is_copied(&self, at: Timestamp) -> bool {
        match self.copied {
            CopiedPart::Nothing => false,
            CopiedPart::Events(count) => self.seq <= count,
            CopiedPart::Until(forked) => forked.is_none_or(|forked| at <= forked),
        }
    }

    /// Records the uses of grants by an event. Older versions did not record them in events, so a recorded step and a
    /// started child run also count as uses.
    pub(super) fn record_uses(&mut self, event: &Event, at: Timestamp) {
        if self.interrupts.is_empty() {
            return;
        }
        if let Event::NodeStarted { node, uses } = event {
            self.use_grants(uses, node, None, at);
        } else if let Event::ToolBegun { node, call, uses, .. } = event {
            let uses = if uses.is_empty() { self.grants_before_call(node, call) } else { uses.clone() };
            self.use_grants(&uses, node, Some(call), at);
        } else if let Event::StepRecorded { node, .. } | Event::NodeDispatched { node, .. } = event {
            let mut grants = self.grants_before(node);
            grants.retain(|asked| !self.is_used_in_another_round(asked, node));
            let grants: Vec<InterruptId> = grants.into_iter().map(|asked| asked.id).collect();
            self.use_grants(&grants, node, None, at);
        }
    }

    /// Marks a replay as different from its source. Later events do not count as copied.
    pub(super) fn mark_diverged(&mut self, source: &RunId) {
        if self.is_fork_of(source) {
            self.diverged = true;
            self.copied.end_at(self.seq);
        }
    }

    /// Marks grants as used by an effect. A use that is already known is not added again.
    fn use_grants(&mut self, grants: &[InterruptId], node: &NodeId, call: Option<&str>, at: Timestamp) {
        let Some(visit) = self.node_state(node).map(|state| state.visit) else { return };
        for id in grants {
            let used = GrantUse { node: node.clone(), visit, call: call.map(str::to_owned), at };
            self.update_interrupt(*id, |asked| {
                let known =
                    |one: &GrantUse| one.node == used.node && one.visit == visit && one.call == used.call;
                if !asked.uses.iter().any(known) {
                    asked.uses.push(used);
                }
            });
        }
    }

    /// Returns whether this run is a replay and its next event repeats an event of its source.
    pub(crate) fn follows_record(&self) -> bool {
        let fork = self.started.as_ref().and_then(|started| started.fork.as_ref());
        let on_record = match self.copied {
            CopiedPart::Events(count) => self.seq < count,
            CopiedPart::Nothing | CopiedPart::Until(_) => false,
        };
        on_record && !self.diverged && fork.is_some_and(|fork| fork.mode == ForkMode::Replay)
    }

    fn copied_from(&self) -> Option<&RunId> {
        Some(&self.started.as_ref()?.fork.as_ref()?.source)
    }
}

/// The part of a run that was copied from another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopiedPart {
    Nothing,
    /// The first events of the log, up to this number.
    Events(u64),
    /// The events up to the time of the fork, or all events if that time is unknown. For replays of versions that did
    /// not record the number of copied events.
    Until(Option<Timestamp>),
}

impl CopiedPart {
    pub(super) fn of(started: &RunParameters) -> Self {
        let Some(fork) = &started.fork else { return Self::Nothing };
        match (fork.copied, fork.mode) {
            (Some(count), _) => Self::Events(count),
            (None, ForkMode::Branch) => Self::Events(fork.from_seq),
            (None, ForkMode::Replay) => Self::Until(fork.at),
        }
    }

    /// Limits the copied part to the events up to this number.
    pub(super) fn end_at(&mut self, seq: u64) {
        if let Self::Events(count) = self {
            *count = (*count).min(seq);
        }
    }
}
