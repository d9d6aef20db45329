//! A run with a gate that requires two votes and two effects after the gate, the forks of that run, and every move that
//! they allow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_core::{
    Answer, Command, Drain, Effect, Event, Fork, ForkMode, InterruptId, InterruptRequest, Kind, NodeId,
    NodeOutcome, NodeStatus, NodeWork, Owner, Principal, Refusal, Resolution, Run, RunError, RunId,
    StartRequest, TenantId, Workflow, decide,
};
use serde_json::{Value, json};

use crate::world::START_TIME;

pub(crate) const EFFECTS: [&str; 2] = ["pay", "mail"];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// The gate, one effect, the other effect.
    Chain,
    /// The gate, then both effects on parallel branches.
    Parallel,
    /// The gate, one effect, the other effect, and back to the gate.
    Loop,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Vote(&'static str, &'static str),
    /// A replay that diverged from its source repeats a recorded vote.
    VoteAgain(&'static str),
    /// The worker does the next work of the run.
    Work,
    /// The worker does the last work of those that it can do side by side.
    WorkBeside,
    Pause,
    Resume,
    Cancel,
    /// A principal forks the run as a branch with the events before this position.
    Branch(&'static str, usize),
    Replay,
    /// A replay that diverges from its source at this position.
    Diverge(usize),
}

/// Olga starts every run; Ann and Bob are the approvers.
pub(crate) const MOVES: [Move; 11] = [
    Move::Vote("ann", "accept"),
    Move::Vote("bob", "accept"),
    Move::Vote("bob", "reject"),
    Move::Vote("olga", "accept"),
    Move::VoteAgain("ann"),
    Move::VoteAgain("bob"),
    Move::Work,
    Move::WorkBeside,
    Move::Pause,
    Move::Resume,
    Move::Cancel,
];

/// An effect that was performed: the node, its visit and its grants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PerformedEffect {
    pub node: String,
    pub visit: u32,
    pub grants: Vec<InterruptId>,
}

/// The first run or one of its forks.
#[derive(Clone)]
pub(crate) struct ExploredRun {
    pub run: Run,
    pub log: Vec<Arc<Event>>,
    /// The number of events in the log that were copied from another run.
    pub copied: usize,
    pub performed: Vec<PerformedEffect>,
}

fn run_id(text: &str) -> RunId {
    RunId::parse(text).expect("a run id")
}

impl Shape {
    fn workflow(self) -> Workflow {
        let node =
            |id: &str| json!({"id": id, "typeId": "core.noop", "name": id, "config": {}, "inputs": {}});
        let edge = |source: &str, target: &str| json!({"id": format!("{source}-{target}"), "sourceNodeId": source, "targetNodeId": target});
        let edges = match self {
            Self::Chain => vec![edge("gate", "pay"), edge("pay", "mail")],
            Self::Parallel => vec![edge("gate", "pay"), edge("gate", "mail")],
            Self::Loop => {
                vec![edge("first", "gate"), edge("gate", "pay"), edge("pay", "mail"), edge("mail", "gate")]
            }
        };
        let mut nodes: Vec<Value> = ["gate", "pay", "mail"].map(node).into();
        if let Self::Loop = self {
            nodes.insert(0, node("first"));
        }
        let definition = json!({
            "id": "flow", "name": "Flow", "version": "1", "triggers": [], "metadata": {}, "settings": {},
            "nodes": nodes, "edges": edges, "variables": [],
        });
        Workflow::parse(&definition, 1).expect("a valid definition")
    }
}

impl ExploredRun {
    /// Returns a run that waits at its gate.
    pub(crate) fn new(shape: Shape) -> Self {
        let run = Run::new(run_id("r"), Arc::new(shape.workflow()));
        let mut first = Self { run, log: Vec::new(), copied: 0, performed: Vec::new() };
        let tenant = TenantId::parse("t").expect("a tenant id");
        let start = StartRequest::new(Owner { tenant, principal: "olga".to_owned() });
        first.submit(&Command::Start(Box::new(start))).expect("a run");
        while first.run.open_interrupts().next().is_none() {
            first.work(first.run.next_work()).expect("the gate is reached");
        }
        first
    }

    /// Returns the run after the move, or the fork that the move creates.
    pub(crate) fn apply_move(&self, step: Move) -> Result<Self, Refusal> {
        let mut next = match step {
            Move::Branch(name, position) => return Ok(self.branch(name, position)),
            Move::Replay => return Ok(self.replay(self.log.len())),
            Move::Diverge(position) => return Ok(self.diverge(position)),
            _ => self.clone(),
        };
        let by = |name: &str| Principal::named(name);
        match step {
            Move::Vote(name, action) => next.vote(name, action, false)?,
            Move::VoteAgain(_) if !self.run.diverged => return Err(Refusal::InterruptNotFound),
            Move::VoteAgain(name) => next.vote(name, "accept", true)?,
            Move::Work => next.work(next.run.next_work())?,
            Move::WorkBeside => next.work(next.run.ready_work().last().copied())?,
            Move::Pause => {
                let drain = Drain::DrainCurrentNode;
                next.submit(&Command::Pause { reason: None, drain, by: by("olga") })?;
            }
            Move::Resume => next.submit(&Command::Resume { by: by("olga") })?,
            Move::Cancel => next.submit(&Command::Cancel { reason: None, by: by("olga") })?,
            Move::Branch(..) | Move::Replay | Move::Diverge(_) => unreachable!("handled above"),
        }
        Ok(next)
    }

    /// Returns the number of forks between the first run and this one.
    pub(crate) fn generation(&self) -> usize {
        self.run.id.as_str().len() - 1
    }

    fn submit(&mut self, command: &Command) -> Result<(), Refusal> {
        for event in decide(&self.run, command, START_TIME)? {
            self.append(event);
        }
        Ok(())
    }

    fn append(&mut self, event: Event) {
        self.run.apply(&event, START_TIME);
        self.log.push(Arc::new(event));
    }

    fn vote(&mut self, name: &str, action: &str, copied: bool) -> Result<(), Refusal> {
        let asked = self.run.interrupts.last().map_or(InterruptId(1), |asked| asked.id);
        let answer = Answer { copied, ..Answer::new(json!({"action": action}), Principal::named(name)) };
        self.submit(&Command::Resolve { answers: BTreeMap::from([(asked, answer)]) })
    }

    /// Does work of the run: begins a node, enters the gate, performs an effect, records it, or ends the node.
    fn work(&mut self, work: Option<NodeWork>) -> Result<(), Refusal> {
        let Some(work) = work else { return Err(Refusal::NodeNotRunning) };
        let node = self.run.workflow.nodes[work.position()].id.clone();
        let effect = if EFFECTS.contains(&node.as_str()) { Effect::Outside } else { Effect::None };
        match (work, effect) {
            (NodeWork::Begin(_), _) => self.submit(&Command::Begin { node, effect }),
            (NodeWork::Enter(_), Effect::Outside) => self.enter_effect(node),
            (NodeWork::Enter(_), Effect::None) => {
                let outcome = self.enter(&node);
                self.submit(&Command::Finish { node, outcome })
            }
        }
    }

    fn enter(&self, node: &NodeId) -> NodeOutcome {
        let done = NodeOutcome::Completed(Box::default());
        if node.as_str() == "first" {
            return done;
        }
        let visit = self.run.node_state(node).expect("a node of the workflow").visit;
        let key = format!("k{visit}");
        let asked = self.run.interrupt_by_key(&key);
        match asked.map(|asked| (asked.id, &asked.resolution)) {
            None => {
                let data = json!({
                    "artifactId": "a", "artifactType": "t", "title": "?", "actions": ["accept", "reject"],
                    "requiredApprovals": 2, "rejectionPolicy": "single-veto", "requesterMayNotApprove": true,
                });
                NodeOutcome::Asked(Box::new(InterruptRequest {
                    key: Some(key),
                    ..InterruptRequest::new(Kind::Approval, data)
                }))
            }
            Some((id, None)) => NodeOutcome::Joined(id),
            Some((_, Some(Resolution::Answered { value, .. }))) if value["action"] == "accept" => done,
            Some(_) => NodeOutcome::Failed(RunError::new("approval_rejected", "no")),
        }
    }

    /// Performs the effect, records it when it was performed, and ends the node when it was recorded.
    fn enter_effect(&mut self, node: NodeId) -> Result<(), Refusal> {
        let grants = match self.run.usable_grants(&node) {
            Ok(grants) => grants,
            Err(grant) => {
                return self.submit(&Command::Finish { node, outcome: NodeOutcome::Failed(grant.error()) });
            }
        };
        let state = self.run.node_state(&node).expect("a node of the workflow");
        if state.steps.contains_key("sent") {
            return self.submit(&Command::Finish { node, outcome: NodeOutcome::Completed(Box::default()) });
        }
        let performed = PerformedEffect { node: node.to_string(), visit: state.visit, grants };
        if self.performed.contains(&performed) {
            let (name, result) = ("sent".to_owned(), json!(1));
            return self.submit(&Command::Record { node, name, result, took_ms: None });
        }
        self.performed.push(performed);
        Ok(())
    }

    fn copy(&self, position: usize, fork: Fork, by: &str) -> Self {
        let mut log = self.log[..position].to_vec();
        let Event::RunStarted(started) = log[0].as_ref() else { panic!("a log begins with the start") };
        let mut started = (**started).clone();
        started.fork = Some(fork);
        started.forked_by.retain(|earlier| earlier != by);
        started.forked_by.push(by.to_owned());
        log[0] = Arc::new(Event::RunStarted(Arc::new(started)));
        let run = fold_log(run_id(&format!("{}c", self.run.id)), &self.run, &log);
        Self { run, log, copied: position, performed: Vec::new() }
    }

    fn fork(&self, mode: ForkMode) -> Fork {
        let source = self.run.id.clone();
        let copied = (mode == ForkMode::Replay).then_some(self.log.len() as u64);
        Fork { origin: run_id("r"), source, from_seq: 0, mode, at: Some(START_TIME), artifacts: None, copied }
    }

    fn branch(&self, by: &str, position: usize) -> Self {
        let fork = Fork { from_seq: position as u64, ..self.fork(ForkMode::Branch) };
        let mut copy = self.copy(position, fork, by);
        copy.resume_answered_nodes();
        copy
    }

    fn replay(&self, position: usize) -> Self {
        self.copy(position, self.fork(ForkMode::Replay), "olga")
    }

    fn diverge(&self, position: usize) -> Self {
        let mut copy = self.replay(position);
        let (source, at_sequence) = (self.run.id.clone(), position as u64);
        let (expected, found) = ("a".to_owned(), "b".to_owned());
        copy.append(Event::ReplayDiverged { source, at_sequence, expected, found });
        copy.resume_answered_nodes();
        copy
    }

    /// Resumes nodes whose interrupt is closed. A log may be cut between an answer and the resumption of its node.
    fn resume_answered_nodes(&mut self) {
        for position in 0..self.run.nodes.len() {
            if let NodeStatus::Waiting(interrupt) = self.run.nodes[position].status
                && self.run.interrupt(interrupt).is_some_and(|asked| !asked.is_open())
            {
                let node = self.run.workflow.nodes[position].id.clone();
                self.append(Event::NodeResumed { node, interrupt });
            }
        }
    }

    /// Returns the run after a crash that lost all later events.
    pub(crate) fn crashed_at(&self, commit: usize) -> Self {
        let log = self.log[..commit].to_vec();
        let run = fold_log(self.run.id.clone(), &self.run, &log);
        Self { run, log, copied: self.copied, performed: Vec::new() }
    }

    /// Returns the part of the state that later moves depend on, as text.
    pub(crate) fn fingerprint(&self) -> String {
        let run = &self.run;
        let asked = run.interrupts.iter().map(|asked| {
            let votes: Vec<_> =
                asked.votes.iter().map(|vote| (&vote.by, vote.action(), vote.copied)).collect();
            (votes, asked.repeated > 0, asked.is_open(), asked.taken_over, asked.uses.len())
        });
        let asked: Vec<_> = asked.collect();
        let nodes = run.nodes.iter().map(|node| (node.status.name(), node.visit, node.steps.len()));
        let nodes: Vec<_> = nodes.collect();
        let requesters: BTreeSet<&str> = run.requesters().into_iter().collect();
        let copy = (requesters, run.started.as_ref().map(|started| started.fork.is_some()), run.diverged);
        format!("{:?}", (copy, asked, nodes, run.status(), run.paused.is_some(), &self.performed))
    }
}

/// Returns the fold of this log, for a run with the same workflow.
pub(crate) fn fold_log(id: RunId, like: &Run, log: &[Arc<Event>]) -> Run {
    Run::replay(id, like.workflow.clone(), log.iter().map(|event| (START_TIME, event.as_ref())))
}
